package group

import (
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

// runningCheckpoint hands the machine's frozen rows to the store in slices, each in another turn of the group,
// so that no request waits for the whole.
type runningCheckpoint struct {
	rows    *coordination.Checkpoint
	writer  *raftstore.CheckpointWriter
	offered []raftstore.Row      // refused by the writer, whose queue was full
	marked  bool                 // all servers take one at this index: the digests are compared
	next    coordination.Instant // not before then is the next slice, unless the log presses
}

const (
	// rowsPerTurn is how many rows are encoded between two batches: about a tenth of a millisecond's work.
	rowsPerTurn = 128
	// slicePause is the time between two slices: what is encoded without a pause takes a processor from the
	// requests, and the collector begins in its midst, which takes another. 100,000 rows take about a second.
	slicePause = time.Millisecond
	// writerFullPause is how long an idle group waits for a writer whose queue is full.
	writerFullPause = 5 * time.Millisecond
	// loadRowsTold is how many rows are loaded between two looks at the clock, which tells of the progress
	// each second.
	loadRowsTold = 4096
	// logFullPause is how long an idle group waits for the checkpoint without which the log takes no more.
	logFullPause = 10 * time.Millisecond
)

// wakeForCheckpoint is when the group is to wake up for the checkpoint at the latest.
func (g *Group) wakeForCheckpoint() coordination.Instant {
	switch c := g.checkpoint; {
	case c == nil:
		return coordination.Never
	case c.offered != nil:
		return g.shell.Now() + coordination.Instant(writerFullPause)
	default:
		return g.nextSlice()
	}
}

// nextSlice is when the next slice is due.
func (g *Group) nextSlice() coordination.Instant {
	if g.store.LogGrows() {
		return 0
	}
	return g.checkpoint.next
}

// startCheckpoint freezes the state if the store wants a checkpoint and no mark is to be waited for.
func (g *Group) startCheckpoint() {
	if g.checkpoint == nil && g.store.CheckpointDue() && !g.awaitsMark() {
		g.beginCheckpoint()
	}
}

// beginCheckpoint freezes the state.
func (g *Group) beginCheckpoint() {
	rows := g.replica.Machine().Freeze()
	writer := g.store.BeginCheckpoint(uint64(rows.Index()))
	for _, id := range rows.Dropped() {
		writer.DeletePrefix(codec.NodePrefix(id))
	}
	g.checkpoint = &runningCheckpoint{rows: rows, writer: writer}
}

// continueCheckpoint hands over the next slice.
func (g *Group) continueCheckpoint() {
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
				g.digests.addOwn(g.reportOf(c.rows.Index(), digest))
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
