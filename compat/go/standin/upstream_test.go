package standin_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/coordd/coordd/server/standin"
)

// TestOfTheSDKAtRaisedVersions runs the SDK's own test of coordination on a stand-in, with all modules in the
// versions that the stand-in makes of them.
func TestOfTheSDKAtRaisedVersions(t *testing.T) {
	s := standin.Start(t)
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-tags", "integration", "-run",
		"^TestCoordination", "-v", "github.com/ydb-platform/ydb-go-sdk/v3/tests/integration")
	command.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off",
		"YDB_CONNECTION_STRING="+s.ConnectionString(), "YDB_ACCESS_TOKEN_CREDENTIALS=")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, s.Dump())
	}
	if len(s.Events()) == 0 {
		t.Errorf("nothing has happened:\n%s", out)
	}
}
