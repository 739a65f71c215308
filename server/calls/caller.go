package calls

import (
	"context"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/auth"
)

// Caller returns the caller of a call, for a command or a read of the machine.
func (r *Runner) Caller(ctx context.Context) coordination.Caller {
	id := auth.Of(ctx)
	return coordination.Caller{Subject: id.Name,
		Enforced: id.ByToken() || r.Enforced && !id.Owns()}
}

// OwnerFor returns the owner of what a caller creates.
func OwnerFor(ctx context.Context) string {
	if name := auth.Of(ctx).Name; name != "" {
		return name
	}
	return scheme.RootOwner
}
