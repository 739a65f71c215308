package coordination

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// rig is a replica in the hands of a test: commands are applied one by one, when the test asks for it.
type rig struct {
	t         *testing.T
	replica   *Replica[StreamID, CallID] // streams and calls go by their names
	machine   *Machine
	leader    *Leader // the present one; tests of the leader alone speak to it
	now       Instant
	index     Index
	term      Term
	inFlight  []Command
	messages  []Message // not looked at yet
	calls     []CallDone
	barriers  []uint64
	streams   StreamID
	executing func(*Entry) // gets each entry that is applied, unless nil
	lax       bool         // not every command is followed by a check
	ages      bool         // time survives leader changes: otherwise a server is there that cannot read of it
}

func newRig(t *testing.T) *rig {
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, now: 1_000_000_000}
	r.start(m)
	return r
}

// start begins with what is stored, in the next term.
func (r *rig) start(m *Machine) {
	r.replica, r.machine = NewReplica[StreamID, CallID](m, Formats{Version: 2, Since: func(c Command) uint64 {
		switch c.(type) {
		case *Age, *BeginAbsence, *EndAbsence, *Quiet:
			return 2
		}
		return 1
	}}), m
	r.lead()
}

// lead starts the next term: what was in flight is lost.
func (r *rig) lead() {
	r.replica.Following()
	r.replica.Admit(1, false)
	if r.ages {
		r.replica.Admit(2, false)
	}
	r.term++
	r.inFlight = nil
	r.replica.Leading(r.term, 0)
	r.index++
	r.replica.Committed(r.now, entryOf(r.index, r.term, nil))
	r.leader = r.replica.leader
}

// entryOf is an entry of one command, or of none.
func entryOf(index Index, term Term, c Command) *Entry {
	e := &Entry{Index: index, Term: term}
	if c != nil {
		e.Commands = []Command{c}
	}
	return e
}

func (r *rig) take() {
	out := r.replica.Take()
	r.inFlight = append(r.inFlight, out.Commands...)
	r.messages = append(r.messages, out.Messages...)
	for _, a := range out.Answers {
		if a.End == CallAnswered {
			r.calls = append(r.calls, CallDone{a.Waiter, a.Outcome})
		}
	}
	if out.Barrier != 0 {
		r.barriers = append(r.barriers, out.Barrier)
	}
}

// applyOne applies the first command in flight.
func (r *rig) applyOne() {
	r.t.Helper()
	r.take()
	c := r.inFlight[0]
	r.inFlight = r.inFlight[1:]
	r.applyForeign(r.term, c)
}

// applyForeign applies a command that the leader did not propose, as another term's.
func (r *rig) applyForeign(term Term, c Command) {
	r.t.Helper()
	r.index++
	e := entryOf(r.index, term, c)
	e.ServedMillis = r.replica.Served(r.now, true)
	if r.executing != nil {
		r.executing(e)
	}
	r.replica.Committed(r.now, e)
	r.take()
	if r.lax {
		return
	}
	if err := r.replica.Check(); err != nil {
		r.t.Fatalf("after %#v: %v", c, err)
	}
}

func (r *rig) applyAll() {
	r.t.Helper()
	for r.take(); len(r.inFlight) > 0; r.take() {
		r.applyOne()
	}
}

// call makes a call that nobody repeats.
func (r *rig) call(c Command) {
	name, _ := CallOf(c)
	r.replica.Call(r.now, name, c, r.index, false)
	r.take()
}

func (r *rig) createNode(path string, config NodeConfig) NodeID {
	r.t.Helper()
	r.call(&CreateNode{Path: scheme.SplitLoose(path), Config: config})
	r.applyAll()
	entry, found := r.machine.tree.Lookup(scheme.SplitLoose(path))
	if !found {
		r.t.Fatalf("%s was not created", path)
	}
	return entry.Node
}

// open starts a stream and leaves its command, if there is one, in flight.
func (r *rig) open(request AttachRequest) StreamID {
	r.streams++
	r.forward(r.streams, Forward{Attach: &request})
	r.take()
	return r.streams
}

// attach starts a stream and returns it with its session.
func (r *rig) attach(request AttachRequest) (StreamID, SessionID) {
	r.t.Helper()
	stream := r.open(request)
	r.applyAll()
	for _, m := range r.messages {
		if m.Stream == stream && m.Kind == MessageAttached {
			r.messages = nil
			return stream, m.Session
		}
	}
	r.t.Fatalf("stream %d is not attached: %v", stream, r.messages)
	return 0, 0
}

func (r *rig) request(stream StreamID, sequence Sequence, request Request) {
	r.forward(stream, Forward{Sequence: sequence, Request: &request})
	r.take()
}

// forward passes a Front's message to the present leader.
func (r *rig) forward(stream StreamID, f Forward) {
	r.replica.Forward(r.now, r.replica.Reign(), stream, stream, f)
}

// roster returns the roster that the Front of an attached stream without open requests sends to the next leader.
func (r *rig) roster(stream StreamID) *Roster {
	a := r.leader.streams[stream]
	return &Roster{Node: a.node.id, Session: a.session.id, Epoch: a.epoch, Path: a.path, Server: a.server,
		Rights: a.rights}
}

func (r *rig) pass(millis uint64) { r.now = r.now.After(millis) }

// tick lets the leader look at its deadlines and returns how many commands it proposed.
func (r *rig) tick() int {
	before := len(r.inFlight)
	r.replica.Tick(r.now)
	r.take()
	return len(r.inFlight) - before
}

// finishTakeover lets the leader take over everything that it has found.
func (r *rig) finishTakeover() {
	for r.leader.takeover != nil {
		r.tick()
	}
}

// said returns the messages since the last call, as short words.
func (r *rig) said() []string {
	r.take()
	var words []string
	for _, m := range r.messages {
		words = append(words, word(m))
	}
	r.messages = nil
	return words
}

// expect compares the messages since the last call.
func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.said(); !slices.Equal(got, want) {
		r.t.Fatalf("said %q, want %q", got, want)
	}
}

func word(m Message) string {
	refused := func(success string) string {
		if m.Refusal != nil {
			return m.Refusal.Text
		}
		return success
	}
	switch m.Kind {
	case MessageAttached:
		return fmt.Sprintf("%d attached %d", m.Stream, m.Session)
	case MessageEnd:
		return fmt.Sprintf("%d end %s", m.Stream, m.Refusal.Text)
	case MessageStopped:
		return fmt.Sprintf("%d stopped %d", m.Stream, m.Session)
	case MessagePending:
		return fmt.Sprintf("%d #%d pending", m.Stream, m.Sequence)
	case MessageDescribed:
		return fmt.Sprintf("%d #%d %s", m.Stream, m.Sequence, refused("described"))
	case MessageChanged:
		return fmt.Sprintf("%d #%d changed data=%v owners=%v", m.Stream, m.Sequence, m.DataChanged,
			m.OwnersChanged)
	}
	if m.Kind == MessageResumed {
		return fmt.Sprintf("%d resumed", m.Stream)
	}
	return fmt.Sprintf("%d #%d %s", m.Stream, m.Sequence, refused(fmt.Sprint("done ", m.Done)))
}

var relaxed = NodeConfig{ReadConsistencyMode: ConsistencyRelaxed, AttachConsistencyMode: ConsistencyRelaxed}

var (
	tryLock  = Request{Kind: RequestAcquire, Name: "lock", Count: Infinite, Ephemeral: true}
	waitLock = Request{Kind: RequestAcquire, Name: "lock", Count: Infinite, Ephemeral: true,
		TimeoutMillis: 5000}
	release = Request{Kind: RequestRelease, Name: "lock"}
)
