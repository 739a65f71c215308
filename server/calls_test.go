package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// caller makes one call after the other on one server, about paths that are its own, so that it knows what
// each must answer if each is executed once.
type caller struct {
	conn *grpc.ClientConn
	name string
	made atomic.Int64
}

func answered[A interface {
	GetOperation() *Ydb_Operations.Operation
}](answer A, err error) error {
	if err == nil && answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		err = fmt.Errorf("%v", answer.GetOperation())
	}
	return err
}

// run calls until stop is closed.
func (c *caller) run(ctx context.Context, stop <-chan struct{}) error {
	nodes, tree := Ydb_Coordination_V1.NewCoordinationServiceClient(c.conn),
		Ydb_Scheme_V1.NewSchemeServiceClient(c.conn)
	directory := "/local/" + c.name
	node := directory + "/node"
	steps := []func() error{
		func() error {
			return answered(tree.MakeDirectory(ctx, &Ydb_Scheme.MakeDirectoryRequest{Path: directory}))
		},
		func() error {
			return answered(nodes.CreateNode(ctx,
				&Ydb_Coordination.CreateNodeRequest{Path: node}))
		}, func() error {
			return answered(nodes.DropNode(ctx, &Ydb_Coordination.DropNodeRequest{Path: node}))
		},
		func() error {
			return answered(tree.RemoveDirectory(ctx, &Ydb_Scheme.RemoveDirectoryRequest{Path: directory}))
		},
	}
	for {
		for i, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("%s, call %d, step %d: %w", c.name, c.made.Load(), i, err)
			}
			c.made.Add(1)
			time.Sleep(breather)
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

// callers are several on each of some servers.
type callers struct {
	t       *testing.T
	list    []*caller
	stop    chan struct{}
	running sync.WaitGroup
}

func startCallers(t *testing.T, c *testCluster, each int, servers ...int) *callers {
	all := &callers{t: t, stop: make(chan struct{})}
	for _, server := range servers {
		for i := range each {
			one := &caller{conn: c.conns[server], name: fmt.Sprintf("caller-%d-%d", server, i)}
			all.list = append(all.list, one)
			all.running.Go(func() {
				if err := one.run(t.Context(), all.stop); err != nil {
					t.Error(err)
				}
			})
		}
	}
	return all
}

// progress returns once every one of them has made some more calls.
func (all *callers) progress(calls int64) {
	all.t.Helper()
	for _, one := range all.list {
		target := one.made.Load() + calls
		eventually(all.t, one.name+" to make calls",
			func() bool { return one.made.Load() >= target || all.t.Failed() })
		if all.t.Failed() {
			all.t.FailNow()
		}
	}
}

func (all *callers) end() {
	close(all.stop)
	all.running.Wait()
}

// TestCallsSurviveTheLeader hands the leadership around, stops leaders and takes their logs away from under
// them, while calls are under way on every server that stays: each is executed once, and answers so.
func TestCallsSurviveTheLeader(t *testing.T) {
	c := startCluster(t, 3)
	all := startCallers(t, c, 2, 0, 1, 2)
	for range 8 {
		all.progress(2)
		leader, heir := c.leader()
		ctx, cancel := context.WithTimeout(t.Context(), waitMax)
		if err := c.servers[leader].store.Changes.TransferLeader(ctx, c.servers[heir].store.Member()); err != nil {
			t.Log(err) // an election may have come in between
		}
		cancel()
	}
	all.progress(2)
	all.end()
	for round := range 2 {
		leader, _ := c.leader()
		rest := startCallers(t, c, 2, (leader+1)%3, (leader+2)%3)
		rest.progress(2)
		if round%2 == 0 {
			c.crash(leader)
		} else {
			c.stop(leader)
		}
		rest.progress(2)
		if err := c.start(leader); err != nil {
			t.Fatal(err)
		}
		rest.progress(2)
		rest.end()
	}
}

// crash ends a server without handing anything over: first of all it is gone for the others.
func (c *testCluster) crash(i int) {
	c.t.Helper()
	s := c.servers[i]
	c.servers[i] = nil
	if err := s.store.Stop(); err != nil {
		c.t.Fatal(err)
	}
	s.enforcer.stop()
	<-s.enforcer.stopped
	s.readiness.Stop()
	s.grpc.Stop()
	s.serving.Wait()
	if err := s.group.Stop(context.Background()); err != nil {
		c.t.Error(err)
	}
	s.inspect.Load().History.Stop()
	s.sessions.Stop()
}

// A call on the server that is being stopped is finished through the next leader.
func TestCallsOnTheStoppingLeader(t *testing.T) {
	c := startCluster(t, 3)
	// What servers ask of the group themselves when they start is queued as calls are.
	for _, s := range c.servers {
		eventually(t, "the limit of the state", func() bool { return s.stateLimit.Now() != 0 })
	}
	leader, _ := c.leader() // only now: a slow disk may have moved it since the start
	s := c.servers[leader]
	s.config.replaced.stopPatience = waitMax // of a busy machine
	held, release := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	holdUp(s, held, release) // so that the calls are under way when the leadership goes
	<-held
	const calls = 20
	results := make(chan error, calls)
	for i := range calls {
		go func() {
			results <- answered(
				Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[leader]).CreateNode(t.Context(),
					&Ydb_Coordination.CreateNodeRequest{Path: fmt.Sprint("/local/node-", i)}))
		}()
	}
	eventually(t, "the calls to be under way", func() bool { return s.group.Queued() >= calls })
	stopped := make(chan struct{})
	go func() { defer close(stopped); c.stop(leader) }()
	letGo()
	for range calls {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	<-stopped
}

// Without a majority a call waits as long as its operation_timeout says, and calls.Patience at most, and is
// refused then.
func TestCallWithoutALeader(t *testing.T) {
	c := startCluster(t, 3)
	left, other := c.leader() // nobody hands over to it, so once it leads no more it is alone for good
	c.stop(3 - left - other)
	c.stop(other)
	s := c.servers[left]
	eventually(t, "the server to be alone", func() bool {
		return !s.group.Leads() && s.group.RelayConn() == nil
	})
	params := &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(2 * time.Second)}
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[left]).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: testNode, OperationParams: params})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		t.Errorf("got %v, %v", answer, err)
	}
	// One that begins before there is a leader goes on when there is one.
	s.calls.Patience = time.Hour // a busy machine takes its time to start a server
	done := make(chan error, 1)
	go func() {
		done <- answered(
			Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[left]).CreateNode(t.Context(),
				&Ydb_Coordination.CreateNodeRequest{Path: testNode,
					OperationParams: &Ydb_Operations.OperationParams{
						OperationTimeout: durationpb.New(time.Hour)}}))
	}()
	if err := c.start(other); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFiguresTakeNoTurn asks a server that is held up for all that monitoring wants to know.
func TestFiguresTakeNoTurn(t *testing.T) {
	s, _ := startTest(t, func(c *Config) {
		c.HTTP = HTTP{Listen: "127.0.0.1:0", Metrics: func(s *Server) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, s.Figures().Group.Counts.Nodes)
			})
		}}
	})
	held, release := make(chan struct{}), make(chan struct{})
	holdUp(s, held, release)
	defer close(release)
	<-held
	for _, path := range []string{MetricsPath, HealthzPath, ReadyzPath} {
		answer, err := http.Get("http://" + s.HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if _ = answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK || path == MetricsPath &&
			string(text) != "1" {
			t.Errorf("%s: %s, %s, %v", path, answer.Status, text, err)
		}
	}
}

// TestShortDeadline makes calls that end before their time: none of them speaks of a leader that went, on a
// server whose leader is there all the time.
func TestShortDeadline(t *testing.T) {
	s, conn := startTest(t, nil)
	s.calls.Patience = time.Nanosecond
	client := Ydb_Coordination_V1.NewCoordinationServiceClient(conn)
	for i := range 50 {
		answer, err := client.CreateNode(t.Context(),
			&Ydb_Coordination.CreateNodeRequest{Path: fmt.Sprint("/local/short", i)})
		if err != nil {
			t.Fatal(err)
		}
		if text := answer.GetOperation().String(); strings.Contains(text, "eader") {
			t.Errorf("got %s", text)
		}
	}
}
