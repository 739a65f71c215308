package raftstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
)

// refused tells of callers that were refused, each kind of refusal by itself.
type refused struct{ kinds lograte.ByKey }

func (r *refused) tell(log *slog.Logger, now time.Time, server, address string, err error) {
	why := peers.Cause(err)
	level := slog.LevelWarn
	if errors.Is(err, roster.ErrUnknownHere) { // so it is with every server that was just added
		level = slog.LevelInfo
	}
	if ok, hidden := r.kinds.Allow(server+"\x00"+why, now); ok {
		log.Log(context.Background(), level, "refused a server", "server", server, "address",
			lograte.Cut(address), "why", why, lograte.Suppressed, hidden)
	}
}
