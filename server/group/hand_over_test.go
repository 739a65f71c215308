package group

import (
	"testing"

	"github.com/coordd/coordd/coordination"
)

// calm returns what the machine of a group knows of hand-overs, and the term of its leader.
func calm(g *Group) (heir, term coordination.Term) {
	c := g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	for _, row := range c.replica.Machine().AllRows() {
		if m, is := row.(coordination.MachineRow); is {
			heir = m.HeirTerm
		}
	}
	return heir, c.replica.Term()
}

// TestHandOverIsQuiet moves the leader again and again. The next one knows each time that nobody has spoken since, and
// the clients go on.
func TestHandOverIsQuiet(t *testing.T) {
	c := openCluster(t, 3)
	leads, _ := c.leader()
	first := c.groups[leads]
	createNode(t, first, testNode)
	eventually(t, "all to read of it", func() bool { return first.FormatVersion() >= 4 })
	client := openStream(t, c.groups[0])
	client.start("/local/node", 60_000)
	if r := client.next(t); r.Kind != coordination.ReplyStarted {
		t.Fatalf("started: %+v", r)
	}
	for range 5 {
		leads, _ := c.leader()
		from := c.groups[leads]
		if err := from.Transfer(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		var heir, term coordination.Term
		eventually(t, "another leader", func() bool {
			for _, g := range c.groups {
				if g != from && g.Leads() {
					heir, term = calm(g)
				}
			}
			return term != 0
		})
		if heir != term {
			t.Errorf("the leader of term %d knows of a hand-over to that of term %d", term, heir)
		}
		client.say(coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: 7})
		if r := client.next(t); r.Kind != coordination.ReplyPong {
			t.Fatalf("the answer to a ping: %+v", r)
		}
	}
}

// TestLeaderGoesOnAfterAHandOver has nobody take the leadership: clients of the leader and of others are served again.
func TestLeaderGoesOnAfterAHandOver(t *testing.T) {
	c := openCluster(t, 3)
	leads, _ := c.leader()
	leader := c.groups[leads]
	createNode(t, leader, testNode)
	if err := leader.Transfer(t.Context(), 12345); err == nil {
		t.Fatal("a member that is not there has taken the leadership")
	}
	eventually(t, "the leader to speak", func() bool { return leader.streams.Speaking() != nil })
	for _, g := range c.groups {
		client := openStream(t, g)
		client.start("/local/node", 60_000)
		if r := client.next(t); r.Kind != coordination.ReplyStarted {
			t.Fatalf("started: %+v", r)
		}
	}
}
