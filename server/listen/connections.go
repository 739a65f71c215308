package listen

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bounds what clients may do with their connections. Every field is inclusive and at least 1.
type Limits struct {
	// ConnectionsPerAddress is how many connections one IP address may have open at once.
	ConnectionsPerAddress int
	// ResetBurst is how many streams a connection may reset at once; ResetsPerSecond how many more each second.
	ResetBurst, ResetsPerSecond int
}

// Connections are the open ones of all listeners. They refuse an address that has too many, and watch each connection
// for resets.
type Connections struct {
	limits Limits
	logger *slog.Logger
	now    func() time.Time

	refused atomic.Uint64 // connections
	cut     atomic.Uint64 // connections that reset too many streams

	mutex   sync.Mutex
	open    map[string]int // by IP address
	all     map[*connection]struct{}
	closing bool // nobody else is let in
}

// NewConnections returns a set without any.
func NewConnections(limits Limits, logger *slog.Logger) *Connections {
	return &Connections{limits: limits, logger: logger, now: time.Now, open: make(map[string]int), all: make(map[*connection]struct{})}
}

// Refused is how many connections were closed when they were accepted.
func (c *Connections) Refused() uint64 { return c.refused.Load() }

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

func (c *Connections) enter(conn *connection) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closing || c.open[conn.address] >= c.limits.ConnectionsPerAddress {
		return false
	}
	c.open[conn.address]++
	c.all[conn] = struct{}{}
	return true
}

func (c *Connections) leave(conn *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open[conn.address]--; c.open[conn.address] == 0 {
		delete(c.open, conn.address)
	}
	delete(c.all, conn)
}

// CloseStrangers lets nobody else in and closes the connections on which the client has not said yet that it speaks
// HTTP/2: gRPC would wait for them before it ends the others.
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
	set    *Connections
	under  *connection // below the encryption; nil in tests
	frames frameCounter
	resets resetMeter
}

// meter watches what is read from conn, whose bytes come by way of under.
func (c *Connections) meter(conn, under net.Conn) net.Conn {
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
