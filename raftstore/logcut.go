package raftstore

import "time"

// logMark says how much log had been handed over when a checkpoint was done.
type logMark struct {
	index uint64 // of the checkpoint
	total int64  // bytes handed over since the start
}

// checkpointDone tells the handler and cuts the log behind the checkpoint: raft forgets the entries first,
// then they are removed. One that another member's checkpoint has overtaken is nothing to tell of.
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
	l.s.log.compact(first, c.index)
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
