package server

import (
	"fmt"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// TestFollowerWaitsForASlowLeader holds the leader up while clients of a follower send more than may be under way: they are
// not read any further, and all credit is back in the end.
func TestFollowerWaitsForASlowLeader(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	const streams, each = 12, 2 // half as much again as may be under way
	clients := make([]sessionClient, streams)
	for i := range clients {
		clients[i] = openTest(t, t.Context(), c.conns[follower], start(1_800_000))
		next(t, clients[i])
		send(t, clients[i], &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: fmt.Sprint(i), Limit: 1}}})
		next(t, clients[i])
	}
	held, release := make(chan struct{}), make(chan struct{})
	holdUp(c.servers[leader], held, release)
	<-held
	data := make([]byte, 1<<20)
	for i, client := range clients {
		go func() {
			for j := range uint64(each) {
				_ = client.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
					UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: 2 + j, Name: fmt.Sprint(i), Data: data}}})
			}
		}()
	}
	g := c.servers[follower].group
	c.eventually("the follower to read its clients no further", func() bool {
		_, waiting := g.RequestBytes()
		return waiting >= streams/3
	})
	if spent, _ := g.RequestBytes(); spent > 16<<20 {
		t.Errorf("%d bytes of requests are under way", spent)
	}
	close(release)
	for _, client := range clients {
		go func() { // until all is answered, or the leader was held up for so long that another one leads, who may not know
			for range each {
				if _, err := client.Recv(); err != nil {
					return
				}
			}
		}()
	}
	c.eventually("all credit to be back", func() bool {
		spent, waiting := g.RequestBytes()
		return spent == 0 && waiting == 0
	})
}
