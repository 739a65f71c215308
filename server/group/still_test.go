package group

import (
	"fmt"
	"sync"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// TestLookingHoldsUpNobody: what comes while somebody looks whether the group is still is not left lying
// until the next request comes.
func TestLookingHoldsUpNobody(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, testNode)
	client := openSession(t, g, uint64(waitMax.Milliseconds()))
	over := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(over)
	looking.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				g.Still()
			}
		}
	})
	for i := range uint64(2000) {
		client.ask(i+1, take(fmt.Sprint("lock ", i)))
		if reply := client.next(t); reply.Kind != coordination.ReplyResult {
			t.Fatalf("lock %d: %+v", i, reply)
		}
	}
}

// TestLeftTurnIsFound by the group's own goroutine if somebody has found it taken.
func TestLeftTurnIsFound(t *testing.T) {
	g := newGroup(testConfig(t))
	g.hold(g.turn.Lock())
	g.queue.put(event{})
	g.kick()
	g.turn.Unlock()
	select {
	case <-g.queue.bell:
	default:
		t.Error("nobody sees to it")
	}
}
