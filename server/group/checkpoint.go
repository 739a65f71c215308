package group

import (
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

const (
	// rowsPerTurn bounds the slice of rows that a turn encodes: about a tenth of a millisecond's work.
	rowsPerTurn = 128
	// slicePause is the time between two slices. Encoding without a pause takes a processor from the requests, and the
	// collector begins in its midst, which takes another. 100,000 rows take about a second.
	slicePause = time.Millisecond
	// writerFullPause is the time after which an idle group tries again a writer whose queue was full.
	writerFullPause = 5 * time.Millisecond
	// loadRowsTold is the number of rows between two looks at the clock; the progress is logged each second.
	loadRowsTold = 4096
	// logFullPause is the time after which an idle group looks again at a log that is full until a checkpoint is
	// stored.
	logFullPause = 10 * time.Millisecond
)

// wakeForCheckpoint returns the moment at which the running checkpoint goes on.
func (g *core) wakeForCheckpoint() coordination.Instant {
	switch c := g.checkpoint; {
	case c == nil:
		return coordination.Never
	case c.offered != nil:
		return g.shell.Now() + coordination.Instant(writerFullPause)
	default:
		return g.nextSlice()
	}
}

// nextSlice returns the moment at which the next slice is due.
func (g *core) nextSlice() coordination.Instant {
	if g.store.Checkpoints.LogGrows() {
		return 0
	}
	return g.checkpoint.next
}

// startCheckpoint freezes the state if the store wants a checkpoint and no mark is to be waited for.
func (g *core) startCheckpoint() {
	if g.checkpoint == nil && g.store.Checkpoints.Due() && !g.awaitsMark() {
		g.beginCheckpoint()
	}
}

// beginCheckpoint freezes the state.
func (g *core) beginCheckpoint() {
	rows := g.replica.Machine().Freeze()
	writer := g.store.Checkpoints.Begin(uint64(rows.Index()))
	for _, id := range rows.Dropped() {
		writer.DeletePrefix(codec.NodePrefix(id))
	}
	g.checkpoint = &runningCheckpoint{rows: rows, writer: writer}
}

// continueCheckpoint hands over the next slice.
func (g *core) continueCheckpoint() {
	c := g.checkpoint
	if c == nil {
		return
	}
	if c.offered == nil {
		now := g.shell.Now()
		if now < g.nextSlice() {
			return
		}
		rows := c.rows.Next(rowsPerTurn)
		c.next = now
		if len(rows) >= rowsPerTurn { // after a smaller one there is nothing to pause for
			c.next += coordination.Instant(slicePause)
		}
		if rows == nil {
			c.writer.Finish()
			g.checkpoint = nil
			if digest, known := c.rows.Digest(); known && c.marked {
				g.comparer.Add(uint64(c.rows.Index()), digest)
			}
			return
		}
		for _, row := range rows {
			key, value, deleted := codec.EncodeRow(row)
			c.offered = append(c.offered, raftstore.Row{Key: key, Value: value, Delete: deleted})
		}
	}
	if c.writer.Put(c.offered) {
		c.offered = nil
	}
}

// DefaultMarks are the distances between two comparisons of the servers' states, if anything has changed.
var DefaultMarks = coordination.MarkPolicy{Commands: 250_000, PeriodMillis: 600_000}

// markRetry is the time until the next attempt at a mark that an older server could not read.
const markRetry = time.Minute

// mark puts a mark into the log if this server leads and one is due: by MarkPolicy, or because the checkpoint of this
// server is due, and with it those of the others. As long as a server could not read it the leader puts no mark. The
// turn is held.
func (g *core) mark() {
	g.nextMark = coordination.Never
	if g.config.Marks == (coordination.MarkPolicy{}) || g.replica.Reign() == 0 || g.replica.IsQuiet() {
		return
	}
	now, due := g.clock.Now(), g.replica.MarkDue()
	if due != coordination.Never && g.checkpoint == nil && g.store.Checkpoints.Due() {
		due = now
	}
	switch {
	case due > now:
		g.nextMark = due
	case g.FormatVersion() < codec.VersionEntries:
		g.nextMark = now + coordination.Instant(markRetry)
	default:
		g.replica.Mark()
	}
}

// checkpointAtMark freezes the state behind a mark. A server that has another checkpoint under way passes it
// over: it is compared at a later one. The turn is held.
func (g *core) checkpointAtMark() {
	if g.checkpoint != nil || g.store.Checkpoints.Open() {
		g.logger.Debug("passing over a mark: the last checkpoint is not stored yet", "index", g.entry.Index)
		return
	}
	g.reportApplied(uint64(g.entry.Index)) // what comes behind the mark counts towards the next one
	g.beginCheckpoint()
	g.checkpoint.marked = true
}

// awaitsMark reports whether a checkpoint that is due is better taken at the mark that the leader puts into
// the log when its own is due. It does not come if nobody leads, nor before all servers can read it.
func (g *core) awaitsMark() bool {
	return g.config.Marks != (coordination.MarkPolicy{}) && g.FormatVersion() >= codec.VersionEntries &&
		!g.store.Checkpoints.Overdue()
}

// digestRestored takes over the digest of the checkpoint that the machine was read from. It was right or
// wrong before already: so what was noticed before a restart is noticed again, even if it had not been
// written down.
func (g *core) digestRestored() {
	if index, digest := g.replica.Machine().RestoredDigest(); index != 0 {
		g.comparer.Replace(uint64(index), digest)
	}
}
