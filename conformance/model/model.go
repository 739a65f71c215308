package model

import (
	"strings"
	"time"
)

// Config holds the settings of a node that decide when something happens (§1.5), as a client sends them.
type Config struct {
	SelfCheckMillis uint64
	GraceMillis     uint64
	AttachMode      int32 // consistency: 0 and 1 are strict, anything else is relaxed
	ReadMode        int32 // consistency: 1 is strict, anything else is relaxed
}

// attachesRelaxed is §4.5: an attach that changes nothing leaves no trace.
func (c Config) attachesRelaxed() bool { return c.AttachMode != 0 && c.AttachMode != 1 }

// grace is added to a session's timeout after a leader restart (§1.5).
func (c Config) grace() uint64 {
	selfCheck := c.SelfCheckMillis
	if selfCheck == 0 {
		selfCheck = 1000
	}
	if selfCheck < 500 {
		selfCheck = 500
	}
	if selfCheck > 10000 {
		selfCheck = 10000
	}
	grace := c.GraceMillis
	if grace == 0 {
		grace = 10000
	}
	if grace > 30000 {
		grace = 30000
	}
	if grace < selfCheck+1000 {
		grace = selfCheck + 1000
	}
	return grace
}

// Limits bound the contents of a node (§5). A test lowers them, because it cannot fill the real ones.
type Limits struct {
	Sessions   int
	Semaphores int
	Bytes      int // 0: as many as the test can think of
	State      int // bytes of the whole state, EmptyState at least; 0 likewise
	Quota      int // bytes of the database; the same
	Described  int // bytes of one description; 0 likewise
}

// Model is a server with at most one coordination node. Everything that follows from a call has happened when
// it returns. It is not safe for concurrent use.
type Model struct {
	path   string
	limits Limits
	now    time.Duration
	age    age
	node   *node
	// lastVersion is the highest that any semaphore has had.
	lastVersion uint64
	administers bool // an administrator's command is carried out
	streams     []*Stream
	opaque      uint64

	held  bool
	queue []func() // what the leader has not yet done, while held
	reads reads

	group, block int // of the messages being sent
	lastGroup    int
	lastTicket   int

	marks     *Marks
	ambiguous bool
	changed   func(Change) // if set, gets every event that a watch could be for
}

// node is one incarnation of the coordination node.
type node struct {
	config      Config
	lastSession uint64
	lastOrder   uint64
	sessions    []*session
	semaphores  []*semaphore
}

// firstOpaque keeps the numbers of pings apart from those that a test's clients make up.
const firstOpaque = 1 << 32

// New returns a server without a node; path is the only path at which one can be made.
func New(path string, limits Limits, marks *Marks) *Model {
	return &Model{path: path, limits: limits, marks: marks, opaque: firstOpaque}
}

// CreateNode makes the node. One that exists stays as it is (§1.1).
func (m *Model) CreateNode(c Config) {
	if m.node != nil {
		m.mark(markNodeExists)
		return
	}
	m.node = &node{config: c}
}

// AlterNode replaces those settings that are not 0 (§1.2). Running timers keep what they have.
func (m *Model) AlterNode(c Config) {
	if m.node == nil {
		return
	}
	if c.SelfCheckMillis != 0 {
		m.node.config.SelfCheckMillis = c.SelfCheckMillis
	}
	if c.GraceMillis != 0 {
		m.node.config.GraceMillis = c.GraceMillis
	}
	if c.AttachMode != 0 {
		m.node.config.AttachMode = c.AttachMode
	}
	if c.ReadMode != 0 {
		m.node.config.ReadMode = c.ReadMode
	}
}

// DropNode removes the node with everything in it (§1.3).
func (m *Model) DropNode() {
	if m.node == nil {
		return
	}
	for _, s := range m.streams {
		if s.session != nil {
			m.mark(markNodeDropEndsStream)
			s.session.stream = nil
			s.end(Unavailable, "Link failure")
		}
	}
	m.node = nil
}

// Hold keeps what clients and timers ask of the leader in flight until Release. Meanwhile the node must not
// be made, altered or dropped. A start may ask for a new session, or for one whose stream has ended or is
// stopping: what comes of thefts that meet requests in flight is left open by the specification.
func (m *Model) Hold() { m.held = true }

// Release carries out what is in flight, in the order in which it was asked, and then what strict describes
// wait for.
func (m *Model) Release() {
	m.drain()
	m.Settle()
}

// drain carries out what is in flight. What comes of it goes to the end of the queue.
func (m *Model) drain() {
	for m.held = true; len(m.queue) > 0; {
		do := m.queue[0]
		m.queue = m.queue[1:]
		do()
	}
	m.held, m.queue = false, nil
}

// later does something about a session in its turn at the leader; sess is nil if
// nobody has to wait for it: a new session is not known yet, and a describe changes nothing.
func (m *Model) later(sess *session, do func()) {
	if !m.held {
		do()
		return
	}
	if sess != nil {
		sess.inFlight++
	}
	m.queue = append(m.queue, func() {
		if sess != nil {
			sess.inFlight--
		}
		do()
	})
}

// Restart replaces the leader (§4.2). What is in flight is lost. clock is the log clock of the state
// with which the new leader begins, in milliseconds. Of the grace period what leaders have served is over that have
// handed over to each other.
func (m *Model) Restart(clock uint64, handedOver bool) {
	if m.age.calm += clock - m.age.base; !handedOver {
		m.age.calm = 0
	}
	m.age.restart(m.now, clock)
	if len(m.queue) > 0 {
		m.mark(markInFlightLost)
	}
	m.queue, m.reads = nil, reads{}
	for _, s := range m.streams {
		if s.attaching {
			m.mark(markRestartEndsAttach)
			s.end(Unavailable, "Link failure")
		}
		if s.session != nil {
			m.mark(markRestartEndsStream)
			s.end(Unavailable, "Link failure")
		}
	}
	if m.node == nil {
		return
	}
	for _, sess := range m.node.sessions {
		sess.stream, sess.seqNo, sess.restarted = nil, 0, true
		sess.inFlight = 0
		sess.attaching, sess.stopping, sess.expiring = false, false, false
		sess.detached = m.now
		sess.expires = m.after(sess.inherited(m))
		sess.absentDue = nil
		if sess.absence == nil {
			sess.absentDue = m.after(m.age.comeBack)
		}
	}
	for _, sem := range m.node.semaphores {
		sem.reload()
	}
}

// Now is the time since the model was made.
func (m *Model) Now() time.Duration { return m.now }

// Ambiguous reports whether two timers ran out at the very same moment. The specification does not say which
// of the two goes first, so whatever follows cannot be compared.
func (m *Model) Ambiguous() bool { return m.ambiguous }

// Advance lets time pass.
func (m *Model) Advance(d time.Duration) {
	target := m.now + d
	for {
		m.Settle()
		next, found := m.NextWake()
		if !found || next > target {
			break
		}
		if next > m.now {
			m.now = next
		}
		m.fire()
	}
	m.now = target
}

// NextWake is the next moment at which something will happen by itself; found is false if nothing will.
func (m *Model) NextWake() (next time.Duration, found bool) {
	consider := func(t *time.Duration) {
		if t != nil && (!found || *t < next) {
			next, found = *t, true
		}
	}
	for _, s := range m.streams {
		consider(s.pingAt)
	}
	if m.node != nil {
		for _, sess := range m.node.sessions {
			consider(sess.expires)
			consider(sess.absentDue)
		}
		for _, sem := range m.node.semaphores {
			for _, l := range sem.waiters {
				consider(l.expires)
			}
		}
	}
	return next, found
}

// fire does what is due: all pings, then what the log hears of, then one expiry. The caller comes again if
// there is more.
func (m *Model) fire() {
	for _, s := range m.streams {
		if s.pingAt != nil && *s.pingAt <= m.now {
			s.pingDue()
		}
	}
	if m.node == nil {
		return
	}
	var due []func()
	for _, sess := range m.node.sessions {
		sess.noteAbsence(m)
		if sess.expires != nil && *sess.expires <= m.now {
			due = append(due, func() { m.countdownOver(sess) })
		}
	}
	for _, sem := range m.node.semaphores {
		for _, l := range sem.waiters {
			if l.expires != nil && *l.expires <= m.now {
				due = append(due, func() { sem.waitOver(l) })
			}
		}
	}
	if len(due) > 1 {
		m.ambiguous = true
	}
	if len(due) > 0 {
		due[0]()
	}
}

func (m *Model) after(millis uint64) *time.Duration {
	t := m.now + time.Duration(millis)*time.Millisecond
	return &t
}

// samePlace reports whether a path names the node; empty components do not count.
func (m *Model) samePlace(path string) bool {
	return strings.Join(components(path), "/") == strings.Join(components(m.path), "/")
}

func components(path string) []string {
	var parts []string
	for _, part := range strings.Split(path, "/") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
