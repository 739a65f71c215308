package raftstore

import (
	"log/slog"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/raftlog"
	"github.com/coordd/coordd/raftstore/wal"
)

// writeJob is one MsgStorageAppend: what must be durable before its responses may be delivered.
type writeJob struct {
	entries   []*pb.Entry
	hard      *wal.HardState // nil if term and vote are as before
	responses []*pb.Message
	bytes     int
	snapshot  *received // replaces everything before it
	append    Append
}

// appender is the goroutine that makes log writes durable. While it waits for the disk raft collects; then
// everything collected goes out in one write with one fdatasync.
type appender struct {
	device  raftlog.Device
	install func(r *received) error
	inbox   *inbox
	loop    *loop
	appends *histogram.Histogram
	times   *datadir.LogTimes
	logger  *slog.Logger
	slow    lograte.Limiter
	done    chan struct{}

	mu      sync.Mutex
	ready   sync.Cond
	jobs    []*writeJob
	busy    bool // a write is under way
	closing bool
	since   time.Time // when the write under way began

	// of run
	joined []*pb.Entry // the entries of a write, used again
	commit uint64      // the highest commit index that was stored
}

func newAppender(s *Store) *appender {
	a := &appender{device: s.device, install: s.receiver.install, inbox: &s.inbox, appends: &s.meters.appends,
		times: &s.disk.Log, logger: s.cfg.Logger, done: make(chan struct{}), commit: s.log.Hard().Commit}
	a.ready.L = &a.mu
	return a
}

// add queues a job. Jobs are written and answered in order.
func (a *appender) add(j *writeJob) {
	a.mu.Lock()
	a.jobs = append(a.jobs, j)
	a.mu.Unlock()
	a.ready.Signal()
}

// idle reports whether nothing is queued or being written. What was written is in the inbox by then.
func (a *appender) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.busy && len(a.jobs) == 0
}

// stuck reports whether one write has been under way for longer than limit.
func (a *appender) stuck(limit time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy && time.Since(a.since) > limit
}

// close waits for the write under way and drops the rest, which nobody was promised.
func (a *appender) close() {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	a.ready.Signal()
	<-a.done
}

func (a *appender) run() {
	defer close(a.done)
	for {
		jobs := a.next()
		if jobs == nil {
			return
		}
		if err := a.write(jobs); err != nil {
			a.inbox.fail(err)
			return
		}
		a.finished(jobs)
	}
}

// finished reports jobs as done. With nothing more to write, what follows from it is done right here; the
// disk has no part in that, however long it takes.
func (a *appender) finished(jobs []*writeJob) {
	a.inbox.post(func(m *mail) { m.written = append(m.written, jobs...) })
	a.mu.Lock()
	a.busy = false
	more := len(a.jobs) > 0
	a.mu.Unlock()
	if more {
		a.inbox.bell.Ring()
	} else if a.loop.kick() {
		a.loop.handler.Flush(false)
	}
}

// next waits for jobs and takes as many as fit in one write; nil at the end.
func (a *appender) next() []*writeJob {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.jobs) == 0 && !a.closing {
		a.ready.Wait()
	}
	if a.closing {
		return nil
	}
	a.busy, a.since = true, time.Now()
	n, bytes := 0, 0
	for n < len(a.jobs) && (n == 0 || bytes+a.jobs[n].bytes <= writeBytesMax && a.jobs[n].snapshot == nil) {
		bytes += a.jobs[n].bytes
		n++
	}
	jobs := a.jobs[:n:n]
	a.jobs = a.jobs[n:]
	return jobs
}

// write makes jobs durable: entries and with them the last hard state, both or neither. A received checkpoint comes
// before them, and before it term and vote, because its entry's term may not exist before the term does.
func (a *appender) write(jobs []*writeJob) error {
	var hard *wal.HardState
	entries := a.joined[:0]
	for _, j := range jobs {
		if j.hard != nil {
			hard = j.hard
		}
		entries = joinEntries(entries, j.entries)
	}
	defer a.keepSpace(entries)
	if r := jobs[0].snapshot; r != nil {
		if hard != nil {
			early := wal.HardState{Term: hard.Term, Vote: hard.Vote, Commit: a.commit}
			if err := a.device.Append(&early, nil); err != nil {
				return err
			}
		}
		if err := a.install(r); err != nil {
			return err
		}
		a.commit = max(a.commit, r.meta.Index)
	}
	if hard != nil {
		a.commit = max(a.commit, hard.Commit)
		hard = &wal.HardState{Term: hard.Term, Vote: hard.Vote, Commit: a.commit}
	}
	if hard == nil && len(entries) == 0 {
		return nil
	}
	begun, writing, syncing := time.Now(), a.times.Writing, a.times.Syncing
	err := a.device.Append(hard, entries)
	done := Append{Begun: begun, Took: time.Since(begun), Syncing: a.times.Syncing - syncing}
	for _, j := range jobs {
		j.append = done
	}
	if a.appends.Observe(done.Took); done.Took > slowWriteMax {
		a.logSlow(done.Took, a.times.Writing-writing, done.Syncing)
	}
	return err
}

// logSlow logs a slow append. A write can stop as well as a sync, for instance for the journal of the file system.
func (a *appender) logSlow(took, writing, syncing time.Duration) {
	if ok, before := a.slow.Allow(time.Now()); ok {
		a.logger.Warn("the disk is slow: one append to the log took long", "took", took, "writing", writing, "syncing",
			syncing, lograte.Suppressed, before)
	}
}

// spareEntriesMax bounds for how many entries of one write the space is kept.
const spareEntriesMax = 4096

// keepSpace has the next write use the space of this one's entries.
func (a *appender) keepSpace(entries []*pb.Entry) {
	clear(entries[:cap(entries)]) // joinEntries may have dropped some
	if a.joined = entries; cap(entries) > spareEntriesMax {
		a.joined = nil
	}
}

// joinEntries appends more to entries; a new leader's entries replace those from their first index on.
func joinEntries(entries, more []*pb.Entry) []*pb.Entry {
	keep := len(entries)
	for len(more) > 0 && keep > 0 && entries[keep-1].GetIndex() >= more[0].GetIndex() {
		keep--
	}
	return append(entries[:keep], more...)
}

// recentWrites remembers the last writes of entries, from first to last, with how long they took.
type recentWrites struct {
	writes [16]struct {
		first, last uint64
		append      *Append
	}
	added int
}

func (r *recentWrites) add(first, last uint64, a *Append) {
	w := &r.writes[r.added%len(r.writes)]
	w.first, w.last, w.append = first, last, a
	r.added++
}

// of returns the write of an entry, nil if it is not known.
func (r *recentWrites) of(index uint64) *Append {
	for n := range min(r.added, len(r.writes)) {
		if w := &r.writes[(r.added-1-n)%len(r.writes)]; w.first <= index && index <= w.last {
			return w.append
		} else if n == 0 && index > w.last {
			break // it is not written yet
		}
	}
	return nil
}
