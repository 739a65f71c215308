package coordination

import "slices"

// Replica is the rings of one server but for its Fronts: its copy of the machine and, while this server
// leads, the leader on it. A server, a script, a model and a simulation run the rings through it. It decides nothing of
// the protocol itself; it knows the order of the steps around the machine and the leader:
//
//   - a server serves as the leader only once it has applied its own first entry of the term: what earlier
//     leaders have left in the log is then executed;
//   - a log that was restored moves the counters before anything else of the term (Leader.BeginLineage);
//   - a stream's message is for one leader, and void with the next, to which the stream repeats it (Reign);
//   - which commands may be written at present (Admit);
//   - the waiters of a call, and the end of their wait (Call, Answer).
//
// Like all rings it is pure, and not for concurrent use. S is the sink of a stream's messages and W the waiter of a
// call; a Replica hands them back as they were given to it and does not look at them.
//
// # A turn
//
// A turn has four parts, in this order. Any of them may be empty.
//
//  1. The log's events, in their order: Leading, Following, Committed, Restored, BarrierPassed. After each of
//     them Reign reports whether there is another leader. If so the streams are notified before anything
//     else: their rosters are part of what comes next.
//  2. Admit, and then the messages of streams and calls: Forward, Call. They may be held back, as when too much is
//     on its way to the log, but those of one stream stay in order.
//  3. The time: Tick.
//  4. The actions: Take, the commands first. NextDeadline is the latest time of the next turn.
//
// Every event carries the time at which it happens, which never goes back.
type Replica[S, W any] struct {
	machine  *Machine
	restored Index // the state up to here came as a whole

	elected Term   // led but not yet served, 0 otherwise
	lineage uint64 // of the log, with elected
	leader  *Leader
	last    Epoch // the last that the leader before this one gave
	reign   Reign // the last one
	sinks   map[StreamID]S

	calls   map[CallID][]W // the leader has them, and who waits
	answers []Answer[W]    // not yet taken

	admission admission
	stamp     uint64 // the last that Stamp gave
	marks     marks
}

// Reign numbers the times for which a server has led since it started. 0 is no reign.
type Reign uint64

// NewReplica is a server that starts with what it has stored. formats are the commands it can read; zero:
// those of all servers are the same.
func NewReplica[S, W any](m *Machine, formats Formats) *Replica[S, W] {
	return &Replica[S, W]{machine: m, sinks: make(map[StreamID]S), calls: make(map[CallID][]W),
		admission: admission{formats: formats}}
}

// Machine is the replicated state. Only the Replica changes it.
func (r *Replica[S, W]) Machine() *Machine { return r.machine }

// Watches is the number of watches at this server as the leader.
func (r *Replica[S, W]) Watches() int {
	if r.leader == nil {
		return 0
	}
	return r.leader.Watches()
}

// Reign is the present one, 0 while this server does not serve as the leader.
func (r *Replica[S, W]) Reign() Reign {
	if r.leader == nil {
		return 0
	}
	return r.reign
}

// Term is that of the present reign, or 0.
func (r *Replica[S, W]) Term() Term {
	if r.leader == nil {
		return 0
	}
	return r.leader.term
}

// Elected reports whether this server leads, but does not serve yet.
func (r *Replica[S, W]) Elected() bool { return r.elected != 0 }

// Leading reports that this server leads the term, with a log of this lineage (Leader.BeginLineage). It serves once it
// has applied the first entry of the term.
func (r *Replica[S, W]) Leading(term Term, lineage uint64) { r.elected, r.lineage = term, lineage }

// Following reports that this server leads no more, or that another one does. The waiters of calls here are notified
// that they are lost; the leader's unsent messages are dropped.
func (r *Replica[S, W]) Following() {
	if r.leader != nil {
		r.last = Epoch{r.leader.term, r.leader.counter}
	}
	r.elected = 0
	r.leader = nil
	clear(r.sinks)
	r.loseCalls()
}

// Covered reports whether an entry is part of a state that came as a whole. Committed passes over such an
// entry, so it does not even need to be read.
func (r *Replica[S, W]) Covered(index Index) bool { return index <= r.restored }

// Restored reports that the state of another member has taken the place of this one's. Entries up to it may still come.
func (r *Replica[S, W]) Restored(m *Machine) { r.machine, r.restored = m, m.Index() }

// Committed executes the next entry of the log. It returns the effects of its commands, for the caller's records only,
// as the leader handles them; they are valid until the next entry. If it panics the entry is executed in part, and
// nothing that Take would return may leave the server.
func (r *Replica[S, W]) Committed(now Instant, e *Entry) []Effect {
	if r.Covered(e.Index) {
		return nil
	}
	lasted := r.machine.clock.millis - r.machine.clock.base // the last one, as far as it is known
	r.machine.begin(e)
	if r.leader != nil {
		r.leader.executing = e.Index
	}
	for i, c := range e.Commands {
		effects := r.machine.execute(Place(i), e.Term, c)
		if r.leader != nil {
			r.leader.Applied(now, e.Term, c, effects)
		}
	}
	effects := r.machine.end()
	r.marks.executed(now, e)
	if r.IsQuiet() && e.Term == r.leader.term && slices.ContainsFunc(e.Commands, endsQuiet) {
		r.leader.quiet, r.leader.quietEnds = false, false
	}
	switch {
	case r.leader != nil:
		r.leader.executing = 0
		r.leader.ages.executed(now)
	case r.elected == e.Term && e.Term != 0:
		r.serve(now)
		r.leader.ages.comeBackMillis = min(max(lasted/4, absencePauseMillis), maxComeBackMillis)
	}
	return effects
}

// serve begins a reign.
func (r *Replica[S, W]) serve(now Instant) {
	r.leader = NewLeader(r.machine, r.elected, now)
	r.admit(r.leader)
	if r.last.Term == r.elected { // raft does not do that; a stand-in that pauses does
		r.leader.counter = r.last.Counter
	}
	r.elected = 0
	r.reign++
	r.marks.asked = false // what an earlier reign put out is executed, or lost
	r.leader.BeginLineage(r.lineage)
}

// Quiet begins a hand-over: neither this server nor another one speaks to clients any more, which the caller sees to
// before. Nothing is due until EndQuiet. Quiet reports whether there is something that the next leader takes from it.
func (r *Replica[S, W]) Quiet() bool {
	if r.leader == nil || r.leader.quiet || r.leader.ages.unreadable {
		return false
	}
	r.leader.quiet = true
	r.leader.put(&Quiet{})
	return true
}

// EndQuiet goes on after a hand-over that has failed.
func (r *Replica[S, W]) EndQuiet() {
	if r.leader.quiet && !r.leader.quietEnds {
		r.leader.quietEnds = true
		r.leader.put(&Quiet{Over: true})
	}
}

func endsQuiet(c Command) bool {
	quiet, is := c.(*Quiet)
	return is && quiet.Over
}

// IsQuiet reports whether a hand-over has begun and, as far as this server has executed the log, is not over: until
// then nobody may speak to clients.
func (r *Replica[S, W]) IsQuiet() bool { return r.leader != nil && r.leader.quiet }

// Handed reports whether the leadership may be handed over: the log has Quiet and nothing behind it.
func (r *Replica[S, W]) Handed() bool { return r.IsQuiet() && r.machine.calm.quiet == r.leader.term }

// BarrierPassed reports that Work.Barrier is answered: this server was the leader when it was asked.
func (r *Replica[S, W]) BarrierPassed(barrier uint64) {
	if r.leader != nil {
		r.leader.BarrierPassed(barrier)
	}
}

// Forward takes what the Front of a stream has for the leader of a reign. sink is where the answers go.
func (r *Replica[S, W]) Forward(now Instant, to Reign, stream StreamID, sink S, f Forward) {
	switch {
	case r.leader == nil || to != r.reign: // the stream announces itself to the next leader
	case r.admission.restricted() && r.turnAway(now, stream, sink, &f):
	case f.Attach != nil:
		r.sinks[stream] = sink
		r.leader.ownerless = !r.admission.isReadable(namesOwner)
		r.leader.Attach(now, stream, *f.Attach)
	case f.Roster != nil:
		r.sinks[stream] = sink
		r.leader.Resume(now, stream, f.Roster)
	case f.Request != nil:
		if f.Answered != 0 && !r.admission.isReadable(acknowledges) {
			f.Answered = 0
		}
		r.leader.Request(now, stream, &f)
	case f.Detach:
		delete(r.sinks, stream)
		r.leader.Detach(now, stream)
	case f.Lost:
		delete(r.sinks, stream)
		r.leader.Lose(now, stream)
	}
}

// RecheckAccess is Leader.RecheckAccess, where there is one.
func (r *Replica[S, W]) RecheckAccess(now Instant) {
	if r.leader != nil {
		r.leader.RecheckAccess(now)
	}
}

// NextDeadline is the time at which Tick is due, or Never.
func (r *Replica[S, W]) NextDeadline() Instant {
	if r.leader == nil {
		return Never
	}
	return r.leader.NextDeadline()
}

// Tick has everything end whose time is up.
func (r *Replica[S, W]) Tick(now Instant) {
	if r.leader != nil {
		r.leader.Tick(now)
	}
}

// Work lists the actions of a Replica, in order within each list. The commands come first, so that the log is at work
// while messages go out.
type Work[W any] struct {
	// to be put into the log, in Replica.Term; any of them that follow each other may share an entry
	Commands []Command
	Barrier  uint64      // if not 0: to be passed to BarrierPassed once leadership is proven
	Messages []Message   // to be handed to where Sink says
	Answers  []Answer[W] // for the waiters of calls
}

// Take returns the actions since the last call. The slices are valid until the next event.
func (r *Replica[S, W]) Take() Work[W] { return r.take((*Leader).Take) }

// MayWait is Leader.MayWait, where there is one.
func (r *Replica[S, W]) MayWait() bool { return r.leader != nil && r.leader.MayWait() }

// TakeAllButCommands is Take, but the commands stay: they may wait.
func (r *Replica[S, W]) TakeAllButCommands() Work[W] { return r.take((*Leader).TakeAllButCommands) }

func (r *Replica[S, W]) take(from func(*Leader) Output) Work[W] {
	var work Work[W]
	if r.leader != nil {
		out := from(r.leader)
		work.Commands, work.Barrier, work.Messages = out.Commands, out.Barrier, out.Messages
		r.answerCalls(out.Calls)
	}
	work.Answers = r.answers
	r.answers = r.answers[:0]
	return work
}

// Stamp returns the stamp for the entries of the commands taken now (Entry.StampMillis): the time of day or, if that
// has gone back, perhaps because another server leads, the last known stamp.
func (r *Replica[S, W]) Stamp(wallMillis uint64) uint64 {
	r.stamp = max(r.stamp, r.machine.stampMillis, wallMillis)
	return r.stamp
}

// Served returns Entry.ServedMillis of the entries that are made of the commands taken now. It is to be called for all
// of them; writable is false for those whose format has no room for it.
func (r *Replica[S, W]) Served(now Instant, writable bool) uint64 {
	if r.leader == nil {
		return 0
	}
	return r.leader.ages.servedMillis(now, writable)
}

// Sink is where a message of Work goes; known is false if its stream is gone. It is to be called once for
// each message, in their order: a stream is forgotten with the message that ends it.
func (r *Replica[S, W]) Sink(m *Message) (sink S, known bool) {
	sink, known = r.sinks[m.Stream]
	if known && m.Last() {
		delete(r.sinks, m.Stream)
	}
	return sink, known
}
