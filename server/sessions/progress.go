package sessions

import (
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
)

// sendRoom is the number of bytes that gRPC takes of a stream without waiting for the client: a Send waits only while
// as much has not left yet (TestSendRoom checks it for the linked gRPC).
const sendRoom = 64 << 10

// What a reply counts besides its texts and its description, at least as much as it has on the wire.
const (
	replyFrameBytes       = 64
	replyDescriptionBytes = 128
)

// progress tracks how far the client of a stream has read. gRPC does not report it; but a stream is read in order, so a
// client that answers a ping has read everything before it. One goroutine sends at a time, and one hears.
type progress struct {
	sent  atomic.Int64  // bytes handed to gRPC, at most
	read  atomic.Int64  // how many of them the client has read for certain
	ping  atomic.Uint64 // the opaque of the last ping; 0 if it was answered
	until atomic.Int64  // what was sent up to that ping, with it
}

// unread is the number of bytes that the client may not have read yet.
func (p *progress) unread() int64 { return p.sent.Load() - p.read.Load() }

// sizeOf bounds the size of a reply.
func sizeOf(r *coordination.Reply) int64 {
	n := int64(replyFrameBytes)
	if r.Refusal != nil {
		n += int64(len(r.Refusal.Text))
	}
	if d := r.Description; d != nil {
		n += int64(replyDescriptionBytes + len(d.Name) + d.Bytes())
	}
	return n
}

// sending counts a reply of that size, which is sent next.
func (p *progress) sending(r *coordination.Reply, size int64) {
	sent := p.sent.Add(size)
	if r.Kind == coordination.ReplyPing {
		p.until.Store(sent)
		p.ping.Store(r.Opaque)
	}
}

// heard takes note of a message of the client, before the Front does: there is no other ping before that has
// the answer.
func (p *progress) heard(m *coordination.ClientMessage) {
	if (m.Kind == coordination.ClientPong || m.Kind == coordination.ClientPing) && m.Opaque != 0 &&
		p.ping.CompareAndSwap(m.Opaque, 0) {
		p.read.Store(p.until.Load())
	}
}
