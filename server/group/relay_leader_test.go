package group

import (
	"context"
	"io"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
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

// Send implements grpc.BidiStreamingServer.
func (r *deafRelay) Send(*relaypb.FromLeader) error {
	close(r.sending)
	<-r.ctx.Done()
	return io.EOF
}

// Recv implements grpc.BidiStreamingServer.
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
		r.first <- &relaypb.ToLeader{Hello: &relaypb.Hello{Process: 1, Number: number}, Renew: 1}
		ended := make(chan error, 1)
		go func() {
			defer cancel()
			ended <- g.relays.Exchange(7, r)
		}()
		<-r.sending
		return r, ended, cancel
	}
	_, first, _ := open(1)
	_, second, cancel := open(2)
	if err := <-first; status.Code(err) != codes.Aborted {
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
			for _, p := range openPeers(other) {
				if reflect.ValueOf(p).Elem().FieldByName("from").Uint() == g.store.Member() {
					mutexOf(p).Lock()
					streams += reflect.ValueOf(p).Elem().FieldByName("streams").Len()
					mutexOf(p).Unlock()
				}
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
