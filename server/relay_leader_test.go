package server

import (
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

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
	if len(p.streams) != 1 {
		t.Errorf("the leader remembers %d streams of the follower, one of which lives", len(p.streams))
	}
}
