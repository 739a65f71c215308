package coordination

import (
	"fmt"
	"slices"
	"testing"
)

// heldRig is a session that was detached for so long that its end is on its way through the log, another
// session that waits for its lock, and the roster with which its stream comes back.
type heldRig struct {
	*rig
	stream, other StreamID
	session       SessionID
	roster        *Roster
}

func newHeldRig(t *testing.T) *heldRig {
	t.Helper()
	r := &heldRig{rig: newRig(t)}
	node := r.createNode("/local/n", relaxed)
	r.stream, r.session = r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Server: 2})
	r.other, _ = r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 60_000, Server: 1})
	r.roster = &Roster{Node: node, Session: r.session, Epoch: r.leader.streams[r.stream].epoch,
		Path: "/local/n", Server: 2, Rights: AllRights, TimeoutMillis: 5000}
	r.request(r.stream, 1, tryLock)
	forEver := waitLock
	forEver.TimeoutMillis = Infinite
	r.request(r.other, 1, forEver)
	r.applyAll()
	r.said()
	return r
}

// expire detaches the session and has the leader propose its end.
func (r *heldRig) expire() {
	r.t.Helper()
	r.leader.Detach(r.now, r.stream)
	r.pass(5000)
	if r.tick() != 1 {
		r.t.Fatal("the session does not expire")
	}
	r.said()
}

// TestResumeWaitsForAnExpiryInFlight resumes a stream while the end of its session is in flight: the stream gets no
// message before that is applied, so that its client does not take the session for alive while its lock goes to
// another.
func TestResumeWaitsForAnExpiryInFlight(t *testing.T) {
	r := newHeldRig(t)
	r.expire()
	r.leader.Resume(r.now, 100, r.roster)
	r.leader.Request(r.now, 100, &Forward{Sequence: 2, Acknowledged: 2, Request: &release})
	r.expect()
	r.applyAll()
	r.expect(fmt.Sprintf("%d #1 done true", r.other), "100 end Session has expired")
	r.forgotten(100)
}

// TestHeldRosterOfAnotherAttachment holds two streams that claim a session which was attached anew before its
// end was proposed: the end is void, and both are notified that the session was stolen.
func TestHeldRosterOfAnotherAttachment(t *testing.T) {
	r := newHeldRig(t)
	r.leader.Detach(r.now, r.stream)
	r.said()
	newcomer := r.open(AttachRequest{Path: "/local/n", Session: r.session, TimeoutMillis: 6000, Server: 1})
	r.pass(5000)
	r.tick()
	r.leader.Resume(r.now, 100, r.roster)
	r.leader.Resume(r.now, 101, r.roster)
	r.expect()
	r.applyAll()
	r.expect(fmt.Sprintf("%d attached %d", newcomer, r.session),
		"100 end Session stolen by another remote client", "101 end Session stolen by another remote client")
	r.forgotten(100)
	r.forgotten(101)
}

// TestHeldRosterGoesOn holds a stream because of a stop that turns out to be void: the session was made for a
// wish that was repeated, and belongs to the second stream. It then goes on, and what it asked for meanwhile
// is carried out.
func TestHeldRosterGoesOn(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/n", NodeConfig{})
	wish := AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Nonce: 77}
	first := r.open(wish)
	second := r.open(wish)
	r.leader.Detach(r.now, first)
	r.applyOne() // the first wish: nobody wants it any more, so it is to be stopped
	r.applyOne() // the second one has the session
	epoch := r.leader.streams[second].epoch
	session := r.leader.streams[second].session.id
	r.said()
	again := second + 10
	r.leader.Resume(r.now, again, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n"})
	r.leader.Request(r.now, again, &Forward{Sequence: 1, Acknowledged: 1, Request: &tryLock})
	r.leader.Request(r.now, again, &Forward{Sequence: 2, Acknowledged: 1, Request: &release})
	r.expect()
	r.applyAll()
	name := fmt.Sprint(again)
	r.expect(fmt.Sprint(second)+" end Session stolen by another local client", name+" resumed",
		name+" #1 done true", name+" #2 done true")
	if held := r.leader.streams[again].session.held; len(held) != 0 {
		t.Errorf("still held: %v", held)
	}
}

// TestHeldRosterIsDropped ends the wait of a held stream in each way: it goes away, the node is dropped, its
// user loses his rights, it is turned away.
func TestHeldRosterIsDropped(t *testing.T) {
	for _, test := range []struct {
		name string
		drop func(r *heldRig)
		want []string
	}{
		{"detached", func(r *heldRig) { r.leader.Detach(r.now, 100) }, nil},
		{"turned away", func(r *heldRig) { r.leader.TurnAway(r.now, 100, LinkFailure) },
			[]string{"100 end Link failure"}},
		{"node dropped", func(r *heldRig) {
			r.inFlight = append([]Command{&DropNode{Path: []string{"local", "n"}}}, r.inFlight...)
			r.applyOne()
		}, []string{"2 end Link failure", "100 end Link failure"}},
	} {
		r := newHeldRig(t)
		r.expire()
		r.leader.Resume(r.now, 100, r.roster)
		s := r.leader.nodes[r.roster.Node].sessions[r.session]
		r.take()
		test.drop(r)
		got := r.said()
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: said %q, want %q", test.name, got, test.want)
		}
		r.forgotten(100)
		if len(s.held) > 0 && r.leader.nodes[r.roster.Node] != nil {
			t.Errorf("%s: still held", test.name)
		}
		r.applyAll()
		for _, m := range r.messages {
			if m.Stream == 100 {
				t.Errorf("%s: afterwards %q", test.name, word(m))
			}
		}
	}
}

func (r *rig) forgotten(stream StreamID) {
	r.t.Helper()
	if r.leader.streams[stream] != nil {
		r.t.Errorf("the leader still knows stream %d", stream)
	}
}

// TestRepeatedWishBehindItsStop repeats the wish for a new session when the session that was made for it is already to
// be stopped, because its stream was gone: the wish means a new one.
func TestRepeatedWishBehindItsStop(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/n", NodeConfig{})
	wish := AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Nonce: 77}
	first := r.open(wish)
	r.leader.Detach(r.now, first)
	r.applyOne() // and the stop is in flight
	r.open(wish)
	r.applyAll()
	r.expect("2 attached 2")
	if n := r.machine.nodes[node]; len(n.sessions) != 1 || n.nonces[77] != 2 {
		t.Errorf("sessions %v, nonces %v", n.sessions, n.nonces)
	}
}

// TestAttachBehindAnExpiryInFlight attaches a session whose end is in flight: only through the log, which
// refuses it.
func TestAttachBehindAnExpiryInFlight(t *testing.T) {
	r := newHeldRig(t)
	r.expire()
	again := r.open(AttachRequest{Path: "/local/n", Session: r.session, TimeoutMillis: 5000, Server: 2})
	r.expect()
	r.applyAll()
	r.expect(fmt.Sprintf("%d #1 done true", r.other), fmt.Sprintf("%d end Session has expired", again))
}
