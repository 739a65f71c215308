package group

import (
	"cmp"
	"fmt"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

// loader builds a machine from the rows of a checkpoint.
type loader struct {
	config   Config
	restorer *coordination.Restorer
	rows     int
}

func newLoader(config Config) (*loader, error) {
	restorer, err := coordination.NewRestorer(config.Database, config.Limits)
	return &loader{config: config, restorer: restorer}, err
}

// add adds the next row, as it is stored.
func (l *loader) add(key, value []byte) error {
	l.rows++
	row, err := codec.DecodeRow(key, value)
	if err == nil {
		err = l.restorer.Add(row)
	}
	if err != nil {
		return fmt.Errorf("read the checkpoint: %w", err)
	}
	return nil
}

func (l *loader) finish() (*coordination.Machine, error) {
	if l.rows == 0 { // nothing but the log yet
		return coordination.NewMachine(l.config.Database, l.config.Limits)
	}
	machine, err := l.restorer.Finish()
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return machine, nil
}

// loadMachine reads the checkpoint of a store that is open.
func loadMachine(config Config, store *raftstore.Store) (*coordination.Machine, error) {
	l, err := newLoader(config)
	if err != nil {
		return nil, err
	}
	told := time.Now()
	err = store.Rows(func(key, value []byte) error {
		if l.rows%loadRowsTold == 0 && time.Since(told) >= time.Second {
			told = time.Now()
			config.Log.Logger.Info("reading the checkpoint", "rows", l.rows)
		}
		return l.add(key, value)
	})
	if err != nil {
		return nil, err
	}
	return l.finish()
}

// replayPeriod is the time between two lines of the log about the progress of a replay.
const replayPeriod = time.Second

func (g *core) beginReplay(from, to uint64) {
	r := &g.replay
	r.from, r.to, r.told, r.period = from, max(from, to), time.Now(), cmp.Or(r.period, replayPeriod)
	r.at.Store(from)
}

// replayed notes, and logs, the progress of a replay. It is called behind each entry.
func (g *core) replayed(index coordination.Index) {
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

// Replaying reports whether this server was elected and cannot serve before it has executed again the entries that its
// log had when it started, and its progress.
func (g *Group) Replaying() (entries, of uint64, replaying bool) {
	r := &g.replay
	at := r.at.Load()
	return min(at, r.to) - r.from, r.to - r.from, r.leads.Load() && at < r.to
}
