package group

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/relaypb"
)

// deafRelay is a relay of a server that asks for a permit once and reads nothing.
type deafRelay struct {
	grpc.ServerStream
	ctx     context.Context // of the RPC
	first   chan *relaypb.ToLeader
	sending chan struct{} // closed when the leader sends
}

// Context implements grpc.ServerStream.
func (r *deafRelay) Context() context.Context { return r.ctx }

// Send implements relaypb.Relay_ExchangeServer.
func (r *deafRelay) Send(*relaypb.FromLeader) error {
	close(r.sending)
	<-r.ctx.Done()
	return io.EOF
}

// Recv implements relaypb.Relay_ExchangeServer.
func (r *deafRelay) Recv() (*relaypb.ToLeader, error) {
	select {
	case batch := <-r.first:
		return batch, nil
	case <-r.ctx.Done():
		return nil, io.EOF
	}
}

// TestDeafRelayEnds opens two relays of one server, which reads nothing. The first one ends because of the
// second, although the leader is just about to say something on it.
func TestDeafRelayEnds(t *testing.T) {
	g := openTest(t, nil)
	open := func(number uint64) (*deafRelay, <-chan error, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &deafRelay{ctx: ctx, first: make(chan *relaypb.ToLeader, 1), sending: make(chan struct{})}
		r.first <- &relaypb.ToLeader{Hello: &relaypb.Hello{Server: 7, Process: 1, Number: number}, Renew: 1}
		ended := make(chan error, 1)
		go func() {
			defer cancel()
			ended <- g.exchange(r)
		}()
		<-r.sending
		return r, ended, cancel
	}
	_, first, _ := open(1)
	_, second, cancel := open(2)
	if err := <-first; !errors.Is(err, errSuperseded) {
		t.Errorf("the first relay ended with %v", err)
	}
	cancel()
	<-second
}

// TestRelayForgetsEndedStreams has sessions come and go through a follower: what the leader has ended, its
// end of the relay has forgotten by the time at which the client is told.
func TestRelayForgetsEndedStreams(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	g := c.groups[follower]
	lives := openSession(t, g, 600_000)
	for range 5 {
		lives.attend()
		stopped := openSession(t, g, 10_000)
		stopped.say(coordination.ClientMessage{Kind: coordination.ClientStop})
		if r := stopped.next(t); r.Kind != coordination.ReplyStopped {
			t.Fatalf("got %+v", r)
		}
		refused := openStream(t, g)
		refused.start("/local/nothing", 10_000)
		if r := refused.next(t); r.Kind != coordination.ReplyFailure {
			t.Fatalf("got %+v", r)
		}
	}
	remembered := func() (streams int) {
		for _, other := range c.groups {
			other.relays.mutex.Lock()
			p := other.relays.open[g.store.Member()]
			other.relays.mutex.Unlock()
			if p != nil {
				p.mutex.Lock()
				streams += len(p.streams)
				p.mutex.Unlock()
			}
		}
		return streams
	}
	if n := remembered(); n > 1 {
		t.Errorf("the leader remembers %d streams of the follower, of which one lives", n)
	}
	// None is remembered for a moment if a busy machine has the relay opened anew, or the follower lead.
	eventually(t, "the stream that lives to be remembered", func() bool {
		lives.attend()
		return remembered() == 1 || g.Leads()
	})
}

// TestRelayedDescriptionIsTranslatedOutsideTheTurn: what the leader says to a stream of another server is
// left as it is by the turn, however many links it describes.
func TestRelayedDescriptionIsTranslatedOutsideTheTurn(t *testing.T) {
	p := &relayPeer{bell: turn.NewBell()}
	described := &coordination.SemaphoreDescription{Name: "lock",
		Waiters: coordination.LinksOf(make([]coordination.LinkDescription, 5000))}
	for range 2 {
		(&relayedStream{peer: p, number: 3}).deliver(nil,
			&coordination.Message{Kind: coordination.MessageDescribed, Description: described})
	}
	if len(p.said) != 2 || p.said[0].message.Description != described || p.out != nil {
		t.Errorf("the turn left %d messages as they were, and %d translated", len(p.said), len(p.out))
	}
	out := p.take().GetMessages()
	if len(out) != 2 || out[0].GetStream() != 3 || len(out[0].GetDescription().GetWaiters()) != 5000 {
		t.Errorf("%d messages are sent", len(out))
	}
	if more := p.take(); more != nil {
		t.Errorf("something is sent twice: %v", more)
	}
}

// TestLyingFollowerIsCutOff has another server send requests without end while the leader is held up: it
// keeps to no credit. Its relay ends when it has as much in the queue as two leaders may have, and what was
// taken counts no more.
func TestLyingFollowerIsCutOff(t *testing.T) {
	const each = 1 << 20
	g := openTest(t, nil)
	p := newRelayPeer(g, g.streams.localLink(), &relaypb.Hello{Server: 7})
	g.turn.Lock()
	if err := p.forward([]*relaypb.Forward{{Stream: 1,
		Kind: &relaypb.Forward_Attach{Attach: &relaypb.Attach{Path: "/local/node"}}}}); err != nil {
		t.Fatal(err)
	}
	update := func() error {
		return p.forward([]*relaypb.Forward{{Stream: 1,
			Kind: &relaypb.Forward_Request{Request: &relaypb.Request{Kind: uint32(coordination.RequestUpdate),
				Data: make([]byte, each)}}}})
	}
	taken := 0
	for ; update() == nil; taken++ {
		if taken > maxForwardedBytes/each {
			t.Fatal("the relay goes on")
		}
	}
	if g.queue.bytes > maxForwardedBytes || taken < maxForwardedBytes/each-1 ||
		!errors.Is(update(), errOverCredit) {
		t.Errorf("%d requests were taken, and %d bytes wait", taken, g.queue.bytes)
	}
	g.takeRequests()
	if err := update(); err != nil || p.queued.Load() != int64(g.queue.bytes) {
		t.Errorf("%v; %d bytes count of those that wait", err, p.queued.Load())
	}
	g.queue.takeRequests(nil) // nobody is to handle them
	g.turn.Unlock()
}
