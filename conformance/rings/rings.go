// Package rings runs the pure rings of package coordination together, with a fake clock and without a socket:
// the machine, one leader, and a Front for each stream. Transcripts, the reference model and the simulation
// stand on it.
package rings

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// Options configure a World. The zero value of each field is usable.
type Options struct {
	Database string              // default /local
	Limits   coordination.Limits // default DefaultLimits
	Quota    scheme.Quota        // of the database
	// HoldStartFailure is coordination.PingPolicy.HoldStartFailureMillis. 0 reports failed starts at once.
	HoldStartFailureMillis uint64
	// Batch, if set, returns how many of the n commands in flight, 2 or more, go into the next entry of the log;
	// otherwise each has its own.
	Batch func(n int) int
	// Reencode, if set, passes every entry through the stored format and back.
	Reencode func(coordination.Entry) coordination.Entry
	// Check verifies the machine's and the leader's invariants after every command, and panics if one is broken.
	Check bool
}

// World is a server in memory. Everything that follows from a call has happened when the call returns, unless
// Hold is in force; but a proof of leadership, for which strict describes wait, takes until Settle. It is not safe
// for concurrent use.
type World struct {
	options Options
	replica *replica
	now     coordination.Instant
	index   coordination.Index
	term    coordination.Term
	opaque  uint64
	policy  coordination.PingPolicy
	opened  coordination.StreamID
	order   []*Stream // in the order of opening
	held    bool
	barrier uint64                 // under way, or 0
	log     []coordination.Command // proposed and not yet applied
	named   uint64                 // calls
	calls   []*Call                // not answered yet, in the order in which they were made
}

// originMillis is the time of day at which a World is made, in milliseconds since 1970.
const originMillis = 1_700_000_000_000

// replica is the machine and the leader of a World.
type replica = coordination.Replica[*Stream, *Call]

// New returns a World that leads term 1.
func New(options Options) (*World, error) {
	if options.Database == "" {
		options.Database = "/local"
	}
	if options.Limits == (coordination.Limits{}) {
		options.Limits = coordination.DefaultLimits()
	}
	machine, err := coordination.NewMachine(options.Database, options.Limits)
	if err != nil {
		return nil, err
	}
	w := &World{options: options}
	w.policy = coordination.PingPolicy{HoldStartFailureMillis: options.HoldStartFailureMillis,
		Opaque: w.nextOpaque}
	w.start(machine)
	if proposed := options.Limits.Proposed(); proposed != (coordination.StateLimits{}) {
		w.commit([]coordination.Command{&coordination.SetLimits{Limits: proposed, OnlyFirst: true}})
	}
	if options.Quota != (scheme.Quota{}) {
		w.commit([]coordination.Command{&coordination.SetQuota{Path: scheme.SplitLoose(options.Database),
			Quota: options.Quota}})
	}
	return w, nil
}

// start begins with what is stored.
func (w *World) start(m *coordination.Machine) {
	w.replica = coordination.NewReplica[*Stream, *Call](m, coordination.Formats{})
	w.lead()
}

// lead begins the next term with an entry of its own.
func (w *World) lead() {
	w.term++
	w.barrier = 0 // lost with its leader
	w.replica.Leading(w.term, 0)
	w.commit(nil)
}

// commit is the next entry of the log.
func (w *World) commit(commands []coordination.Command) {
	w.index++
	e := coordination.Entry{Index: w.index, Term: w.term, Commands: commands, Versions: len(commands) > 0}
	if len(commands) > 0 {
		e.ServedMillis = w.replica.Served(w.now, true)
		e.StampMillis = w.replica.Stamp(originMillis + uint64(w.Now().Milliseconds()))
	}
	if w.options.Reencode != nil {
		e = w.options.Reencode(e)
	}
	w.replica.Committed(w.now, &e)
}

// commitFirst makes an entry of the first commands in flight: of how many Options.Batch says, at most.
func (w *World) commitFirst(most int) {
	n := 1
	if w.options.Batch != nil && most > 1 {
		n = w.options.Batch(min(most, coordination.MaxEntryCommands))
	}
	if at := slices.IndexFunc(w.log[:n], coordination.Alone); at >= 0 {
		n = max(at, 1)
	}
	first := w.log[:n]
	w.log = w.log[n:]
	w.commit(first)
}

func (w *World) nextOpaque() uint64 {
	w.opaque++
	return 1_000_000 + w.opaque
}

// Machine is the replicated state, to read from.
func (w *World) Machine() *coordination.Machine { return w.replica.Machine() }

// Now is the time since the World was made.
func (w *World) Now() time.Duration { return time.Duration(w.now) }

// Settle lets proofs of leadership come that are under way, and what follows from them.
func (w *World) Settle() {
	for w.barrier != 0 {
		barrier := w.barrier
		w.barrier = 0
		w.replica.BarrierPassed(barrier)
		w.run()
	}
}

// Advance lets time pass, stopping at every moment at which something is due.
func (w *World) Advance(d time.Duration) {
	target := w.now + coordination.Instant(d)
	for {
		w.Settle()
		next := w.NextWake()
		if next > target {
			break
		}
		w.now = max(w.now, next)
		for _, s := range w.order {
			if s.front.Wake() <= w.now {
				s.tick()
			}
		}
		w.tick()
	}
	w.now = target
}

// tick makes the leader do its due work. It panics if something is still due after as many ticks as there can be work
// for, 256 rows of the machine in each: a server would go on for ever.
func (w *World) tick() {
	for n := 0; w.replica.NextDeadline() <= w.now; n++ {
		if n > 1 && n > 1+len(w.Machine().AllRows())/256 {
			panic(fmt.Sprintf("the leader has something due at %v after %d ticks", w.Now(), n))
		}
		w.replica.Tick(w.now)
		w.run()
	}
}

// tick is the Front's, which must leave nothing due at the same moment.
func (s *Stream) tick() {
	forward := s.front.Tick(s.world.now)
	if wake := s.front.Wake(); wake <= s.world.now {
		panic(fmt.Sprintf("the Front of stream %d is due at %v, ticked at %v", s.id, wake, s.world.now))
	}
	s.world.forward(s, forward)
}

// NextWake is the next moment at which something is due, coordination.Never if nothing is.
func (w *World) NextWake() coordination.Instant {
	next := w.replica.NextDeadline()
	for _, s := range w.order {
		next = min(next, s.front.Wake())
	}
	return next
}

// Hold keeps commands in flight: they are proposed but not applied until Release.
func (w *World) Hold() { w.held = true }

// Held reports whether Hold is in force.
func (w *World) Held() bool { return w.held }

// Release applies what Hold has kept.
func (w *World) Release() {
	w.held = false
	w.run()
	w.Settle()
}

// Restart replaces the leader by one of a new term, as after a crash: commands in flight are lost, every
// stream ends with "Link failure" (§4.2).
func (w *World) Restart() { w.restart(w.Machine()) }

func (w *World) restart(m *coordination.Machine) {
	w.log, w.calls = nil, nil
	for _, s := range w.order {
		s.front.End(coordination.LinkFailure)
	}
	w.order = nil
	w.start(m)
}

// HandOver is Restart, but the leader hands over before.
func (w *World) HandOver() {
	w.replica.Quiet()
	w.run()
	w.Restart()
}

// FailOver replaces the leader by one of a new term while the streams go on: they wait for the new leader and announce
// themselves to it. Calls that are not answered yet are repeated to it. Of the commands in flight the first kept ones
// are applied before the new leader takes over, the rest is lost with the old one.
func (w *World) FailOver(kept int) {
	for _, s := range w.order {
		s.front.Orphan(w.now)
	}
	w.replica.Following()
	w.carryOut()
	for kept, all := min(kept, len(w.log)), len(w.log); all-len(w.log) < kept; {
		w.commitFirst(kept - (all - len(w.log)))
	}
	w.log = nil
	w.lead()
	for _, s := range w.order {
		w.forward(s, s.front.Rejoin())
	}
	w.repeatCalls()
}

// Reload stores a checkpoint, reads it back into a new machine and restarts on that.
func (w *World) Reload() error {
	restorer, err := coordination.NewRestorer(w.options.Database, w.options.Limits)
	if err != nil {
		return err
	}
	for _, row := range w.Machine().AllRows() {
		if err := restorer.Add(row); err != nil {
			return err
		}
	}
	digest := w.Machine().Digest()
	machine, err := restorer.Finish()
	if err != nil {
		return err
	}
	if machine.Digest() != digest {
		return fmt.Errorf("digest %016x before, %016x after reading back", digest, machine.Digest())
	}
	w.restart(machine)
	return nil
}

// run carries out what the replica wants until nothing is left.
func (w *World) run() {
	for {
		w.carryOut()
		if w.held || len(w.log) == 0 {
			return
		}
		w.apply()
	}
}

// carryOut does what the replica wants.
func (w *World) carryOut() {
	work := w.replica.Take()
	for i := range work.Messages {
		m := &work.Messages[i]
		if s, known := w.replica.Sink(m); known {
			s.front.Deliver(w.now, m)
		}
	}
	for _, a := range work.Answers {
		w.answer(a)
	}
	w.log = append(w.log, work.Commands...)
	if work.Barrier != 0 {
		w.barrier = work.Barrier
	}
}

func (w *World) apply() {
	before := w.log
	w.commitFirst(len(w.log))
	if w.options.Check {
		if err := w.replica.Check(); err != nil {
			panic(fmt.Sprintf("after %#v: %v", before[:len(before)-len(w.log)], err))
		}
	}
}

// Stream is one client's stream.
type Stream struct {
	world  *World
	id     coordination.StreamID
	front  *coordination.Front
	server uint64
}

// Open opens a stream on a server. Streams of different servers steal from each other "remotely" (§2.5).
func (w *World) Open(server uint64) *Stream {
	w.opened++
	s := &Stream{world: w, id: w.opened, front: coordination.NewFront(&w.policy), server: server}
	w.order = append(w.order, s)
	return s
}

// Send hands over the client's next message. Messages behind a start that has not been answered yet must not
// be sent: the server does not read them.
func (s *Stream) Send(m coordination.ClientMessage) {
	if m.Start != nil {
		s.world.opaque++
		m.Start.Server, m.Start.Nonce = s.server, s.world.opaque
	}
	s.world.forward(s, s.front.Receive(&m))
}

// Close marks the client's side as closed or gone.
func (s *Stream) Close() { s.world.forward(s, s.front.Close()) }

// Replies takes what the server has sent since the last call.
func (s *Stream) Replies() []coordination.Reply {
	if s.front.PingWaits() {
		s.front.PingTaken(s.world.now)
	}
	return s.front.Take(nil)
}

// Ending returns how the stream has ended, or EndingNone.
func (s *Stream) Ending() coordination.Ending { return s.front.Ending() }

// Attaching reports whether the start is still unanswered.
func (s *Stream) Attaching() bool { return s.front.Attaching() }

func (w *World) forward(s *Stream, f coordination.Forward) {
	w.replica.Forward(w.now, w.replica.Reign(), s.id, s, f)
	w.run()
}
