package coordination

import "testing"

// A session that ends takes its deadlines along: those of its waits, and its countdown if its stream has gone
// meanwhile.
func TestEndOfASessionStopsItsDeadlines(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(owner, 1, tryLock)
	waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(waiter, 1, waitLock)
	r.applyAll()
	r.said()
	if got, want := r.leader.NextDeadline(), r.now.After(5000); got != want {
		t.Fatalf("next deadline %d, want %d", got, want)
	}
	r.request(waiter, 2, Request{Kind: RequestStop})
	r.applyAll()
	r.expect("2 stopped 2")
	if r.leader.NextDeadline() != Never {
		t.Error("the wait of an ended session still has a deadline")
	}
	r.request(owner, 2, Request{Kind: RequestStop})
	r.leader.Detach(r.now, owner)
	r.applyAll()
	r.expect()
	if r.leader.NextDeadline() != Never {
		t.Error("an ended session still has a countdown")
	}
}

// While a stream is attached its session never expires, whichever way it came back.
func TestAttachStopsTheCountdown(t *testing.T) {
	for _, config := range []NodeConfig{{}, relaxed} {
		r := newRig(t)
		r.createNode("/local/a", config)
		stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		r.leader.Detach(r.now, stream)
		r.pass(999)
		if r.tick() != 0 {
			t.Fatal("expired too early")
		}
		r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
		r.pass(MaxSessionTimeoutMillis)
		if r.tick() != 0 || r.leader.NextDeadline() != Never {
			t.Errorf("%+v: an attached session expires", config)
		}
	}
}

// A session has its timeout alone once its stream has ended, also under a new leader: no stream of an earlier
// one can claim it any more.
func TestStreamLeftUnderANewLeader(t *testing.T) {
	for _, config := range []NodeConfig{{}, relaxed} {
		r := newRig(t)
		r.createNode("/local/a", config)
		_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		r.lead()
		r.finishTakeover()
		stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
		r.pass(100)
		r.leader.Detach(r.now, stream)
		if got, want := r.leader.NextDeadline(), r.leader.ages.began.After(1100); got != want {
			t.Errorf("%+v: ends %d ms after the beginning", config, (got-r.leader.ages.began)/1_000_000)
		}
	}
}

// A session that was being stopped, but ended otherwise, is not reported as stopped.
func TestExpiryOfAStoppingSession(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/a", NodeConfig{})
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, Request{Kind: RequestStop})
	stop := r.inFlight
	r.inFlight = nil
	epoch := r.machine.nodes[node].sessions[session].attachEpoch
	r.applyForeign(r.term, &ExpireSession{Node: node, Session: session, AttachEpoch: epoch, Term: r.term})
	r.expect("1 end Session has expired")
	r.applyForeign(r.term, stop[0])
	r.expect()
}

// The stream that was stopping the session has gone before the stop was carried out: another one is no longer
// held up by it, and learns what the log says.
func TestAttachBehindAStopOfAGoneStream(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	again, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	r.request(again, 1, Request{Kind: RequestStop})
	r.leader.Detach(r.now, again)
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	r.expect()
	r.applyAll()
	r.expect("3 end Session has expired")
}

// An attach to an existing session replaces timeout, description and epoch, and never the key (§2.4).
func TestWhatAnAttachReplaces(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/a", NodeConfig{})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Description: "first"})
	before := r.machine.nodes[node].sessions[session].attachEpoch
	r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 2000, Description: "second", Session: session,
		ProtectionKey: "late"})
	s := r.machine.nodes[node].sessions[session]
	if s.timeoutMillis != 2000 || s.description != "second" || s.protectionKey != "" ||
		s.attachEpoch.Compare(before) <= 0 {
		t.Errorf("%+v, epoch before %+v", s, before)
	}
}
