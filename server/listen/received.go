package listen

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/server/share"
)

// received counts the bytes of messages that are kept for all connections: what was read and nobody has
// taken, whether the message is whole or not, and what is being worked on. Flow control bounds the first for
// a stream, but not for all of them, and gRPC makes room for a message as soon as its size is announced.
type received struct {
	total   *budget.Budget
	unknown *budget.Budget // of it, of connections whose caller is not known
	cut     atomic.Uint64  // connections that were closed because they kept the most

	enforcing   sync.Mutex // one at a time
	said        occasion   // enforcing guards it
	mutex       sync.Mutex // taken before that of a connection
	connections map[*meteredConn]struct{}
}

var errReceivesTooMuch = errors.New(
	"more is being received than there is room for, and most of it on this connection")

// Received is the number of bytes of messages that are kept.
func (c *Connections) Received() int64 { return int64(c.bytes.total.Used()) }

// CutForReceiving counts the connections closed because too much was received, most of it on them.
func (c *Connections) CutForReceiving() uint64 { return c.bytes.cut.Load() }

// init is called before the first connection.
func (r *received) init(limit int64) {
	r.total = budget.New("messages received", int(limit))
	r.unknown = budget.New("messages of unknown callers", int(share.OfUnknown(limit)))
	r.connections = make(map[*meteredConn]struct{})
}

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
	if c.closed || n == 0 {
		return
	}
	c.kept += n
	c.set.bytes.total.Adjust(int(n))
	if c.subject.Class == share.Unknown {
		c.set.bytes.unknown.Adjust(int(n))
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
	if end := call.announced(); end != nil {
		c.ending = append(c.ending, end)
	}
	return n
}

// latelyOpen is the number of a connection's calls that are found without its map. It is a power of two.
const latelyOpen = 16

// callOf returns the call on a stream, or nil if it is not counted. The mutex is held.
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

// belongs notes whose messages come on a connection.
func (c *meteredConn) belongs(subject share.Subject) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.subject.Class == share.Unknown && !c.closed {
		c.set.bytes.unknown.Release(int(c.kept))
	}
	if c.subject = subject; subject.Class == share.Unknown && !c.closed {
		c.set.bytes.unknown.Adjust(int(c.kept))
	}
}

// excess reports whether more is kept than there is room for, of all callers or of unknown ones.
func (r *received) excess() bool {
	return r.total.Used() > r.total.Limit() || r.unknown.Used() > r.unknown.Limit()
}

// enforce closes the connections that keep the most until the others are within the limit.
func (r *received) enforce(set *Connections) {
	if !r.excess() {
		return
	}
	r.enforcing.Lock()
	defer r.enforcing.Unlock()
	for r.excess() {
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

// heaviest returns the connection that keeps the most of the subject that keeps the most, or nil. Unknown callers evict
// only each other: it is one of theirs while they keep anything.
func (r *received) heaviest() (heaviest *meteredConn) {
	type load struct {
		sum, most int64
		conn      *meteredConn
	}
	loads := make(map[share.Subject]load)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for conn := range r.connections {
		subject, kept := conn.keeps()
		if kept == 0 {
			continue
		}
		l := loads[subject]
		if l.sum += kept; kept > l.most {
			l.most, l.conn = kept, conn
		}
		loads[subject] = l
	}
	sum, known := int64(0), true
	for subject, l := range loads {
		if class := subject.Class != share.Unknown; known && !class || known == class && l.sum > sum {
			heaviest, sum, known = l.conn, l.sum, class
		}
	}
	return heaviest
}

// keeps returns the number of bytes that the connection keeps, and their subject.
func (c *meteredConn) keeps() (share.Subject, int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.subject, c.kept
}
