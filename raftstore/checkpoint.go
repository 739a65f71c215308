package raftstore

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/raftlog"
)

// Row is one row of a checkpoint: a key, of 1 to 32768 bytes, with its value as of the checkpoint's index, or the fact
// that it is gone.
type Row = checkpoint.Row

// received is a checkpoint that was collected: its file, which is whole and durable, and its record.
type received struct {
	file *checkpoint.FileWriter
	meta datadir.Meta
}

// rowDevice is where checkpoints become durable. Disk and memory implement it. For the exported methods see
// checkpoint.Store.
type rowDevice interface {
	Put(rows []Row)
	Drop(prefix []byte)
	Busy() bool
	Step() (durable bool, err error)
	Tidy(room bool) (more bool, err error)
	NewFile() (*checkpoint.FileWriter, error)
	Discard(*checkpoint.FileWriter)
	Close() error
	// Finish ends the next checkpoint, which is as of index: it has everything.
	Finish(index, term uint64, conf membership.Conf)
	// Replace makes a received checkpoint the last.
	Replace(file *checkpoint.FileWriter, meta datadir.Meta) error
	// Each calls fn for each row of the last durable checkpoint in the order of their keys.
	Each(fn func(key, value []byte) error) error
	// Pin begins to read the last durable checkpoint from any goroutine. It returns nil in memory.
	Pin() (*datadir.Pinned, error)
}

// CheckpointWriter collects the rows of one checkpoint. Its methods do not block and are for one goroutine at
// a time.
type CheckpointWriter struct {
	keeper *keeper
	mark   checkpointMark
}

// Put adds rows, which belong to the writer from then on. False means that the queue is full and nothing was
// taken: offer the same rows again later. Of several rows with one key the last one counts.
func (w *CheckpointWriter) Put(rows []Row) bool {
	bytes := 0
	for _, r := range rows {
		bytes += r.Bytes()
	}
	return w.keeper.offer(keeperJob{of: &w.mark, rows: rows, bytes: bytes})
}

// DeletePrefix drops all rows whose key begins with prefix, those of this checkpoint included, whether they are put
// before or after. This becomes durable with the checkpoint. The prefix is not empty.
func (w *CheckpointWriter) DeletePrefix(prefix []byte) {
	if len(prefix) == 0 {
		panic("raftstore: empty prefix")
	}
	w.keeper.add(keeperJob{of: &w.mark, drop: prefix})
}

// Finish makes the rows and the index durable together, in the background; then the handler gets
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

// keeper is the goroutine that writes checkpoints, merges their files and cuts the log.
type keeper struct {
	rows       rowDevice
	log        raftlog.Device
	inbox      *inbox
	bell       turn.Bell
	stop       chan struct{}
	done       chan struct{}
	hurry      func() bool    // the log grows faster than checkpoints are written
	room       func() bool    // the disk has room for a merge
	committing checkpointMark // the checkpoint that was finished last
	rest       time.Time      // not before then the next merge's piece is written, unless there is a hurry

	tidy atomic.Bool // nothing is to be merged or removed

	mu       sync.Mutex
	jobs     []keeperJob
	queued   int    // bytes of rows in jobs
	open     bool   // between begin and the commit
	restored uint64 // index of the last checkpoint from elsewhere, see checkpointMark
}

func newKeeper(s *Store) *keeper {
	return &keeper{
		rows: s.rowStore, log: s.device, inbox: &s.inbox,
		bell: turn.NewBell(), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (k *keeper) active() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// begin opens a checkpoint, and reports whether it did. It does not where the handler has yet to hear of a
// checkpoint from elsewhere, which has taken the place of everything that this one could say: known reports
// whether the log has the entry. Such a checkpoint would end with a job that is dropped, and would stay open
// for ever.
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
	k.bell.Ring()
	return !full
}

func (k *keeper) add(j keeperJob) {
	k.mu.Lock()
	k.jobs = append(k.jobs, j)
	k.mu.Unlock()
	k.bell.Ring()
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

// putInPlace gives up an open checkpoint and puts a received one in its place. A checkpoint that is begun from here on
// is of the new rows.
func (k *keeper) putInPlace(r *received) error {
	k.mu.Lock()
	k.restored, k.open = r.meta.Index, false
	k.mu.Unlock()
	return k.rows.Replace(r.file, r.meta)
}

// voids reports whether a checkpoint from elsewhere has taken the place of the one that a job belongs to.
func (k *keeper) voids(j keeperJob) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return j.of != nil && (j.of.void || j.of.restored != k.restored)
}

// discard gives up a checkpoint that came in.
func (k *keeper) discard(r *received) {
	k.rows.Discard(r.file)
	k.bell.Ring()
}

// release ends the reading of a checkpoint, whose files may be removed then.
func (k *keeper) release(p *datadir.Pinned) {
	p.Release()
	k.bell.Ring()
}

func (k *keeper) cut(first uint64) { k.add(keeperJob{cut: first}) }

// close ends the goroutine, after the piece that is being written. A checkpoint that is not durable is
// given up.
func (k *keeper) close() {
	close(k.stop)
	<-k.done
}

func (k *keeper) run() {
	defer close(k.done)
	for {
		pause, err := k.work()
		if err != nil {
			k.inbox.fail(err)
			return
		}
		var over <-chan time.Time
		bell := k.bell
		if pause > 0 {
			over = time.After(pause)
		}
		if k.rows.Busy() { // nothing that comes in makes a pause between two steps shorter
			bell = nil
		}
		select {
		case <-bell:
		case <-over:
		case <-k.stop:
			return
		}
	}
}

// work does what is queued until there is nothing more to do, or only after a pause: a checkpoint in steps,
// and between jobs what may be done at any pace.
func (k *keeper) work() (pause time.Duration, err error) {
	for {
		select {
		case <-k.stop: // what is not durable is given up anyway
			return 0, nil
		default:
		}
		if j, waiting := k.next(k.rows.Busy()); waiting {
			err = k.do(j)
			k.mu.Lock()
			k.queued -= j.bytes
			k.mu.Unlock()
		} else if k.rows.Busy() {
			if pause, err = k.step(); pause > 0 {
				return pause, err
			}
		} else {
			more := false
			if more, pause, err = k.tidyUp(); !more || pause > 0 {
				return pause, err
			}
		}
		if err != nil {
			return 0, err
		}
	}
}

// next takes the first job out of the queue. Behind steps that have to be done first, that is one which
// concerns no checkpoint of ours: such jobs pass the others, so that nobody waits for a checkpoint that a
// received one voids.
func (k *keeper) next(stepsFirst bool) (j keeperJob, waiting bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.IndexFunc(k.jobs, func(j keeperJob) bool { return !stepsFirst || j.of == nil })
	if at < 0 {
		return j, false
	}
	j = k.jobs[at]
	k.jobs = slices.Delete(k.jobs, at, at+1)
	return j, true
}

func (k *keeper) do(j keeperJob) error {
	switch {
	case k.voids(j):
	case j.replace != nil:
		err := k.putInPlace(j.replace)
		j.replaced <- err
		return err
	case j.commit != nil:
		k.committing = *j.commit
		k.rows.Finish(j.commit.index, j.commit.term, j.commit.conf)
	case j.cut > 0:
		return k.log.Cut(j.cut)
	case j.drop != nil:
		k.rows.Drop(j.drop)
	default:
		k.rows.Put(j.rows)
	}
	return nil
}

// step writes one piece of a checkpoint. The pause after it leaves the disk to the log, unless the log grows too fast
// for that.
func (k *keeper) step() (pause time.Duration, err error) {
	begun, hurry := time.Now(), k.hurry()
	durable, err := k.rows.Step()
	if err != nil {
		return 0, err
	}
	if durable {
		k.mu.Lock()
		k.open = false
		k.mu.Unlock()
		k.tidy.Store(false)
		c := k.committing
		k.inbox.put(func(m *mail) { m.checkpoints = append(m.checkpoints, c) })
		return 0, nil
	}
	if !hurry {
		pause = pauseAfter(begun)
	}
	return pause, nil
}

// pauseAfter returns the pause after a write that was begun at a time.
func pauseAfter(begun time.Time) time.Duration { return min(stepPause*time.Since(begun), stepPauseMax) }

// tidyUp writes one piece of a merge, or removes a file. Jobs that come meanwhile make the pauses no shorter.
func (k *keeper) tidyUp() (more bool, pause time.Duration, err error) {
	begun, hurry := time.Now(), k.hurry()
	if wait := k.rest.Sub(begun); wait > 0 && !hurry {
		return true, wait, nil
	}
	if more, err = k.rows.Tidy(k.room()); more && !hurry {
		pause = pauseAfter(begun)
		k.rest = time.Now().Add(pause)
	}
	k.tidy.Store(!more)
	return more, pause, err
}
