package listen

import (
	"errors"
	"sync"
	"sync/atomic"
)

// received counts the bytes of messages that are kept for all connections: what was read and nobody has
// taken, whether the message is whole or not, and what is being worked on. Flow control bounds the first for
// a stream, but not for all of them, and gRPC makes room for a message as soon as its size is announced.
type received struct {
	total atomic.Int64
	cut   atomic.Uint64 // connections that were closed because they kept the most

	enforcing   sync.Mutex // one at a time
	said        occasion   // enforcing guards it
	mutex       sync.Mutex // taken before that of a connection
	connections map[*meteredConn]struct{}
}

var errReceivesTooMuch = errors.New(
	"more is being received than there is room for, and most of it on this connection")

// Received is how many bytes of messages are kept.
func (c *Connections) Received() int64 { return c.bytes.total.Load() }

// CutForReceiving is how many connections were closed because too much was received and most of it on them.
func (c *Connections) CutForReceiving() uint64 { return c.bytes.cut.Load() }

func (r *received) enter(conn *meteredConn) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.connections[conn] = struct{}{}
}

func (r *received) leave(conn *meteredConn) {
	r.mutex.Lock()
	delete(r.connections, conn)
	r.mutex.Unlock()
	conn.close()
}

// close gives back what the connection keeps, and counts nothing for it any more. It returns what it kept,
// and whether it was open.
func (c *meteredConn) close() (kept int64, was bool) {
	c.mutex.Lock()
	kept, was = c.kept, !c.closed
	c.keep(-kept)
	c.closed = true
	var leaving []*Call
	for _, call := range c.open {
		if call.lingers {
			leaving = append(leaving, call)
		}
	}
	if c.looking != nil {
		c.looking.Stop()
	}
	c.mutex.Unlock()
	for _, call := range leaving {
		call.leave()
	}
	return kept, was
}

// keep counts bytes. The mutex is held.
func (c *meteredConn) keep(n int64) {
	if !c.closed && n != 0 {
		c.kept += n
		c.set.bytes.total.Add(n)
	}
}

// receive notes bytes of messages that have been read, and returns how much is to be kept more. The mutex is
// held.
func (c *meteredConn) receive(stream uint32, b []byte) int64 {
	call := c.callOf(stream)
	if call == nil {
		return 0
	}
	n := int64(len(b) + call.messages.pass(b))
	call.kept += n
	return n
}

// latelyOpen is how many calls of a connection are found without its map. It is a power of two.
const latelyOpen = 16

// callOf is the call on a stream, nil if there is none that counts. The mutex is held.
func (c *meteredConn) callOf(stream uint32) *Call {
	at := &c.lately[stream/2%latelyOpen] // clients have the odd ones
	if call := *at; call != nil && call.stream == stream {
		return call
	}
	call := c.open[stream]
	if call != nil {
		*at = call
	}
	return call
}

// forget has a call's bytes not counted any more. The mutex is held.
func (c *meteredConn) forget(call *Call) {
	delete(c.open, call.stream)
	if at := &c.lately[call.stream/2%latelyOpen]; *at == call {
		*at = nil
	}
}

// enforce closes the connections that keep the most until the others are within the limit.
func (r *received) enforce(set *Connections) {
	if r.total.Load() <= set.limits.ReceivedBytes {
		return
	}
	r.enforcing.Lock()
	defer r.enforcing.Unlock()
	for r.total.Load() > set.limits.ReceivedBytes {
		conn := r.heaviest()
		if conn == nil {
			return
		}
		kept, was := conn.close()
		if !was {
			continue // by somebody else, meanwhile
		}
		r.cut.Add(1)
		if r.said.due(set.now()) {
			set.logger.Warn("connection cut off", "remote", conn.RemoteAddr().String(), "error",
				errReceivesTooMuch, "bytes", kept, "limit", set.limits.ReceivedBytes, "cut off so far",
				r.cut.Load())
		}
		_ = conn.abort()
	}
}

// abort closes the connection below the encryption: to say goodbye, TLS would wait for a writer.
func (c *meteredConn) abort() error {
	if c.under != nil {
		return c.under.Close()
	}
	return c.Conn.Close()
}

// heaviest is the connection that keeps the most, nil if none keeps anything. What strangers send takes
// nobody else's place: it is one of theirs while they keep anything.
func (r *received) heaviest() *meteredConn {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var stranger, known *meteredConn
	var strange, weight int64
	for conn := range r.connections {
		kept := conn.keeps()
		switch {
		case conn.under != nil && !conn.under.proven.Load():
			if kept > strange {
				stranger, strange = conn, kept
			}
		case kept > weight:
			known, weight = conn, kept
		}
	}
	if stranger != nil {
		return stranger
	}
	return known
}

// keeps is how many bytes the connection keeps.
func (c *meteredConn) keeps() int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.kept
}
