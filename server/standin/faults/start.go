package faults

import (
	"context"

	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/internal/hooks"
)

// Start is server.Start of a server that faults can happen to, and that takes orders where it serves monitoring programs.
func (s *Set) Start(ctx context.Context, config server.Config) (*server.Server, error) {
	config.HTTP.Faults = s.Controls()
	return server.StartWith(ctx, config, hooks.Hooks{Faults: s.Server(1)})
}
