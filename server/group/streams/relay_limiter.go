package streams

import (
	"slices"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/server/group/relaypb"
)

// A relay carries, once in a tick, the demands of a server for units of rate limiters, and its quanta, which the leader
// has shared out.

const (
	// maxRelayedDemands and maxRelayedQuanta bound a batch, so that a permit does not wait behind them.
	maxRelayedDemands = 8 << 10
	maxRelayedQuanta  = 4 << 10
	// maxUnsentTicks bounds the ticks whose quanta wait for a slow relay. Later ones are dropped.
	maxUnsentTicks = 10
)

// Units is the rate limiter of this server, as relays use it.
type Units interface {
	// Demanded takes the demands of the server whose relay is peer.
	Demanded(peer *Peer, demands []quota.Demand)
	// Forget ends its demands.
	Forget(peer *Peer)
	// Received takes the quanta of this server from the leader at the other end of a relay.
	Received(from Link, term uint64, ticks int, quanta []quota.Quantum)
}

// PutDemands sends the leader the demands that have changed.
func (r *Relay) PutDemands(demands []quota.Demand) {
	r.mutex.Lock()
	for _, d := range demands {
		r.demands = append(r.demands, &relaypb.Demand{Node: uint64(d.Resource.Node),
			Resource: uint64(d.Resource.ID), Asks: d.Asks})
	}
	r.sentCount += uint64(len(demands))
	r.mutex.Unlock()
	r.bell.Ring()
}

func demandsFromPB(list []*relaypb.Demand) []quota.Demand {
	demands := make([]quota.Demand, len(list))
	for i, d := range list {
		demands[i] = quota.Demand{Resource: resourceKey(d.GetNode(), d.GetResource()), Asks: d.GetAsks()}
	}
	return demands
}

func resourceKey(node, resource uint64) coordination.ResourceKey {
	return coordination.ResourceKey{Node: coordination.NodeID(node), ID: coordination.ResourceID(resource)}
}

// PutQuanta sends the other server its quanta for some ticks.
func (p *Peer) PutQuanta(ticks int, quanta []quota.Quantum) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.quanta) >= maxUnsentTicks*((len(quanta)+maxRelayedQuanta-1)/maxRelayedQuanta) {
		return
	}
	for some := range slices.Chunk(quanta, maxRelayedQuanta) {
		batch := &relaypb.Quanta{Term: uint64(p.link.term), Ticks: uint32(ticks),
			Quanta: make([]*relaypb.Quantum, len(some))}
		for i, q := range some {
			batch.Quanta[i] = &relaypb.Quantum{Node: uint64(q.Resource.Node), Resource: uint64(q.Resource.ID),
				Amount: q.Amount}
		}
		p.quanta = append(p.quanta, batch)
		p.sentCount++
	}
	p.bell.Ring()
}

// Link returns the link to the leader that the relay leads to.
func (p *Peer) Link() Link { return p.link }

// takeQuanta returns the next quanta to be sent, nil without any.
func (p *Peer) takeQuanta() *relaypb.Quanta {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.quanta) == 0 {
		return nil
	}
	q := p.quanta[0]
	p.quanta[0] = nil
	p.quanta = p.quanta[1:]
	return q
}

func quantaFromPB(list []*relaypb.Quantum) []quota.Quantum {
	quanta := make([]quota.Quantum, len(list))
	for i, q := range list {
		quanta[i] = quota.Quantum{Resource: resourceKey(q.GetNode(), q.GetResource()), Amount: q.GetAmount()}
	}
	return quanta
}
