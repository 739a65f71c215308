package standin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/standin/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	node = "/local/locks"
	long = time.Minute
)

// began is a stand-in with a coordination node, and a connection to it.
func began(t *testing.T, options ...Option) (*Server, *grpc.ClientConn) {
	t.Helper()
	s := Start(t, append([]Option{Patience(waitMax), PongPatience(waitMax)}, options...)...)
	conn := connect(t, s, 0)
	makeNode(t, conn, node)
	return s, conn
}

// TestLookInside sees a lock change hands.
func TestLookInside(t *testing.T) {
	s, conn := began(t)
	if !strings.HasPrefix(s.ConnectionString(), "grpc://127.0.0.1:") ||
		!strings.HasSuffix(s.ConnectionString(), "/local") {
		t.Errorf("connection string %s", s.ConnectionString())
	}
	s.AwaitOwners(node, "lock", 0) // there is no owner
	if s.Owners("/local/nothing", "lock") != nil || s.Sessions("nothing") != nil ||
		s.Data(node, "lock") != nil {
		t.Error("there is something in nothing")
	}
	first, second := open(t, conn, node, long, 0), open(t, conn, node, long, 0)
	first.locked("lock")
	second.waits("lock", time.Hour)
	owners, waiters := s.AwaitOwners("locks", "lock", 1), s.AwaitWaiters(node, "lock", 1)
	if o := owners[0]; o.Session != first.id || o.Count == 0 || o.OrderID == 0 || string(o.Data) != "mine" {
		t.Errorf("owner %+v", o)
	}
	if w := waiters[0]; w.Session != second.id || w.Timeout != time.Hour || string(w.Data) != "next" {
		t.Errorf("waiter %+v", w)
	}
	sessions := s.Sessions(node)
	if len(sessions) != 2 || sessions[0].ID != first.id || !sessions[0].Attached ||
		sessions[0].Timeout != long {
		t.Errorf("sessions %+v", sessions)
	}
	const want = `/local/locks
  semaphore "lock": all of all, ephemeral
    owner: session 1, order id 1, all, "mine"
    waiter: session 2, order id 2, all, for 1h0m0s, "next"
  session 1: timeout 1m0s
  session 2: timeout 1m0s
`
	if got := s.Dump(); got != want {
		t.Errorf("dump\n%s\nwant\n%s", got, want)
	}
	first.send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
		SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
	s.AwaitNoSession(node, first.id)
	if o := s.AwaitOwners(node, "lock", 1); o[0].Session != second.id {
		t.Errorf("owner %+v", o)
	}
	second.drop()
	eventually(t, "the client to be gone", func() bool { return !s.Sessions(node)[0].Attached })
	if !strings.Contains(s.Dump(), "session 2: timeout 1m0s, without a client\n") {
		t.Errorf("dump\n%s", s.Dump())
	}
	if got := s.Events(); len(got) == 0 || got[len(got)-1].Kind != SessionDetached {
		t.Errorf("events\n%s", kinds(got))
	}
}

// TestDataOfASemaphore is that of a persistent one.
func TestDataOfASemaphore(t *testing.T) {
	s, conn := began(t)
	c := open(t, conn, node, long, 0)
	c.send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "config", Limit: 3,
			Data: []byte("v1")}}})
	c.next()
	if got := string(s.Data("locks", "config")); got != "v1" {
		t.Errorf("data %q", got)
	}
	if want := "  semaphore \"config\": 0 of 3, \"v1\"\n"; !strings.Contains(s.Dump(), want) {
		t.Errorf("dump\n%s", s.Dump())
	}
}

// TestRestart keeps the port, and in memory what was acknowledged: the session goes on and has its lock.
func TestRestart(t *testing.T) {
	for name, options := range map[string][]Option{"in memory": nil,
		"in a directory": {Dir(filepath.Join(t.TempDir(), "data"))}} {
		t.Run(name, func(t *testing.T) {
			s, conn := began(t, options...)
			c := open(t, conn, node, long, 0)
			c.locked("lock")
			address := s.ConnectionString()
			for range 3 {
				s.Restart()
				if again := open(t, conn, node, long, c.id); again.id != c.id {
					t.Fatalf("session %d, want %d", again.id, c.id)
				}
			}
			if s.ConnectionString() != address || s.AwaitOwners(node, "lock", 1)[0].Session != c.id {
				t.Errorf("behind the restart:\n%s", s.Dump())
			}
			s.RestartEmpty()
			if got := s.Dump(); got != "" {
				t.Errorf("behind the loss of everything:\n%s", got)
			}
			makeNode(t, conn, node)
		})
	}
}

// TestDirIsKept by the next stand-in.
func TestDirIsKept(t *testing.T) {
	dir := t.TempDir()
	s, err := Run(t.Context(), Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	makeNode(t, connect(t, s, 0), node)
	s.Stop()
	s.Stop()
	if got := Start(t, Dir(dir)).Dump(); got != node+"\n" {
		t.Errorf("dump %q", got)
	}
}

// TestServers starts a cluster of three: a write to one is on all, and a client is served by any of them.
func TestServers(t *testing.T) {
	s, conn := began(t, Servers(3))
	first := open(t, conn, node, long, 0)
	first.locked("lock")
	second := open(t, connect(t, s, 1), node, long, 0)
	second.waits("lock", time.Hour)
	third := open(t, connect(t, s, 2), node, long, 0)
	third.waits("lock", time.Hour)
	if s.AwaitOwners(node, "lock", 1)[0].Session != first.id || len(s.AwaitWaiters(node, "lock", 2)) != 2 {
		t.Errorf("dump\n%s", s.Dump())
	}
	s.Restart()
	if s.AwaitOwners(node, "lock", 1)[0].Session != first.id {
		t.Errorf("dump\n%s", s.Dump())
	}
	temp := s.temp
	s.Stop()
	if _, err := os.Stat(temp); !os.IsNotExist(err) {
		t.Errorf("the directories stay behind: %v", err)
	}
}

// TestUsers refuses those who do not log in.
func TestUsers(t *testing.T) {
	s := Start(t, Users(User{Name: "alice", Password: "a"},
		User{Name: "root", Password: "r", Administrator: true}))
	conn := connect(t, s, 0)
	_, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: node})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger: %v", err)
	}
	s.RestartEmpty()
	for user, password := range map[string]string{"alice": "a", "root": "r"} {
		answer, err := Ydb_Auth_V1.NewAuthServiceClient(conn).Login(t.Context(),
			&Ydb_Auth.LoginRequest{User: user, Password: password})
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("%s: %v, %v", user, answer, err)
		}
	}
}

// TestTLS encrypts for those who trust its authority.
func TestTLS(t *testing.T) {
	s := Start(t, TLS())
	address, found := strings.CutPrefix(s.ConnectionString(), "grpcs://")
	address, _ = strings.CutSuffix(address, "/local")
	authority, err := os.ReadFile(s.CertificateAuthority())
	pool := x509.NewCertPool()
	if err != nil || !found || !pool.AppendCertsFromPEM(authority) {
		t.Fatalf("%s, %v", s.ConnectionString(), err)
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	makeNode(t, conn, node)
	s.Restart()
	if got := s.Dump(); got != node+"\n" {
		t.Errorf("dump %q", got)
	}
}

// TestOptions are taken, or refused.
func TestOptions(t *testing.T) {
	s := Start(t, Database("/other"), Limits(coordination.Limits{Sessions: 1}))
	conn := connect(t, s, 0)
	makeNode(t, conn, "/other/node")
	open(t, conn, "/other/node", long, 0)
	if !strings.HasSuffix(s.ConnectionString(), "/other") || len(s.Sessions("node")) != 1 {
		t.Errorf("%s:\n%s", s.ConnectionString(), s.Dump())
	}
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
	if err == nil {
		err = stream.Send(
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
				SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: "/other/node",
					TimeoutMillis: 1000}}})
	}
	if m, err2 := stream.Recv(); err != nil || err2 != nil || m.GetFailure() == nil {
		t.Errorf("a session beyond the limit: %v, %v, %v", m, err, err2)
	}
	for name, option := range map[string]Option{"no server": Servers(0),
		"a relative database": Database("x")} {
		if s, err := Run(t.Context(), option); err == nil {
			s.Stop()
			t.Errorf("%s is taken", name)
		}
	}
}

// TestRunEndsWithItsContext, and its failures are those of a test or panics.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Run(ctx, Patience(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	f := new(failing)
	f.run(func() { s.In(f).AwaitOwners("locks", "lock", 1) })
	const want = "semaphore \"lock\" of /local/locks has 0 owners, not 1\nThere is:\nWhat has happened:\n"
	if !strings.Contains(f.text, want) {
		t.Errorf("failed with %q", f.text)
	}
	f.run(func() { s.In(f).Advance(time.Second) })
	if !strings.Contains(f.text, errRealTime.Error()) {
		t.Errorf("failed with %q", f.text)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic without a test")
			}
		}()
		s.AwaitWaiters("locks", "lock", 1)
	}()
	cancel()
	eventually(t, "the end", func() bool { return len(s.groups()) == 0 })
	f.run(func() { s.In(f).Restart() })
	if !strings.Contains(f.text, errStopped.Error()) {
		t.Errorf("failed with %q", f.text)
	}
	s.Stop()
}

// failing is a test that may fail.
type failing struct{ text string }

func (f *failing) Helper()             {}
func (f *failing) Cleanup(func())      {}
func (f *failing) Logf(string, ...any) {}
func (f *failing) Name() string        { return "failing" }
func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run waits until do has returned or failed.
func (f *failing) run(do func()) {
	f.text = ""
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// TestStopDoesNotWaitForClients that stay.
func TestStopDoesNotWaitForClients(t *testing.T) {
	s, conn := began(t)
	c := open(t, conn, node, long, 0)
	s.Stop()
	<-c.ended
}

// A test fails if its faults meet nothing: at once where one is carried out at once, at Reset or the end where it waits
// for a request. MayMiss allows both.
func TestFaultsThatMissFailTheTest(t *testing.T) {
	f := new(failing)
	s := Start(f)
	defer s.stopSoon()
	for name, order := range map[string]func(){
		"drop":   func() { s.DropStreams(faults.Filter{Node: "locks"}, faults.Clean) },
		"notice": func() { s.SpuriousNotice(faults.Filter{Node: "locks"}, "") },
		"detach": func() { s.DetachSession("locks", 1) },
		"expire": func() { s.ExpireSession("locks", 1) },
		"reset": func() {
			s.AnswerLost(faults.Acquire, 1, faults.Where(faults.Filter{Node: "locks"}))
			s.Reset()
		},
	} {
		if f.run(order); !strings.Contains(f.text, node) {
			t.Errorf("%s failed with %q", name, f.text)
		}
	}
	f.run(func() {
		s.DetachSession("locks", 1, faults.MayMiss())
		s.AnswerLost(faults.Acquire, 1, faults.MayMiss())
		s.Reset()
	})
	if f.text != "" {
		t.Errorf("what may miss failed with %q", f.text)
	}
	s.AnswerLost(faults.Acquire, 1)
	if f.run(s.Stop); !strings.Contains(f.text, "answer-lost kind=acquire") {
		t.Errorf("the end failed with %q", f.text)
	}
}
