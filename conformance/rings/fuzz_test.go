package rings

import (
	"bytes"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// FuzzStream turns bytes into what two clients and a server do: messages on two streams, time, requests in
// flight, restarts and leader changes. Nothing may panic, the machine's invariants must hold after every
// command, every answer must be to a request that was sent, and the machine must come back from its rows.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x01", // both streams start
		"\x00\x01\x08\x09\x0a\x0b\x10\x11\x12\x13", // and ask
		"\x00\x20\x28\x30\x38\x40\x48\x50\x58\x60\x68\x70\x78\x80\x88\x90\x98",
		"\x00\x01\xa0\x10\x11\xb8\x10\x11\xa8\xc0\xc8\x06\x07",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		const longest = 512 // what is longer finds nothing that this length does not
		r := newFuzzRun(t, script[:min(len(script), longest)])
		for r.script.Len() > 0 {
			r.step()
			r.listen()
		}
		r.world.Release()
		r.listen()
		if err := r.world.Reload(); err != nil {
			t.Error(err)
		}
	})
}

// fuzzClient is one of the two streams and what it has sent.
type fuzzClient struct {
	stream  *Stream
	session coordination.SessionID
	asked   map[uint64]int // requests, by their number
	reqID   uint64
	ping    uint64
}

type fuzzRun struct {
	t       *testing.T
	script  *bytes.Reader
	world   *World
	clients [2]*fuzzClient
}

func newFuzzRun(t *testing.T, script []byte) *fuzzRun {
	r := &fuzzRun{t: t, script: bytes.NewReader(script)}
	var err error
	r.world, err = New(Options{Check: true, Limits: coordination.Limits{Sessions: 3, Semaphores: 3},
		Batch: func(n int) int { return 1 + int(r.next())%n }})
	if err != nil {
		t.Fatal(err)
	}
	r.createNode()
	for i := range r.clients {
		r.clients[i] = r.open(uint64(i))
	}
	return r
}

func (r *fuzzRun) createNode() {
	r.world.Call(func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: []string{"local", "n"},
			Config: coordination.NodeConfig{ReadConsistencyMode: 1 + int32(r.next()%2),
				AttachConsistencyMode: 1 + int32(r.next()%2)}}
	})
}

func (r *fuzzRun) open(server uint64) *fuzzClient {
	return &fuzzClient{stream: r.world.Open(server), asked: make(map[uint64]int)}
}

// next is the script's next byte, 0 behind its end.
func (r *fuzzRun) next() byte {
	b, _ := r.script.ReadByte()
	return b
}

// step reads one action: the lowest bit says whose, the others what.
func (r *fuzzRun) step() {
	b := r.next()
	which := b & 1
	c := r.clients[which]
	switch action := b >> 1; {
	case action >= 96: // of the server
		r.server(action)
	case c.stream.Ending() != coordination.EndingNone:
		session := c.session
		r.clients[which] = r.open(uint64(action % 2))
		r.clients[which].session = session
	case action >= 88:
		c.stream.Close()
	case !c.stream.Attaching():
		c.stream.Send(r.message(c, action%16))
	}
}

func (r *fuzzRun) server(action byte) {
	switch action % 8 {
	case 0:
		r.world.Hold()
	case 1, 2:
		r.world.Release()
	case 3:
		if r.next()%2 == 0 {
			r.world.HandOver()
		} else {
			r.world.Restart()
		}
	case 4:
		r.world.FailOver(int(r.next() % 4))
	case 5:
		r.world.Call(func(call coordination.CallID) coordination.Command {
			return &coordination.DropNode{CallID: call, Path: []string{"local", "n"}}
		})
	case 6:
		r.createNode()
	default:
		r.world.Advance(time.Duration(r.next()) * 40 * time.Millisecond)
	}
}

// message returns the client's next message: mostly a sensible one.
func (r *fuzzRun) message(c *fuzzClient, kind byte) coordination.ClientMessage {
	switch kind {
	case 0, 1, 2:
		start := &coordination.AttachRequest{Path: "/local/n", TimeoutMillis: uint64(r.next()) * 100,
			SeqNo: uint64(r.next() % 3)}
		if kind != 0 {
			start.Session = c.session
		}
		if kind == 2 {
			start.Session, start.ProtectionKey = r.clients[r.next()%2].session,
				string(make([]byte, r.next()%20))
		}
		return coordination.ClientMessage{Kind: coordination.ClientStart, Start: start}
	case 3:
		return coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: c.ping}
	case 4:
		return coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: uint64(r.next())}
	case 5:
		return coordination.ClientMessage{Kind: coordination.ClientStop}
	case 6:
		return coordination.ClientMessage{Kind: []coordination.ClientKind{coordination.ClientEmpty,
			coordination.ClientUnsupported}[r.next()%2]}
	}
	c.reqID++
	c.asked[c.reqID]++
	return coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: c.reqID,
		Request: r.request(kind)}
}

func (r *fuzzRun) request(kind byte) *coordination.Request {
	shape := r.next()
	q := &coordination.Request{Name: []string{"a", "b", "c", "d"}[shape%4], Count: uint64(shape >> 2 % 4),
		Limit: uint64(shape >> 2 % 4), Data: make([]byte, shape>>4%2), Force: shape&16 != 0,
		Ephemeral: shape&32 != 0, WatchData: shape&64 != 0, WatchOwners: shape&128 != 0,
		IncludeOwners: shape&4 != 0, IncludeWaiters: shape&8 != 0}
	switch kind {
	case 7:
		q.Kind = coordination.RequestCreate
	case 8:
		q.Kind = coordination.RequestUpdate
	case 9:
		q.Kind = coordination.RequestDelete
	case 10, 11:
		q.Kind = coordination.RequestRelease
	case 12:
		q.Kind = coordination.RequestDescribe
	default:
		q.Kind = coordination.RequestAcquire
		q.TimeoutMillis = []uint64{0, 500, 5000, coordination.Infinite}[r.next()%4]
	}
	return q
}

// listen reads what has come. Every answer must be to a request, and no request may have two results.
func (r *fuzzRun) listen() {
	for _, c := range r.clients {
		for _, reply := range c.stream.Replies() {
			switch reply.Kind {
			case coordination.ReplyStarted:
				c.session = reply.Session
			case coordination.ReplyPing:
				c.ping = reply.Opaque
			case coordination.ReplyPending, coordination.ReplyChanged:
				if _, sent := c.asked[reply.ReqID]; !sent {
					r.t.Errorf("reply %d to request %d, which was not sent", reply.Kind, reply.ReqID)
				}
			case coordination.ReplyResult:
				if c.asked[reply.ReqID]--; c.asked[reply.ReqID] < 0 {
					r.t.Errorf("more results of request %d than were asked for", reply.ReqID)
				}
			}
		}
	}
}
