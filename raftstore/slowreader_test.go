package raftstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
)

// stalledBackup is a backup whose client has stopped reading.
type stalledBackup struct {
	begun, goOn chan struct{}
	ended       chan error
}

func (b *stalledBackup) Write(p []byte) (int, error) {
	select {
	case b.begun <- struct{}{}:
	default:
	}
	<-b.goOn
	return len(p), nil
}

// stallBackup begins a backup and returns once its client has stopped reading.
func stallBackup(s *Store) *stalledBackup {
	b := &stalledBackup{begun: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1)}
	go func() {
		_, err := s.Checkpoints.Backup(context.Background(), b)
		b.ended <- err
	}()
	<-b.begun
	return b
}

// proceed lets the client read on and returns how the backup ends.
func (b *stalledBackup) proceed() error {
	close(b.goOn)
	return <-b.ended
}

// within fails the test unless do returns.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
}

// largeRows are more than one message of a backup holds.
func largeRows() (rows []Row) {
	for _, key := range numbered("large", 0, 4) {
		rows = append(rows, row(key, strings.Repeat("x", snapshotChunkBytes)))
	}
	return rows
}

// A follower installs a checkpoint while a client reads a backup from it slowly; the backup goes on with the old one.
func TestInstallBesideBackups(t *testing.T) {
	t.Parallel()
	f, err := openHandDriven(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	if err != nil {
		t.Fatal(err)
	}
	f.entries(firstLeader, 2, 1, 1, 5, "a2", "a3", "a4", "a5")
	f.write(nil)
	w := f.s.Checkpoints.Begin(5)
	w.Put(largeRows())
	w.Finish()
	for f.s.Checkpoints.stored.Load() != 5 {
		<-f.s.inbox.bell
		f.turn(nil)
	}
	backup := stallBackup(f.s)
	f.checkpoint(firstLeader, 2, 8, 2)
	within(t, "the installation", func() {
		if err := f.s.appender.write(f.s.appender.next()); err != nil {
			t.Error(err)
		}
	})
	if err := backup.proceed(); err != nil {
		t.Errorf("the backup ended with %v", err)
	}
	old := filepath.Join(f.s.cfg.Dir, datadir.CheckpointDir, checkpoint.FileName(1))
	for ; ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(old); errors.Is(err, os.ErrNotExist) { // nobody reads it any more
			break
		}
	}
	f.stop()
}

// A server stops while a client reads a backup from it slowly; the backup ends.
func TestStopEndsBackups(t *testing.T) {
	t.Parallel()
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	r := start(t, s)
	r.lead(t)
	takeCheckpoint(t, r, largeRows()...)
	backup := stallBackup(s)
	within(t, "the end", func() { stop(t, s) })
	if err := backup.proceed(); !errors.Is(err, ErrStopped) {
		t.Errorf("the backup ended with %v", err)
	}
}
