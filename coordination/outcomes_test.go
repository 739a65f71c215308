package coordination

import (
	"fmt"
	"slices"
	"testing"
)

// outcomesRig is a session whose stream has a Front, beside the streams that a test speaks for itself.
type outcomesRig struct {
	*rig
	node    NodeID
	session SessionID
	stream  StreamID
	front   *Front
	lost    []Message // sent to the Front and not delivered
}

func newOutcomesRig(t *testing.T, formats Formats) *outcomesRig {
	r := &outcomesRig{rig: newRig(t)}
	r.lax = true
	r.replica.admission.formats = formats
	r.replica.Admit(formats.Version, false)
	r.node = r.createNode("/local/n", NodeConfig{})
	r.streams++
	r.stream, r.front = r.streams, NewFront(&PingPolicy{Opaque: func() uint64 { return 1 }})
	r.send(ClientMessage{Kind: ClientStart, Start: &AttachRequest{Path: "/local/n", TimeoutMillis: 5000}})
	r.settle()
	r.session = r.front.roster.Session
	return r
}

func (r *outcomesRig) send(m ClientMessage) {
	r.forward(r.stream, r.front.Receive(&m))
	r.take()
}

func (r *outcomesRig) ask(request Request) {
	r.send(ClientMessage{Kind: ClientSemaphore, ReqID: uint64(r.front.sequence + 1), Request: &request})
}

// settle applies the commands in flight and delivers the messages to the Front. It returns the client's messages, pings
// aside.
func (r *outcomesRig) settle() []string {
	r.t.Helper()
	r.applyAll()
	return r.deliver(len(r.messages))
}

// deliver is for the first n messages; the Front never gets the others.
func (r *outcomesRig) deliver(n int) []string {
	for i, m := range r.messages {
		switch {
		case m.Stream != r.stream:
		case i < n:
			r.front.Deliver(r.now, &m)
		default:
			r.lost = append(r.lost, m)
		}
	}
	r.messages = nil
	var words []string
	for _, reply := range r.front.Take(nil) {
		switch reply.Kind {
		case ReplyResult:
			words = append(words, fmt.Sprintf("%d done %v", reply.ReqID, reply.Done))
		case ReplyPending:
			words = append(words, fmt.Sprintf("%d pending", reply.ReqID))
		case ReplyFailure:
			words = append(words, "failure "+reply.Refusal.Text)
		}
	}
	return words
}

// changeLeader loses what is in flight and what is not delivered.
func (r *outcomesRig) changeLeader() {
	r.take()
	r.messages = nil
	r.front.Orphan(r.now)
	r.lead()
	r.forward(r.stream, r.front.Rejoin())
}

func (r *outcomesRig) memory() *memory { return &r.machine.nodes[r.node].sessions[r.session].memory }

// hold keeps semaphores from the Front's session until they are given. Nothing may be in flight.
func (r *outcomesRig) hold(names ...string) (give func(name string)) {
	r.t.Helper()
	holder, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	sequence := Sequence(0)
	ask := func(request Request) {
		sequence++
		r.forward(holder, Forward{Request: &request, Sequence: sequence, Acknowledged: sequence})
		r.applyAll()
	}
	for _, name := range names {
		ask(Request{Kind: RequestAcquire, Name: name, Count: Infinite, Ephemeral: true})
	}
	return func(name string) { ask(Request{Kind: RequestRelease, Name: name}) }
}

func waitFor(name string) Request {
	return Request{Kind: RequestAcquire, Name: name, Count: Infinite, Ephemeral: true,
		TimeoutMillis: Infinite}
}

// TestOutcomesBehindAnOpenRequest has a session work for long while one of its requests stays open: a watch
// that does not fire, or a wait. Behind either no more is remembered than is not acknowledged, also where
// each answer but one is a refusal that the log never sees, and where waits end out of turn.
func TestOutcomesBehindAnOpenRequest(t *testing.T) {
	watch := Request{Kind: RequestDescribe, Name: "config", WatchData: true}
	for name, open := range map[string]Request{"watch": watch, "wait": waitFor("held")} {
		t.Run(name, func(t *testing.T) {
			r := newOutcomesRig(t, Formats{})
			r.hold("held")
			r.ask(Request{Kind: RequestCreate, Name: "config", Limit: 1})
			r.ask(open)
			r.settle()
			for i := range 3000 {
				for _, request := range []Request{tryLock, release} {
					r.ask(request)
					if i%100 == 0 {
						r.changeLeader()
					}
					r.settle()
					r.ask(Request{Kind: RequestCreate, Name: "x"}) // which needs a limit
					r.settle()
				}
				if i%10 == 0 {
					r.waitAndGet()
				}
				if most := len(r.memory().outcomes); most > 4 {
					t.Fatalf("%d outcomes after %d rounds", most, i)
				}
			}
			if room := cap(r.memory().outcomes); room > 2*keptOutcomes {
				t.Errorf("there is room for %d outcomes", room)
			}
			if open := r.front.open.appendTo(nil); len(open) != 1 {
				t.Errorf("%d requests are open", len(open))
			}
		})
	}
}

// waitAndGet makes the session wait for something and get it.
func (r *outcomesRig) waitAndGet() {
	r.t.Helper()
	r.settle()
	give := r.hold("soon")
	r.ask(waitFor("soon"))
	r.ask(tryLock)
	r.settle()
	give("soon")
	r.settle()
	r.ask(Request{Kind: RequestRelease, Name: "soon"})
	r.settle()
}

// TestOutcomesOfABurst takes no more room for long than the sessions that ask for one thing at a time.
func TestOutcomesOfABurst(t *testing.T) {
	r := newOutcomesRig(t, Formats{})
	r.hold("held")
	r.ask(waitFor("held"))
	for range 500 {
		r.ask(tryLock)
	}
	r.settle()
	if n := len(r.memory().outcomes); n != 500 {
		t.Fatalf("%d outcomes, want all of what nobody can have acknowledged", n)
	}
	r.ask(tryLock)
	r.settle()
	if n, room := len(r.memory().outcomes), cap(r.memory().outcomes); n != 1 || room > 2*keptOutcomes {
		t.Errorf("%d outcomes, room for %d", n, room)
	}
}

// TestOutcomesOutOfTurn loses the leader between the answers to a later request and an earlier one: both are
// known to the next leader, which gives them in the order in which they came about, so that one acknowledges
// no other. Nothing is executed twice.
func TestOutcomesOutOfTurn(t *testing.T) {
	for delivered := range 3 {
		r := newOutcomesRig(t, Formats{})
		give := r.hold("first", "second")
		r.ask(waitFor("first"))
		r.ask(waitFor("second"))
		r.settle()
		r.ask(Request{Kind: RequestCreate, Name: "made", Limit: 1}) // answered before the wait
		r.applyAll()
		r.take()
		give("second")
		r.changeLeader() // which the Front knows of neither
		r.messages = slices.DeleteFunc(r.messages, func(m Message) bool { return m.Stream != r.stream })
		r.take()
		said := r.deliver(1 + delivered + 1) // that it is resumed, that the first waits, and as many answers
		r.ask(tryLock)                       // which acknowledges what was delivered, and no more
		r.applyAll()
		r.changeLeader()
		said = append(said, r.settle()...)
		want := []string{"3 done false", "2 done true", "4 done true"}
		if !slices.Equal(said, want) {
			t.Errorf("%d delivered: the client reads %q, want %q", delivered, said, want)
		}
	}
}

// TestOutcomesAreNotExecutedAgain repeats a request that was acknowledged behind a wait: that is somebody's
// mistake, and ends the stream.
func TestOutcomesAreNotExecutedAgain(t *testing.T) {
	r := newOutcomesRig(t, Formats{})
	r.hold("held")
	r.ask(waitFor("held"))
	r.settle()
	repeated := Request{Kind: RequestDelete, Name: "s"}
	for _, request := range []Request{{Kind: RequestCreate, Name: "s", Limit: 1}, repeated,
		{Kind: RequestCreate, Name: "s", Limit: 1}, tryLock} {
		r.ask(request)
		r.settle()
	}
	kept := slices.DeleteFunc(r.front.open.list, func(r openRequest) bool { return r.Request == nil })
	r.front.open = openRequests{list: slices.Insert(kept, 1,
		openRequest{OpenRequest: OpenRequest{Sequence: 3, Request: &repeated}, reqID: 3})}
	r.changeLeader()
	if said := r.settle(); !slices.Equal(said, []string{"failure Link failure"}) {
		t.Errorf("the client reads %q", said)
	}
	if r.machine.nodes[r.node].semaphores["s"] == nil {
		t.Error("a request was executed twice")
	}
}

// TestOutcomesWithAnOlderMember leaves out what not every member can read, and goes on as before there was
// such a thing.
func TestOutcomesWithAnOlderMember(t *testing.T) {
	later := func(c Command) uint64 {
		if c, is := c.(*AcquireSemaphore); is && c.Answered != 0 {
			return 2
		}
		if c, is := c.(*ReleaseSemaphore); is && c.Answered != 0 {
			return 2
		}
		return 1
	}
	r := newOutcomesRig(t, Formats{Version: 2, Since: later})
	r.hold("held")
	r.ask(waitFor("held"))
	r.settle()
	for _, readable := range []uint64{1, 2} {
		r.replica.Admit(readable, false)
		for range 10 {
			r.ask(tryLock)
			for _, c := range r.inFlight {
				if later(c) > readable {
					t.Fatalf("%+v is written although version %d is the newest that all can read", c,
						readable)
				}
			}
			r.settle()
		}
		if n, few := len(r.memory().outcomes), readable == 2; (n < 5) != few {
			t.Errorf("%d outcomes while version %d can be read", n, readable)
		}
	}
}
