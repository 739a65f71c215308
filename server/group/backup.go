package group

import (
	"bufio"
	"context"
	"io"
	"time"

	"github.com/coordd/coordd/scheme/outcome"
)

const (
	// checkpointPoll is the pause between two attempts of a backup to begin its checkpoint: another may be under way.
	checkpointPoll = 50 * time.Millisecond
	// backupBuffer is the size of the pieces in which a backup is written.
	backupBuffer = 256 << 10
)

// Backup writes a checkpoint to w that has everything that this server had applied when it was called, and returns its
// index. Commands go on meanwhile. Errors: ErrStopped, those of ctx and those of Checkpoints.Backup.
func (g *Group) Backup(ctx context.Context, w io.Writer) (uint64, error) {
	if err := g.checkpointNow(ctx); err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, backupBuffer)
	index, err := g.store.Checkpoints.Backup(ctx, buffered)
	if err != nil {
		return 0, err
	}
	return index, buffered.Flush()
}

// checkpointNow returns once a checkpoint of the present state, or a later one, is durable.
func (g *Group) checkpointNow(ctx context.Context) error {
	var index uint64
	_, err := g.readCore(ctx, func(c *core) outcome.Outcome {
		index = uint64(c.replica.Machine().Index())
		g.store.Checkpoints.Want(index)
		c.startCheckpoint()
		return outcome.Done()
	})
	if err != nil {
		return err
	}
	stored := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { stored <- g.store.Checkpoints.Await(ctx, index) }()
	poll := time.NewTicker(checkpointPoll)
	defer poll.Stop()
	for {
		select {
		case err := <-stored:
			return err
		case <-poll.C:
		}
		_, err := g.readCore(ctx, func(c *core) outcome.Outcome { c.startCheckpoint(); return outcome.Done() })
		if err != nil {
			return err
		}
	}
}
