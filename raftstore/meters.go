package raftstore

import (
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/histogram"
)

// meters is what the store counts while it works.
type meters struct {
	appends, checkpoints histogram.Histogram
	proposed             atomic.Uint64
	changes              atomic.Uint64 // of the leader
	// when the last checkpoint became durable, nanoseconds since 1970; 0 if none has
	storedAt atomic.Int64
}

// Figures is how a store does, for monitoring.
type Figures struct {
	// Term is raft's, and Leading whether this member leads, as far as it knows.
	Term    uint64
	Leading bool
	// LeaderChanges is how often this member has heard of another leader than before, or of the same one
	// again.
	LeaderChanges uint64
	// Applied is the last entry that is executed, and Checkpoint that of the last durable checkpoint.
	Applied, Checkpoint uint64
	// CheckpointStored is when that became durable; the zero time if it was there when the store was opened.
	CheckpointStored time.Time
	// CheckpointOpen reports whether a checkpoint is being written, or its files are being merged.
	CheckpointOpen bool
	// Proposed is how many entries were proposed here, and Backlog how many bytes of them are not in raft's
	// log yet.
	Proposed uint64
	Backlog  int64
	// FreeBytes is what may still be written to the disk, and ReserveBytes Config.ReserveBytes.
	FreeBytes, ReserveBytes uint64
	// Members is how many there are, and Active how many of the others the leader has heard of lately; 0
	// elsewhere.
	Members, Active int
	// Appends has the times of whole appends to the log; Writes and Syncs those of the calls to the operating
	// system that they consist of, either of which may stop. Checkpoints has the times from the beginning of a
	// checkpoint until it was durable.
	Appends, Writes, Syncs, Checkpoints histogram.Reading
}

// Figures is how things stand. It is cheap, takes no turn and may be called once the store is started.
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
