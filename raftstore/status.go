package raftstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/histogram"
)

// Status is a member's view of its cluster at one moment.
type Status struct {
	Term   uint64
	Leader uint64 // 0: unknown
	// Commit is the last entry that this member knows to be committed, Applied the last that its handler has
	// dealt with.
	Commit, Applied uint64
	Members         Members // as Store.Members, but fresh
	// FreeBytes is the free space of the data directory's file system, 0 if it is unknown. Below ReserveBytes
	// (0: no reserve) no more commands are accepted, and Full is true.
	FreeBytes, ReserveBytes uint64
	Full                    bool
}

// Status asks in a turn. Errors: ErrStopped, that of ctx.
func (s *Store) Status(ctx context.Context) (Status, error) {
	result := make(chan Status, 1)
	s.inbox.task(func(l *loop) {
		l.stale = true
		l.show()
		basic := l.node.BasicStatus()
		result <- Status{
			Term: basic.GetTerm(), Leader: basic.Lead, Commit: basic.GetCommit(), Applied: s.applied.Load(),
			Members: s.Members(),
		}
	})
	select {
	case status := <-result:
		status.Full, status.ReserveBytes = s.Space.full.Load(), s.cfg.ReserveBytes
		if !s.cfg.InMemory {
			status.FreeBytes, _ = s.cfg.FreeSpace(s.cfg.Dir)
		}
		return status, nil
	case <-ctx.Done():
		return Status{}, ctx.Err()
	case <-s.done:
		return Status{}, ErrStopped
	}
}

// Progress reports whether a turn comes to an end before ctx does.
func (s *Store) Progress(ctx context.Context) bool {
	turned := make(chan struct{})
	s.inbox.task(func(*loop) { close(turned) })
	select {
	case <-turned:
		return true
	case <-ctx.Done():
		return false
	case <-s.done:
		return false
	}
}

// QuorumWithout reports whether a majority of the voters other than id was heard of lately. Only a leader
// knows.
func (s Status) QuorumWithout(id uint64) bool {
	voters, active := 0, 0
	for _, m := range s.Members {
		if m.ID == id || m.Learner {
			continue
		}
		voters++
		if m.Active {
			active++
		}
	}
	return active > voters/2
}

// meters are the store's counters.
type meters struct {
	appends, checkpoints histogram.Histogram
	proposed             atomic.Uint64
	changes              atomic.Uint64 // of the leader
	// when the last checkpoint became durable, in nanoseconds since 1970; 0 before the first
	storedAt atomic.Int64
}

// Figures are the store's metrics.
type Figures struct {
	// Term is raft's, and Leading whether this member leads, as far as it knows.
	Term    uint64
	Leading bool
	// LeaderChanges counts the leaders that this member has heard of, the same one again included.
	LeaderChanges uint64
	// Applied is the last entry that is executed, and Checkpoint that of the last durable checkpoint.
	Applied, Checkpoint uint64
	// CheckpointStored is the time at which that became durable; zero if it was there when the store was opened.
	CheckpointStored time.Time
	// CheckpointOpen reports whether a checkpoint is being written, or its files are being merged.
	CheckpointOpen bool
	// Proposed counts the entries proposed here, and Backlog the bytes of those not yet in raft's log.
	Proposed uint64
	Backlog  int64
	// FreeBytes is the space left on the disk, and ReserveBytes Config.ReserveBytes.
	FreeBytes, ReserveBytes uint64
	// Members counts the members, and Active the others that the leader has heard of lately; 0 elsewhere.
	Members, Active int
	// Appends has the times of whole appends to the log; Writes and Syncs those of the calls to the operating
	// system that they consist of, either of which may stop. Checkpoints has the times from the beginning of a
	// checkpoint until it was durable.
	Appends, Writes, Syncs, Checkpoints histogram.Reading
}

// Figures returns the store's metrics. It is cheap, takes no turn and may be called once the store is started.
func (s *Store) Figures() Figures {
	v := s.view.Load()
	f := Figures{
		Term: v.term, Leading: v.leading, LeaderChanges: s.meters.changes.Load(), Applied: s.applied.Load(),
		Checkpoint: s.Checkpoints.stored.Load(),
		Proposed:   s.meters.proposed.Load(), Backlog: s.backlog.Load(),
		Members: len(v.conf.Voters) + len(v.conf.Learners), Appends: s.meters.appends.Read(),
		Writes: s.disk.Log.Writes.Read(), Syncs: s.disk.Log.Syncs.Read(), Checkpoints: s.meters.checkpoints.Read(),
		CheckpointOpen: s.keeper.active() || !s.keeper.tidy.Load(),
	}
	for id, active := range v.active {
		if active && id != s.identity.Member {
			f.Active++
		}
	}
	f.FreeBytes, f.ReserveBytes = s.Space.Free()
	if at := s.meters.storedAt.Load(); at != 0 {
		f.CheckpointStored = time.Unix(0, at)
	}
	return f
}
