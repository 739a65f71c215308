package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
)

// The holder of a lock is notified that its session has expired, and the next one gets the lock.
func TestExpireSession(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	c.send(acquire(1, "lock"))
	c.next()
	other.send(acquire(1, "lock"))
	if other.next().GetAcquireSemaphorePending() == nil {
		t.Fatal("not pending")
	}
	if err := r.Set.ExpireSession(t.Context(), node, c.session); err != nil {
		t.Fatal(err)
	}
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_SESSION_EXPIRED ||
		got.GetIssues()[0].GetMessage() != "Session has expired" {
		t.Errorf("got %v", got)
	}
	if !other.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("the lock is not free")
	}
	if err := r.Set.ExpireSession(t.Context(), node, c.session); err == nil {
		t.Error("it expired twice")
	}
	if err := r.Set.ExpireSession(t.Context(), "/local/nowhere", 1); err == nil {
		t.Error("a session expired that is nowhere")
	}
}

func TestDropNode(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	if err := r.Set.DropNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		t.Errorf("got %v", got)
	}
	c = r.open(&pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 1000})
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("got %v", got)
	}
	if err := r.Set.DropNode(t.Context(), node); err == nil {
		t.Error("it was dropped twice")
	}
}

// A short pause without a leader costs a stream nothing but time, however often it happens.
func TestLoseLeader(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	c.send(acquire(1, "lock"))
	c.next()
	for i := range uint64(10) {
		if err := r.Set.LoseLeader(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := r.Set.LoseLeader(t.Context(), time.Second); err == nil {
			t.Error("it was lost while it was lost")
		}
		other.send(create(10+i, "config"))
		if got := other.next().GetCreateSemaphoreResult(); got == nil ||
			(got.GetStatus() == Ydb.StatusIds_SUCCESS) != (i == 0) {
			t.Errorf("got %v", got)
		}
		if owners := r.owners("lock"); !slices.Equal(owners, []uint64{c.session}) {
			t.Errorf("owned by %v", owners)
		}
	}
	if err := r.Set.LoseLeader(t.Context(), 0); err == nil {
		t.Error("it was lost for no time")
	}
}

// Behind a pause a session has its timeout and the grace period again.
func TestLoseLeaderForLong(t *testing.T) {
	r := start(t)
	if _, err := r.nodes().AlterNode(t.Context(), &pb.AlterNodeRequest{Path: node,
		Config: &pb.Config{SelfCheckPeriodMillis: 500, SessionGracePeriodMillis: 1500}}); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(acquire(1, "lock"))
	c.next()
	if err := r.Set.LoseLeader(t.Context(), 4*time.Second); err != nil {
		t.Fatal(err)
	}
	// a Failure would be a sign of life
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	c = r.attach(c.session)
	if owners := r.owners("lock"); !slices.Equal(owners, []uint64{c.session}) {
		t.Errorf("owned by %v", owners)
	}
}
