package group

import (
	"context"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme/outcome"
)

// Accounts returns the users as of the last entry that this server has applied. The result does not change.
func (g *Group) Accounts() *accounts.Accounts { return g.access.accounts() }

// AccessVersion changes with every change of users and rights.
func (g *Group) AccessVersion() uint64 { return g.access.version.Load() }

// RecheckAccess ends the streams of all servers that have lost rights, if this server leads.
func (g *Group) RecheckAccess(ctx context.Context) error {
	_, err := g.readCore(ctx, func(c *core) outcome.Outcome {
		c.replica.RecheckAccess(g.clock.Now())
		return outcome.Done()
	})
	return err
}
