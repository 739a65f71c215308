package docker_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
)

// TestContainer runs the image without arguments, as somebody does who knows nothing of it.
func TestContainer(t *testing.T) {
	t.Parallel()
	c := start(t, "2136")
	c.healthy(t)
	processes := strings.Split(docker(t, "top", string(c), "-eo", "pid,uid,comm"), "\n")[1:]
	for i, process := range processes { // the server, and a health check now and then
		if fields := strings.Fields(process); len(fields) != 3 || fields[1] != user || i == 0 && fields[2] != "coordd" {
			t.Errorf("process %q, want coordd of user %s", process, user)
		}
	}
	conn := c.dial(t, "2136")
	wantLock(t, conn, "/local/node", lock(t, conn, "/local/node").ID)

	found, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(within(t),
		&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	must(t, err)
	var endpoints Ydb_Discovery.ListEndpointsResult
	must(t, found.GetOperation().GetResult().UnmarshalTo(&endpoints))
	var named []string
	for _, e := range endpoints.GetEndpoints() {
		named = append(named, net.JoinHostPort(e.GetAddress(), fmt.Sprint(e.GetPort())))
	}
	if want := docker(t, "port", string(c), "2136/tcp"); len(named) != 1 || named[0] != want {
		t.Errorf("discovery names %v, want the published address %s", named, want)
	}

	// A user that may run programs in the container is an administrator; a client of the port is not.
	if status := docker(t, "exec", string(c), "/coordd", "cluster", "status"); !strings.Contains(status,
		"leads, term") {
		t.Errorf("by the administrator's socket: %q", status)
	}
	// A client that trusts the authority in the certificate directory can use TLS.
	if line := docker(t, "exec", string(c), "/coordd", "health", "--endpoint=grpcs://localhost:2135/local",
		"--ca-file=/ydb_certs/ca.pem"); line != "serving" {
		t.Errorf("by TLS: %q", line)
	}
}

// TestContainerKeepsData wants everything back after a restart and after a kill, and a clean stop while a
// session is open.
func TestContainerKeepsData(t *testing.T) {
	t.Parallel()
	c := start(t, "2136")
	c.healthy(t)
	owner := lock(t, c.dial(t, "2136"), "/local/node").ID
	for _, again := range [][]string{{"restart"}, {"kill"}, {"kill", "--signal=TERM"}} {
		docker(t, append(again, string(c))...)
		if again[0] == "kill" {
			docker(t, "wait", string(c))
			docker(t, "start", string(c))
		}
		c.healthy(t)
		wantLock(t, c.dial(t, "2136"), "/local/node", owner)
	}
	open(t, c.dial(t, "2136"), "/local/node")
	docker(t, "stop", "--time=10", string(c))
	if code := c.inspect(t, "{{.State.ExitCode}}"); code != "0" {
		t.Errorf("exit code %s after docker stop, want 0", code)
	}
}

// TestContainerInPlaceOfLocalYDB starts the image with the variables of the local-ydb image.
func TestContainerInPlaceOfLocalYDB(t *testing.T) {
	t.Parallel()
	c := start(t, "2135", "--hostname=localhost", "--env=GRPC_PORT=2135", "--env=GRPC_TLS_PORT=2136",
		"--env=MON_PORT=8765", "--env=YDB_USE_IN_MEMORY_PDISKS=true", "--env=YDB_DEFAULT_LOG_LEVEL=NOTICE")
	c.healthy(t)
	lock(t, c.dial(t, "2135"), "/local/node")
	if line := docker(t, "exec", string(c), "/coordd", "health", "--endpoint=grpcs://localhost:2136/local",
		"--ca-file=/ydb_certs/ca.pem"); line != "serving" {
		t.Errorf("by TLS: %q", line)
	}
	if log := c.log(); !strings.Contains(log, "in_memory=true") {
		t.Errorf("it writes to disk:\n%s", log)
	}
}

// TestContainerMayNotWriteCertificates wants a server without TLS, and a warning, where the certificate
// directory is somebody else's.
func TestContainerMayNotWriteCertificates(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := start(t, "2136", "--volume="+directory+":/ydb_certs")
	c.healthy(t)
	lock(t, c.dial(t, "2136"), "/local/node")
	if log := c.log(); !strings.Contains(log, "no TLS") {
		t.Errorf("no warning:\n%s", log)
	}
}

// TestContainerAsRoot wants certificates in a directory of the host's, for clients on the host.
func TestContainerAsRoot(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := start(t, "2136", "--volume="+directory+":/ydb_certs", "--user=0", "--cap-add=DAC_OVERRIDE")
	c.healthy(t)
	lock(t, c.dial(t, "2136"), "/local/node")
	if _, err := os.Stat(filepath.Join(directory, "ca.pem")); err != nil {
		t.Error(err)
	}
}
