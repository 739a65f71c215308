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
}

// publish is called by the group when it has applied something, and with a machine that is new.
func (p *publishedSize) publish(m *coordination.Machine) {
	p.used.Store(m.Used())
	if now := m.Limits(); p.limits.Load() == nil || *p.limits.Load() != now {
		p.limits.Store(&now)
	}
}
