package doubles

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/internal/testserver"
)

// startServer starts a server.
func startServer(t *testing.T, args ...string) *testserver.Server {
	t.Helper()
	needProgram(t)
	return testserver.Serve(t, args...)
}

// startCluster starts three servers.
func startCluster(t *testing.T) []*testserver.Server {
	t.Helper()
	needProgram(t)
	return testserver.StartCluster(t, clusterNames)
}

// needProgram skips the test unless make has built the program for it: all tests of this package together take minutes.
func needProgram(t *testing.T) {
	t.Helper()
	if os.Getenv("COORDD_BIN") == "" {
		t.Skip("COORDD_BIN names no program: `make compat-doubles` builds it and runs this")
	}
}

// clusterNames are the names of the servers of a cluster.
var clusterNames = []string{"a", "b", "c"}

// transferLeader makes another server than the present leader lead.
func transferLeader(ctx context.Context, s *testserver.Server) error {
	out, err := exec.CommandContext(ctx, s.Config.Program, "cluster", "transfer-leader", "--data-dir",
		s.Data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// leader returns the number of the leader that s knows, -1 if it knows none.
func leader(ctx context.Context, s *testserver.Server) int {
	out, err := exec.CommandContext(ctx, s.Config.Program, "cluster", "status", "-o", "json", "--data-dir",
		s.Data).Output()
	var status struct{ Members []struct{ Name, Role string } }
	if err != nil || json.Unmarshal(out, &status) != nil {
		return -1
	}
	for _, m := range status.Members {
		if m.Role == "leader" {
			return slices.Index(clusterNames, m.Name)
		}
	}
	return -1
}

// node makes a coordination node for the test alone.
func node(t *testing.T, conn *grpc.ClientConn) string {
	t.Helper()
	path := "/local/" + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '/' {
			return r
		}
		return '_'
	}, t.Name())
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(inDatabase(t),
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create %s: %v, %v", path, answer, err)
	}
	return path
}

func inDatabase(t *testing.T) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "x-ydb-database", "/local")
}

// begin starts a double that ends with the test.
func begin(t *testing.T, sdk SDK, conn *grpc.ClientConn, path string) *Double {
	t.Helper()
	d := Start(t.Context(), sdk, conn, path)
	t.Cleanup(func() { d.cancel(); <-d.Finished() })
	select {
	case <-d.Begun():
	case <-d.Finished():
		t.Fatalf("%s is not attached: %q, %+v", sdk.SDK, d.States(), d.Ending())
	}
	return d
}

// do sends a request whose answer has to be a SUCCESS.
func do(t *testing.T, d *Double, r *Request) *Response {
	t.Helper()
	answer := try(t, d, r)
	if _, body := arm(answer.ProtoReflect()); statusOf(body) != Ydb.StatusIds_SUCCESS {
		t.Fatalf("%s: %v answers %v", d.SDK, answer, r)
	}
	return answer
}

// try sends a request that has to be answered.
func try(t *testing.T, d *Double, r *Request) *Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := d.Do(ctx, r)
	if err != nil {
		t.Fatalf("%s: %v: %v, in %q", d.SDK, r, err, d.States())
	}
	return answer
}

// wait is a request under way.
type wait struct {
	answer chan *Response
	err    error
}

func begun(d *Double, t *testing.T, r *Request) *wait {
	w := &wait{answer: make(chan *Response, 1)}
	go func() {
		answer, err := d.Do(t.Context(), r)
		w.err = err
		w.answer <- answer
	}()
	return w
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// heard counts the messages that a double has got.
func heard(d *Double, is func(*Response) bool) int {
	n := 0
	for _, m := range d.Heard() {
		if is(m) {
			n++
		}
	}
	return n
}

func isPending(m *Response) bool { return m.GetAcquireSemaphorePending() != nil }
func isPing(m *Response) bool    { return m.GetPing() != nil }
func isChanged(m *Response) bool { return m.GetDescribeSemaphoreChanged() != nil }

// isFine wants a double to be in no state of failure but those that are explained.
func isFine(t *testing.T, d *Double, explained ...FailureState) {
	t.Helper()
	for _, state := range d.States() {
		ok := false
		for _, e := range explained {
			ok = ok || e == state
		}
		if !ok {
			t.Errorf("the server brings %s to %q", d.SDK, state)
		}
	}
}
