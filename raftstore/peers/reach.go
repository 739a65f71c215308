package peers

import (
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/lograte"
)

// reach logs whether a member can be reached: each change, and each new reason why it cannot. A connection that comes
// and goes is logged ever more rarely.
type reach struct{ state lograte.State } // reachable, or why it is not

const reachable = "reachable"

// It logs that the member can be reached, or with an error that it cannot, unless it did so lately.
func (r *reach) tell(log *slog.Logger, now time.Time, err error) {
	before := r.state.Logged()
	if err == nil {
		if before != reachable {
			r.state.SetLogged(reachable) // which is good to know at once
			log.Info("connected to a server")
		}
		return
	}
	why := Cause(err)
	ok, hidden := r.state.Allow(why, now)
	if !ok {
		return
	}
	if hidden > 0 {
		log = log.With(lograte.Suppressed, hidden)
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
		log := l.p.logger.With("server", l.p.self.Admitted().Conf.NameOf(l.to.id), "address", l.to.address)
		l.reach.tell(log, time.Now(), err)
	}
}
