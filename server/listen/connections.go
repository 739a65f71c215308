package listen

import (
	"bytes"
	"container/list"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/share"
)

// Limits bounds what clients may do with their connections. Every field is inclusive and at least 1.
type Limits struct {
	// Connections is how many may be open at once, and ConnectionsPerAddress how many of one IP address; the
	// addresses of an IPv6 network count as one, see share.Address.
	Connections, ConnectionsPerAddress int
	// Strangers is how many of them may be without proof of who is there; see Connections.
	Strangers int
	// ProofWanted says that the proof is a call of somebody who is known. Without it, the proof is to speak
	// HTTP/2.
	ProofWanted bool
	// Calls, Standing and Streams are how many calls of the kinds Brief, Standing and Session may be under way
	// at once; see package share for how much of it one subject may have.
	Calls, Standing, Streams int
	// ReceivedBytes is how much may be received of messages that nobody has taken yet, or that are being
	// worked on.
	ReceivedBytes int64
	// Linger is how long nothing may leave of a call that is over before its connection is closed, which it
	// is also after six times as long; 0: never.
	Linger time.Duration
	// ResetBurst is how many streams a connection may reset at once; ResetsPerSecond how many more each
	// second.
	ResetBurst, ResetsPerSecond int
}

// Connections are the open ones of all listeners. They refuse an address that has too many, and watch each
// connection for resets and for what it has the server keep of messages.
//
// Where there are too many in all, or too many strangers, the newcomer takes the place of another one: of the
// stranger that came first, or else of the connection that has had no call for longest. Only where there is
// none it is refused.
type Connections struct {
	limits Limits
	logger *slog.Logger
	now    func() time.Time
	calls  calls
	bytes  received

	unfolding *share.Line // for decompressing

	refused atomic.Uint64 // connections
	evicted atomic.Uint64 // connections that made room for others
	cut     atomic.Uint64 // connections that reset too many streams
	unread  atomic.Uint64 // connections on which the end of a call was not read

	mutex     sync.Mutex
	open      map[string]int // by address; see share.Address
	all       map[*connection]struct{}
	strangers list.List // of *connection, the oldest first
	// of *connection without a call that are no strangers, the one that has been so for longest first
	idle    list.List
	closing bool     // nobody else is let in
	said    occasion // that connections make room, or are refused

	told lograte.ByKey // see told.go
}

// NewConnections returns a set without any.
func NewConnections(limits Limits, logger *slog.Logger) *Connections {
	c := &Connections{limits: limits, logger: logger, now: time.Now, open: make(map[string]int),
		all: make(map[*connection]struct{}), unfolding: newUnfolding()}
	c.calls.init(limits)
	c.bytes.connections = make(map[*meteredConn]struct{})
	return c
}

// Refused is how many connections were closed when they were accepted.
func (c *Connections) Refused() uint64 { return c.refused.Load() }

// Evicted is how many connections were closed to make room for others.
func (c *Connections) Evicted() uint64 { return c.evicted.Load() }

// Cut is how many connections were closed because they reset too many streams.
func (c *Connections) Cut() uint64 { return c.cut.Load() }

// Open is how many connections are open.
func (c *Connections) Open() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.all)
}

// Count returns the listener with its connections counted.
func (c *Connections) Count(l net.Listener) net.Listener { return boundedListener{l, c} }

// boundedListener is a listener whose connections count.
type boundedListener struct {
	net.Listener
	set *Connections
}

// Accept waits for the next connection that is let in; the others are closed without a word. An error for
// want of descriptors is a temporary one, which gRPC waits a while after.
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.set.makeRoom(err)
		} else if err != nil {
			l.set.tellAccept(err)
		}
		if err != nil {
			return nil, err
		}
		_, owner := conn.(*net.UnixConn)
		entered := &connection{Conn: conn, set: l.set, address: share.Address(conn.RemoteAddr()), owner: owner}
		if l.set.enter(entered) {
			return entered, nil
		}
		l.set.refused.Add(1)
		_ = conn.Close() // it has nothing to lose
	}
}

func (c *Connections) enter(conn *connection) bool {
	entered, victim := c.tryEnter(conn)
	if victim != nil {
		c.evicted.Add(1)
		_ = victim.Close()
	}
	return entered
}

// tryEnter counts the connection in. It may name another one that has been counted out for it, and is to be
// closed.
func (c *Connections) tryEnter(conn *connection) (entered bool, victim *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closing {
		return false, nil
	}
	if c.open[conn.address] >= c.limits.ConnectionsPerAddress {
		c.tellAddress(conn.address)
		return false, nil
	}
	if conn.owner {
		c.open[conn.address]++
		c.all[conn] = struct{}{}
		return true, nil
	}
	full, strange := len(c.all) >= c.limits.Connections, c.strangers.Len() >= c.limits.Strangers
	if full || strange {
		victim = c.victim(full)
		c.tell(nil)
	}
	if full && victim == nil {
		return false, nil
	}
	c.open[conn.address]++
	c.all[conn] = struct{}{}
	conn.place, conn.in = c.strangers.PushBack(conn), &c.strangers
	return true, victim
}

// victim counts out the connection that makes room for another one, nil if there is none. The mutex is held.
func (c *Connections) victim(alsoIdle bool) *connection {
	first := c.strangers.Front()
	if first == nil && alsoIdle {
		first = c.idle.Front()
	}
	if first == nil {
		return nil
	}
	victim := first.Value.(*connection)
	c.forget(victim)
	return victim
}

// makeRoom closes a connection that no call is lost with, because the process has no descriptor left.
func (c *Connections) makeRoom(why error) {
	c.mutex.Lock()
	victim := c.victim(true)
	c.tell(why)
	c.mutex.Unlock()
	if victim != nil {
		c.evicted.Add(1)
		_ = victim.Close()
	}
}

// tell logs, now and then, that there are too many connections. The mutex is held.
func (c *Connections) tell(why error) {
	if !c.said.due(c.now()) {
		return
	}
	c.logger.Warn("too many connections: those without proof of who is there, or without a call, make room for new ones",
		"open", len(c.all), "strangers", c.strangers.Len(), "made room", c.evicted.Load(), "refused",
		c.refused.Load(), "error", why)
}

// occasion is when something that may happen very often happened last, and when that was said last.
type occasion struct{ happened, last time.Time }

// occasionGap is how often it is said at most.
const occasionGap = 10 * time.Second

func (o *occasion) due(now time.Time) bool {
	o.happened = now
	if now.Sub(o.last) < occasionGap {
		return false
	}
	o.last = now
	return true
}

// StrainedFor is how long a limit that was reached is told of.
const StrainedFor = time.Minute

// Strained says which limits were reached within the last minute, for people; empty if none was.
func (c *Connections) Strained() []string {
	var texts []string
	now := c.now()
	for _, limit := range []struct {
		mutex *sync.Mutex
		said  *occasion
		text  string
	}{
		{&c.mutex, &c.said,
			"there were too many connections: strangers' and idle ones made room for new ones"},
		{&c.calls.mutex, &c.calls.said, "too many calls were under way: more were refused"},
		{&c.bytes.enforcing, &c.bytes.said,
			"more was being received than there is room for: connections with most of it were cut off"},
	} {
		limit.mutex.Lock()
		happened := limit.said.happened
		limit.mutex.Unlock()
		if !happened.IsZero() && now.Sub(happened) < StrainedFor {
			texts = append(texts, limit.text)
		}
	}
	return texts
}

func (c *Connections) leave(conn *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.forget(conn)
}

// forget counts a connection out, once. The mutex is held.
func (c *Connections) forget(conn *connection) {
	if _, counted := c.all[conn]; !counted {
		return
	}
	if c.open[conn.address]--; c.open[conn.address] == 0 {
		delete(c.open, conn.address)
	}
	delete(c.all, conn)
	c.move(conn, nil)
}

// move puts a connection behind the others of a list, or into none. The mutex is held.
func (c *Connections) move(conn *connection, to *list.List) {
	if conn.in != nil {
		conn.in.Remove(conn.place)
		conn.in, conn.place = nil, nil
	}
	if to != nil {
		conn.in, conn.place = to, to.PushBack(conn)
	}
}

// prove notes that a connection is no stranger's.
func (c *Connections) prove(conn *connection) {
	if conn == nil || conn.proven.Swap(true) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.settle(conn)
}

// count notes that a call has begun on a connection, or ended.
func (c *Connections) count(conn *connection, calls int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	before := conn.calls
	conn.calls += calls
	if (before == 0) != (conn.calls == 0) {
		c.settle(conn)
	}
}

// settle puts a connection where it belongs. The mutex is held.
func (c *Connections) settle(conn *connection) {
	if _, counted := c.all[conn]; !counted || !conn.proven.Load() {
		return
	}
	if conn.calls > 0 {
		c.move(conn, nil)
	} else {
		c.move(conn, &c.idle)
	}
}

// CloseStrangers lets nobody else in and closes the connections on which the client has not said yet that it
// speaks HTTP/2: gRPC would wait for them before it ends the others.
func (c *Connections) CloseStrangers() {
	c.closeThose(func(conn *connection) bool { return !conn.greeted.Load() })
}

// CloseAll lets nobody else in and closes every connection.
func (c *Connections) CloseAll() { c.closeThose(func(*connection) bool { return true }) }

func (c *Connections) closeThose(which func(*connection) bool) {
	var those []*connection
	c.mutex.Lock()
	c.closing = true
	for conn := range c.all {
		if which(conn) {
			those = append(those, conn)
		}
	}
	c.mutex.Unlock()
	for _, conn := range those {
		_ = conn.Close()
	}
}

// connection is one client's connection.
type connection struct {
	net.Conn
	set     *Connections
	address string
	greeted atomic.Bool // the client has sent an HTTP/2 preface and a first frame
	proven  atomic.Bool // it is no stranger's
	// it came by the socket of who owns the data: however many others there are, it is let in
	owner  bool
	closed sync.Once
	above  atomic.Pointer[meteredConn] // nil until the handshake is over

	// The mutex of the set guards what follows.
	calls int
	in    *list.List // of the set, if any
	place *list.Element
}

// Close closes the connection and counts it out.
func (c *connection) Close() error {
	c.closed.Do(func() {
		c.set.leave(c)
		if above := c.above.Load(); above != nil { // gRPC closes only this one where it cannot begin
			c.set.bytes.leave(above)
		}
	})
	return c.Conn.Close()
}

// gone reports whether the connection is closed.
func (c *connection) gone() bool {
	c.set.mutex.Lock()
	defer c.set.mutex.Unlock()
	_, counted := c.set.all[c]
	return !counted
}

// meteredConn is a connection as gRPC reads it, decrypted.
type meteredConn struct {
	net.Conn
	set    *Connections
	under  *connection // below the encryption; nil in tests
	remote string      // address and port of the client
	frames frames
	rest   []byte // read, and not handed to gRPC yet
	header uint32 // the stream whose headers were handed to gRPC last

	mutex   sync.Mutex
	subject share.Subject // whose messages come
	open    map[uint32]*Call
	// some of open, by the last digits of their streams' numbers: those that messages are for
	lately  [latelyOpen]*Call
	kept    int64 // bytes of messages
	closed  bool  // for keeping too many, or by gRPC
	resets  resetMeter
	cut     bool        // for too many resets
	sent    sentFrames  // of the one who writes
	looking *time.Timer // for calls that linger; nil while there are none
	ending  []func()    // of calls that announce too large a message, which the reader is to call
}

// meter watches what is read from conn, whose bytes come by way of under.
func (c *Connections) meter(conn, under net.Conn) *meteredConn {
	below, _ := under.(*connection)
	metered := &meteredConn{Conn: conn, set: c, under: below,
		resets: resetMeter{allowance: float64(c.limits.ResetBurst), at: c.now()},
		open:   make(map[uint32]*Call)}
	if below != nil {
		metered.subject.Name, metered.remote = below.address, below.RemoteAddr().String()
	}
	switch {
	case below != nil && below.owner:
		metered.subject.Class = share.Owner
	case !c.limits.ProofWanted:
		metered.subject.Class = share.Known
	}
	c.bytes.enter(metered)
	if below != nil {
		below.above.Store(metered)
		if below.gone() { // meanwhile
			c.bytes.leave(metered)
		}
	}
	return metered
}

// Close closes the connection, and gives back what it keeps.
func (c *meteredConn) Close() error {
	c.set.bytes.leave(c)
	return c.Conn.Close()
}

var errTooManyResets = errors.New("the client resets too many streams")

// Read reads what the client sends, until it resets too many streams. What follows the headers of a call
// comes with the next Read, when gRPC has looked at these and the call is known.
func (c *meteredConn) Read(b []byte) (int, error) {
	n := copy(b, c.rest)
	if n > 0 {
		n, err := c.watch(b[:n])
		c.rest = c.rest[n:]
		return n, err
	}
	c.rest = nil
	n, err := c.Conn.Read(b)
	taken, watchErr := c.watch(b[:n])
	if watchErr != nil {
		return 0, watchErr
	}
	if taken < n {
		c.rest = bytes.Clone(b[taken:n])
		return taken, nil // what Read failed with, it fails with again
	}
	return n, err
}

// follow counts what is to be handed to gRPC: all, or up to the end of headers. What is kept of all messages
// in it is added up under one lock.
func (c *meteredConn) follow(b []byte) (taken, resets int) {
	kept, locked := int64(0), false
	lock := func() {
		if !locked {
			c.mutex.Lock()
			locked = true
		}
	}
	var leaving []*Call
	for taken < len(b) {
		next := b[taken:]
		p := c.frames.follow(next)
		taken += p.bytes
		if p.resets > 0 {
			resets += p.resets
			lock()
			leaving = c.reset(p.reset, leaving)
		}
		if p.data > 0 {
			lock()
			kept += c.receive(p.stream, next[p.at:][:p.data])
		} else if p.stream != 0 {
			c.header = p.stream
			break
		}
	}
	if locked {
		c.keep(kept)
		ending := c.ending
		c.ending = nil
		c.mutex.Unlock()
		for _, end := range ending {
			end()
		}
		for _, call := range leaving {
			call.leave()
		}
		c.set.bytes.enforce(c.set)
	}
	return taken, resets
}

// watch counts what is to be handed to gRPC. It fails once too many streams are reset.
func (c *meteredConn) watch(b []byte) (taken int, err error) {
	taken, resets := c.follow(b)
	if c.under != nil && c.frames.greeted() && !c.under.greeted.Load() {
		c.under.greeted.Store(true)
		if !c.set.limits.ProofWanted {
			c.set.prove(c.under)
		}
	}
	if err := c.countResets(resets); err != nil {
		return 0, err
	}
	return taken, nil
}

// countResets fails once too many streams are reset, by the client or because of what it sends.
func (c *meteredConn) countResets(resets int) error {
	if resets == 0 {
		return nil
	}
	c.mutex.Lock()
	allowed := c.resets.allow(resets, c.set.limits, c.set.now())
	first := !allowed && !c.cut
	c.cut = c.cut || !allowed
	c.mutex.Unlock()
	if allowed {
		return nil
	}
	if first {
		c.set.cut.Add(1)
		c.set.tellResets(c)
	}
	return errTooManyResets
}
