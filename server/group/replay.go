package group

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
)

// replay is how far a server that has started is with what its log had when it was opened. What others may
// not ask for is owned by the holder of the turn.
type replay struct {
	from, to uint64 // the checkpoint, and the last entry of the log
	told     time.Time
	period   time.Duration // between two reports; 0: replayPeriod
	at       atomic.Uint64 // the last entry that was executed again
	leads    atomic.Bool   // this server leads, and serves once it is through
}

// replayPeriod is how often the log tells how far the replay is.
const replayPeriod = time.Second

func (g *Group) beginReplay(from, to uint64) {
	r := &g.replay
	r.from, r.to, r.told, r.period = from, max(from, to), time.Now(), cmp.Or(r.period, replayPeriod)
	r.at.Store(from)
}

// replayed is called behind each entry that was executed.
func (g *Group) replayed(index coordination.Index) {
	r := &g.replay
	if r.at.Load() >= r.to {
		return
	}
	r.at.Store(uint64(index))
	if uint64(index) <= r.to && time.Since(r.told) >= r.period {
		r.told = time.Now()
		g.logger.Info("executing the log again", "entries", uint64(index)-r.from, "of", r.to-r.from)
	}
}

// Replaying reports whether this server leads and has yet to execute again what its log had when it started,
// before it can serve: how many entries it has executed, of how many.
func (g *Group) Replaying() (entries, of uint64, replaying bool) {
	r := &g.replay
	at := r.at.Load()
	return min(at, r.to) - r.from, r.to - r.from, r.leads.Load() && at < r.to
}
