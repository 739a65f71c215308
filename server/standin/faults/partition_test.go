package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin/faults"
)

// startThree is a rig of three servers, the first of which it is connected to.
func startThree(t *testing.T) (*rig, []*server.Server) {
	t.Helper()
	r := &rig{T: t, Set: faults.New("/local", nil)}
	initial := make(map[string]string)
	for i, address := range testserver.Addresses(t, 3) {
		initial[fmt.Sprint("s", i+1)] = address
		r.Peer(i+1, address)
	}
	servers := make([]*server.Server, 3)
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() {
			name := fmt.Sprint("s", i+1)
			s, err := server.StartWith(t.Context(),
				server.Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: t.TempDir(),
					Cluster: raftstore.Cluster{Name: name, Initial: initial, ListenPeer: initial[name],
						Dial: r.DialPeer(i + 1)}}, hooks.Hooks{Faults: r.Set.Server(i + 1)})
			if err != nil {
				t.Error(err)
			}
			servers[i] = s
		})
	}
	starting.Wait()
	t.Cleanup(func() {
		r.Reset()
		var stopping sync.WaitGroup
		for _, s := range servers {
			if s != nil {
				stopping.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), soon)
					defer cancel()
					_ = s.Stop(ctx)
				})
			}
		}
		stopping.Wait()
	})
	if t.Failed() {
		t.FailNow()
	}
	r.server, r.conn = servers[0], dial(t, servers[0])
	if got := r.createNode(node); got != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %s", got)
	}
	return r, servers
}

// A server that is cut off from both others serves nobody until the cut heals; the others go on.
func TestPartition(t *testing.T) {
	r, servers := startThree(t)
	if err := r.Set.Partition(1, 4); err == nil {
		t.Error("there is a fourth server")
	}
	for _, other := range []int{2, 3} {
		if err := r.Set.Partition(1, other); err != nil {
			t.Fatal(err)
		}
	}
	there := *r
	there.conn = dial(t, servers[1])
	if got := there.createNode("/local/there"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("the majority answers %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if answer, err := r.nodes().CreateNode(ctx, &pb.CreateNodeRequest{Path: "/local/here"}); err == nil &&
		answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
		t.Error("the server that is cut off has created a node")
	}
	r.Heal()
	r.eventually("the server serves again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		answer, err := r.nodes().CreateNode(ctx, &pb.CreateNodeRequest{Path: "/local/here"})
		return err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS
	})
}

// Of several servers another one leads, and streams survive it.
func TestLoseLeaderOfSeveral(t *testing.T) {
	r, _ := startThree(t)
	c := r.attach(0)
	c.send(acquire(1, "lock"))
	c.next()
	if err := r.Set.LoseLeader(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	c.send(release(2, "lock"))
	if !c.next().GetReleaseSemaphoreResult().GetReleased() {
		t.Error("not released")
	}
}

// Servers that are all cut off from each other have no leader to lose, until they find one.
func TestLoseLeaderOnceThereIsOne(t *testing.T) {
	r, servers := startThree(t)
	for _, cut := range [][2]int{{1, 2}, {1, 3}, {2, 3}} {
		if err := r.Set.Partition(cut[0], cut[1]); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("nobody leads", func() bool { return !slices.ContainsFunc(servers, (*server.Server).Leads) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Set.LoseLeader(ctx, time.Second); err == nil {
		t.Error("it was lost while there was none")
	}
	lost := make(chan error, 1)
	go func() { lost <- r.Set.LoseLeader(t.Context(), time.Second) }()
	r.Heal()
	if err := <-lost; err != nil {
		t.Error(err)
	}
}
