package group

import (
	"reflect"
	"sync"
	"testing"

	"github.com/coordd/coordd/server/group/streams"
)

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
			g.hold(g.turn.Lock())
			defer g.turn.Unlock()
			for _, s := range g.streams.All() {
				mutexOf(s).Lock()
				defer mutexOf(s).Unlock()
			}
			for _, p := range openPeers(g) {
				mutexOf(p).Lock()
				defer mutexOf(p).Unlock()
			}
			if f := g.Figures(); f.Streams != 2 || f.Leads != (at == leader) || f.Leads && f.RelaysIn != 2 {
				t.Errorf("got %+v", f)
			}
		}()
	}
}

// mutexOf returns the lock of a part, which its package keeps to itself.
func mutexOf(part any) *sync.Mutex {
	return (*sync.Mutex)(reflect.ValueOf(part).Elem().FieldByName("mutex").Addr().UnsafePointer())
}

// openPeers returns the relays towards a server.
func openPeers(g *Group) (peers []*streams.Peer) {
	mutexOf(g.relays).Lock()
	defer mutexOf(g.relays).Unlock()
	for open := reflect.ValueOf(g.relays).Elem().FieldByName("open").MapRange(); open.Next(); {
		peers = append(peers, (*streams.Peer)(open.Value().UnsafePointer()))
	}
	return peers
}
