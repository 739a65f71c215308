package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// checkpointPoll is how often a backup looks whether the checkpoint it wants can begin: another may be under way.
	checkpointPoll = 50 * time.Millisecond
	// backupBuffer is how many bytes of a backup are sent at once.
	backupBuffer = 256 << 10
	// backupStall is how long the client may take to read one buffer. A backup holds on to the checkpoint it reads, so the
	// file of the state grows with what changes meanwhile.
	backupStall = 30 * time.Second
)

// Snapshot implements adminpb.ClusterServer. It answers with a backup. It is read by a goroutine of its own, which ends with the stream at the latest, because
// sending waits for a client that does not read.
func (s clusterService) Snapshot(_ *adminpb.SnapshotRequest, stream grpc.ServerStreamingServer[adminpb.SnapshotChunk]) error {
	if err := s.administer(stream.Context()); err != nil {
		return err
	}
	if s.config.InMemory {
		return status.Error(codes.FailedPrecondition, "This server keeps everything in memory: there is nothing to back up")
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	stall := s.group.clock.afterFunc(time.Hour, func() { cancel(errBackupStalled) })
	stall.Stop()
	defer stall.Stop()
	chunks := &chunkWriter{stream: stream, sending: func() { stall.Reset(s.backupStall()) }}
	ended := make(chan error, 1)
	go func() {
		index, err := s.backup(ctx, chunks)
		if err == nil {
			err = stream.SendMsg(&adminpb.SnapshotChunk{Index: index, Size: chunks.size})
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return backupError(ctx, err)
	case <-ctx.Done():
		return backupError(ctx, ctx.Err())
	}
}

func (s *Server) backupStall() time.Duration {
	if s.config.backupStall != 0 {
		return s.config.backupStall
	}
	return backupStall
}

var errBackupStalled = errors.New("the client does not read")

// backupError is why a backup ended, for the client.
func backupError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errPatience):
		return status.Error(codes.Unavailable, "No leader: a snapshot needs one, so that everything acknowledged is in it; "+
			"without one, stop a server and copy its data directory")
	case errors.Is(err, raftstore.ErrBackupRuns):
		return status.Error(codes.ResourceExhausted, "This server makes another snapshot already: wait, or ask another server")
	case errors.Is(err, errStopped), errors.Is(err, raftstore.ErrStopped):
		return status.Error(codes.Unavailable, errStopped.Error())
	case errors.Is(context.Cause(ctx), errBackupStalled):
		return status.Error(codes.Canceled, "The snapshot was given up: the client does not read it")
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Internal, err.Error())
}

// chunkWriter sends what is written as messages.
type chunkWriter struct {
	stream  grpc.ServerStream
	sending func() // called before each
	size    uint64
}

func (w *chunkWriter) Write(p []byte) (int, error) {
	w.sending()
	w.size += uint64(len(p))
	if err := w.stream.SendMsg(&adminpb.SnapshotChunk{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// backup writes a checkpoint to w in which is everything that was committed when it was called. Commands go on
// meanwhile. It returns as of which entry the checkpoint is. Errors: errPatience if there was no leader for callPatience,
// errStopped, raftstore.ErrBackupRuns, those of ctx and w.
func (s *Server) backup(ctx context.Context, w io.Writer) (uint64, error) {
	bounded, cancel := s.inTime(ctx)
	defer cancel()
	if err := s.group.catchUp(bounded, s.member.awaitNews); err != nil {
		if errors.Is(context.Cause(bounded), errPatience) {
			err = errPatience
		}
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
	_, err := g.read(ctx, func(m *coordination.Machine) outcome.Outcome {
		index = uint64(m.Index())
		g.store.WantCheckpoint(index)
		g.startCheckpoint()
		return outcome.Done()
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
		_, err := g.read(ctx, func(*coordination.Machine) outcome.Outcome { g.startCheckpoint(); return outcome.Done() })
		if err != nil {
			return err
		}
	}
}
