package peers

import (
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/lograte"
)

// reach logs whether a member can be reached: each change, and each new reason why it cannot. A connection that comes
// and goes is logged ever more rarely. A restart is no reason to worry, so only an outage is a warning.
type reach struct {
	state lograte.State // reachable, or why it is not
	since time.Time     // of the first failure in a row
	known bool          // the outage has been logged
}

const (
	reachable = "reachable"
	// outage is longer than a planned restart takes.
	outage = 10 * time.Second
)

// It logs that the member can be reached, or with an error that it cannot, unless it did so lately.
func (r *reach) tell(log *slog.Logger, now time.Time, err error) {
	before := r.state.Logged()
	if err == nil {
		r.since, r.known = time.Time{}, false
		if before != reachable {
			r.state.SetLogged(reachable) // which is good to know at once
			log.Info("connected to a server")
		}
		return
	}
	why := Cause(err)
	if r.since.IsZero() {
		r.since = now
	}
	if down := now.Sub(r.since); down >= outage && !r.known {
		r.known = true
		r.state.SetLogged(why)
		log.Warn("a server cannot be reached", "for", down.Round(time.Second), "err", why)
		return
	}
	ok, hidden := r.state.Allow(why, now)
	if !ok {
		return
	}
	if hidden > 0 {
		log = log.With(lograte.Suppressed, hidden)
	}
	if before == reachable {
		log.Info("the connection to a server is lost", "err", why)
	} else {
		log.Info("cannot connect to a server", "err", why)
	}
}

// tellReach reports whether the member can be reached; only the urgent lane does.
func (l *lane) tellReach(err error) {
	if l.urgent {
		log := l.p.logger.With("server", l.p.self.Admitted().Conf.NameOf(l.to.id), "address", l.to.address)
		l.reach.tell(log, time.Now(), err)
	}
}
