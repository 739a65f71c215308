//go:build linux

package crash

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
)

// checkDigests replays the logs of servers that were stopped, and wants all of them to have come to the same
// state by the last entry that all have. It changes the directories: each becomes a cluster of its own. seen,
// if not nil, gets every entry that is replayed.
func checkDigests(dirs []string, seen func(*coordination.Entry)) error {
	last := ^uint64(0)
	for _, dir := range dirs {
		report, err := datadir.Check(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		last = min(last, max(report.LastIndex, report.CheckpointIndex))
	}
	var first uint64
	for i, dir := range dirs {
		digest, err := digestAt(dir, last, seen)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if i == 0 {
			first = digest
		} else if digest != first {
			return fmt.Errorf("at entry %d %s has digest %016x, %s has %016x", last, dirs[0], first, dir,
				digest)
		}
	}
	return nil
}

// digestAt is the digest of a stopped server's state as of an entry.
func digestAt(dir string, index uint64, seen func(*coordination.Entry)) (uint64, error) {
	if err := datadir.ForceSingle(dir); err != nil {
		return 0, err
	}
	store, err := raftstore.Open(context.Background(), raftstore.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	machine, err := storedMachine(store)
	if err != nil {
		return 0, err
	}
	r := &replay{store: store, machine: machine, until: index, seen: seen, done: make(chan error, 1)}
	r.end()
	if err := store.Start(r); err != nil {
		return 0, err
	}
	err = <-r.done
	if stopped := store.Stop(); err == nil {
		err = stopped
	}
	return machine.Digest(), err
}

// storedMachine is the state as of the checkpoint.
func storedMachine(store *raftstore.Store) (*coordination.Machine, error) {
	restorer, err := coordination.NewRestorer("/local", coordination.DefaultLimits())
	if err != nil {
		return nil, err
	}
	rows := 0
	err = store.Rows(func(key, value []byte) error {
		rows++
		row, err := codec.DecodeRow(key, value)
		if err != nil {
			return err
		}
		return restorer.Add(row)
	})
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return coordination.NewMachine("/local", coordination.DefaultLimits())
	}
	return restorer.Finish()
}

// replay applies the entries of a log up to one of them.
type replay struct {
	store   *raftstore.Store
	machine *coordination.Machine
	until   uint64
	seen    func(*coordination.Entry) // may be nil
	done    chan error                // capacity 1
	ended   bool
}

func (r *replay) end() {
	if !r.ended && uint64(r.machine.Index()) >= r.until {
		r.ended = true
		r.done <- r.machine.Check()
	}
}

// Committed implements raftstore.Handler.
func (r *replay) Committed(entries []raftstore.Entry) {
	for _, e := range entries {
		if r.ended {
			return
		}
		entry := coordination.Entry{Index: coordination.Index(e.Index), Term: coordination.Term(e.Term)}
		if err := codec.DecodeEntry(e.Data, &entry); err != nil {
			r.ended = true
			r.done <- err
			return
		}
		if r.seen != nil {
			r.seen(&entry)
		}
		r.machine.ApplyEntry(&entry)
		r.store.Applied(e.Index, len(entry.Commands))
		r.end()
	}
}

// Leading implements raftstore.Handler.
func (r *replay) Leading(uint64) {}

// Following implements raftstore.Handler.
func (r *replay) Following(_, _ uint64) {}

// ReadReady implements raftstore.Handler.
func (r *replay) ReadReady(_, _ uint64) {}

// CheckpointDone implements raftstore.Handler.
func (r *replay) CheckpointDone(uint64) {}

// Flush implements raftstore.Handler.
func (r *replay) Flush(bool) {}

// Failed implements raftstore.Handler.
func (r *replay) Failed(err error) {
	if !r.ended {
		r.ended = true
		r.done <- err
	}
}
