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

// A second store is refused whatever was removed from the directory, and changes nothing.
func TestRemovedFilesAreNoLock(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	s := open(t, cfg)
	defer stop(t, s)
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	for _, file := range files {
		if info, wrong := os.Stat(file); wrong == nil && !info.IsDir() {
			err = errors.Join(err, os.Remove(file))
		}
	}
	received := filepath.Join(cfg.Dir, datadir.CheckpointDir, checkpoint.FileName(77))
	if err = errors.Join(err, os.WriteFile(received, nil, 0o600)); err != nil {
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
	want := []string{"make directory " + cfg.Dir, "sync directory " + filepath.Dir(cfg.Dir)}
	if !slices.Equal(steps[:2], want) {
		t.Errorf("the first steps are %q", steps[:2])
	}
}
