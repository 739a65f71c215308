package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/coordination"
)

// keeperPeriod is how often the token file is looked at and revoked streams are looked for, if anything changed. A stream
// that lost its right is ended within twice that.
const keeperPeriod = 500 * time.Millisecond

// keeper is the goroutine that enforces what has changed on streams that are already open, and sees to the limits of the
// state. A request costs nothing.
type keeper struct {
	stop    context.CancelFunc
	stopped chan struct{}
}

func (s *Server) startKeeper() {
	ctx, stop := context.WithCancel(context.Background())
	s.keeper = keeper{stop: stop, stopped: make(chan struct{})}
	go s.keep(ctx)
}

func (s *Server) keep(ctx context.Context) {
	defer close(s.keeper.stopped)
	ticker := time.NewTicker(keeperPeriod)
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
		if (!reloaded && version == checked) || !s.auth.Required {
			continue
		}
		s.endRevoked()
		if s.group.RecheckAccess(ctx) == nil {
			checked = version
		}
	}
}

// endRevoked ends the streams of this server whose tokens or users are no more.
func (s *Server) endRevoked() {
	known := s.group.Accounts()
	for _, client := range s.group.Clients() {
		if session := client.(*session); !s.auth.StillValid(session.identity, known) {
			session.stream.End(coordination.NoAccess)
		}
	}
}

// addInitialAdmin adds the first administrator, unless there are users.
func (s *Server) addInitialAdmin(ctx context.Context) error {
	name := s.config.InitialAdmin
	if name == "" || len(s.group.Accounts().Users()) > 0 {
		return nil
	}
	hash, err := s.auth.Passwords.Hash(ctx, s.config.InitialAdminPassword)
	if err != nil {
		return &ConfigError{fmt.Errorf("initial administrator: %w", err)}
	}
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	answer, err := s.execute(ctx, func(call coordination.Call) coordination.Command {
		return &coordination.AddUser{Call: call, Name: name, PasswordHash: hash, Administrator: true, OnlyFirst: true}
	})
	if err == nil && !answer.OK() {
		err = errors.New(answer.String())
	}
	if err != nil {
		return fmt.Errorf("initial administrator: %w", err)
	}
	s.config.Logger.Info("added the initial administrator", "user", name)
	return nil
}
