package group

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/server/group/compare"
)

// Figures is how a group does on this server, for monitoring.
type Figures struct {
	// Counts is of the state as of what this server has executed. One number may be an entry ahead of
	// another.
	Counts coordination.Counts
	// Watches is how many semaphores sessions are waiting to hear of; 0 on a server that does not lead.
	Watches int
	// Streams counts the streams that are open on this server.
	Streams int
	// Queued is how many requests wait to be handled, and QueuedStreams how many streams are not read because
	// there is no room for what they ask.
	Queued, QueuedStreams int
	// RequestBytes is what the requests of this server's streams hold that have no first answer.
	RequestBytes int
	// CopiedBytes counts the descriptions by a leader elsewhere that this server holds.
	CopiedBytes int
	// Limiter is what this server hands out units of, and who waits for some.
	Limiter quota.Figures
	// Leads and Led tell whether this server, or any, leads and serves.
	Leads, Led bool
	// MaySpeak reports whether this server may tell its clients that their sessions live.
	MaySpeak bool
	// Lag is how many entries this server lacks, if that is known.
	Lag      uint64
	LagKnown bool
	// RelaysIn is how many other servers relay to this one, RelayOut whether this one relays to the leader,
	// and RelaysOpened how often it began to.
	RelaysIn     int
	RelayOut     bool
	RelaysOpened uint64
	// Diverged says that this server knows of servers with different states.
	Diverged bool
}

// Figures is how things stand. It is cheap and takes no turn.
func (g *Group) Figures() Figures {
	f := Figures{
		Counts: coordination.Counts{Nodes: int(g.size.nodes.Load()), Sessions: int(g.size.sessions.Load()),
			Semaphores: int(g.size.semaphores.Load()), Owners: int(g.size.owners.Load()),
			Waiters: int(g.size.waiters.Load())},
		Watches: int(g.watches.Load()), Queued: g.Queued(),
		Leads: g.Leads(), Led: g.Led(), MaySpeak: g.streams.Speaking() != nil,
		RelaysIn: g.relays.Open(), RelayOut: g.uplink.Conn() != nil,
		RelaysOpened: g.uplink.Openings(),
	}
	f.Streams, f.Limiter, f.CopiedBytes = g.streams.Count(), g.limiter.Figures(), g.streams.Copies.Used()
	f.RequestBytes, f.QueuedStreams = g.RequestBytes()
	f.Lag, f.LagKnown = g.Lag()
	_, f.Diverged = g.Divergence()
	return f
}

// Divergence reports whether there are members whose state differs from this server's. One that has yet to
// report may show which of them is right; until then they are not reported.
func (g *Group) Divergence() (d compare.Divergence, found bool) {
	if g.alone() {
		return d, false
	}
	return g.comparer.Divergence()
}

// StateSize is how large the state is, and its limits, as of what this server has applied.
func (g *Group) StateSize() (used uint64, limits coordination.StateLimits) {
	if known := g.size.limits.Load(); known != nil {
		limits = *known
	}
	return g.size.used.Load(), limits
}
