package network

import (
	"io"
	"net"
	"os"
	"time"
)

// Conn is one end of a connection. It implements net.Conn.
type Conn struct {
	network       *Network
	name          string
	from, to      string // hosts
	local, remote string // addresses
	peer          *Conn
	readable      chan struct{}
	writable      chan struct{}

	// The rest needs the network's lock.

	held    []segment // sent, and stopped by a cut
	way     []segment // sent, and to arrive
	arrives time.Time // when the last segment that was sent does
	flight  int       // bytes that were sent and not read
	in      []byte
	ended   bool  // the other end has sent its last byte
	err     error // set once the connection is broken
	closed  bool
	silent  bool // what this end sends is lost
	gone    bool // the other end's process has vanished
	read    deadline
	write   deadline
}

type segment struct {
	data []byte
	last bool
}

// window bounds the bytes under way; beyond it a Write waits.
const window = 1 << 20

func newConn(n *Network, name, from, to, local, remote string) *Conn {
	return &Conn{network: n, name: name, from: from, to: to, local: local, remote: remote,
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// ring wakes the one who waits, or the next one to wait.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (read int, err error) {
	for {
		waits := false
		c.network.do(func() {
			switch {
			case c.closed:
				err = net.ErrClosed
			case len(c.in) > 0:
				read = copy(p, c.in)
				c.in = c.in[read:]
				c.peer.flight -= read
				ring(c.peer.writable)
			case c.err != nil:
				err = c.err
			case c.ended:
				err = io.EOF
			case c.read.passed:
				err = os.ErrDeadlineExceeded
			default:
				waits = true
			}
		})
		if !waits {
			return read, err
		}
		<-c.readable
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (written int, err error) {
	for {
		waits := false
		c.network.do(func() {
			switch {
			case c.closed:
				err = net.ErrClosed
			case c.err != nil:
				err = c.err
			case c.write.passed:
				err = os.ErrDeadlineExceeded
			case c.flight < window:
				c.flight += len(p)
				written = len(p)
				c.send(segment{data: append([]byte(nil), p...)})
			default:
				waits = true
			}
		})
		if !waits {
			return written, err
		}
		<-c.writable
	}
}

// send puts a segment on the wire. The lock is held, here and below.
func (c *Conn) send(s segment) {
	n := c.network
	n.Segments++
	n.trace.Segment(c.name, c.from, s.data)
	switch {
	case c.gone:
		if n.up(c.to) { // it knows nothing of this connection
			c.failLater()
		}
	case c.silent:
	case len(c.held) > 0 || n.link(c.from, c.to).cuts > 0:
		c.held = append(c.held, s)
	default:
		c.schedule(s)
	}
}

// schedule makes a segment arrive after those before it.
func (c *Conn) schedule(s segment) {
	l, now := c.network.link(c.from, c.to), time.Now()
	at := now.Add(c.network.delay() + l.extra)
	if l.perSecond > 0 {
		if l.busy.Before(now) {
			l.busy = now
		}
		l.busy = l.busy.Add(time.Duration(len(s.data)) * time.Second / time.Duration(l.perSecond))
		at = at.Add(l.busy.Sub(now))
	}
	if !at.After(c.arrives) {
		at = c.arrives.Add(1)
	}
	c.arrives = at
	c.way = append(c.way, s)
	to := c.peer
	time.AfterFunc(time.Until(at), func() {
		c.network.do(func() {
			s := c.way[0] // in real time, timers may come in another order
			c.way = c.way[1:]
			if to.err == nil && !c.silent {
				to.in = append(to.in, s.data...)
				to.ended = to.ended || s.last
				ring(to.readable)
			}
		})
	})
}

// fail breaks this end.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err, c.in = err, nil
	}
	ring(c.readable)
	ring(c.writable)
}

// failLater resets this end after the time that a segment takes.
func (c *Conn) failLater() {
	time.AfterFunc(c.network.delay(), func() { c.network.do(func() { c.fail(errReset) }) })
}

// over reports whether this end will neither send nor receive any more.
func (c *Conn) over() bool {
	return c.err != nil || c.closed && len(c.held) == 0 || c.silent && c.peer.silent
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.network.do(func() {
		if c.closed {
			return
		}
		c.closed = true
		if c.err == nil {
			c.send(segment{last: true})
		}
		c.read.stop()
		c.write.stop()
		ring(c.readable)
		ring(c.writable)
		c.network.forget()
	})
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return tcpAddr(c.local) }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return tcpAddr(c.remote) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // never fails
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.set(&c.read, t, c.readable) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.set(&c.write, t, c.writable) }

// deadline is one by the clock of the process that set it.
type deadline struct {
	timer  *time.Timer
	passed bool
	sets   int // how often it was set: an older timer does not count
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (c *Conn) set(d *deadline, t time.Time, bell chan struct{}) error {
	wait := time.Until(t) // by the clock of the caller's process
	c.network.do(func() {
		d.stop()
		d.sets++
		d.passed = !t.IsZero() && wait <= 0
		if d.passed {
			ring(bell)
		}
	})
	if t.IsZero() || wait <= 0 {
		return nil
	}
	var sets int
	c.network.do(func() { sets = d.sets })
	timer := time.AfterFunc(wait, func() {
		c.network.do(func() {
			if d.sets == sets && !c.closed {
				d.passed = true
				ring(bell)
			}
		})
	})
	c.network.do(func() { d.timer = timer })
	return nil
}

var _ net.Conn = (*Conn)(nil)
