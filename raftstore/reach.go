package raftstore

import (
	"log/slog"
	"time"

	"github.com/coordd/coordd/raftstore/quiet"
)

// reach tells an operator whether a member can be reached: each change, and each new reason why it cannot. A
// connection that comes and goes is told of ever more rarely.
type reach struct{ state quiet.State } // reachable, or why it is not

const reachable = "reachable"

// tell notes that the member can be reached, or with an error that it cannot.
func (r *reach) tell(log *slog.Logger, now time.Time, err error) {
	before := r.state.Told()
	if err == nil {
		if before != reachable {
			r.state.Note(reachable) // which is good to know at once
			log.Info("connected to a server")
		}
		return
	}
	why := cause(err)
	ok, hidden := r.state.Tells(why, now)
	if !ok {
		return
	}
	if hidden > 0 {
		log = log.With(quiet.NotTold, hidden)
	}
	if before == reachable {
		log.Warn("the connection to a server is lost", "err", why)
	} else {
		log.Info("cannot connect to a server", "err", why)
	}
}

// tellReach reports whether the member can be reached; only the urgent lane does.
func (l *lane) tellReach(err error) {
	if l.urgent {
		log := l.s.cfg.Logger.With("server", l.s.view.Load().conf.nameOf(l.to.id), "address", l.to.address)
		l.reach.tell(log, time.Now(), err)
	}
}
