package rings

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// TestAnySplit gives the same requests to worlds that put what is in flight into entries of the log in
// different ways: one command each, all in one, at random. Every client must read the same, message by
// message.
func TestAnySplit(t *testing.T) {
	for seed := range uint64(200) {
		split := rand.New(rand.NewPCG(seed, 2))
		var want [][]coordination.Reply
		for which, batch := range []func(int) int{
			func(int) int { return 1 },
			func(n int) int { return n },
			func(n int) int { return 1 + split.IntN(n) },
			func(n int) int { return 1 + split.IntN(n) },
		} {
			got, err := splitRun(seed, batch)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				for client := range want {
					t.Errorf("client %d\nread %+v\n and %+v", client, want[client], got[client])
				}
				t.Fatalf("seed %d: split %d gives other replies", seed, which)
			}
		}
	}
}

// splitRun returns what each of the clients has read.
func splitRun(seed uint64, batch func(int) int) ([][]coordination.Reply, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	w, err := New(Options{Check: true, Batch: batch})
	if err != nil {
		return nil, err
	}
	w.Call(func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: []string{"local", "n"},
			Config: coordination.NodeConfig{ReadConsistencyMode: 1 + int32(seed%2),
				AttachConsistencyMode: 1 + int32(seed/2%2)}}
	})
	clients := make([]*splitClient, 4)
	for i := range clients {
		clients[i] = &splitClient{stream: w.Open(uint64(1 + i%2))}
	}
	for range 40 {
		w.Hold()
		for range 1 + random.IntN(12) {
			clients[random.IntN(len(clients))].act(w, random)
		}
		w.Release()
		for _, c := range clients {
			c.listen()
		}
		if random.IntN(4) == 0 {
			w.Advance(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
	}
	var read [][]coordination.Reply
	for _, c := range clients {
		c.listen()
		read = append(read, c.read)
	}
	return read, w.Reload()
}

// splitClient is a client that opens another stream when one has ended.
type splitClient struct {
	stream  *Stream
	started bool
	session coordination.SessionID
	reqID   uint64
	read    []coordination.Reply
}

// act does something. What it does depends only on what the client has read before anything was in flight.
func (c *splitClient) act(w *World, random *rand.Rand) {
	what, shape := random.IntN(40), random.Uint64()
	switch {
	case c.stream.Ending() != coordination.EndingNone:
		c.stream, c.started = w.Open(shape%2), false
	case c.stream.Attaching():
	case !c.started:
		c.started = true
		start := &coordination.AttachRequest{Path: "/local/n", TimeoutMillis: 1000 + shape%5000}
		if shape%3 > 0 {
			start.Session = c.session
		}
		c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientStart, Start: start})
	case what == 0:
		c.stream.Close()
	case what == 1:
		c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientStop})
	default:
		c.reqID++
		c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: c.reqID,
			Request: splitRequest(what, shape)})
	}
}

func splitRequest(what int, shape uint64) *coordination.Request {
	r := &coordination.Request{Name: fmt.Sprint("s", shape%3), Data: make([]byte, shape>>8%3),
		Count: 1 + shape>>10%2, Limit: 1 + shape>>12%3,
		TimeoutMillis: []uint64{0, 500, 2000, coordination.Infinite}[shape>>14%4], Ephemeral: shape%3 == 2,
		Force: shape>>16%2 == 0, WatchData: shape>>17%2 == 0, WatchOwners: shape>>18%2 == 0,
		IncludeOwners: shape>>19%2 == 0, IncludeWaiters: shape>>20%2 == 0}
	switch {
	case what < 5:
		r.Kind = coordination.RequestCreate
	case what < 8:
		r.Kind = coordination.RequestUpdate
	case what < 10:
		r.Kind = coordination.RequestDelete
	case what < 16:
		r.Kind = coordination.RequestRelease
	case what < 24:
		r.Kind = coordination.RequestDescribe
	default:
		r.Kind = coordination.RequestAcquire
	}
	return r
}

func (c *splitClient) listen() {
	for _, r := range c.stream.Replies() {
		switch r.Kind {
		case coordination.ReplyStarted:
			c.session = r.Session
		case coordination.ReplyPing:
			c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: r.Opaque})
			continue // whose number is drawn where the stream is
		}
		c.read = append(c.read, r)
	}
}
