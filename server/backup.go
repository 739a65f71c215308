package server

import (
	"bufio"
	"context"
	"io"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

const (
	// checkpointPoll is how often a backup looks whether the checkpoint it wants can begin: another may be under way.
	checkpointPoll = 50 * time.Millisecond
	// backupBuffer is how many bytes of a backup are sent at once.
	backupBuffer = 256 << 10
)

// backup writes a checkpoint to w in which is everything that was committed when it was called. Commands go on
// meanwhile. It returns as of which entry the checkpoint is.
func (s *Server) backup(ctx context.Context, w io.Writer) (uint64, error) {
	if err := s.group.catchUp(ctx, s.member.awaitNews); err != nil {
		return 0, err
	}
	if err := s.group.checkpointNow(ctx); err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, backupBuffer)
	index, err := s.store.Backup(ctx, buffered)
	if err != nil {
		return 0, err
	}
	return index, buffered.Flush()
}

// checkpointNow returns once a checkpoint of the present state, or a later one, is durable.
func (g *group) checkpointNow(ctx context.Context) error {
	var index uint64
	_, err := g.read(ctx, func(m *coordination.Machine) scheme.Outcome {
		index = uint64(m.Index())
		g.store.WantCheckpoint(index)
		g.startCheckpoint()
		return scheme.Done()
	})
	if err != nil {
		return err
	}
	stored := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { stored <- g.store.AwaitCheckpoint(ctx, index) }()
	poll := time.NewTicker(checkpointPoll)
	defer poll.Stop()
	for {
		select {
		case err := <-stored:
			return err
		case <-poll.C:
		}
		_, err := g.read(ctx, func(*coordination.Machine) scheme.Outcome { g.startCheckpoint(); return scheme.Done() })
		if err != nil {
			return err
		}
	}
}
