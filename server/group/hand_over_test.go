package group

import (
	"context"
	"testing"
	"time"

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
	// newest returns the highest term with a leader, and that of the hand-over which this one knows of.
	newest := func() (heir, term coordination.Term) {
		for _, g := range c.groups {
			if h, t := calm(g); g.Leads() && t > term {
				heir, term = h, t
			}
		}
		return heir, term
	}
	for range 5 {
		var before coordination.Term
		eventually(t, "a leader", func() bool {
			_, before = newest()
			return before != 0
		})
		leads, _ := c.leader()
		if err := c.groups[leads].Transfer(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		var heir, term coordination.Term
		eventually(t, "another leader", func() bool {
			heir, term = newest()
			return term > before
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

// handed reports, in one look, whether the log ends with Quiet and this server leads on, or has Quiet on its way
// there, and whether it may speak to clients.
func handed(g *Group) (quiet, speaks bool) {
	c := g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	quietTerm := coordination.Term(0)
	for _, row := range c.replica.Machine().AllRows() {
		if m, is := row.(coordination.MachineRow); is {
			quietTerm = m.QuietTerm
		}
	}
	return quietTerm != 0 && quietTerm == c.replica.Term(), g.streams.Speaking() != nil
}

// TestHandOversGivenUp cancels hand-overs at any moment, one after the other: the cluster serves again, the log never
// has Quiet behind a leader that speaks, and a client's session lives.
func TestHandOversGivenUp(t *testing.T) {
	c := openCluster(t, 3)
	leads, _ := c.leader()
	createNode(t, c.groups[leads], testNode)
	eventually(t, "all to read of it", func() bool { return c.groups[leads].FormatVersion() >= 4 })
	client := openStream(t, c.groups[0])
	client.start("/local/node", 60_000)
	if r := client.next(t); r.Kind != coordination.ReplyStarted {
		t.Fatalf("started: %+v", r)
	}
	for i := range 60 {
		leads, _ := c.leader()
		from := c.groups[leads]
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*700*time.Microsecond)
		_ = from.Transfer(ctx, 0)
		cancel()
		client.say(coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: uint64(i)})
		for {
			r := client.next(t)
			if r.Kind == coordination.ReplyPong {
				break
			}
		}
		for _, g := range c.groups {
			if quiet, speaks := handed(g); quiet && speaks && g.Leads() {
				t.Error("a leader speaks behind Quiet")
			}
		}
	}
}

// TestHandOverToOneThatIsDown names a member that is not there. The leader goes on meanwhile.
func TestHandOverToOneThatIsDown(t *testing.T) {
	c := openCluster(t, 3)
	leads, follows := c.leader()
	leader, other := c.groups[leads], c.groups[follows]
	createNode(t, leader, testNode)
	id := other.store.Member()
	stopTest(t, other)
	eventually(t, "the other to be missed", func() bool {
		m, _ := leader.store.Members().Find(id)
		return !m.Active
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- leader.Transfer(ctx, id) }()
	client := openStream(t, leader)
	client.start("/local/node", 60_000)
	if r := client.next(t); r.Kind != coordination.ReplyStarted {
		t.Fatalf("started: %+v", r)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a member that is down leads")
	}
}

// TestSilenceThatAnotherEnds has two callers hand over, of which one gives up. The other one does not log that nobody
// speaks.
func TestSilenceThatAnotherEnds(t *testing.T) {
	c := openCluster(t, 3)
	leads, _ := c.leader()
	leader := c.groups[leads]
	eventually(t, "all to read of it", func() bool { return leader.FormatVersion() >= 4 })
	core := leader.hold(leader.turn.Lock())
	defer leader.turn.Unlock()
	leader.quiet.Store(true)
	core.endSilence()
	if !core.fallsSilent() || core.replica.IsQuiet() {
		t.Error("the log gets Quiet although this server speaks")
	}
}
