package group

import (
	"context"

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
