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

// quietPatience bounds the wait of a leader that hands over for the silence of the other servers, and for the log.
// Behind a longer one the next leader has to grant every session its grace period.
const quietPatience = time.Second

// silenceMost bounds the silence of a hand-over that goes on: an election takes less.
const silenceMost = 3 * time.Second

// leftOverPause is how long a server that has abdicated waits for what it had written before.
const leftOverPause = time.Millisecond

// Abdicate has a server that is alone lead nobody for d of the rings' clock, as raft never does: streams and
// calls find no leader meanwhile, and who leads then knows of nothing but what is in the log. Only stand-ins
// do that.
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

// Abdicated reports whether the pause that Abdicate has begun goes on.
func (g *Group) Abdicated() bool { return g.abdicated.Load() }

// leadAgain ends what Abdicate has begun. What was written before that is executed by now: the next leader
// must not take it for its own.
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
		// which does nothing
		first := &coordination.SetLimits{CallID: coordination.CallID{Nonce: streams.Nonce()}, OnlyFirst: true}
		g.store.Propose(uint64(term), c.entries([]coordination.Command{first}))
	}
}

// RelayConn is the connection to the leader, nil if there is none.
func (g *Group) RelayConn() *grpc.ClientConn { return g.uplink.Conn() }

// OtherLeader returns the member that leads; 0 if it is this server, or unknown.
func (g *Group) OtherLeader() uint64 {
	if leader := g.store.Leader(); leader != g.store.Member() {
		return leader
	}
	return 0
}

// HandOver gives the leadership to the member that is furthest, so that nobody has to find out that this one
// is gone.
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

// Transfer hands the leadership to a member, as Store.TransferLeader does. Before that no server speaks to clients any
// more, and the log has it: so the next leader knows of all sessions since when nobody has heard of them (see
// coordination.Quiet), and nothing lasts longer because of the move.
func (g *Group) Transfer(ctx context.Context, to uint64) error {
	if g.Leads() && to != g.store.Member() && g.canLead(to) {
		g.quiet.Store(true) // no server is given a permit
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

// canLead reports whether a member, 0 for any other one, is a voter that is heard of.
func (g *shared) canLead(to uint64) bool {
	return slices.ContainsFunc(g.store.Members(), func(m raftstore.Member) bool {
		return (m.ID == to || to == 0 && m.ID != g.store.Member()) && !m.Learner && m.Active
	})
}

// fallsSilent logs that no server speaks, once that is so, and reports whether there is nothing to wait for any more.
func (g *core) fallsSilent() bool {
	switch {
	case g.closed || g.link == nil:
		return true
	case g.replica.IsQuiet():
		return g.replica.Handed()
	case !g.quiet.Load(): // another caller has ended the silence, or its reign is over
		return true
	case g.relays.SilentFrom() > g.shell.Now():
		return false
	case !g.replica.Quiet():
		return true
	}
	g.handleAll(nil)
	return false
}

// endSilence resumes the work of a leader that leads still. One that has logged Quiet speaks once it has executed
// the end.
func (g *core) endSilence() {
	if g.replica.IsQuiet() {
		g.replica.EndQuiet()
	} else {
		g.quiet.Store(false)
	}
	g.handleAll(nil)
}
