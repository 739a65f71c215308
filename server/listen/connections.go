package listen

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/internal/netguard"
	"github.com/coordd/coordd/server/share"
)

// Limits bounds what clients may do with their connections. Every field is inclusive and at least 1.
type Limits struct {
	// Connections limits how many are open at once, and ConnectionsPerAddress how many of one IP address; the
	// addresses of an IPv6 network count as one, see netguard.Network.
	Connections, ConnectionsPerAddress int
	// Strangers limits how many of them are unproven, see package netguard.
	Strangers int
	// ProofWanted makes the first call of an authenticated caller the proof of a connection. Without it, the
	// proof is to speak HTTP/2.
	ProofWanted bool
	// Calls, Standing and Streams limit the calls of the kinds Brief, Standing and Session under way at once; package
	// share limits one subject's part of them.
	Calls, Standing, Streams int
	// ReceivedBytes limits the bytes of messages that were received and not taken yet, or that are being worked on.
	ReceivedBytes int64
	// Linger limits the time without progress until the end of a finished call has left; after that its connection is
	// closed, as it is after six times as long in any case. 0: no limit.
	Linger time.Duration
	// ResetBurst limits the streams that a connection may reset at once, and ResetsPerSecond the further ones of each
	// second.
	ResetBurst, ResetsPerSecond int
}

// Connections are the open ones of all listeners. A guard limits how many there are; this type watches each
// connection for resets and for the bytes of messages that the server keeps for it.
type Connections struct {
	limits Limits
	guard  *netguard.Guard
	logger *slog.Logger
	now    func() time.Time
	calls  calls
	bytes  received

	unfolding *share.Line // for decompressing

	aborted atomic.Uint64 // connections that were closed for a call of another one
	cut     atomic.Uint64 // connections that reset too many streams
	unread  atomic.Uint64 // connections on which the end of a call was not read

	mutex sync.Mutex
	said  occasion // that the guard was crowded; the mutex guards it

	told lograte.ByKey // rate limits of the log lines
}

// NewConnections returns a set without any.
func NewConnections(limits Limits, logger *slog.Logger) *Connections {
	c := &Connections{limits: limits, logger: logger, now: time.Now, unfolding: newUnfolding()}
	c.guard = netguard.New(netguard.Limits{Open: limits.Connections, PerNetwork: limits.ConnectionsPerAddress,
		Unproven: limits.Strangers},
		netguard.Hooks{Crowded: c.tell, NetworkFull: c.tellAddress, AcceptFailed: c.tellAccept})
	c.calls.init(limits)
	c.bytes.init(limits.ReceivedBytes)
	return c
}

// Budgets returns what bounds the messages that are received.
func (c *Connections) Budgets() []*budget.Budget {
	return []*budget.Budget{c.bytes.total, c.bytes.unknown}
}

// Refused counts the connections that were closed when they were accepted.
func (c *Connections) Refused() uint64 { return c.guard.Refused() }

// Evicted returns the number of connections that were closed to make room for others, or for their calls.
func (c *Connections) Evicted() uint64 { return c.guard.Evicted() + c.aborted.Load() }

// Cut counts the connections that were closed because they reset too many streams.
func (c *Connections) Cut() uint64 { return c.cut.Load() }

// Open counts the open connections.
func (c *Connections) Open() int { return c.guard.Usage().Open }

// Count returns the listener with its connections counted.
func (c *Connections) Count(l net.Listener) net.Listener {
	return c.guard.Listen(l, func(conn *netguard.Conn) net.Conn {
		counted := &connection{Conn: conn}
		conn.OnClose = func() {
			if above := counted.above.Load(); above != nil { // gRPC closes only this one where it cannot begin
				c.bytes.leave(above)
			}
		}
		return counted
	})
}

// It logs, at a limited rate, that there are too many connections.
func (c *Connections) tell(now netguard.Usage, _ *netguard.Conn, why error) {
	c.mutex.Lock()
	due := c.said.due(c.now())
	c.mutex.Unlock()
	if due {
		c.logger.Warn("too many connections: those without proof of who is there, or without a call, make room for "+
			"new ones",
			"open", now.Open, "strangers", now.Unproven, "made room", c.Evicted(), "refused", now.Refused,
			"error", why)
	}
}

// occasion throttles a warning: last occurrence, last time logged.
type occasion struct{ happened, last time.Time }

// occasionGap is the shortest time between two of its log lines.
const occasionGap = 10 * time.Second

func (o *occasion) due(now time.Time) bool {
	o.happened = now
	if now.Sub(o.last) < occasionGap {
		return false
	}
	o.last = now
	return true
}

// StrainedFor is the time for which a limit that was reached is reported.
const StrainedFor = time.Minute

// Strained returns the limits that were reached within the last minute, as text for operators.
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

// CloseStrangers lets nobody else in and closes the connections on which the client has not said yet that it
// speaks HTTP/2: gRPC would wait for them before it ends the others.
func (c *Connections) CloseStrangers() { c.guard.CloseSilent() }

// CloseAll lets nobody else in and closes every connection.
func (c *Connections) CloseAll() { c.guard.CloseAll() }

// connection is one client's connection.
type connection struct {
	*netguard.Conn
	above atomic.Pointer[meteredConn] // nil until the handshake is over
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
	looking *time.Timer // for calls that linger, or nil
	ending  []func()    // of calls that announce too large a message, which the reader is to call
}

// meter watches what is read from conn, whose bytes come by way of under.
func (c *Connections) meter(conn, under net.Conn) *meteredConn {
	below, _ := under.(*connection)
	metered := &meteredConn{Conn: conn, set: c, under: below,
		resets: resetMeter{allowance: float64(c.limits.ResetBurst), at: c.now()},
		open:   make(map[uint32]*Call)}
	if below != nil {
		metered.subject.Name, metered.remote = below.Network(), below.RemoteAddr().String()
	}
	switch {
	case below != nil && below.Local(): // the owner of the data
		metered.subject.Class = share.Owner
	case !c.limits.ProofWanted:
		metered.subject.Class = share.Known
	}
	c.bytes.enter(metered)
	if below != nil {
		below.above.Store(metered)
		if below.Gone() { // meanwhile
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
	if c.under != nil && c.frames.greeted() && !c.under.Greeted() {
		c.under.Greet()
		if !c.set.limits.ProofWanted {
			c.under.Prove()
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
