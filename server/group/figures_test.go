package group

import "testing"

// TestFiguresWaitForNobody reads the figures while the turn, every stream and every relay are held: whoever
// monitors a server takes no turn, and no lock of which there are as many as clients.
func TestFiguresWaitForNobody(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	for _, at := range []int{leader, follower} {
		openSession(t, c.groups[at], 600_000)
		openSession(t, c.groups[at], 600_000)
	}
	for _, at := range []int{leader, follower} {
		g := c.groups[at]
		func() {
			g.turn.Lock()
			defer g.turn.Unlock()
			for _, s := range g.streams.all() {
				s.mutex.Lock()
				defer s.mutex.Unlock()
			}
			g.relays.mutex.Lock()
			var peers []*relayPeer
			for _, p := range g.relays.open {
				peers = append(peers, p)
			}
			g.relays.mutex.Unlock()
			for _, p := range peers {
				p.mutex.Lock()
				defer p.mutex.Unlock()
			}
			if f := g.Figures(); f.Streams != 2 || f.Leads != (at == leader) || f.Leads && f.RelaysIn != 2 {
				t.Errorf("got %+v", f)
			}
		}()
	}
}
