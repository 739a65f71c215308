package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/streams"
)

// errLeadsNobody is the error of Abdicate on a server that does not lead.
var errLeadsNobody = errors.New("this server does not lead")

// quietPatience bounds the wait of a leader that hands over until no server speaks and the log has Quiet. If it is not
// enough, the leadership moves all the same, and the next leader grants every session its grace period.
const quietPatience = time.Second

// silenceMost bounds the silence of a hand-over that goes on: an election takes less.
const silenceMost = 3 * time.Second

// leftOverPause is the pause between two looks whether the log has executed all that was proposed before Abdicate.
const leftOverPause = time.Millisecond

// Abdicate simulates, for stand-ins, a leader change on a server that is alone: for d of the rings' clock streams and
// calls find no leader, and then this server leads again in the same term, with nothing but the log's state.
func (g *Group) Abdicate(d time.Duration) error {
	c := g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	term := c.replica.Term()
	if c.closed || term == 0 {
		return errLeadsNobody
	}
	c.leftOver = c.inFlight
	g.abdicated.Store(true)
	c.replica.Following()
	c.setLeader()
	g.uplink.Toward(uint64(term), 0) // calls are not to wait for this leader
	c.handleAll(nil)
	g.clock.AfterFunc(d, func() { g.leadAgain(term) })
	return nil
}

// Abdicated reports whether this server has abdicated and does not lead again yet.
func (g *Group) Abdicated() bool { return g.abdicated.Load() }

// leadAgain ends what Abdicate has begun, once all that was proposed before is executed: the next leader must not take
// it for its own.
func (g *Group) leadAgain(term coordination.Term) {
	c := g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	g.abdicated.Store(false)
	switch {
	case c.closed:
	case c.leftOver > 0:
		time.AfterFunc(leftOverPause, func() { g.leadAgain(term) })
	default:
		c.replica.Leading(term, g.store.Lineage())
		// serving begins with an entry, which this command makes without an effect
		first := &coordination.SetLimits{CallID: coordination.CallID{Nonce: streams.Nonce()}, OnlyFirst: true}
		g.store.Propose(uint64(term), c.entries([]coordination.Command{first}))
	}
}

// RelayConn returns the connection of the relay to the leader, nil while no relay is open.
func (g *Group) RelayConn() *grpc.ClientConn { return g.uplink.Conn() }

// OtherLeader returns the member that leads by raft; 0 if it is this server, or unknown.
func (g *Group) OtherLeader() uint64 {
	if leader := g.store.Leader(); leader != g.store.Member() {
		return leader
	}
	return 0
}

// HandOver moves the leadership to the member that has most of the log, so that the others need not find out that this
// one is gone.
func (g *Group) HandOver(ctx context.Context) {
	if ctx.Err() != nil || !g.Leads() || !g.canLead(0) {
		return
	}
	if err := g.Transfer(ctx, 0); err != nil {
		g.logger.Warn("could not hand over the leadership", "err", err)
		return
	}
	look := time.NewTicker(time.Millisecond) // until the heir is elected, it may need this server's vote
	defer look.Stop()
	for g.store.Leader() == 0 && ctx.Err() == nil {
		<-look.C
	}
}

// Transfer moves the leadership to a member, or to any for 0 (Changes.TransferLeader). Before that it makes all
// servers stop to speak to clients, and logs Quiet: the next leader then knows the moment after which no client has
// heard of its session, and grants no grace period on account of the move (coordination.Quiet).
func (g *Group) Transfer(ctx context.Context, to uint64) error {
	if g.Leads() && to != g.store.Member() && g.canLead(to) {
		g.quiet.Store(true) // from here on this server gives no permit, and speaks to no client
		g.relays.Hush()
		end := func() {
			g.hold(g.turn.Lock()).endSilence()
			g.turn.Unlock()
		}
		defer end()
		defer time.AfterFunc(silenceMost, end).Stop() // the heir may be unable to take over
		bounded, cancel := context.WithTimeout(ctx, quietPatience)
		defer cancel()
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for bounded.Err() == nil {
			silent := g.hold(g.turn.Lock()).fallsSilent()
			if g.turn.Unlock(); silent {
				break
			}
			<-look.C
		}
	}
	return g.store.Changes.TransferLeader(ctx, to)
}

// canLead reports whether a member, or for 0 any other one, is a voter that has been heard of lately.
func (g *shared) canLead(to uint64) bool {
	return slices.ContainsFunc(g.store.Members(), func(m raftstore.Member) bool {
		return (m.ID == to || to == 0 && m.ID != g.store.Member()) && !m.Learner && m.Active
	})
}

// fallsSilent logs Quiet once no other server has a permit, and reports whether the hand-over need not wait any longer:
// the log has Quiet, or will not have it.
func (g *core) fallsSilent() bool {
	switch {
	case g.closed || g.link == nil:
		return true
	case g.replica.IsQuiet():
		return g.replica.Handed()
	case !g.quiet.Load(): // another caller has ended the silence, or the reign is over
		return true
	case g.relays.SilentFrom() > g.shell.Now():
		return false
	case !g.replica.Quiet():
		return true
	}
	g.handleAll(nil)
	return false
}

// endSilence makes a leader that still leads serve again: at once, or if it has logged Quiet when it has executed the
// end of that.
func (g *core) endSilence() {
	if g.replica.IsQuiet() {
		g.replica.EndQuiet()
	} else {
		g.quiet.Store(false)
	}
	g.handleAll(nil)
}
