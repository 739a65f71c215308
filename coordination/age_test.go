package coordination

import (
	"fmt"
	"testing"
)

// newAgingRig is a rig all of whose servers can read of ages.
func newAgingRig(t *testing.T) *rig {
	r := newRig(t)
	r.ages = true
	r.lead()
	return r
}

// serve lets time pass as the shell does: the leader looks at its deadlines when they are due, and what it wants is
// applied at once.
func (r *rig) serve(millis uint64) {
	r.t.Helper()
	until := r.now.After(millis)
	for due := r.leader.NextDeadline(); due <= until; due = r.leader.NextDeadline() {
		r.now = max(r.now, due)
		r.tick()
		r.applyAll()
	}
	r.now = until
}

// endsAfter returns how many milliseconds from now on a session of node 1 lives if nobody comes.
func (r *rig) endsAfter(session SessionID) uint64 {
	r.t.Helper()
	from := r.now
	for r.machine.HasSession(1, session) {
		next := r.leader.NextDeadline()
		if next == Never {
			r.t.Fatalf("session %d has no end", session)
		}
		r.serve(inMillis(next-r.now) + 1)
	}
	return inMillis(r.now - from)
}

// TestLogClock moves the log clock by entries of several terms: it shows the sum of what leaders have served up to
// their last entries, and never goes back.
func TestLogClock(t *testing.T) {
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		term         Term
		served, want uint64
	}{
		{1, 0, 0}, {1, 700, 700}, {1, 900, 900}, {1, 0, 900}, // an entry that says nothing
		{2, 0, 900}, {2, 50, 950}, {2, 40, 950}, // a clock that went back
		{3, 0, 950}, {5, 0, 950}, {5, 30, 980}, {5, 80, 1030},
	} {
		m.ApplyEntry(&Entry{Index: Index(i + 1), Term: step.term, ServedMillis: step.served})
		if got := m.ClockMillis(); got != step.want {
			t.Errorf("entry %d: the clock shows %d, want %d", i+1, got, step.want)
		}
		restored := restoredFrom(t, m.AllRows())
		if restored.clock != m.clock || restored.Digest() != m.Digest() {
			t.Errorf("entry %d: restored with %+v, want %+v", i+1, restored.clock, m.clock)
		}
	}
}

// TestDetachedSessionGoesOnAging has the leader change while a session is without a client: the next one gives it what
// is left, and so does the one behind a restart.
func TestDetachedSessionGoesOnAging(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		r := newAgingRig(t)
		r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
		stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 10_000})
		r.leader.Detach(r.now, stream)
		for range 4 {
			r.serve(2000)
			r.pass(3000) // nobody leads
			if restarted {
				r.start(restoredFrom(t, r.machine.AllRows()))
				r.ages = true
			}
			r.lead()
		}
		// of 10 s, 8 s have been served; of each reign a sixteenth of what was left may have been lost
		if left := r.endsAfter(session); left < 2000 || left > 2000+4*640 {
			t.Errorf("restarted is %v: the session lives for %d ms more, want 2000 to 4560", restarted, left)
		}
	}
}

// TestShortReignsFreeALock moves the leader before any of them has waited for a session's timeout: it ends
// nevertheless, also if its client went together with the first leader.
func TestShortReignsFreeALock(t *testing.T) {
	for _, c := range []struct {
		reign, most uint64
		attached    bool // when the first leader goes
	}{{1000, 8000, false}, {3000, 8000, false}, {1000, 13_000, true}, {3000, 12_500, true}} {
		r := newAgingRig(t)
		r.createNode("/local/a", NodeConfig{SelfCheckPeriodMillis: 500, SessionGracePeriodMillis: 1500})
		stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
		if !c.attached {
			r.leader.Detach(r.now, stream)
		}
		died := r.now
		for r.machine.HasSession(1, session) && r.now < died.After(60_000) {
			r.serve(c.reign)
			r.lead()
		}
		if took := inMillis(r.now - died); took > c.most || took < 5000 {
			t.Errorf("%+v: the session ended after %d ms", c, took)
		}
	}
}

// TestAbsentSessionComesBackByTheLog has a stream claim its session when the log knows of its absence: it hears nothing
// before the log knows that it is back, and what it asked for meanwhile is done then.
func TestAbsentSessionComesBackByTheLog(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", relaxed)
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
	roster := r.roster(stream)
	r.leader.Lose(r.now, stream)
	r.serve(1000)
	if absent := r.machine.nodes[1].sessions[session].absence; absent.totalMillis != 5000 {
		t.Fatalf("the log knows of %+v", absent)
	}
	r.leader.Resume(r.now, 9, roster)
	r.forward(9, Forward{Sequence: 1, Acknowledged: 1, Request: &tryLock})
	r.expect()
	r.pass(10_000) // the log is slow
	if r.tick(); len(r.inFlight) != 1 {
		t.Fatalf("in flight: %v", r.inFlight)
	}
	r.applyAll()
	r.expect("9 resumed", "9 #1 done true")
	if absent := r.machine.nodes[1].sessions[session].absence; absent != (absence{}) {
		t.Errorf("the log still knows of %+v", absent)
	}
	r.serve(60_000)
	if !r.machine.HasSession(1, session) {
		t.Error("the session has ended")
	}
}

// TestAbsenceInFlightHoldsAStream claims a session while the entry about its absence is in flight.
func TestAbsenceInFlightHoldsAStream(t *testing.T) {
	for _, gone := range []bool{false, true} { // the stream is, before the log knows that it is back
		r := newAgingRig(t)
		r.createNode("/local/a", relaxed)
		stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
		roster := r.roster(stream)
		r.leader.Lose(r.now, stream)
		r.pass(absencePauseMillis)
		r.tick()
		r.leader.Resume(r.now, 9, roster)
		r.expect()
		r.applyOne() // the log knows, and is to hear the contrary
		r.expect()
		if gone {
			r.leader.Detach(r.now, 9)
		}
		r.applyAll()
		if !gone {
			r.expect("9 resumed")
			continue
		}
		r.expect()
		if left := r.endsAfter(session); left < 5000 || left > 5002 {
			t.Errorf("a session to which nobody has come back ends after %d ms", left)
		}
	}
}

// TestAbsentSessionIsAttachedByTheLog attaches a session of whose absence the log knows, in relaxed mode.
func TestAbsentSessionIsAttachedByTheLog(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", relaxed)
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 5000})
	r.leader.Detach(r.now, stream)
	again := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 5000, Session: session})
	r.expect(fmt.Sprintf("%d attached %d", again, session)) // at once: the log knows of nothing
	r.leader.Detach(r.now, again)
	r.serve(1000)
	last := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 5000, Session: session})
	r.expect()
	r.applyAll()
	r.expect(fmt.Sprintf("%d attached %d", last, session))
	r.lead()
	r.finishTakeover()
	if left := r.endsAfter(session); left < 15_000 || left > 15_002 {
		t.Errorf("after a leader change the session of an attached stream ends after %d ms", left)
	}
}

// TestAgesEndWithTheirLineage continues a state from its past: a client may have come back after the moment that was
// restored, so no age counts.
func TestAgesEndWithTheirLineage(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 4000})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(owner, 1, tryLock)
	waiter, waits := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(waiter, 1, waitLock)
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 9000})
	r.leader.Detach(r.now, stream)
	r.serve(4000)
	r.applyForeign(r.term, &BeginLineage{Lineage: 7})
	r.start(restoredFrom(t, r.machine.AllRows()))
	r.ages = true
	r.lead()
	r.finishTakeover()
	if got, want := r.leader.nodes[1].sessions[session].until, r.now.After(13_000); got != want {
		t.Errorf("the session ends at %d, want %d", got, want)
	}
	for order, wait := range r.leader.nodes[1].waits {
		if wait.at != r.now.After(waitLock.TimeoutMillis) || wait.wait.Session != waits {
			t.Errorf("wait %d ends at %d", order, wait.at)
		}
	}
	if left := r.endsAfter(session); left < 13_000 || left > 13_002 {
		t.Errorf("the session ended after %d ms", left)
	}
}

// TestWaitGoesOnAging has leaders change before a wait is over.
func TestWaitGoesOnAging(t *testing.T) {
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(owner, 1, tryLock)
	waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	long := waitLock
	long.TimeoutMillis = 8000
	r.request(waiter, 1, long)
	r.applyAll()
	began := r.now
	for len(r.machine.nodes[1].links) == 2 && r.now < began.After(60_000) {
		r.serve(1000)
		r.lead()
	}
	if took := inMillis(r.now - began); took < 8000 || took > 11_000 {
		t.Errorf("a wait of 8 s ended after %d ms", took)
	}
}

// TestTimeBeforeAllCanRead has waits begin and clients go while a leader does not know whether all can read of ages, as
// at the beginning of each reign and through an upgrade, and has later leaders end what is left: nothing ends early.
func TestTimeBeforeAllCanRead(t *testing.T) {
	const patience = 60_000 // milliseconds
	r := newAgingRig(t)
	r.createNode("/local/a", NodeConfig{})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 600_000})
	r.request(owner, 1, tryLock)
	r.applyAll()
	long := waitLock
	long.TimeoutMillis = patience
	waits, absences := make(map[SessionID]Instant), make(map[SessionID]Instant)
	begin := func() {
		waiter, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 600_000})
		r.request(waiter, 1, long)
		r.applyAll()
		waits[session] = r.now
		leaver, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: patience})
		r.leader.Detach(r.now, leaver)
		absences[session] = r.now
	}
	for range 3 { // reigns
		r.serve(2000)
		begin()
		for range 2 { // a member comes whose version is not known at once
			r.replica.Admit(0, false)
			r.serve(7000)
			begin()
			r.serve(500)
			r.replica.Admit(2, false)
			r.serve(300)
			begin()
		}
		r.lead()
	}
	ended := func(what string, began map[SessionID]Instant, lives func(SessionID) bool) {
		for session, since := range began {
			if lives(session) {
				continue
			}
			if took := inMillis(r.now - since); took < patience || took > 2*patience {
				t.Errorf("session %d: %s of %d ms ended after %d", session, what, patience, took)
			}
			delete(began, session)
		}
	}
	for len(waits)+len(absences) > 0 {
		r.serve(100)
		ended("a wait", waits, func(id SessionID) bool { return r.machine.nodes[1].links[linkKey{id, 1}] != nil })
		ended("an absence", absences, func(id SessionID) bool { return r.machine.HasSession(1, id) })
	}
}

// TestNothingAgesBeforeAllCanRead has a server in the cluster that cannot read of ages.
func TestNothingAgesBeforeAllCanRead(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 2000})
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 9000})
	r.leader.Detach(r.now, stream)
	r.serve(8000)
	if clock := r.machine.ClockMillis(); clock != 0 || r.replica.Served(r.now, true) != 0 {
		t.Errorf("the log clock shows %d", clock)
	}
	r.lead()
	if left := r.endsAfter(session); left < 11_000 || left > 11_002 {
		t.Errorf("the session ends after %d ms", left)
	}
}

// TestManyAbsences has the clients of 10,000 sessions go at once: a tick logs the absences of a thousand at most, and
// from then on there are a few entries a second for all of them.
func TestManyAbsences(t *testing.T) {
	const sessions = 10_000
	r := newAgingRig(t)
	r.lax = true
	r.createNode("/local/a", NodeConfig{})
	var streams []StreamID
	for range sessions {
		stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
		streams = append(streams, stream)
	}
	r.messages = nil
	for _, stream := range streams {
		r.leader.Detach(r.now, stream)
	}
	r.pass(absencePauseMillis)
	for logged := 0; logged < sessions; {
		r.tick()
		r.take()
		if len(r.inFlight) == 0 || len(r.inFlight) > maxExpiriesPerTick {
			t.Fatalf("a tick logs %d commands, behind %d", len(r.inFlight), logged)
		}
		logged += len(r.inFlight)
		r.applyAll()
	}
	before := r.index
	r.serve(30_000)
	if entries := r.index - before; entries > 30*4 {
		t.Errorf("%d entries in 30 s", entries)
	}
	r.lead()
	r.finishTakeover()
	for id, s := range r.leader.nodes[1].sessions {
		if left := inMillis(s.until - r.now); left > 60_000-28_000 {
			t.Fatalf("session %d lives for %d ms more", id, left)
		}
	}
}
