package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordd/coordd/server"
)

// TestGuardedServer runs the scripts on a server on which rights count. All that an administrator does goes
// as it does where everybody may do everything. Where clusterFull does not ask for all, every third script
// shows that, besides all in which others come.
func TestGuardedServer(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("token-of-root root\ntoken-of-alice alice\ntoken-of-bob bob\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	scripts := loadScripts(t)
	common := some(slices.DeleteFunc(slices.Clone(scripts), (*Script).hasUsers))
	replayOnServers(t,
		server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true,
			HoldStartFailureMillis: new(uint64), Auth: server.AuthRequired, TokenFile: tokens,
			InitialAdmin: "root", InitialAdminPassword: "the password of root"},
		EndpointConfig{Token: "token-of-root",
			Users: map[string]string{"alice": "token-of-alice", "bob": "token-of-bob"}},
		append(common, slices.DeleteFunc(scripts, func(s *Script) bool { return !s.hasUsers() })...))
}

// hasUsers reports whether others than an administrator come in the script.
func (s *Script) hasUsers() bool { return slices.Contains(s.Needs, NeedUsers) }
