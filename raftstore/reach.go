package raftstore

import (
	"log/slog"
	"time"

	"github.com/coordd/coordd/raftstore/quiet"
)

// reach tells an operator whether a member can be reached: each change, and each new reason why it cannot. A connection
// that comes and goes is told of ever more rarely.
type reach struct {
	told  reachState
	why   string // it cannot be reached, as told
	since time.Time
	pace  quiet.Pace
}

type reachState int

const (
	reachUnknown reachState = iota
	reachable
	unreachable
)

// tell notes that the member can be reached, or with an error that it cannot.
func (r *reach) tell(log *slog.Logger, now time.Time, err error) {
	if err == nil {
		if r.told != reachable {
			r.told, r.since = reachable, now
			log.Info("connected to a server")
		}
		return
	}
	why := cause(err)
	if r.told == unreachable && why == r.why {
		return
	}
	ok, hidden := r.pace.Tells(now)
	if !ok {
		return
	}
	if hidden > 0 {
		log = log.With(quiet.NotTold, hidden)
	}
	if r.told == reachable {
		log.Warn("the connection to a server is lost", "err", why)
	} else {
		log.Info("cannot connect to a server", "err", why)
	}
	r.told, r.why = unreachable, why
}

// tellReach tells whether the member can be reached; only the urgent lane does.
func (l *lane) tellReach(err error) {
	if l.urgent {
		log := l.s.cfg.Logger.With("server", l.s.view.Load().conf.nameOf(l.to.id), "address", l.to.address)
		l.reach.tell(log, time.Now(), err)
	}
}
