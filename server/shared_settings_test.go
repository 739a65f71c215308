package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/server/readiness"
)

// TestUnlikeSettings: servers of one cluster with different settings report them, each of the other, in the log and in
// their health, and serve all the same.
func TestUnlikeSettings(t *testing.T) {
	runBeside(t)
	logs := map[string]*logText{"server-0": {}, "server-1": {}, "server-2": {}}
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("a-secret-token machine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startClusterWith(t, 3, func(config *Config) {
		name := config.Cluster.Name
		config.Logger = logs[name].logger()
		if name == "server-1" {
			config.LoginLifetime, config.TokenFile = time.Hour, tokens
		}
	})
	for _, tc := range []struct {
		at   int
		of   string
		what string
	}{
		{0, "server-1", "login-lifetime is 1h0m0s there and 12h0m0s here; token-file is 1 tokens ("},
		{1, "server-0",
			"login-lifetime is 12h0m0s there and 1h0m0s here; token-file is none there and 1 tokens ("},
		{1, "server-2",
			"login-lifetime is 12h0m0s there and 1h0m0s here; token-file is none there and 1 tokens ("},
	} {
		eventually(t, tc.of+" to be told of", func() bool {
			text := "server " + tc.of + " was given other settings, which should be the same on all: " +
				tc.what
			status, err := statusOf(t.Context(), c.servers[tc.at])
			return hasIssue(selfCheck(t, c.conns[tc.at]), readiness.IssueUnlike, text) && err == nil &&
				slices.ContainsFunc(status.GetIssues(),
					func(told string) bool { return strings.HasPrefix(told, text) })
		})
	}
	eventually(t, "the log to tell", func() bool {
		return logs["server-0"].with("other settings", "server-1", "login-lifetime is 1h0m0s there") == 1 &&
			logs["server-1"].with("other settings", "server-0", "login-lifetime is 12h0m0s there") == 1
	})
	if hasIssue(selfCheck(t, c.conns[0]), readiness.IssueUnlike, "server-2") {
		t.Error("server-0 says that server-2 differs")
	}
	for i, s := range c.servers {
		if s.readiness.Worst().Gravity == readiness.Fatal && s.readiness.Worst().Kind == readiness.IssueUnlike {
			t.Errorf("server %d does not serve for it", i)
		}
		if logs[s.config.Cluster.Name].with("a-secret-token") > 0 {
			t.Error("the token is in the log")
		}
	}
}
