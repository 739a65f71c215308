package group

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/group/events"
)

// Figures are the metrics of a group on this server.
type Figures struct {
	// Counts counts the state that this server has applied. One number may be an entry ahead of another.
	Counts coordination.Counts
	// Watches counts the watches of semaphores; 0 on a server that does not lead.
	Watches int
	// Streams counts the open streams of this server.
	Streams int
	// Queued counts the requests in the queue, and QueuedStreams the streams that are not read for want of room.
	Queued, QueuedStreams int
	// RequestBytes counts the bytes of requests of this server's streams that have no first answer.
	RequestBytes int
	// CopiedBytes counts the bytes of descriptions by a leader elsewhere that this server holds.
	CopiedBytes int
	// Limiter has the metrics of this server's buckets.
	Limiter quota.Figures
	// Leads reports whether this server leads and serves, Led whether any server does.
	Leads, Led bool
	// MaySpeak reports whether this server has a lease or a permit.
	MaySpeak bool
	// Lag is the number of entries that this server lacks, if LagKnown.
	Lag      uint64
	LagKnown bool
	// RelaysIn counts the open relays of other servers to this one. RelayOut reports whether this one has a relay
	// open to the leader, and RelaysOpened counts how often it opened one.
	RelaysIn     int
	RelayOut     bool
	RelaysOpened uint64
	// Ends counts the sessions that ended and the locks that were lost while this server led.
	Ends events.Ends
	// Diverged reports whether this server knows of servers with different states.
	Diverged bool
}

// Figures returns the metrics as they are now. It is cheap and takes no turn.
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
	f.Ends = g.events.Ends()
	_, f.Diverged = g.Divergence()
	return f
}

// Divergence reports whether there are members whose state differs from this server's, see compare.Comparer.
func (g *Group) Divergence() (d compare.Divergence, found bool) {
	if g.alone() {
		return d, false
	}
	return g.comparer.Divergence()
}

// StateSize returns the size of the state that this server has applied, and its limits.
func (g *Group) StateSize() (used uint64, limits coordination.StateLimits) {
	if known := g.size.limits.Load(); known != nil {
		limits = *known
	}
	return g.size.used.Load(), limits
}
