package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/raftstore/raftlog"
)

// Checkpoints knows when the next checkpoint is due, and begins it. Its methods are cheap, and may be called from any
// goroutine once the store is started.
type Checkpoints struct {
	cfg     *Config
	log     *raftlog.Log
	keeper  *keeper
	stopped <-chan struct{}

	due     due
	wanted  atomic.Uint64 // see Want
	begun   atomic.Uint64 // index of the last checkpoint that was begun
	stored  atomic.Uint64 // index of the last checkpoint that is durable
	backups sync.Mutex    // held during a backup
}

// opened begins with the checkpoint that was found, as of index.
func (c *Checkpoints) opened(index uint64) {
	c.begun.Store(index)
	c.stored.Store(index)
	c.due.restore(index)
}

// reached reports whether one part was applied of the bytes or commands that make a checkpoint due.
func (c *Checkpoints) reached(part int64) bool {
	return c.due.bytes.Load() >= c.cfg.CheckpointBytes/part || c.due.commands.Load() >= c.cfg.CheckpointCommands/part
}

// exceeded reports whether a quarter more was applied than makes a checkpoint due.
func (c *Checkpoints) exceeded() bool {
	return c.due.bytes.Load() >= c.cfg.CheckpointBytes/4*5 || c.due.commands.Load() >= c.cfg.CheckpointCommands/4*5
}

func (c *Checkpoints) awaited() bool { return c.wanted.Load() > c.begun.Load() }

// Due reports whether enough was applied since the last checkpoint to begin the next, and the last one is durable.
func (c *Checkpoints) Due() bool { return (c.reached(1) || c.awaited()) && !c.Open() }

// Overdue reports whether the next checkpoint should not wait any longer for a place in the log at which all members
// take one: a quarter more was applied than makes it due, or somebody waits for it.
func (c *Checkpoints) Overdue() bool { return (c.exceeded() || c.awaited()) && !c.Open() }

// Open reports whether a checkpoint was begun and is not durable yet.
func (c *Checkpoints) Open() bool { return c.keeper.active() }

// LogFull reports whether so much was applied since the last checkpoint was begun that the next one would be due, and
// the last one is still being written. Then no more commands should be taken until it is not full any more: the log,
// and with it the time that a restart takes, has grown to twice what it should be.
func (c *Checkpoints) LogFull() bool { return c.reached(1) && c.Open() }

// LogGrows reports whether half of the log that makes the next checkpoint due has come since the last one was begun.
// Then one that is open should be over soon, also at the cost of the requests.
func (c *Checkpoints) LogGrows() bool { return c.reached(2) }

// Want makes Due true, once no other checkpoint is being written, until one as of index or later has begun.
func (c *Checkpoints) Want(index uint64) {
	for {
		old := c.wanted.Load()
		if index <= old || c.wanted.CompareAndSwap(old, index) {
			return
		}
	}
}

// Begin starts a checkpoint as of index, the last entry for which the handler has called Applied, which is not below
// the last checkpoint. It takes all rows that changed since the last one. One at a time: the next may begin after
// CheckpointDone; anything else is a mistake of the caller and panics.
func (c *Checkpoints) Begin(index uint64) *CheckpointWriter {
	term, conf, known := c.log.At(index)
	w := &CheckpointWriter{keeper: c.keeper, mark: checkpointMark{index: index, term: term, conf: conf,
		begun: time.Now()}}
	if !c.keeper.begin(&w.mark, known) {
		return w
	}
	if !known {
		panic(fmt.Sprintf("raftstore: checkpoint as of entry %d, which was not handed over or is gone",
			index))
	}
	c.due.begin()
	c.begun.Store(index)
	return w
}

// ErrBackupRuns is returned while another Backup is under way: one at a time, because each holds on to old files.
var ErrBackupRuns = errors.New("another backup is under way")

// Backup writes the last checkpoint to w: all rows as of one entry, each with its checksum, and a checksum
// over everything. What was committed after that checkpoint is not in it; take a checkpoint first to have it.
// Other work goes on meanwhile and does not wait for w. It returns the index of the checkpoint. Call it between Start
// and Stop. Errors: ErrBackupRuns, ErrStopped as soon as w returns, those of w and ctx.
func (c *Checkpoints) Backup(ctx context.Context, w io.Writer) (index uint64, err error) {
	if !c.backups.TryLock() {
		return 0, ErrBackupRuns
	}
	defer c.backups.Unlock()
	ctx, cancel := context.WithTimeout(ctx, backupTimeMax)
	defer cancel()
	p, err := c.keeper.rows.Pin()
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, errors.New("backup: there are no checkpoints in memory")
	}
	defer c.keeper.release(p)
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

// due measures the log that a restart would replay: what was applied since the last checkpoint was begun. The store
// counts its bytes. The handler, which decodes the entries, reports the commands with Applied. So replayed entries
// count like new ones, and a checkpoint as of the last entry that was applied leaves nothing. What was handed over and
// not applied yet, handedBytesMax of it, does not count.
type due struct {
	bytes, commands atomic.Int64

	mu      sync.Mutex
	applied uint64       // the last entry that counts
	handed  []handedBulk // not yet applied, oldest first
}

// handedBulk is some entries that were handed over together.
type handedBulk struct {
	last  uint64
	bytes int
}

// handOver notes entries that the handler gets.
func (d *due) handOver(last uint64, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handed = append(d.handed, handedBulk{last, bytes})
}

// apply counts the entries up to index, which had so many commands. An entry without any takes its time, too.
func (d *due) apply(index uint64, commands int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.handed) > 0 && d.handed[0].last <= index {
		d.bytes.Add(int64(d.handed[0].bytes))
		d.handed = d.handed[1:]
	}
	if index > d.applied {
		d.commands.Add(max(int64(commands), int64(index-d.applied)))
		d.applied = index
	}
}

// begin records that a checkpoint was begun as of the last entry that was applied.
func (d *due) begin() {
	d.bytes.Store(0)
	d.commands.Store(0)
}

// restore records that a checkpoint from elsewhere, as of index, has taken the place of everything.
func (d *due) restore(index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handed, d.applied = nil, index
	d.begin()
}

// Await returns once a checkpoint as of index or later is durable. It does not see to it that there is one, see Want.
// Errors: ErrStopped, that of ctx.
func (c *Checkpoints) Await(ctx context.Context, index uint64) error {
	return c.keeper.inbox.pursue(ctx, c.stopped, &pursuit{attempt: func(*loop) error { return nil },
		done: func(*loop) bool { return c.stored.Load() >= index }})
}

// logMark records how much log had been handed over when a checkpoint was done.
type logMark struct {
	index uint64 // of the checkpoint
	total int64  // bytes handed over since the start
}

// checkpointDone notifies the handler and truncates the log below the checkpoint: raft forgets the entries first, then
// they are removed. A checkpoint that another member's has overtaken is not reported.
func (l *loop) checkpointDone(c checkpointMark) {
	if c.index < l.s.Checkpoints.stored.Load() {
		return
	}
	l.s.Checkpoints.stored.Store(c.index)
	l.s.meters.storedAt.Store(time.Now().UnixNano())
	if !c.begun.IsZero() {
		l.s.meters.checkpoints.Observe(time.Since(c.begun))
	}
	l.handler.CheckpointDone(c.index)
	l.marks = append(l.marks, logMark{c.index, l.handedTotal})
	first := l.firstKept(c.index)
	l.s.log.Compact(first, c.index)
	l.s.keeper.cut(first)
}

// firstKept is the first entry to keep behind a checkpoint as of index: TailEntriesKept, within LagBytesKept,
// and on the leader what the slowest member needs that is there to take it, within LagEntriesKept and
// LagBytesKept. What a member needs beyond that it gets as a checkpoint, which is less work then.
func (l *loop) firstKept(index uint64) uint64 {
	heavy := l.marks.heavyBound(l.handedTotal, l.s.cfg.LagBytesKept)
	first := min(max(heavy, 2), max(index, 2), index+1) // for 2 see log.origin
	if index > l.s.cfg.TailEntriesKept {
		first = max(first, index-l.s.cfg.TailEntriesKept+1)
	}
	bound := max(heavy, 2)
	if index > l.s.cfg.LagEntriesKept {
		bound = max(bound, index-l.s.cfg.LagEntriesKept+1)
	}
	if !l.leading || l.s.Space.short.Load() || bound >= first {
		return first
	}
	for id, p := range l.node.Status().Progress {
		if id != l.s.identity.Member && l.active(id) {
			first = min(first, max(bound, p.Match+1, p.PendingSnapshot+1))
		}
	}
	return first
}

// logMarks are the marks of the last checkpoints, oldest first.
type logMarks []logMark

// heavyBound returns the first entry that may be kept without more than most bytes after it, 0 if there are not
// so many. Marks that lie behind it are forgotten. total is the number of bytes handed over since the start.
func (m *logMarks) heavyBound(total, most int64) uint64 {
	for len(*m) > 1 && total-(*m)[0].total > most {
		*m = (*m)[1:]
	}
	if total > most {
		return (*m)[0].index + 1
	}
	return 0
}
