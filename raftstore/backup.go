package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrBackupRuns is returned while another Backup is under way: one at a time, because each holds on to old files.
var ErrBackupRuns = errors.New("another backup is under way")

// Backup writes the last checkpoint to w: all rows as of one entry, each with its checksum, and a checksum
// over everything. What was committed after that checkpoint is not in it; take a checkpoint first to have it.
// Other work goes on meanwhile and does not wait for w. It returns the index of the checkpoint. Call it between Start
// and Stop. Errors: ErrBackupRuns, ErrStopped as soon as w returns, those of w and ctx.
func (s *Store) Backup(ctx context.Context, w io.Writer) (index uint64, err error) {
	if !s.backups.TryLock() {
		return 0, ErrBackupRuns
	}
	defer s.backups.Unlock()
	ctx, cancel := context.WithTimeout(ctx, backupTimeMax)
	defer cancel()
	p, err := s.rowStore.Pin()
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, errors.New("backup: there are no checkpoints in memory")
	}
	defer s.keeper.release(p)
	if p.Meta.Index == 0 {
		return 0, errors.New("backup: there is no checkpoint yet")
	}
	err = p.Backup(ctx, w)
	if errors.Is(err, os.ErrClosed) {
		err = ErrStopped
	}
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	return p.Meta.Index, nil
}

// Lineage is 0 for a cluster that was never restored. Otherwise it names the last restored backup or
// forced recovery, by a number that is never the same twice and that every member gets. Numbers that must never
// come twice have to be moved forward once for each lineage, before anything else is done in it: what was
// committed after the restored moment is not known here. The store remembers the lineage for ever, the caller
// has to remember which it has begun.
func (s *Store) Lineage() uint64 { return s.lineage.Load() }

// Condemn writes into the data directory that nothing may be started on it any more, see datadir.Dir. In memory there
// is nothing to be written.
func (s *Store) Condemn(reason string) error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Condemn(reason)
}
