package listen

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/internal/netguard"
)

// This file is about calls that are over, and whose end their client does not read. gRPC has no bound for
// those: it keeps the answer, what else was sent and not read, and what the client goes on to send, until the
// client takes the end or resets the stream, or for ever. So such a call counts, with what it keeps, until
// its end has left; and where nothing of it leaves for too long, the connection is closed.

// sentFrames follows the frames that gRPC writes.
type sentFrames struct {
	header [frameHeaderBytes]byte
	have   int // bytes of header
	left   int // bytes of the payload that are still to come
	// resets counts the streams that gRPC has reset for an error. RST_STREAM with NO_ERROR follows an answer
	// that came before the client had sent all.
	resets int
	reset  bool // the payload is that of RST_STREAM
}

const flagEndStream = 0x1

// next looks at the beginning of b, up to the next header of a frame that is whole there; data and end say
// what that frame is.
func (f *sentFrames) next(b []byte) (bytes int, stream uint32, data, end bool) {
	bytes = min(f.left, len(b))
	f.left -= bytes
	if f.reset {
		for _, code := range b[:bytes] {
			if code != 0 {
				f.resets++
				f.reset = false
				break
			}
		}
	}
	n := copy(f.header[f.have:], b[bytes:])
	bytes += n
	if f.have += n; f.have < frameHeaderBytes {
		return bytes, 0, false, false
	}
	f.have = 0
	f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	kind, flags := f.header[3], f.header[4]
	data, f.reset = kind == frameData, kind == frameReset
	end = kind == frameReset || (data || kind == frameHeaders) && flags&flagEndStream != 0
	return bytes, binary.BigEndian.Uint32(f.header[5:]) & (1<<31 - 1), data, end
}

// Write implements net.Conn.
func (c *meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	var ended []*Call
	c.mutex.Lock()
	for rest := b[:n]; len(rest) > 0; {
		bytes, stream, data, end := c.sent.next(rest)
		rest = rest[bytes:]
		if !data && !end {
			continue
		}
		if call := c.open[stream]; call != nil && end {
			ended = call.endLeft(ended)
		} else if call != nil && call.lingers {
			call.moved = c.set.now()
		}
	}
	resets := c.sent.resets
	c.sent.resets = 0
	c.mutex.Unlock()
	for _, call := range ended {
		call.leave()
	}
	if err == nil {
		err = c.countResets(resets)
	}
	return n, err
}

// endLeft notes that the call's end has been written, or that the client wants none. It adds the call to
// those that may leave now. The connection's mutex is held.
func (c *Call) endLeft(leaving []*Call) []*Call {
	c.endGone = true
	if c.lingers {
		leaving = append(leaving, c)
	}
	return leaving
}

// reset notes that the client has reset a stream. It adds its call to those that may leave now, if it does.
// The mutex is held.
func (c *meteredConn) reset(stream uint32, leaving []*Call) []*Call {
	if call := c.open[stream]; call != nil {
		return call.endLeft(leaving)
	}
	return leaving
}

// linger has a call that is over wait for its end to be written, and reports whether that is necessary. The
// mutex of the call is held.
func (c *Call) linger() bool {
	switch {
	case c.conn == nil || c.endGone || c.conn.closed:
		return false
	case !c.lingers:
		c.lingers, c.ended = true, c.set.now()
		c.moved = c.ended
		c.keep(c.unread)
		if c.conn.looking == nil && c.set.limits.Linger > 0 {
			c.conn.looking = time.AfterFunc(c.set.limits.Linger, c.conn.look)
		}
	}
	return true
}

// longestLinger limits, in multiples of Limits.Linger, the whole time until the end of a call has left.
const longestLinger = 6

var errEndUnread = errors.New("the client does not read the end of a call")

// look closes the connection if nothing of a call that is over has left for too long.
func (c *meteredConn) look() {
	c.mutex.Lock()
	now, next, overdue := c.set.now(), time.Duration(0), 0
	for _, call := range c.open {
		if !call.lingers {
			continue
		}
		left := min(call.moved.Add(c.set.limits.Linger).Sub(now),
			call.ended.Add(longestLinger*c.set.limits.Linger).Sub(now))
		if left <= 0 {
			overdue++
		} else if next == 0 || left < next {
			next = left
		}
	}
	c.looking = nil
	if overdue == 0 && next > 0 && !c.closed {
		c.looking = time.AfterFunc(next, c.look)
	}
	c.mutex.Unlock()
	if overdue == 0 {
		return
	}
	c.set.unread.Add(1)
	if ok, hidden := c.set.told.Allow("unread "+netguard.Network(c.RemoteAddr()), now); ok {
		c.set.logger.Warn("connection cut off", "remote", c.RemoteAddr().String(), "error", errEndUnread,
			"calls", overdue, lograte.Suppressed, hidden)
	}
	_ = c.abort()
}

// Answered records how many response bytes the client may not have read when the handler returns.
func (c *Call) Answered(bytes int) {
	if c == nil {
		return
	}
	mutex := c.lock()
	mutex.Lock()
	defer mutex.Unlock()
	c.unread = int64(bytes)
}

// Gone has f called once nothing is left of the call: its handler has returned, and its end has been written,
// or will not be.
func (c *Call) Gone(f func()) {
	if c == nil {
		f()
		return
	}
	mutex := c.lock()
	mutex.Lock()
	left := c.left
	if !left {
		c.gone = f
	}
	mutex.Unlock()
	if left {
		f()
	}
}

// CutForUnread counts the connections that were closed because the end of a call was not read.
func (c *Connections) CutForUnread() uint64 { return c.unread.Load() }
