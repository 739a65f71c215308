package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group/streams"
)

// BackupStall bounds how long the client may take to read one buffer. A backup holds on to the checkpoint it
// reads, so the file of the state grows with what changes meanwhile.
const BackupStall = 30 * time.Second

// Snapshot implements adminpb.ClusterServer. It answers with a backup. It is read by a goroutine of its own,
// which ends with the stream at the latest, because sending waits for a client that does not read.
func (s *Cluster) Snapshot(_ *adminpb.SnapshotRequest,
	stream grpc.ServerStreamingServer[adminpb.SnapshotChunk]) error {
	if err := s.administer(stream.Context()); err != nil {
		return err
	}
	if s.InMemory {
		return status.Error(codes.FailedPrecondition,
			"This server keeps everything in memory: there is nothing to back up")
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	stall := s.Group.Shell().AfterFunc(time.Hour, func() { cancel(errBackupStalled) })
	stall.Stop()
	defer stall.Stop()
	chunks := &chunkWriter{stream: stream, sending: func() { stall.Reset(cmp.Or(s.Stall, BackupStall)) }}
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

var errBackupStalled = errors.New("the client does not read")

// backupError is why a backup ended, for the client.
func backupError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, calls.ErrPatience):
		return status.Error(codes.Unavailable,
			"No leader: a snapshot needs one, so that everything acknowledged is in it; "+
				"without one, stop a server and copy its data directory")
	case errors.Is(err, raftstore.ErrBackupRuns):
		return status.Error(codes.ResourceExhausted,
			"This server makes another snapshot already: wait, or ask another server")
	case errors.Is(err, streams.ErrStopped), errors.Is(err, raftstore.ErrStopped):
		return status.Error(codes.Unavailable, streams.ErrStopped.Error())
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

// backup writes a checkpoint to w that contains everything that was committed when backup was called. Commands go on
// meanwhile. It returns the index of the checkpoint's last entry. Errors: calls.ErrPatience if there was no leader for
// calls.Patience, group.ErrStopped, raftstore.ErrBackupRuns, raftstore.ErrStopped, those of ctx and w.
func (s *Cluster) backup(ctx context.Context, w io.Writer) (uint64, error) {
	bounded, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.Group.CatchUp(bounded); err != nil {
		if errors.Is(context.Cause(bounded), calls.ErrPatience) {
			err = calls.ErrPatience
		}
		return 0, err
	}
	return s.Group.Backup(ctx, w)
}
