package model

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/rings"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

const (
	nodePath = "/local/dir/node"
	// wakesMax bounds how many pings and expiries one step may go through, so that a session that is pinged
	// every 10 ms does not make a jump of an hour a matter of minutes.
	wakesMax = 40
)

// slot is one client: what it remembers from stream to stream.
type slot struct {
	current *pair // nil before the first
	muted   bool  // does not answer pings
	session uint64
	seqNo   uint64
	key     string // of its session
	ownKey  string // for its next new session
}

// run is one sequence on both sides.
type run struct {
	model     *Model
	rings     *rings.World
	slots     []*slot
	pairs     []*pair // those not yet ended
	opened    int
	phase     time.Duration // what now is above a whole millisecond, see tick
	names     []string
	held      bool             // requests stay in flight
	attaching bool             // a start is among what stays in flight
	trace     *strings.Builder // nil while nobody wants to read it
	failure   string           // the first difference
}

func (l Limits) ofServer() coordination.Limits {
	return coordination.Limits{Sessions: l.Sessions, Semaphores: l.Semaphores, Bytes: uint64(l.Bytes),
		State: uint64(l.State), Described: l.Described}
}

func newRun(s setup, marks *Marks, trace *strings.Builder) (*run, error) {
	model, random := New(nodePath, s.limits, marks), rand.New(rand.NewPCG(s.batches, 0x656e74727))
	world, err := rings.New(rings.Options{Check: true, Limits: s.limits.ofServer(),
		Quota: scheme.Quota{Bytes: uint64(s.limits.Quota)}, Batch: func(n int) int {
			n = 1 + random.IntN(n)
			if n > 1 {
				model.mark(markSharedEntry)
			}
			return n
		}})
	if err != nil {
		return nil, err
	}
	r := &run{model: model, rings: world, names: s.names, trace: trace}
	for i := range s.keys {
		r.slots = append(r.slots, &slot{ownKey: s.keys[i], muted: s.muted[i]})
	}
	return r, nil
}

// do carries out a step on both sides. It returns false when there is nothing more to compare: the sides
// differ, or the specification leaves open what comes next.
func (r *run) do(s step) (goOn bool) {
	defer func() {
		if p := recover(); p != nil {
			r.differ(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			goOn = false
		}
	}()
	restart := s.op == opRestart || s.op == opReload
	for _, p := range r.pairs {
		if restart && p.model.Attaching() && !p.rings.Attaching() {
			p.leftOpen = true
		}
	}
	if r.held && s.op == opStart && !r.startsAlone(s) {
		r.note("%12v left out, because the specification leaves it open: %s\n", r.model.Now(), s)
		return true
	}
	if r.held && !restart && !s.op.inFlight() {
		r.release()
		r.compare()
	}
	if !r.held {
		r.tick()
	}
	r.note("%12v %s\n", r.model.Now(), s)
	r.carryOut(s)
	r.compare()
	if !r.held {
		r.compareVersions()
	}
	if r.model.Ambiguous() {
		r.note("two timers at one moment: the rest is not compared\n")
		return false
	}
	return r.failure == ""
}

// tick moves the clock on by one nanosecond. Timeouts are whole milliseconds, so timers that were set by
// different steps never run out at the same moment, where the specification does not say which goes first.
func (r *run) tick() {
	r.phase++
	r.let(1)
}

// let lets time pass on both sides, stopping to compare and to answer pings at each moment something happens.
func (r *run) let(d time.Duration) {
	target := r.model.Now() + d
	for wakes := 0; ; wakes++ {
		next, found := r.model.NextWake()
		if !found || next > target {
			break
		}
		if wakes == wakesMax {
			// Stop early, but at the sequence's own fraction of a millisecond.
			rest := (r.phase - r.model.Now()%time.Millisecond + time.Millisecond) % time.Millisecond
			target = r.model.Now() + rest
			break
		}
		r.advance(max(next-r.model.Now(), 0))
		if r.failure != "" {
			return
		}
	}
	r.advance(target - r.model.Now())
}

func (r *run) advance(d time.Duration) {
	r.rings.Advance(d)
	r.model.Advance(d)
	r.compare()
}

func (r *run) carryOut(s step) {
	var c *slot
	if s.slot < len(r.slots) {
		c = r.slots[s.slot]
	}
	switch s.op {
	case opStart:
		r.start(c, s)
	case opFirst:
		r.send(r.open(c, s.server), s.request)
	case opCloseOnly:
		r.close(r.open(c, s.server))
	case opSend:
		if c.current != nil {
			r.send(c.current, s.request)
		}
	case opPong:
		if c.current != nil {
			r.pong(c.current, s.pong)
		}
	case opClose:
		if c.current != nil {
			r.close(c.current)
		}
	case opEcho:
		if c.current != nil {
			r.echo(c.current)
		}
	case opMute:
		c.muted = !c.muted
	case opAdvance:
		r.let(s.by)
	case opDeadline:
		if next := r.nextExpiry(); next > 0 {
			// Rounded up, so that the fraction of a millisecond stays the sequence's own.
			r.let((next - r.model.Now() + time.Millisecond - 1).Truncate(time.Millisecond) + s.by)
		}
	default:
		r.server(s)
	}
}

// server carries out the steps that no client takes part in.
func (r *run) server(s step) {
	config := coordination.NodeConfig{SelfCheckPeriodMillis: uint32(s.config.SelfCheckMillis),
		SessionGracePeriodMillis: uint32(s.config.GraceMillis), ReadConsistencyMode: s.config.ReadMode,
		AttachConsistencyMode: s.config.AttachMode}
	path := scheme.SplitLoose(nodePath)
	switch s.op {
	case opHold:
		r.held = true
		r.rings.Hold()
		r.model.Hold()
	case opRelease:
		r.release()
	case opRestart:
		r.rings.Restart()
		r.model.Restart(r.rings.Machine().ClockMillis(), false)
		r.release()
	case opReload:
		if err := r.rings.Reload(); err != nil {
			r.differ("reload: " + err.Error())
		}
		r.model.Restart(r.rings.Machine().ClockMillis(), false)
		r.release()
	case opHand:
		r.rings.HandOver()
		r.model.Restart(r.rings.Machine().ClockMillis(), true)
	case opSet:
		r.set(s)
	case opDrop:
		r.rings.Call(func(call coordination.CallID) coordination.Command {
			return &coordination.DropNode{CallID: call, Path: path}
		})
		r.model.DropNode()
	case opCreate:
		r.rings.Call(func(call coordination.CallID) coordination.Command {
			return &coordination.CreateNode{CallID: call, Path: path, Config: config}
		})
		r.model.CreateNode(s.config)
	case opAlter:
		r.rings.Call(func(call coordination.CallID) coordination.Command {
			return &coordination.AlterNode{CallID: call, Path: path, Config: config}
		})
		r.model.AlterNode(s.config)
	default:
		panic("no such step: " + string(s.op))
	}
}

// nodeID returns the id of the node, 0 if it is missing.
func (r *run) nodeID() coordination.NodeID {
	entry, _ := r.rings.Machine().Tree().Lookup(scheme.SplitLoose(nodePath))
	return entry.Node
}

func (r *run) set(s step) {
	expected := s.off
	if r.model.node != nil {
		if sem := r.model.findSemaphore(s.request.Name); sem != nil {
			expected += sem.version
		}
	}
	status, text := UpdateData(r.model, s.request.Name, s.request.Data, expected)
	node := r.nodeID()
	got := r.rings.Call(func(call coordination.CallID) coordination.Command {
		return &coordination.UpdateData{CallID: call, Node: node, Name: s.request.Name, Data: []byte(s.request.Data),
			Expected: expected}
	})
	if Status(got.Status) != status || !got.OK() && got.Issues[0].Message != text {
		r.differ(fmt.Sprintf("an update that expects version %d: the model says %d %q, coordd %s", expected, status,
			text, got))
	}
}

// compareVersions compares what clients of the protocol do not see.
func (r *run) compareVersions() {
	if r.model.node == nil {
		return
	}
	for _, sem := range r.model.node.semaphores {
		if row := r.rings.Machine().FindSemaphore(r.nodeID(), sem.name); row.Version != sem.version {
			r.differ(fmt.Sprintf("%q has version %d, and %d in the model", sem.name, row.Version, sem.version))
		}
	}
}

// startsAlone reports whether what comes of a start does not depend on what else is in flight about its
// session.
func (r *run) startsAlone(s step) bool {
	if r.model.node == nil || r.model.limits.Sessions < 1000 || r.model.limits.State > 0 ||
		r.model.limits.Quota > 0 {
		return false
	}
	if s.session != sessionOf {
		return true
	}
	sess := r.model.findSession(r.slots[s.other].session)
	switch {
	case sess == nil:
		// It may be about to come into being: coordd refuses by what it has applied (architecture, §3), the
		// reference in turn. Nobody can know the id yet, unless from before the node was dropped.
		return !r.attaching
	case sess.stream == nil:
		return !sess.attaching && !sess.stopping && !sess.expiring
	}
	return sess.stopping && sess.sameFrontEnd(&Stream{server: s.server, path: s.request.Path})
}

func (r *run) release() {
	r.held, r.attaching = false, false
	r.rings.Release()
	r.model.Release()
}

func (r *run) open(c *slot, server uint64) *pair {
	r.opened++
	p := &pair{number: r.opened, slot: c, model: r.model.Open(server), rings: r.rings.Open(server)}
	c.current = p
	r.pairs = append(r.pairs, p)
	return p
}

// startRequest asks for the session that the step means. It also returns the protection key that this session
// really has.
func (r *run) startRequest(c *slot, s step) (Request, string) {
	request := s.request
	of := r.slots[s.other%len(r.slots)]
	right := c.ownKey
	switch s.session {
	case sessionOf:
		request.Session, right = of.session, of.key
		request.SeqNo = uint64(max(int64(of.seqNo)+int64(s.seq), 0))
	case sessionBogus:
		request.Session = uint64(1000 + s.other)
	default:
		request.SeqNo = uint64(max(s.seq, 0))
	}
	if request.Session == 0 {
		right = c.ownKey
	}
	switch s.key {
	case keyRight:
		request.ProtectionKey = right
	case keyWrong:
		request.ProtectionKey = "not " + right
	case keyLong:
		request.ProtectionKey = strings.Repeat("k", 17)
	case keyFull:
		request.ProtectionKey = strings.Repeat("k", 16)
	}
	return request, of.key
}

// start opens a stream and asks for the session that the step means.
func (r *run) start(c *slot, s step) {
	request, key := r.startRequest(c, s)
	p := r.open(c, s.server)
	p.start = request
	if p.start.Session != 0 {
		p.start.ProtectionKey = key
	}
	r.send(p, request)
	r.attaching = r.attaching || p.model.Attaching()
}

// nextExpiry returns the next moment at which a session or a wait runs out, or 0.
func (r *run) nextExpiry() time.Duration {
	var next time.Duration
	consider := func(t *time.Duration) {
		if t != nil && (next == 0 || *t < next) {
			next = *t
		}
	}
	if r.model.node == nil {
		return 0
	}
	for _, sess := range r.model.node.sessions {
		consider(sess.expires)
	}
	for _, sem := range r.model.node.semaphores {
		for _, l := range sem.waiters {
			consider(l.expires)
		}
	}
	return next
}

// compare looks at what every client has read since the last time, and lets those answer their pings who do.
func (r *run) compare() {
	var live []*pair
	for _, p := range r.pairs {
		r.comparePair(p)
		if r.failure != "" {
			return
		}
		// A slot's last stream is kept, because it may still be written to behind its end.
		if p.model.Ending() == Open || p.slot.current == p {
			live = append(live, p)
		}
	}
	r.pairs = live
	for _, p := range r.pairs {
		if p.toPong && !p.slot.muted {
			r.pong(p, pongRight)
		}
		p.toPong = false
	}
}

func (r *run) note(format string, args ...any) {
	if r.trace != nil {
		fmt.Fprintf(r.trace, format, args...)
	}
}

func (r *run) differ(what string) {
	if r.failure == "" {
		r.failure = what
		r.note("DIFFERENCE: %s\n", what)
	}
}

// finish lets somebody describe every semaphore on both sides.
func (r *run) finish() bool {
	if r.held && !r.do(step{op: opRelease}) {
		return false
	}
	observer := len(r.slots)
	r.slots = append(r.slots, &slot{})
	start := step{op: opStart, slot: observer, other: observer, session: sessionNew, key: keyRight,
		request: Request{Kind: Start, Path: nodePath, TimeoutMillis: 30000}}
	for c := 0; ; c++ {
		if !r.do(start) {
			return false
		}
		if r.slots[observer].current.model.Ending() == Open || c == observer {
			break
		}
		// There are too many sessions for a new one, so one of those has to serve.
		start.session, start.other = sessionOf, c
	}
	for i, name := range r.names {
		describe := Request{Kind: Describe, ReqID: uint64(i), Name: name, IncludeOwners: true,
			IncludeWaiters: true}
		if !r.do(step{op: opSend, slot: observer, request: describe}) {
			return false
		}
	}
	return true
}
