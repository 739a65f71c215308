package raftstore

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Row is one row of a checkpoint: a key with its value as of the checkpoint's index, or the fact that it is gone.
type Row struct {
	Key    []byte // 1 to 32768 bytes
	Value  []byte
	Delete bool // the key has no row any more; Value is ignored
}

// CheckpointDue tells whether enough was handed over since the last checkpoint to begin the next. It is cheap.
func (s *Store) CheckpointDue() bool {
	return (s.dueBytes.Load() >= s.cfg.CheckpointBytes || s.dueEntries.Load() >= s.cfg.CheckpointEntries ||
		s.wanted.Load() > s.begun.Load()) && !s.keeper.active()
}

// BeginCheckpoint starts a checkpoint as of index, which the handler has applied and which is not below the last
// checkpoint. It takes all rows that changed since the last one. One at a time: the next may begin after
// CheckpointDone; anything else is a mistake of the caller and panics.
func (s *Store) BeginCheckpoint(index uint64) *CheckpointWriter {
	term, conf, known := s.tail.at(index)
	w := &CheckpointWriter{keeper: s.keeper, mark: checkpointMark{index: index, term: term, conf: conf}}
	if !s.keeper.begin(&w.mark, known) {
		return w
	}
	if !known {
		panic(fmt.Sprintf("raftstore: checkpoint as of entry %d, which was not handed over or is gone", index))
	}
	s.dueBytes.Store(0)
	s.dueEntries.Store(0)
	s.begun.Store(index)
	return w
}

// checkpointMark is as of what a checkpoint is.
type checkpointMark struct {
	index, term uint64
	conf        confRecord
	restored    uint64 // the last checkpoint from elsewhere; a later one voids this
	void        bool   // it was void from the start
}

// CheckpointWriter collects the rows of one checkpoint. Its methods do not block and are for one goroutine at a time.
type CheckpointWriter struct {
	keeper *keeper
	mark   checkpointMark
}

// Put adds rows, which belong to the writer from then on. False means that the queue is full and nothing was taken:
// offer the same rows again later. Rows under a prefix that was dropped before are ignored.
func (w *CheckpointWriter) Put(rows []Row) bool {
	bytes := 0
	for _, r := range rows {
		bytes += len(r.Key) + len(r.Value) + entryOverheadEstimate
	}
	return w.keeper.offer(keeperJob{of: &w.mark, rows: rows, bytes: bytes})
}

// DeletePrefix drops all rows whose key begins with prefix, those of this checkpoint included. This becomes durable
// with the checkpoint; the rows are removed in the background afterwards. The prefix is not empty and no key under it
// may be used again.
func (w *CheckpointWriter) DeletePrefix(prefix []byte) {
	if len(prefix) == 0 {
		panic("raftstore: empty prefix")
	}
	w.keeper.add(keeperJob{of: &w.mark, drop: prefix})
}

// Finish makes the rows and the index durable in one transaction, in the background; then the handler gets
// CheckpointDone and the log is cut. The writer may not be used any more.
func (w *CheckpointWriter) Finish() {
	w.keeper.add(keeperJob{of: &w.mark, commit: &w.mark})
}

// keeperJob is one thing for the keeper to do.
type keeperJob struct {
	of     *checkpointMark // whose rows; nil for jobs of the store itself
	rows   []Row
	bytes  int
	drop   []byte
	commit *checkpointMark
	cut    uint64

	replace  *received
	replaced chan error
}

// keeper is the goroutine that writes checkpoints, sweeps dropped rows and cuts the log.
type keeper struct {
	rows   rowDevice
	log    logDevice
	inbox  *inbox
	bell   bell
	stop   chan struct{}
	done   chan struct{}
	limit  int // rows per sweep
	sweeps bool

	mu       sync.Mutex
	jobs     []keeperJob
	queued   int    // bytes of rows in jobs
	open     bool   // between begin and the commit
	restored uint64 // index of the last checkpoint from elsewhere, see checkpointMark
}

func newKeeper(s *Store) *keeper {
	return &keeper{
		rows: s.rowStore, log: s.device, inbox: &s.inbox, limit: sweepRowsMax, sweeps: true,
		bell: newBell(), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (k *keeper) active() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// begin opens a checkpoint, and reports whether it did. It does not where the handler has yet to hear of a checkpoint from
// elsewhere, which has taken the place of everything that this one could say: known tells whether the log has the entry.
// Such a checkpoint would end with a job that is dropped, and would stay open for ever.
func (k *keeper) begin(mark *checkpointMark, known bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if mark.index < k.restored || mark.index == k.restored && !known {
		mark.void = true
		return false
	}
	if k.open {
		panic("raftstore: a checkpoint is being written already")
	}
	mark.restored, k.open = k.restored, true
	return true
}

// offer queues rows if there is room; a single batch larger than the queue is taken when the queue is empty.
func (k *keeper) offer(j keeperJob) bool {
	k.mu.Lock()
	full := k.queued > 0 && k.queued+j.bytes > checkpointQueueMax
	if !full {
		k.jobs = append(k.jobs, j)
		k.queued += j.bytes
	}
	k.mu.Unlock()
	k.bell.ring()
	return !full
}

func (k *keeper) add(j keeperJob) {
	k.mu.Lock()
	k.jobs = append(k.jobs, j)
	k.mu.Unlock()
	k.bell.ring()
}

// replace makes a received checkpoint ours, after what was queued before, and waits for that.
func (k *keeper) replace(r *received) error {
	j := keeperJob{replace: r, replaced: make(chan error, 1)}
	k.add(j)
	select {
	case err := <-j.replaced:
		return err
	case <-k.done:
		return errors.New("take over a checkpoint: the one before could not be written")
	}
}

// takeOver gives up an open checkpoint and puts a received one in its place. That holds from the moment at which the rows
// may be the new ones, for whoever begins a checkpoint meanwhile.
func (k *keeper) takeOver(r *received) error {
	k.mu.Lock()
	k.restored, k.open = r.meta.Index, false
	k.mu.Unlock()
	return k.rows.replace(r)
}

// voids tells whether a checkpoint from elsewhere has taken the place of the one that a job belongs to.
func (k *keeper) voids(j keeperJob) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return j.of != nil && (j.of.void || j.of.restored != k.restored)
}

func (k *keeper) cut(first uint64) { k.add(keeperJob{cut: first}) }

// close ends the goroutine. A checkpoint that is not committed is given up.
func (k *keeper) close() {
	close(k.stop)
	<-k.done
}

func (k *keeper) run() {
	defer close(k.done)
	for {
		more, err := k.work()
		if err != nil {
			k.inbox.fail(err)
			return
		}
		var pause <-chan time.Time
		if more {
			pause = time.After(sweepPause)
		}
		select {
		case <-k.bell:
		case <-pause:
		case <-k.stop:
			return
		}
	}
}

// work does all queued jobs unless it is to end, and then, between checkpoints, one slice of sweeping. It reports whether there is more to
// sweep.
func (k *keeper) work() (more bool, err error) {
	for {
		select {
		case <-k.stop: // what is not committed is given up anyway
			return false, nil
		default:
		}
		k.mu.Lock()
		if len(k.jobs) == 0 {
			idle := !k.open
			k.mu.Unlock()
			if !idle || !k.sweeps {
				return false, nil
			}
			k.sweeps, err = k.rows.sweep(k.limit)
			return k.sweeps, err
		}
		j := k.jobs[0]
		k.jobs = k.jobs[1:]
		k.mu.Unlock()
		if err := k.do(j); err != nil {
			return false, err
		}
		k.mu.Lock()
		k.queued -= j.bytes
		k.mu.Unlock()
	}
}

func (k *keeper) do(j keeperJob) error {
	switch {
	case k.voids(j):
		return nil
	case j.replace != nil:
		err := k.takeOver(j.replace)
		j.replaced <- err
		return err
	case j.commit != nil:
		if err := k.rows.commit(j.commit.index, j.commit.term, j.commit.conf); err != nil {
			return err
		}
		k.sweeps = true
		k.mu.Lock()
		k.open = false
		k.mu.Unlock()
		k.inbox.put(func(m *mail) { m.checkpoints = append(m.checkpoints, *j.commit) })
		return nil
	case j.cut > 0:
		return k.log.cut(j.cut)
	case j.drop != nil:
		return k.rows.drop(j.drop)
	default:
		return k.rows.put(j.rows)
	}
}
