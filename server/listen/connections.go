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

	mutex sync.Mutex
	open  map[string]int // by IP address
}

// NewConnections returns a set without any.
func NewConnections(limits Limits, logger *slog.Logger) *Connections {
	return &Connections{limits: limits, logger: logger, now: time.Now, open: make(map[string]int)}
}

// Refused is how many connections were closed when they were accepted.
func (c *Connections) Refused() uint64 { return c.refused.Load() }

// Cut is how many connections were closed because they reset too many streams.
func (c *Connections) Cut() uint64 { return c.cut.Load() }

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
		if l.set.enter(address) {
			return &connection{Conn: conn, set: l.set, address: address}, nil
		}
		l.set.refused.Add(1)
		_ = conn.Close() // it has nothing to lose
	}
}

func (c *Connections) enter(address string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open[address] >= c.limits.ConnectionsPerAddress {
		return false
	}
	c.open[address]++
	return true
}

func (c *Connections) leave(address string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open[address]--; c.open[address] == 0 {
		delete(c.open, address)
	}
}

// connection is one client's connection.
type connection struct {
	net.Conn
	set     *Connections
	address string
	closed  sync.Once
}

// Close closes the connection and counts it out.
func (c *connection) Close() error {
	c.closed.Do(func() { c.set.leave(c.address) })
	return c.Conn.Close()
}

// meteredConn is a connection as gRPC reads it, decrypted.
type meteredConn struct {
	net.Conn
	set    *Connections
	frames frameCounter
	resets resetMeter
}

func (c *Connections) meter(conn net.Conn) net.Conn {
	metered := &meteredConn{Conn: conn, set: c, resets: resetMeter{allowance: float64(c.limits.ResetBurst), at: c.now()}}
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
	if resets == 0 || c.resets.allow(resets, c.set.limits, c.set.now()) {
		return nil
	}
	c.set.cut.Add(1)
	c.set.logger.Warn("connection cut off", "remote", c.RemoteAddr().String(), "error", errTooManyResets)
	return errTooManyResets
}
