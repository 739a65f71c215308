package coordination

import (
	"fmt"
	"slices"
	"testing"
)

// TestResumeOfAnOlderStream lets two streams claim one session before a new leader, in either order: the one that was
// attached last has it, the other is notified that it was stolen. The leader that is gone did not notify the older one.
func TestResumeOfAnOlderStream(t *testing.T) {
	for _, olderFirst := range []bool{true, false} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		older, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Server: 1})
		olderEpoch := r.leader.streams[older].epoch
		newer, _ := r.attach(AttachRequest{Path: "/local/n", Session: session, TimeoutMillis: 5000,
			Server: 2})
		newerEpoch := r.leader.streams[newer].epoch
		r.lead()
		resume := func(stream StreamID, epoch Epoch, server uint64) {
			r.leader.Resume(r.now, stream, &Roster{Node: node, Session: session, Epoch: epoch,
				Path: "/local/n", Server: server})
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

// TestStolenFromTheSamePlace: under a new leader the loser of a session learns from where it was stolen.
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
		r.leader.Resume(r.now, older, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
			Server: 1})
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
			Open: []OpenRequest{{Sequence: 1, Request: &describe, Watching: true,
				Mark: WatchMark{sem.id, r.machine.at()}}}}
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
		if kept := a.session.durable() != nil &&
			r.leader.streams[watcher].session.watches[sem.id] != nil; kept != test.kept {
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
	}{
		{WatchMark{3, Position{10, endOfEntry}}, true}, {WatchMark{3, Position{11, 0}}, true},
		{WatchMark{3, Position{10, 7}}, false},
		{WatchMark{3, Position{9, endOfEntry}}, false}, {WatchMark{4, Position{10, endOfEntry}}, false},
	} {
		if got := m.unchanged(sem, test.mark, watch); got != test.want {
			t.Errorf("%+v: unchanged is %v", test.mark, got)
		}
	}
}

// TestRepeatedWishInFlight repeats the wish for a new session while the first is still on its way through the
// log, as after a relay broke: both mean the same session, and the first stream's end does not end it.
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

// TestResumeUnderTheSameLeader lets a stream come back over another relay, or over the same one, while its
// requests are on their way through the log: none is executed twice, and each is answered once, to the stream
// as it is now.
func TestResumeUnderTheSameLeader(t *testing.T) {
	for _, again := range []StreamID{2, 20} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		owner, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		r.request(owner, 1, Request{Kind: RequestCreate, Name: "s", Limit: 1})
		r.request(owner, 2, Request{Kind: RequestAcquire, Name: "s", Count: 1})
		r.applyAll()
		r.said()
		wait := Request{Kind: RequestAcquire, Name: "s", Count: 1, TimeoutMillis: Infinite}
		refused := Request{Kind: RequestAcquire, Name: "s", TimeoutMillis: Infinite}
		create := Request{Kind: RequestCreate, Name: "t", Limit: 1}
		r.request(stream, 1, wait)
		r.request(stream, 2, refused)
		r.request(stream, 3, create)
		r.said()
		update := Request{Kind: RequestUpdate, Name: "t", Data: []byte("x")} // never came
		epoch := r.leader.streams[stream].epoch
		r.leader.Resume(r.now, again, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
			Open: []OpenRequest{{Sequence: 1, Request: &wait}, {Sequence: 2, Request: &refused},
				{Sequence: 3, Request: &create}, {Sequence: 4, Request: &update}}})
		r.applyAll()
		got := r.said()
		var want []string
		if again != stream {
			want = append(want, "2 end Session stolen by another local client")
		}
		name := fmt.Sprint(again)
		want = append(want, name+" resumed", name+" #2 Acquire must have count > 0", name+" #1 pending",
			name+" #3 done false", name+" #4 done false")
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// TestDescribeThatWasOvertaken repeats a describe to a new leader, and to the same one over another relay. It
// is answered only if no later request of its stream has been executed, or is about to be: the answer would
// show the effect.
func TestDescribeThatWasOvertaken(t *testing.T) {
	create := Request{Kind: RequestCreate, Name: "s", Limit: 1}
	remove := Request{Kind: RequestDelete, Name: "s"}
	read := Request{Kind: RequestDescribe, Name: "s"}
	watch := Request{Kind: RequestDescribe, Name: "s", WatchData: true}
	for _, test := range []struct {
		name    string
		reads   Request
		applied int // of the create and what is behind the describe
		answers int // of them the Front has had
		leads   bool
		want    []string
	}{
		{"nothing executed", read, 0, 0, true,
			[]string{"resumed", "#1 done false", "#2 described", "#3 done false"}},
		{"what came before", read, 1, 0, true,
			[]string{"resumed", "#1 done false", "#2 described", "#3 done false"}},
		{"what came behind", read, 2, 0, true, []string{"resumed", "#1 done false", "end Link failure"}},
		{"what came behind, answered", read, 2, 2, true, []string{"resumed", "end Link failure"}},
		{"a watch", watch, 2, 0, true, []string{"resumed", "#1 done false", "end Link failure"}},
		{"in flight under the same leader", read, 1, 1, false, []string{"resumed", "end Link failure"}},
	} {
		r := newRig(t)
		node := r.createNode("/local/n", relaxed)
		stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		epoch := r.leader.streams[stream].epoch
		r.request(stream, 1, create)
		r.request(stream, 2, test.reads)
		r.request(stream, 3, remove)
		for range test.applied {
			r.applyOne()
		}
		r.said()
		open := []OpenRequest{{Sequence: 1, Request: &create}, {Sequence: 2, Request: &test.reads},
			{Sequence: 3, Request: &remove}}
		if test.answers > 0 {
			open = open[1:]
		}
		if test.answers > 1 {
			open = open[:1]
		}
		if test.leads {
			r.lead()
		} else {
			r.leader.Detach(r.now, stream)
		}
		r.leader.Resume(r.now, 9, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
			Open: open})
		r.applyAll()
		var want []string
		for _, w := range test.want {
			want = append(want, "9 "+w)
		}
		if got := r.said(); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", test.name, got, want)
		}
	}
}

// TestDescribeOfAnotherLife repeats a describe to a server that does not know what its stream has asked for
// since.
func TestDescribeOfAnotherLife(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/n", relaxed)
	stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	epoch := r.leader.streams[stream].epoch
	r.machine.nodes[node].sessions[session].memory.complete = false
	r.lead()
	read := Request{Kind: RequestDescribe, Name: "s"}
	r.leader.Resume(r.now, 9, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
		Open: []OpenRequest{{Sequence: 4, Request: &read}}})
	r.expect("9 resumed", "9 end Link failure")
}

// TestRequestsBehindATakenOverCheckpoint repeats requests to a server that took over another's checkpoint
// while their stream was open: it knows what became of those behind the first that it applied itself, and of
// no others.
func TestRequestsBehindATakenOverCheckpoint(t *testing.T) {
	read, create := Request{Kind: RequestDescribe, Name: "s"},
		Request{Kind: RequestCreate, Name: "new", Limit: 1}
	for _, test := range []struct {
		name string
		open OpenRequest
		want []string
	}{
		{"a describe behind it", OpenRequest{Sequence: 5, Request: &read},
			[]string{"9 resumed", "9 #5 described"}},
		{"a describe before it", OpenRequest{Sequence: 3, Request: &read},
			[]string{"9 resumed", "9 end Link failure"}},
		{"a request behind it", OpenRequest{Sequence: 5, Request: &create},
			[]string{"9 resumed", "9 #5 done false"}},
		{"a request before it", OpenRequest{Sequence: 3, Request: &create},
			[]string{"9 resumed", "9 end Link failure"}},
	} {
		r := newRig(t)
		node := r.createNode("/local/n", relaxed)
		stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		epoch := r.leader.streams[stream].epoch
		r.machine.nodes[node].sessions[session].memory = memory{} // as it is in a checkpoint
		r.request(stream, 4, Request{Kind: RequestCreate, Name: "s", Limit: 1})
		r.applyAll()
		r.said()
		r.lead()
		r.leader.Resume(r.now, 9, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
			Open: []OpenRequest{test.open}})
		r.applyAll()
		if got := r.said(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestStopThatWasExecuted repeats a stop whose session is gone. It is answered, unless the client still waits
// for what else it had asked for: SessionStopped comes behind all that, and the outcomes are gone with the
// session.
func TestStopThatWasExecuted(t *testing.T) {
	create := Request{Kind: RequestCreate, Name: "s", Limit: 1}
	read := Request{Kind: RequestDescribe, Name: "s", WatchData: true}
	stop, wait := Request{Kind: RequestStop}, waitLock
	for _, test := range []struct {
		name string
		open []OpenRequest
		want string
	}{
		{"the stop alone", []OpenRequest{{Sequence: 2, Request: &stop}}, "9 stopped 1"},
		{"a watch", []OpenRequest{{Sequence: 1, Request: &read, Watching: true},
			{Sequence: 2, Request: &stop}}, "9 stopped 1"},
		{"a request", []OpenRequest{{Sequence: 1, Request: &create}, {Sequence: 2, Request: &stop}},
			"9 end Link failure"},
		{"an acquire", []OpenRequest{{Sequence: 1, Request: &wait},
			{Sequence: 2, Request: &stop}}, "9 end Link failure"},
		{"an acquire whose client knows that it waits",
			[]OpenRequest{{Sequence: 1, Request: &wait, Pending: true}, {Sequence: 2, Request: &stop}},
			"9 stopped 1"},
		{"a describe",
			[]OpenRequest{{Sequence: 1, Request: &read}, {Sequence: 2, Request: &stop}},
			"9 end Link failure"},
	} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		epoch := r.leader.streams[stream].epoch
		r.request(stream, 2, stop)
		r.applyAll()
		r.said()
		r.lead()
		r.leader.Resume(r.now, 9, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
			Stopping: true, Open: test.open})
		if got := r.said(); !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestUnknownKind gives the leader requests of kinds that it does not know, as a newer server may send them:
// their streams end, and the sessions live for as long as without a stream.
func TestUnknownKind(t *testing.T) {
	for _, kind := range []RequestKind{RequestNone, RequestStop + 1, 255} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		epoch := r.leader.streams[stream].epoch
		r.request(stream, 1, Request{Kind: kind, Name: "s"})
		r.expect("1 end Unimplemented request")
		r.leader.Resume(r.now, 9, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n",
			Open: []OpenRequest{{Sequence: 1, Request: &Request{Kind: kind}},
				{Sequence: 2, Request: &Request{Kind: RequestCreate, Name: "s", Limit: 1}}}})
		r.expect("9 resumed", "9 end Unimplemented request")
		r.pass(5000)
		if r.tick() != 1 {
			t.Errorf("kind %d: the session does not expire", kind)
		}
	}
}
