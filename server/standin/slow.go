package standin

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/hooks/slow"
	"github.com/coordd/coordd/server"
)

// slowPatience limits a call of a server that Slow has started.
const slowPatience = 2 * time.Minute

// Slow is server.Start of a server on which time passes 30 times as slowly for clients: sessions, waits,
// grace periods, and the time within which a ping has to be answered. Calls wait for a leader for minutes. It
// is for what is not about time, on a machine that may give a client or a server no processor for seconds.
// The servers of a cluster may all be so.
func Slow(ctx context.Context, config server.Config) (*server.Server, error) {
	return server.StartWith(ctx, config,
		hooks.Hooks{Rings: slow.NewClock(), Patience: slowPatience})
}
