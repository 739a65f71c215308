package streams

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/server/group/relaypb"
)

// What a server does not take is dropped after some ticks, and what is much goes in parts.
func TestUnsentQuanta(t *testing.T) {
	for _, count := range []int{1, maxRelayedQuanta, maxRelayedQuanta + 1} {
		p := NewPeer(nil, new(Local), 7, new(relaypb.Hello))
		quanta := make([]quota.Quantum, count)
		for i := range quanta {
			quanta[i] = quota.Quantum{Resource: coordination.ResourceKey{Node: 1,
				ID: coordination.ResourceID(i)}, Amount: 1}
		}
		for range 3 * maxUnsentTicks {
			p.PutQuanta(2, quanta)
		}
		sent := 0
		for q := p.takeQuanta(); q != nil; q = p.takeQuanta() {
			if len(q.GetQuanta()) > maxRelayedQuanta || q.GetTicks() != 2 {
				t.Errorf("%d quanta for %d ticks in one message", len(q.GetQuanta()), q.GetTicks())
			}
			sent += len(quantaFromPB(q.GetQuanta()))
		}
		if sent != maxUnsentTicks*count {
			t.Errorf("%d of %d quanta a tick are sent", sent, count)
		}
	}
}
