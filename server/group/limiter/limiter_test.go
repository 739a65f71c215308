package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/group/streams"
)

var quotaKey = coordination.ResourceKey{Node: 1, ID: 1}

// limiterOf is a limiter of its own with a clock that stands still, and a bucket in debt.
func limiterOf(t *testing.T) (*Limiter, *quota.Bucket) {
	t.Helper()
	rings := clock.New(stillClock{})
	l := New(&testCore{}, streams.New(streams.Config{Clock: rings}), rings, nil)
	b := l.buckets.Learn(quotaKey, coordination.Effective{Rate: 10, Prefetch: 0.2, Watermark: 0.75})
	l.buckets.Use(0, b, 102)
	return l, b
}

// held is the token of a turn that is not given back.
var held = turn.New(nil, nil).Lock()

// stillClock is always at the same moment.
type stillClock struct{ hooks.Clock }

func (stillClock) Now() coordination.Instant { return coordination.Instant(quota.Tick) }

// AfterFunc implements hooks.Clock: nothing comes later.
func (stillClock) AfterFunc(time.Duration, func()) hooks.Timer { return stoodTimer{} }

type stoodTimer struct{}

func (stoodTimer) Reset(time.Duration) bool { return true }

func (stoodTimer) Stop() bool { return true }

// testCore is a group that does nothing, but for noting a panic.
type testCore struct {
	Core
	panicked chan any
}

func (*testCore) AccessVersion() uint64 { return 0 }

func (c *testCore) Panicked(reason any) { c.panicked <- reason }

// machineOf is a machine with one node, and one resource in it.
func machineOf(t *testing.T) *coordination.Machine {
	t.Helper()
	m, err := coordination.NewMachine("/local", coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	node := scheme.Path{"local", "n"}
	m.Apply(1, 1, &coordination.CreateNode{Path: node})
	m.Apply(2, 1, &coordination.CreateResource{Path: node, Resource: "r",
		ResourceProperties: coordination.ResourceProperties{MaxUnitsPerSecond: coordination.RealOf(1)}})
	return m
}

// What a server is given counts only if it comes from its present leader, and from no earlier one.
func TestQuantaOfALeaderThatWas(t *testing.T) {
	l, b := limiterOf(t)
	leader, other := new(streams.Relay), new(streams.Relay)
	l.link, l.term = leader, 5
	for _, c := range []struct {
		from *streams.Relay
		term uint64
		want float64
	}{{leader, 4, -100}, {other, 5, -100}, {leader, 5, -99}, {leader, 6, -98}, {leader, 5, -98}} {
		l.Received(c.from, c.term, 1, []quota.Quantum{{Resource: quotaKey, Amount: 1}})
		if b.Level() != c.want {
			t.Errorf("of term %d: level %g, want %g", c.term, b.Level(), c.want)
		}
	}
}

// A leader that does not know a resource yet looks for it again in every tick, for a while.
func TestDemandsForWhatIsNotKnown(t *testing.T) {
	m := machineOf(t)
	l, _ := limiterOf(t)
	l.streams.Follow(new(streams.Local))
	l.follow()
	missing := coordination.ResourceKey{Node: 1, ID: 77}
	l.ask(7, []quota.Demand{{Resource: missing, Asks: true}, {Resource: quotaKey, Asks: true}})
	for looked := range demandTries + 1 {
		l.findDemands(held, m)
		if !l.shares.Knows(quotaKey) || len(l.queue) != 0 {
			t.Fatal("a resource that is there was not found")
		}
		if waits := len(l.later) == 1 && len(l.wanted) == 1; waits != (looked < demandTries) {
			t.Fatalf("looked %d times: %d wait", looked+1, len(l.later))
		}
		l.queue, l.later = append(l.queue, l.later...), nil
	}
	l.ask(7, []quota.Demand{{Resource: missing, Asks: true}, {Resource: missing}, {Resource: quotaKey}})
	l.findDemands(held, m)
	if len(l.wanted)+len(l.queue)+len(l.later) != 0 || l.shares.Next() != coordination.Never {
		t.Error("something is left of demands that were taken back")
	}
}

// changingLink is a link to a leader that is followed by another just when it is asked whether it may speak.
type changingLink struct {
	streams.Link
	change func()
}

func (c *changingLink) MaySpeak() bool { c.change(); return false }

// A server begins to lead during a tick, and another one says at once what it asks for. The tick must not turn back
// to the leader before: nobody says a demand twice.
func TestDemandsDuringATick(t *testing.T) {
	m := machineOf(t)
	l, _ := limiterOf(t)
	l.wake = l.clock.AfterFunc(0, nil)
	link := new(streams.Local)
	peer := streams.NewPeer(new(streams.Peers), link, 7, new(relaypb.Hello))
	demands := func() {
		l.streams.Follow(link)
		l.Demanded(peer, []quota.Demand{{Resource: quotaKey, Asks: true}})
	}
	early := false
	l.streams.Follow(&changingLink{change: func() {
		if early = l.mutex.TryLock(); early {
			l.mutex.Unlock()
			demands()
		}
	}})
	l.tick()
	if !early {
		demands()
	}
	l.findDemands(held, m)
	if len(l.peers) != 1 || !l.shares.Knows(quotaKey) {
		t.Errorf("%d servers are known, the resource is shared out: %v", len(l.peers), l.shares != nil)
	}
}

// A server that is gone asks for nothing any more.
func TestDemandsOfAServerThatIsGone(t *testing.T) {
	m := machineOf(t)
	l, _ := limiterOf(t)
	link := new(streams.Local)
	l.streams.Follow(link)
	peer := streams.NewPeer(new(streams.Peers), link, 7, new(relaypb.Hello))
	l.Demanded(peer, []quota.Demand{{Resource: quotaKey, Asks: true}})
	l.findDemands(held, m)
	l.Demanded(peer, []quota.Demand{{Resource: coordination.ResourceKey{Node: 1, ID: 77}, Asks: true}})
	if !l.shares.Knows(quotaKey) || len(l.peers) != 1 || len(l.wanted) != 1 {
		t.Fatalf("%d servers ask, %d demands wait", len(l.peers), len(l.wanted))
	}
	l.Forget(peer)
	if l.shares.Knows(quotaKey) || len(l.peers) != 0 || len(l.wanted) != 0 {
		t.Errorf("%d servers ask, %d demands wait", len(l.peers), len(l.wanted))
	}
	l.Demanded(streams.NewPeer(new(streams.Peers), new(streams.Local), 7, new(relaypb.Hello)),
		[]quota.Demand{{Resource: quotaKey, Asks: true}})
	if len(l.peers) != 0 {
		t.Error("a relay of another reign is heard")
	}
}

// It is remembered of so many callers that they may acquire, and of none when rights have changed.
func TestKnownRights(t *testing.T) {
	var k knownRights
	by := func(i int) coordination.Caller {
		return coordination.Caller{Subject: fmt.Sprint(i), Enforced: true}
	}
	if k.may(0, by(1), 1) || !k.may(0, coordination.Caller{}, 1) {
		t.Error("nobody is known, and who is not asked may")
	}
	for i := range maxKnownRights {
		k.add(3, by(i), 1)
	}
	if !k.may(3, by(0), 1) || k.may(3, by(0), 2) || k.may(4, by(0), 1) || len(k.callers) != maxKnownRights {
		t.Errorf("%d are known", len(k.callers))
	}
	if k.add(3, by(-1), 1); !k.may(3, by(-1), 1) || len(k.callers) != 1 {
		t.Errorf("%d are known, one more than may be", len(k.callers))
	}
	if k.add(4, by(1), 1); k.may(4, by(-1), 1) || !k.may(4, by(1), 1) {
		t.Error("who was known before rights changed still is")
	}
}

// A state that comes as a whole ends the buckets of what is not in it, and the others go on.
func TestBucketsOfARestoredState(t *testing.T) {
	m := machineOf(t)
	l, b := limiterOf(t)
	gone := l.buckets.Learn(coordination.ResourceKey{Node: 1, ID: 77},
		coordination.Effective{Rate: 1, Prefetch: 1, Watermark: 1})
	l.named[resourceName{"/local/n", "gone"}], l.names[gone] = gone, resourceName{"/local/n", "gone"}
	l.Restored(held, m)
	if l.buckets.Find(quotaKey) != b || b.Level() != -100 || b.Capacity() != 0.2 ||
		l.buckets.Find(gone.Key()) != nil || len(l.named)+len(l.names) != 0 {
		t.Errorf("level %g of %g, %d buckets", b.Level(), b.Capacity(), l.buckets.Figures().Buckets)
	}
}

// A panic beside the turn is reported to the group, whose server it ends.
func TestPanicOfTheLimiter(t *testing.T) {
	l, _ := limiterOf(t)
	core := &testCore{panicked: make(chan any, 1)}
	l.core, l.buckets = core, nil
	l.Start()
	l.bell.Ring()
	<-core.panicked
	l.Close()
}
