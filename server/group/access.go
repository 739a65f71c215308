package group

import (
	"context"
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme/outcome"
)

// Accounts are the users as of what this server has applied. They do not change.
func (g *Group) Accounts() *accounts.Accounts { return g.access.accounts() }

// AccessVersion changes with every change of users and rights.
func (g *Group) AccessVersion() uint64 { return g.access.version.Load() }

// RecheckAccess has the leader, if it is here, end the streams that have lost rights, wherever they are.
func (g *Group) RecheckAccess(ctx context.Context) error {
	_, err := g.readCore(ctx, func(c *core) outcome.Outcome {
		c.replica.RecheckAccess(g.clock.Now())
		return outcome.Done()
	})
	return err
}

// publishedAccess is what the group tells about users and rights to the goroutines that serve calls.
type publishedAccess struct {
	current atomic.Pointer[accounts.Accounts]
	version atomic.Uint64 // changes with every change
	machine uint64        // the machine's version; owned by the group
}

// publish is called by the group after each command, and with a machine that is new. It costs a comparison
// unless something changed.
func (p *publishedAccess) publish(m *coordination.Machine) {
	if p.current.Load() == m.Accounts() && p.machine == m.AccessVersion() {
		return
	}
	p.current.Store(m.Accounts())
	p.machine = m.AccessVersion()
	p.version.Add(1)
}

func (p *publishedAccess) accounts() *accounts.Accounts { return p.current.Load() }

// FormatVersion is the newest version of commands that every server of the cluster can read. Before that is
// known of all it is the first.
func (g *shared) FormatVersion() uint64 { return max(1, g.readable()) }

// readable is the same, and 0 before it is known of all.
func (g *shared) readable() uint64 {
	if g.alone() {
		return g.config.Formats.Version
	}
	return g.store.ClusterVersion()
}

// Crowded reports whether what makes the state larger is refused: the disk of this server, which leads, is
// nearly full, and no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *shared) Crowded() bool { return g.store.Writable() != nil && !g.store.HandingOver() }
