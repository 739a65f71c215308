package server

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/internal/testmode"
)

// TestFollowerWaitsForASlowLeader holds the leader up while clients of a follower send more than may be under
// way: they are not read any further, and all credit is back in the end.
func TestFollowerWaitsForASlowLeader(t *testing.T) {
	testmode.WithoutRace(t)
	c := startCluster(t, 3)
	leader, _ := c.leader()
	c.createNode(leader, testNode)
	for try := 0; !c.fillFollower(try); try++ {
		t.Log("another server led before the follower was full")
	}
}

// fillFollower is one try of that. It reports whether the leader that was held up led until the follower was
// full: on a busy machine that may take longer than the others put up with a leader that does nothing.
func (c *testCluster) fillFollower(try int) (full bool) {
	t := c.t
	leader, follower := c.leader()
	led := c.servers[leader].store.Member() // the later leaders are held up by nobody
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const streams, each = 12, 2 // half as much again as may be under way
	clients := make([]sessionClient, streams)
	for i := range clients {
		clients[i] = openTest(t, ctx, c.conns[follower], start(1_800_000))
		next(t, clients[i])
		send(t, clients[i],
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
				CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1,
					Name: fmt.Sprint(try, "-", i), Limit: 1}}})
		next(t, clients[i])
	}
	g := c.servers[follower].group
	held, release := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn()
	holdUp(c.servers[leader], held, release)
	<-held
	data := make([]byte, 1<<20)
	for i, client := range clients {
		go func() {
			for j := range uint64(each) {
				_ = client.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
					UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: 2 + j,
						Name: fmt.Sprint(try, "-", i), Data: data}}})
			}
		}()
	}
	c.eventually("the follower to read its clients no further", func() bool {
		_, waiting := g.RequestBytes()
		full = waiting >= streams/3
		return full || g.OtherLeader() != led
	})
	if spent, _ := g.RequestBytes(); full && spent > 16<<20 {
		t.Errorf("%d bytes of requests are under way", spent)
	}
	goOn()
	for _, client := range clients {
		// until all is answered, or the leader was held up for so long that another one leads, who may not
		// know
		go func() {
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
	return full
}
