package group

import (
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
)

// StateSize is how large the state is, and its limits, as of what this server has applied.
func (g *Group) StateSize() (used uint64, limits coordination.StateLimits) {
	if known := g.size.limits.Load(); known != nil {
		limits = *known
	}
	return g.size.used.Load(), limits
}

// publishedSize is what the group tells about the size of the state.
type publishedSize struct {
	used   atomic.Uint64
	limits atomic.Pointer[coordination.StateLimits]

	nodes, sessions, semaphores, owners, waiters atomic.Int64
}

// publish is called by the group when it has applied something, and with a machine that is new.
func (p *publishedSize) publish(m *coordination.Machine) {
	p.used.Store(m.Used())
	counts := m.Counts()
	p.nodes.Store(int64(counts.Nodes))
	p.sessions.Store(int64(counts.Sessions))
	p.semaphores.Store(int64(counts.Semaphores))
	p.owners.Store(int64(counts.Owners))
	p.waiters.Store(int64(counts.Waiters))
	if before := p.limits.Load(); before == nil || *before != m.Limits() {
		now := m.Limits()
		p.limits.Store(&now)
	}
}
