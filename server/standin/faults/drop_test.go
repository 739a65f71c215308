package faults_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"

	"github.com/coordd/coordd/server/standin/faults"
)

func TestDropStreamsCleanly(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	n, err := r.DropStreams(faults.Filter{Session: c.session, Node: "local//dir/node/"}, faults.Clean)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_UNAVAILABLE ||
		got.GetIssues()[0].GetMessage() != "Link failure" {
		t.Errorf("got %v", got)
	}
	other.send(acquire(1, "lock"))
	if !other.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("the other stream is concerned")
	}
	if c = r.attach(c.session); c.session == 0 {
		t.Error("the session is gone")
	}
	if n, err := r.DropStreams(faults.Filter{}, "gently"); n != 0 || err == nil {
		t.Error(n, err)
	}
}

func TestDropStreamsByReset(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	there := r.openOn(dial(t, r.server), &pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 10_000})
	there.started()
	if n, err := r.DropStreams(faults.Filter{Session: c.session}, faults.Reset); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	there.send(acquire(1, "lock"))
	if !there.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("another connection is concerned")
	}
	r.attach(c.session)
}

// The stream is silent, requests on it are executed, and the rest of the connection answers.
func TestDropStreamsBySilence(t *testing.T) {
	r := start(t)
	c, other := r.attachFor(0, time.Minute), r.attach(0)
	if n, err := r.DropStreams(faults.Filter{Session: c.session}, faults.Silence); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	c.send(acquire(1, "lock"))
	r.eventually("the lock is taken", func() bool {
		return slices.Equal(r.owners("lock"), []uint64{c.session})
	})
	other.send(acquire(1, "other"))
	if !other.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("another stream of the connection is concerned")
	}
	r.Reset()
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
}

// brief is the timeout of a session that is to run out in a test, but not before the client's part in it: a pong is due
// within a third of it, on a busy machine as well.
const brief = 3 * time.Second

// The client of a silent stream is not notified of the end of its session.
func TestSilenceOutlastsTheSession(t *testing.T) {
	r := start(t)
	c := r.attachFor(0, brief)
	c.send(acquire(1, "lock"))
	c.next()
	if n, err := r.DropStreams(faults.Filter{Session: c.session}, faults.Silence); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.eventually("the session has timed out", func() bool { return len(r.owners("lock")) == 0 })
	if len(c.got) > 0 {
		t.Errorf("got %v", c.next())
	}
	r.Reset()
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
}

// Nothing passes, and then everything does that was sent meanwhile.
func TestDropStreamsByABlackHole(t *testing.T) {
	r := start(t)
	c := r.attachFor(0, time.Minute)
	own := dial(t, r.server)
	there := r.openOn(own, &pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 60_000})
	there.started()
	if n, err := r.DropStreams(faults.Filter{Session: there.session}, faults.BlackHole); n != 1 ||
		err != nil {
		t.Fatal(n, err)
	}
	there.send(acquire(1, "lock"))
	c.send(acquire(1, "other"))
	if !c.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("another connection is concerned")
	}
	if owners := r.owners("lock"); len(owners) > 0 || len(there.got) > 0 {
		t.Errorf("something has passed: %v", owners)
	}
	r.Reset()
	if !there.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("nothing passes again")
	}
}

func TestDetachSession(t *testing.T) {
	r := start(t)
	c := r.attachFor(0, brief)
	c.send(acquire(1, "lock"))
	c.next()
	if err := r.DetachSession("dir/node", c.session); err != nil {
		t.Fatal(err)
	}
	c.failed()
	r.eventually("its timeout has run out", func() bool { return len(r.owners("lock")) == 0 })
	if err := r.DetachSession(node, 77); !errors.Is(err, faults.ErrMissed) {
		t.Errorf("session 77: %v", err)
	}
}
