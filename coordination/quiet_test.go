package coordination

import (
	"math/rand/v2"
	"testing"
)

// handOver hands the leadership over, as the shell does.
func (r *rig) handOver() {
	r.t.Helper()
	r.applyAll()
	if !r.replica.Quiet() {
		r.t.Fatal("nothing is handed over")
	}
	r.applyAll()
	if !r.replica.Handed() || r.replica.NextDeadline() != Never {
		r.t.Fatalf("handed over is %v, something is due at %d", r.replica.Handed(), r.replica.NextDeadline())
	}
	r.lead()
}

// TestHandOverGrantsNoGrace hands the leadership over once and again: a session whose client is there has its timeout
// under each leader, and no grace, of which the first one has served more than there is.
func TestHandOverGrantsNoGrace(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		r := newAgingRig(t)
		r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
		_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
		r.serve(2001)
		r.handOver()
		r.serve(100)
		r.handOver()
		if restarted { // between its first entry and what it says first
			m := restoredFrom(t, r.machine.AllRows())
			if m.calm != r.machine.calm {
				t.Errorf("restored with %+v, want %+v", m.calm, r.machine.calm)
			}
		}
		if left := r.endsAfter(session); left < 5000 || left > 5002 {
			t.Errorf("the session lives for %d ms, want 5000", left)
		}
	}
}

// TestHandOverOfAShortReign hands over before the leader has served for the grace period: the one that was lost before
// it, or a server that has its permit, may still speak to clients. The rest is granted.
func TestHandOverOfAShortReign(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
	r.lead()     // without Quiet
	r.serve(200) // less than it takes to log the absence of its client
	r.handOver()
	r.serve(100)
	r.handOver()
	if left := r.endsAfter(session); left < 6700 || left > 6702 {
		t.Errorf("the session lives for %d ms, want 6700", left)
	}
}

// TestHandOverKeepsAges has a session without a client and a wait go on aging.
func TestHandOverKeepsAges(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(owner, 1, tryLock)
	waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(waiter, 1, waitLock)
	gone, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 9000})
	r.applyAll()
	r.leader.Detach(r.now, gone)
	r.serve(3000)
	r.handOver()
	r.serve(1000)
	for order, wait := range r.leader.nodes[1].waits {
		if left, want := inMillis(wait.at-r.now), waitLock.TimeoutMillis-4000; left != want {
			t.Errorf("wait %d has %d ms left, want %d", order, left, want)
		}
	}
	if left := r.endsAfter(session); left < 5000 || left > 5002 {
		t.Errorf("the session lives for %d ms more, want 5000", left)
	}
}

// TestHandOverOfWhichNothingIsUsed lets something come between Quiet and the next leader: the session has its grace
// period again.
func TestHandOverOfWhichNothingIsUsed(t *testing.T) {
	for name, between := range map[string]func(r *rig){
		"a command":        func(r *rig) { r.applyForeign(r.term, &Age{}) },
		"a leader":         func(r *rig) { r.lead() },
		"a new lineage":    func(r *rig) { r.applyForeign(r.term, &BeginLineage{Lineage: 3}) },
		"the end of Quiet": func(r *rig) { r.replica.EndQuiet(); r.applyAll() },
	} {
		r := newAgingRig(t)
		r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
		_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
		r.serve(3000)
		r.replica.Quiet()
		r.applyAll()
		between(r)
		r.lead()
		if left := r.endsAfter(session); left < 7000 || left > 7002 {
			t.Errorf("behind %s the session lives for %d ms, want 7000", name, left)
		}
	}
}

// TestLeaderGoesOn has a hand-over fail: what was due meanwhile is done as soon as the log knows, and not before.
func TestLeaderGoesOn(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{})
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
	r.leader.Detach(r.now, stream)
	r.replica.Quiet()
	r.applyAll()
	r.pass(10_000)
	r.tick()
	r.replica.EndQuiet()
	if r.take(); len(r.inFlight) != 1 || !r.replica.IsQuiet() {
		t.Fatalf("quiet is %v, in flight: %v", r.replica.IsQuiet(), r.inFlight)
	}
	r.applyAll()
	if r.replica.IsQuiet() || !r.machine.HasSession(1, session) {
		t.Fatalf("quiet is %v, the session is there: %v", r.replica.IsQuiet(), r.machine.HasSession(1, session))
	}
	r.serve(1)
	if r.machine.HasSession(1, session) {
		t.Error("the session does not end")
	}
}

// TestNothingIsHandedOverBeforeAllCanRead has a server in the cluster that cannot read of ages.
func TestNothingIsHandedOverBeforeAllCanRead(t *testing.T) {
	if r := newRig(t); r.replica.Quiet() || r.replica.IsQuiet() {
		t.Error("the leader is quiet")
	}
}

// TestRestoredHandOver continues a state whose log ends with Quiet, from another lineage.
func TestRestoredHandOver(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
	r.serve(3000)
	r.replica.Quiet()
	r.applyAll()
	r.machine = restoredFrom(t, r.machine.AllRows())
	r.replica.Following()
	r.replica.Restored(r.machine)
	r.term++
	r.replica.Leading(r.term, 7)
	r.index++
	r.replica.Committed(r.now, entryOf(r.index, r.term, nil))
	r.leader = r.replica.leader
	if left := r.endsAfter(session); left < 7000 || left > 7002 {
		t.Errorf("the session lives for %d ms, want 7000", left)
	}
}

// TestQuietEndsOnce has two callers end one hand-over, and a third one begin the next in between: the second end is
// that of the first hand-over, and the log must not end with Quiet while the leader is not quiet.
func TestQuietEndsOnce(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
	r.serve(3000)
	r.replica.Quiet()
	r.applyAll()
	r.replica.EndQuiet() // of one caller
	r.take()
	r.replica.EndQuiet() // of another one, as the first end is not executed yet
	r.take()
	first, second := r.inFlight[0], r.inFlight[1:]
	r.inFlight = append(r.inFlight[:0:0], first)
	r.applyAll()
	if r.replica.IsQuiet() {
		t.Fatal("the end is executed")
	}
	r.replica.Quiet() // the next hand-over
	r.inFlight = append(r.inFlight, second...)
	r.take()
	r.applyAll()
	if r.machine.calm.quiet == r.term && !r.replica.IsQuiet() {
		t.Error("the log ends with Quiet, and the leader is not quiet")
	}
	if r.replica.IsQuiet() {
		return
	}
	r.pass(300) // it speaks to the client of the session, and is lost
	r.lead()
	if left := r.endsAfter(session); left < 7000 {
		t.Errorf("the session lives for %d ms behind a leader that was lost while it spoke, want 7000", left)
	}
}

// TestCalmIsTheSameEverywhere restores a member anywhere in random logs.
func TestCalmIsTheSameEverywhere(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var log []*Entry
		term, served := Term(1), uint64(0)
		for i := range 40 {
			var c Command
			switch random.IntN(8) {
			case 0, 1:
				term, served = term+Term(1+random.IntN(2)), 0
			case 2: // a change of members
			case 3, 4:
				c = &Quiet{}
			case 5:
				c = &Quiet{Over: true}
			case 6:
				c = &Age{}
			case 7:
				if random.IntN(6) == 0 {
					c = &BeginLineage{Lineage: uint64(1 + random.IntN(3))}
				} else {
					c = &Age{}
				}
			}
			e := entryOf(Index(i+1), term, c)
			if c != nil {
				served += uint64(random.IntN(100))
				e.ServedMillis = served
			}
			log = append(log, e)
		}
		whole, _ := NewMachine("/local", Limits{})
		var parts []*Machine
		for _, e := range log {
			whole.ApplyEntry(e)
			for _, m := range parts {
				m.ApplyEntry(e)
				if m.Digest() != whole.Digest() || m.calm != whole.calm || m.clock != whole.clock {
					t.Fatalf("seed %d, entry %d: %+v %+v, want %+v %+v", seed, e.Index, m.calm, m.clock,
						whole.calm, whole.clock)
				}
				if m.calm.since > m.clock.millis {
					t.Fatalf("seed %d: calm since %d at %d", seed, m.calm.since, m.clock.millis)
				}
			}
			parts = append(parts, restoredFrom(t, whole.AllRows()))
		}
	}
}
