package server

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connections are the open ones of all listeners. They refuse an address that has too many, and watch each connection
// for resets.
type connections struct {
	limits *Hardening
	logger *slog.Logger
	now    func() time.Time

	refused atomic.Uint64 // connections
	cut     atomic.Uint64 // connections that reset too many streams

	mutex   sync.Mutex
	open    map[string]int // by IP address
	all     map[*connection]struct{}
	closing bool // nobody else is let in
}

func newConnections(limits *Hardening, logger *slog.Logger) *connections {
	return &connections{limits: limits, logger: logger, now: time.Now, open: make(map[string]int), all: make(map[*connection]struct{})}
}

// boundedListener is a listener whose connections count.
type boundedListener struct {
	net.Listener
	set *connections
}

// Accept waits for the next connection that is let in; the others are closed without a word.
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		entered := &connection{Conn: conn, set: l.set, address: address}
		if l.set.enter(entered) {
			return entered, nil
		}
		l.set.refused.Add(1)
		_ = conn.Close() // it has nothing to lose
	}
}

func (c *connections) enter(conn *connection) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closing || c.open[conn.address] >= c.limits.ConnectionsPerAddress {
		return false
	}
	c.open[conn.address]++
	c.all[conn] = struct{}{}
	return true
}

func (c *connections) leave(conn *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open[conn.address]--; c.open[conn.address] == 0 {
		delete(c.open, conn.address)
	}
	delete(c.all, conn)
}

// closeStrangers lets nobody else in and closes the connections on which the client has not said yet that it speaks
// HTTP/2: gRPC would wait for them before it ends the others.
func (c *connections) closeStrangers() {
	c.closeThose(func(conn *connection) bool { return !conn.greeted.Load() })
}

// closeAll lets nobody else in and closes every connection.
func (c *connections) closeAll() { c.closeThose(func(*connection) bool { return true }) }

func (c *connections) closeThose(which func(*connection) bool) {
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
	set     *connections
	address string
	greeted atomic.Bool // the client has sent an HTTP/2 preface and a first frame
	closed  sync.Once
}

// Close closes the connection and counts it out.
func (c *connection) Close() error {
	c.closed.Do(func() { c.set.leave(c) })
	return c.Conn.Close()
}

// meteredConn is a connection as gRPC reads it, decrypted.
type meteredConn struct {
	net.Conn
	set    *connections
	under  *connection // below the encryption; nil in tests
	frames frameCounter
	resets resetMeter
}

// meter watches what is read from conn, whose bytes come by way of under.
func (c *connections) meter(conn, under net.Conn) net.Conn {
	below, _ := under.(*connection)
	metered := &meteredConn{Conn: conn, set: c, under: below, resets: resetMeter{allowance: float64(c.limits.ResetBurst), at: c.now()}}
	return metered.plain()
}

var errTooManyResets = errors.New("the client resets too many streams")

// Read reads what the client sends, until it resets too many streams.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if watchErr := c.watch(b[:n]); watchErr != nil {
		return 0, watchErr
	}
	return n, err
}

// watch counts the resets in what was read. It fails once there are too many of them.
func (c *meteredConn) watch(b []byte) error {
	resets := c.frames.count(b)
	if c.under != nil && c.frames.greeted() && !c.under.greeted.Load() {
		c.under.greeted.Store(true)
	}
	if resets == 0 || c.resets.allow(resets, c.set.limits, c.set.now()) {
		return nil
	}
	c.set.cut.Add(1)
	c.set.logger.Warn("connection cut off", "remote", c.RemoteAddr().String(), "error", errTooManyResets)
	return errTooManyResets
}

// resetMeter allows a burst of resets, and more as time goes by. A client that resets streams as fast as it opens them
// makes the server work for nothing, and stays below the limit of open streams.
type resetMeter struct {
	allowance float64
	at        time.Time
}

func (m *resetMeter) allow(resets int, limits *Hardening, now time.Time) bool {
	earned := now.Sub(m.at).Seconds() * float64(limits.ResetsPerSecond)
	m.allowance = min(m.allowance+earned, float64(limits.ResetBurst)) - float64(resets)
	m.at = now
	return m.allowance >= 0
}

// frameCounter follows the frames in a stream of bytes from an HTTP/2 client (RFC 9113, 3.4 and 4.1). It checks nothing:
// what is no HTTP/2 ends at gRPC.
type frameCounter struct {
	preface int // bytes of it that have gone by
	header  [frameHeaderBytes]byte
	have    int // bytes of header
	skip    int // bytes of the payload that are still to come
	begun   bool
}

// greeted tells whether the preface and a whole frame have gone by, which is what gRPC waits for.
func (f *frameCounter) greeted() bool { return f.begun && f.skip == 0 }

const (
	prefaceBytes     = 24
	frameHeaderBytes = 9
	frameTypeReset   = 3
)

// count takes the next bytes and returns how many RST_STREAM frames begin in them.
func (f *frameCounter) count(b []byte) (resets int) {
	skipped := min(prefaceBytes-f.preface, len(b))
	f.preface += skipped
	b = b[skipped:]
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.header[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < frameHeaderBytes {
			return resets
		}
		f.have, f.begun = 0, true
		f.skip = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		if f.header[3] == frameTypeReset {
			resets++
		}
	}
	return resets
}
