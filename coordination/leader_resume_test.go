package coordination

import "testing"

// TestResumeOfAnOlderStream lets two streams claim one session before a new leader, in either order: the one that was
// attached last has it, the other is told that it was stolen. The older one was not told by the leader that is gone.
func TestResumeOfAnOlderStream(t *testing.T) {
	for _, olderFirst := range []bool{true, false} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		older, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Server: 1})
		olderEpoch := r.leader.streams[older].epoch
		newer, _ := r.attach(AttachRequest{Path: "/local/n", Session: session, TimeoutMillis: 5000, Server: 2})
		newerEpoch := r.leader.streams[newer].epoch
		r.lead()
		resume := func(stream StreamID, epoch Epoch, server uint64) {
			r.leader.Resume(r.now, stream, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n", Server: server})
		}
		if olderFirst {
			resume(older, olderEpoch, 1)
			resume(newer, newerEpoch, 2)
			r.expect("1 end Session stolen by another remote client", "2 resumed")
		} else {
			resume(newer, newerEpoch, 2)
			resume(older, olderEpoch, 1)
			r.expect("2 resumed", "1 end Session stolen by another remote client")
		}
		r.request(newer, 1, tryLock)
		r.applyAll()
		r.expect("2 #1 done true")
	}
}

// TestStolenFromTheSamePlace tells the loser of a session under a new leader from where it was stolen.
func TestStolenFromTheSamePlace(t *testing.T) {
	for _, test := range []struct {
		server uint64
		path   string
		want   string
	}{
		{1, "/local/n", "local"},
		{1, "/local//n", "remote"},
		{2, "/local/n", "remote"},
	} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		older, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Server: 1})
		epoch := r.leader.streams[older].epoch
		r.attach(AttachRequest{Path: test.path, Session: session, TimeoutMillis: 5000, Server: test.server})
		r.lead()
		r.leader.Resume(r.now, older, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n", Server: 1})
		r.expect("1 end Session stolen by another " + test.want + " client")
	}
}

// TestWatchOverALeaderChange keeps a watch whose semaphore is as it was, and gives up the others.
func TestWatchOverALeaderChange(t *testing.T) {
	for _, test := range []struct {
		watch  Request
		change Request
		kept   bool
	}{
		{Request{WatchData: true}, Request{}, true},
		{Request{WatchData: true}, Request{Kind: RequestUpdate, Name: "s", Data: []byte("x")}, false},
		{Request{WatchOwners: true}, Request{Kind: RequestUpdate, Name: "s", Data: []byte("x")}, true},
		{Request{WatchOwners: true}, Request{Kind: RequestAcquire, Name: "s", Count: 1}, false},
		{Request{WatchData: true}, Request{Kind: RequestAcquire, Name: "s", Count: 1}, true},
		{Request{WatchData: true}, Request{Kind: RequestDelete, Name: "s"}, false},
		{Request{WatchData: true}, Request{Kind: RequestUpdate, Name: "other", Data: []byte("x")}, true},
	} {
		r := newRig(t)
		r.createNode("/local/n", NodeConfig{})
		watcher, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		changer, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		for i, name := range []string{"s", "other"} {
			r.request(changer, Sequence(1+i), Request{Kind: RequestCreate, Name: name, Limit: 1})
		}
		r.applyAll()
		r.said()
		describe := test.watch
		describe.Kind, describe.Name = RequestDescribe, "s"
		a := r.leader.streams[watcher]
		sem := a.node.node.semaphores["s"]
		roster := &Roster{Node: a.node.id, Session: session, Epoch: a.epoch, Path: "/local/n",
			Open: []OpenRequest{{Sequence: 1, Request: &describe, Watching: true, Mark: WatchMark{sem.id, r.machine.Index()}}}}
		if test.change.Kind != RequestNone {
			r.request(changer, 3, test.change)
			r.applyAll()
			r.said()
		}
		r.lead()
		r.leader.Resume(r.now, watcher, roster)
		if test.kept {
			r.expect("1 resumed")
		} else {
			r.expect("1 resumed", "1 #1 changed data=false owners=false")
		}
		if kept := a.session.durable() != nil && r.leader.streams[watcher].session.watches[sem.id] != nil; kept != test.kept {
			t.Errorf("watch %+v, then %+v: kept is %v", test.watch, test.change, kept)
		}
	}
}

// TestWatchOfAnotherLife gives up watches whose past the machine does not know.
func TestWatchOfAnotherLife(t *testing.T) {
	r := newRig(t)
	m, sem := r.machine, &semaphore{id: 3}
	watch := &Request{WatchData: true, WatchOwners: true}
	m.restored = 10
	for _, test := range []struct {
		mark WatchMark
		want bool
	}{{WatchMark{3, 10}, true}, {WatchMark{3, 9}, false}, {WatchMark{4, 10}, false}} {
		if got := m.unchanged(sem, test.mark, watch); got != test.want {
			t.Errorf("%+v: unchanged is %v", test.mark, got)
		}
	}
}

// TestRepeatedWishInFlight repeats the wish for a new session while the first is still on its way through the log, as
// after a relay broke: both mean the same session, and the first stream's end does not end it.
func TestRepeatedWishInFlight(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", NodeConfig{})
	wish := AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Nonce: 77}
	first := r.open(wish)
	second := r.open(wish)
	r.leader.Detach(r.now, first)
	r.applyAll()
	if sessions := r.leader.streams[second].node.node.sessions; len(sessions) != 1 {
		t.Fatalf("%d sessions", len(sessions))
	}
	if r.leader.streams[second].session.attachment == nil {
		t.Error("the second stream has no session")
	}
}
