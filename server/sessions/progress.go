package sessions

import (
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
)

// sendRoom is how much of a stream gRPC takes without waiting for the client: a Send waits only if as much of
// what was sent before has not left yet (TestSendRoom shows that the linked gRPC has it).
const sendRoom = 64 << 10

// What a reply counts besides its texts and its description, at least as much as it has on the wire.
const (
	replyFrameBytes       = 64
	replyDescriptionBytes = 128
)

// progress is how far the client of a stream has come with reading. gRPC does not tell; but a stream is read
// in order, so who answers a ping has read what was sent before it. One goroutine sends at a time, and one
// hears.
type progress struct {
	sent  atomic.Int64  // bytes handed to gRPC, at most
	read  atomic.Int64  // how many of them the client has read for certain
	ping  atomic.Uint64 // the opaque of the last ping; 0 if it was answered
	until atomic.Int64  // what was sent up to that ping, with it
}

// unread is how much the client may not have read yet.
func (p *progress) unread() int64 { return p.sent.Load() - p.read.Load() }

// sizeOf is how large a reply is at most.
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
