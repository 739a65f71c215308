package coordination

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// TestRobberyIsKnownToTheNextLeader makes a stream take a session from another one on a node whose attaches are
// relaxed. The leader goes before the loser is notified, and the loser's roster comes first. The next leader refuses
// it, and executes nothing twice.
func TestRobberyIsKnownToTheNextLeader(t *testing.T) {
	for name, before := range map[string]func(r *rig){
		"attached":                       func(*rig) {},
		"its relay is lost":              func(r *rig) { r.forward(1, Forward{Lost: true}) },
		"not heard of under this leader": (*rig).lead,
	} {
		for _, asks := range []bool{true, false} { // the thief, before the leader goes
			for _, strict := range []bool{true, false} { // the node's attaches, from then on
				t.Run(fmt.Sprint(name, asks, strict), func(t *testing.T) { robbed(t, before, asks, strict) })
			}
		}
	}
}

func robbed(t *testing.T, before func(r *rig), asks, strict bool) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	loser, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 100, Server: 1})
	first := r.roster(loser)
	ask := func(stream StreamID, roster *Roster, request Request) {
		r.request(stream, 1, request)
		r.applyAll()
		roster.Open = []OpenRequest{{Sequence: 1, Request: &request}}
	}
	ask(loser, first, Request{Kind: RequestCreate, Name: "made", Limit: 1})
	before(r)
	thief, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 100, Server: 2, Session: session})
	second, want := r.roster(thief), []string{"2 resumed"}
	if asks {
		ask(thief, second, Request{Kind: RequestDelete, Name: "made"})
		want = append(want, "2 #1 done false")
	}
	if strict {
		r.call(&AlterNode{Path: scheme.SplitLoose(first.Path),
			Config: NodeConfig{AttachConsistencyMode: ConsistencyStrict}})
		r.applyAll()
	}
	r.said()
	r.lead()
	r.leader.Resume(r.now, loser, first)
	r.leader.Detach(r.now, loser)
	r.applyAll()
	r.expect("1 end Session stolen by another remote client")
	r.pass(200) // it has done nothing to the session's time either
	r.tick()
	r.leader.Resume(r.now, thief, second)
	r.applyAll()
	r.expect(want...)
}

// TestStartThatComesAgain loses the relay again and again while a start for a new session is on its way through
// the log; the leader notices each loss at a different moment. The last repetition has the session, and no
// earlier one takes it away.
func TestStartThatComesAgain(t *testing.T) {
	for lost := range StreamID(4) { // noticed before the last repetition comes
		for applied := range 4 {
			r := newRig(t)
			r.createNode("/local/n", relaxed)
			start := AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Nonce: 77}
			for range 3 {
				r.open(start)
			}
			for i := range applied {
				if r.applyOne(); i == 0 {
					for stream := range lost {
						r.forward(stream+1, Forward{Lost: true})
					}
				}
			}
			r.open(start)
			for stream := range StreamID(3) {
				r.forward(stream+1, Forward{Lost: true})
			}
			r.applyAll()
			said := r.said()
			if a := r.leader.streams[4]; a == nil || a.session.attachment != a || said[len(said)-1][0] != '4' {
				t.Errorf("%d applied, %d lost: said %q", applied, lost, said)
			}
		}
	}
}

// TestEarlierStreamsAreNotRemembered executes requests of a stream after those of a later one, as the leader
// of an older program may have proposed them. They do not make the machine forget the later stream's.
func TestEarlierStreamsAreNotRemembered(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Server: 1})
	earlier := r.roster(stream)
	later := *earlier
	later.Epoch = r.leader.nextEpoch()
	for i, epoch := range []Epoch{later.Epoch, earlier.Epoch, later.Epoch} {
		r.applyForeign(r.term, &CreateSemaphore{Origin: Origin{Node: earlier.Node, Session: session,
			Address: Address{epoch, Sequence(i + 1)}}, Name: fmt.Sprint("s", i), Limit: 1})
	}
	r.said()
	s := r.machine.nodes[earlier.Node].sessions[session]
	next := Address{r.leader.nextEpoch(), 1}
	for address, want := range map[Address]knowledge{{later.Epoch, 1}: answered, {later.Epoch, 3}: answered,
		{earlier.Epoch, 2}: unknown, {earlier.Epoch, 4}: unknown, next: neverExecuted} {
		if known := s.recollect(address.Epoch); known.recall(address.Sequence) != want {
			t.Errorf("%+v: %d, want %d", address, known.recall(address.Sequence), want)
		}
	}
	known := s.recollect(next.Epoch)
	if s.memory.complete = false; known.recall(next.Sequence) != unknown {
		t.Error("a machine without a complete memory takes a request for never executed")
	}
	r.lead()
	r.leader.Resume(r.now, 11, earlier)
	r.leader.Resume(r.now, 12, &later)
	r.expect("11 end Session stolen by another local client", "12 resumed")
}
