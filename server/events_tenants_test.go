package server

import (
	"testing"

	"github.com/coordd/coordd/server/adminpb"
)

// TestLeaderAfterRestart: what a server notes of leaders after it was started anew is behind what was there before.
func TestLeaderAfterRestart(t *testing.T) {
	c := startClusterWith(t, 1, inRealTime)
	c.createNode(0, testNode)
	c.createNode(0, "/local/other")
	c.stop(0)
	if err := c.start(0); err != nil {
		t.Fatal(err)
	}
	var found []*adminpb.Event
	c.eventually("the second leader", func() bool {
		found = askEvents(t, t.Context(), c.conns[0], &adminpb.EventsRequest{}).GetEvents()
		leaders := 0
		for _, e := range found {
			if e.GetKind() == adminpb.Event_LEADER {
				leaders++
			}
		}
		return leaders == 2
	})
	if e := found[0]; e.GetKind() != adminpb.Event_LEADER {
		t.Errorf("the newest event is %v; want the leader of after the start", e)
	}
	for _, e := range found {
		if e.GetKind() == adminpb.Event_LEADER && e.GetIndex() == 0 {
			t.Errorf("without an index: %v", e)
		}
	}
}

// TestEventsWithoutQuorum: two of three servers are down. That is the night in which somebody asks; the third one
// has the events on its disk, and its data directory is locked because it runs.
func TestEventsWithoutQuorum(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	c.eventually("the event", func() bool {
		return len(askEvents(t, t.Context(), c.conns[follower], &adminpb.EventsRequest{Path: testNode}).GetEvents()) > 0
	})
	for i := range c.servers {
		if i != follower {
			c.stop(i)
		}
	}
	answer, err := adminpb.NewInspectClient(c.conns[follower]).Events(t.Context(),
		&adminpb.EventsRequest{Path: testNode})
	if err != nil || len(answer.GetEvents()) == 0 {
		t.Errorf("without a majority: %v, %v", answer, err)
	}
}
