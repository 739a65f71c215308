package readiness

import (
	"cmp"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// contactPatience is for how long a server that hears no leader takes login tokens by what it last knew of
// users and keys.
const contactPatience = time.Minute

// contact records when a leader was known last.
type contact struct {
	last atomic.Pointer[time.Time]
}

func (c *contact) note(led bool) {
	if now := time.Now(); led || c.last.Load() == nil {
		c.last.Store(&now)
	}
}

// lost reports whether there has been no leader for longer than patience.
func (c *contact) lost(patience time.Duration) bool {
	last := c.last.Load()
	return last != nil && time.Since(*last) > patience
}

// silence is since when this server has been mute, see group.Group.Mute.
type silence struct {
	since atomic.Pointer[time.Time]
}

func (s *silence) note(mute bool) {
	switch now := time.Now(); {
	case !mute:
		s.since.Store(nil)
	case s.since.Load() == nil:
		s.since.Store(&now)
	}
}

// long reports whether it has been so for longer than an election takes.
func (s *silence) long() bool {
	since := s.since.Load()
	return since != nil && time.Since(*since) >= longElection
}

// ErrCutOff is returned if a login token cannot be verified because no leader has been heard for too long. The
// status has clients try another server.
var ErrCutOff = status.Error(codes.Unavailable,
	"This server has not heard of a leader for too long to know which login tokens are still good")

// CutOff reports whether a token may have been revoked long ago without this server having heard of it.
func (w *Watch) CutOff() bool {
	return w.contact.lost(cmp.Or(w.ContactPatience, contactPatience))
}
