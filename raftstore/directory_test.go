package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
)

// A second process changes nothing in a directory whose lock file was removed while a store has it.
func TestRemovedLockFile(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	s := open(t, cfg)
	defer stop(t, s)
	received := filepath.Join(cfg.Dir, datadir.CheckpointDir, checkpoint.FileName(77))
	if err := errors.Join(os.Remove(filepath.Join(cfg.Dir, datadir.LockFile)),
		os.WriteFile(received, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("a second store: %v", err)
	}
	if _, err := os.Stat(received); err != nil {
		t.Errorf("what the store receives: %v", err)
	}
}

// The name of a directory is durable before anything in it is, also if a killed process has made it.
func TestNameOfADirectoryIsDurable(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var steps []string
	cfg.before = func(step, path string) error { steps = append(steps, step+" "+path); return nil }
	stop(t, open(t, cfg))
	if want := "sync directory " + filepath.Dir(cfg.Dir); slices.Index(steps, want) != 0 {
		t.Errorf("the first steps are %q", steps[:2])
	}
}
