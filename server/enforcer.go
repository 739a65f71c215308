package server

import (
	"context"
	"time"
)

// enforcerPeriod is how often the token file is looked at and revoked streams are looked for, if anything
// changed. A stream that lost its right is ended within twice that, and spreadTime where many lose theirs at
// once.
const enforcerPeriod = 500 * time.Millisecond

// enforcer is the goroutine that enforces what has changed on streams that are already open, and sees to the
// limits of the state. A request costs nothing.
type enforcer struct {
	stop    context.CancelFunc
	stopped chan struct{}
}

func (s *Server) startEnforcer() {
	ctx, stop := context.WithCancel(context.Background())
	s.enforcer = enforcer{stop: stop, stopped: make(chan struct{})}
	go s.enforce(ctx)
}

func (s *Server) enforce(ctx context.Context) {
	defer close(s.enforcer.stopped)
	ticker := time.NewTicker(enforcerPeriod)
	defer ticker.Stop()
	checked := s.group.AccessVersion()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.stateLimit.SetFirst(ctx)
		s.stateLimit.Log()
		reloaded := s.auth.ReloadTokens(s.config.Logger)
		version := s.group.AccessVersion()
		if !reloaded && version == checked {
			continue
		}
		s.sessions.EndRevoked(ctx)
		if s.group.RecheckAccess(ctx) == nil {
			checked = version
		}
	}
}
