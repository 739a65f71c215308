package doubles

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// coordd is the program that COORDD_BIN names.
func coordd(t *testing.T) string {
	t.Helper()
	path := os.Getenv("COORDD_BIN")
	if path == "" {
		t.Skip("COORDD_BIN names no program: `make compat-doubles` builds it and runs this")
	}
	return path
}

// server is a running coordd.
type server struct {
	t       *testing.T
	args    []string
	command *exec.Cmd
	ready   chan string // the connection string that it prints
	log     string
	data    string // its directory, "" in memory
	address string
	exited  chan error
}

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := launch(t, args...)
	s.await()
	return s
}

// launch starts a server, which ends with the test.
func launch(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, args: append([]string{"serve", "--listen-http=off"}, args...),
		log: filepath.Join(t.TempDir(), "log")}
	s.begin("127.0.0.1:0")
	t.Cleanup(func() {
		s.terminate()
		if err := <-s.exited; err != nil {
			text, _ := os.ReadFile(s.log)
			t.Logf("coordd %v: %v\n%s", args, err, text)
		}
	})
	return s
}

// begin starts the process.
func (s *server) begin(address string) {
	s.t.Helper()
	log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(coordd(s.t), append(slices.Clone(s.args), "--listen="+address)...)
	command.Stderr = log
	stdout, err := command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ready, exited := make(chan string, 1), make(chan error, 1)
	s.command, s.ready, s.exited = command, ready, exited
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		ready <- strings.TrimSpace(line)
		exited <- command.Wait()
	}()
}

// kill ends the server as a crash does.
func (s *server) kill() {
	_ = s.command.Process.Kill()
	<-s.exited
}

// again starts a server that was killed, at its address, and waits until it serves.
func (s *server) again() {
	s.t.Helper()
	s.begin(s.address)
	s.await()
}

// terminate asks the server to end.
func (s *server) terminate() { _ = s.command.Process.Signal(syscall.SIGTERM) }

// await waits until the server serves.
func (s *server) await() {
	s.t.Helper()
	line := <-s.ready
	u, err := url.Parse(line)
	if line == "" || err != nil {
		text, _ := os.ReadFile(s.log)
		s.t.Fatalf("coordd does not start: %q\n%s", line, text)
	}
	s.address = u.Host
}

var tlsConnection = regexp.MustCompile(`grpcs://([^/\s"]+)`)

// tlsAddress is where it serves with TLS.
func (s *server) tlsAddress() string {
	text, _ := os.ReadFile(s.log)
	found := tlsConnection.FindSubmatch(text)
	if found == nil {
		s.t.Fatalf("no address for TLS:\n%s", text)
	}
	return string(found[1])
}

// freeAddress is one on which nobody listens. Its port lies below those of outgoing connections, which might
// otherwise be made from there before the server listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 30_720+rand.IntN(2_048)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// clusterNames are the names of the servers of a cluster.
var clusterNames = []string{"a", "b", "c"}

// startCluster starts three servers.
func startCluster(t *testing.T) []*server {
	t.Helper()
	directory := t.TempDir()
	var members, peers []string
	for _, name := range clusterNames {
		peer := freeAddress(t)
		peers, members = append(peers, peer), append(members, name+"="+peer)
	}
	servers := make([]*server, len(clusterNames))
	for i, name := range clusterNames {
		data := filepath.Join(directory, name)
		servers[i] = launch(t, "--name", name, "--listen-peer", peers[i], "--insecure-peers",
			"--initial-cluster", strings.Join(members, ","), "--data-dir", data)
		servers[i].data = data
	}
	for _, s := range servers {
		s.await()
	}
	return servers
}

// lead has another server lead, and says whether it does.
func (s *server) lead(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, coordd(s.t), "cluster", "transfer-leader", "--data-dir",
		s.data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// leader is the number of the server that leads, as this one says; -1: it knows none.
func (s *server) leader(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, coordd(s.t), "cluster", "status", "-o", "json", "--data-dir",
		s.data).Output()
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
