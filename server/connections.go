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

	mutex sync.Mutex
	open  map[string]int // by IP address
}

func newConnections(limits *Hardening, logger *slog.Logger) *connections {
	return &connections{limits: limits, logger: logger, now: time.Now, open: make(map[string]int)}
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
		if l.set.enter(address) {
			return &connection{Conn: conn, set: l.set, address: address}, nil
		}
		l.set.refused.Add(1)
		_ = conn.Close() // it has nothing to lose
	}
}

func (c *connections) enter(address string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open[address] >= c.limits.ConnectionsPerAddress {
		return false
	}
	c.open[address]++
	return true
}

func (c *connections) leave(address string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open[address]--; c.open[address] == 0 {
		delete(c.open, address)
	}
}

// connection is one client's connection.
type connection struct {
	net.Conn
	set     *connections
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
	set    *connections
	frames frameCounter
	resets resetMeter
}

func (c *connections) meter(conn net.Conn) net.Conn {
	return &meteredConn{Conn: conn, set: c, resets: resetMeter{allowance: float64(c.limits.ResetBurst), at: c.now()}}
}

var errTooManyResets = errors.New("the client resets too many streams")

// Read counts the resets in what it reads, and fails for good once there are too many of them.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if resets := c.frames.count(b[:n]); resets > 0 && !c.resets.allow(resets, c.set.limits, c.set.now()) {
		c.set.cut.Add(1)
		c.set.logger.Warn("connection cut off", "remote", c.RemoteAddr().String(), "error", errTooManyResets)
		return 0, errTooManyResets
	}
	return n, err
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
}

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
		f.have = 0
		f.skip = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		if f.header[3] == frameTypeReset {
			resets++
		}
	}
	return resets
}
