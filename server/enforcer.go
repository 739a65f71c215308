package server

import (
	"context"
	"slices"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group"
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
		s.setFirstLimits(ctx)
		s.tellStateLimit()
		reloaded := s.auth.ReloadTokens(s.config.Logger)
		version := s.group.AccessVersion()
		if !reloaded && version == checked {
			continue
		}
		s.endRevoked(ctx)
		if s.group.RecheckAccess(ctx) == nil {
			checked = version
		}
	}
}

// endRevoked ends the streams of this server whose tokens or users are no more.
func (s *Server) endRevoked(ctx context.Context) {
	known := s.group.Accounts()
	revoked := slices.DeleteFunc(s.group.Clients(), func(client group.Client) bool {
		c, remote := client.(*session)
		return !remote || s.auth.StillValid(c.identity, known) // the stand-in has clients without a token
	})
	spread(len(revoked), func(pause time.Duration) bool { return sleep(ctx, pause) }, func(i int) {
		revoked[i].(*session).stream.End(coordination.NoAccess)
	})
}

const (
	// endsAtOnce is how many streams may be ended one behind the other. More are ended in spreadParts parts
	// over spreadTime: their clients all come back at once and log in.
	endsAtOnce  = 100
	spreadTime  = time.Second
	spreadParts = 20
)

// spread calls end for each of n, in order, and pauses between parts of them where they are many. A pause
// that reports false ends it.
func spread(n int, pause func(time.Duration) bool, end func(i int)) {
	part := n
	if n > endsAtOnce {
		part = (n + spreadParts - 1) / spreadParts
	}
	for i := range n {
		if i > 0 && i%part == 0 && !pause(spreadTime/spreadParts) {
			return
		}
		end(i)
	}
}

// sleep waits and reports whether ctx let it.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
