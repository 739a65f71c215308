package raftstore

import "context"

// Status is what a member knows about its cluster at one moment.
type Status struct {
	Term   uint64
	Leader uint64 // 0: unknown
	// Commit is the last entry that this member knows to be committed, Applied the last that its handler has
	// dealt with.
	Commit, Applied uint64
	Members         Members // as Store.Members, but fresh
	// FreeBytes is the free space of the data directory's file system, 0 if it is unknown. Below ReserveBytes
	// (0: no reserve) no more commands are taken, which is what Full says.
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

// Await returns once a checkpoint as of index or later is durable. It does not see to it that there is one, see Want.
// Errors: ErrStopped, that of ctx.
func (c *Checkpoints) Await(ctx context.Context, index uint64) error {
	return c.keeper.inbox.pursue(ctx, c.stopped, &pursuit{attempt: func(*loop) error { return nil },
		done: func(*loop) bool { return c.stored.Load() >= index }})
}
