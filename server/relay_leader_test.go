package server

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/server/relaypb"
)

// deafRelay is a relay of a server that asks for leave once and reads nothing.
type deafRelay struct {
	grpc.ServerStream
	ctx     context.Context // of the RPC
	first   chan *relaypb.ToLeader
	sending chan struct{} // closed when the leader sends
}

// Context implements grpc.ServerStream.
func (r *deafRelay) Context() context.Context { return r.ctx }

// Send implements exchangeServer.
func (r *deafRelay) Send(*relaypb.FromLeader) error {
	close(r.sending)
	<-r.ctx.Done()
	return io.EOF
}

// Recv implements exchangeServer.
func (r *deafRelay) Recv() (*relaypb.ToLeader, error) {
	select {
	case batch := <-r.first:
		return batch, nil
	case <-r.ctx.Done():
		return nil, io.EOF
	}
}

// TestDeafRelayEnds opens two relays of one server, which reads nothing. The first one ends because of the second, although
// the leader is just about to say something on it.
func TestDeafRelayEnds(t *testing.T) {
	s, _ := startTest(t, nil)
	open := func(number uint64) (*deafRelay, <-chan error, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &deafRelay{ctx: ctx, first: make(chan *relaypb.ToLeader, 1), sending: make(chan struct{})}
		r.first <- &relaypb.ToLeader{Hello: &relaypb.Hello{Server: 7, Process: 1, Number: number}, Renew: 1}
		ended := make(chan error, 1)
		go func() {
			defer cancel()
			ended <- s.exchange(r)
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

// TestRelayForgetsEndedStreams has sessions come and go through a follower: what the leader has ended, its end of the relay
// has forgotten by the time at which the client is told.
func TestRelayForgetsEndedStreams(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	stays := openTest(t, t.Context(), c.conns[follower], start(10_000))
	next(t, stays)
	for range 5 {
		stopped := openTest(t, t.Context(), c.conns[follower], start(10_000))
		next(t, stopped)
		send(t, stopped, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
			SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
		if m := next(t, stopped); m.GetSessionStopped() == nil {
			t.Fatalf("got %v", m)
		}
		refused := openTest(t, t.Context(), c.conns[follower], &Ydb_Coordination.SessionRequest_SessionStart{Path: "/local/nothing"})
		if m := next(t, refused); m.GetFailure() == nil {
			t.Fatalf("got %v", m)
		}
	}
	s := c.servers[leader]
	s.relays.mutex.Lock()
	p := s.relays.open[c.servers[follower].store.Member()]
	s.relays.mutex.Unlock()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.streams) > 1 { // none while the relay is opened anew, which a busy machine may see
		t.Errorf("the leader remembers %d streams of the follower, of which one lives", len(p.streams))
	}
}
