package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/coordd/coordd/raftstore/datadir"
)

// storedRows makes a directory with a checkpoint of so many rows.
func storedRows(t *testing.T, count int) (cfg Config, want map[string]string) {
	cfg, want = smallConfig(filepath.Join(t.TempDir(), "data")), map[string]string{}
	cfg.steps = datadir.StepLimits{}
	s := open(t, cfg)
	r := start(t, s)
	propose(t, r, r.lead(t), "a")
	var rows []Row
	for n := range count {
		key, value := fmt.Sprintf("row %06d", n), fmt.Sprint("value ", n)
		rows = append(rows, row(key, value))
		want[key] = value
	}
	takeCheckpoint(t, r, rows...)
	stop(t, s)
	return cfg, want
}

// Open loads the rows that Rows gives.
func TestLoadWhileOpening(t *testing.T) {
	cfg, want := storedRows(t, 2000)
	got := map[string]string{}
	cfg.Load = func(key, value []byte) error { got[string(key)] = string(value); return nil }
	s := open(t, cfg)
	defer stop(t, s)
	if !maps.Equal(got, want) {
		t.Errorf("%d rows are loaded, want %d", len(got), len(want))
	}
	again := map[string]string{}
	if err := s.Rows(func(key,
		value []byte) error {
		again[string(key)] = string(value)
		return nil
	}); err != nil || !maps.Equal(again, want) {
		t.Errorf("%d rows, want %d: %v", len(again), len(want), err)
	}
}

// An error of Config.Load ends Open, and damage that is found while rows are loaded is reported as damage.
func TestLoadFails(t *testing.T) {
	cfg, _ := storedRows(t, 2000)
	refused := errors.New("refused")
	calls := 0
	cfg.Load = func(_, _ []byte) error {
		if calls++; calls == 1000 {
			return refused
		}
		return nil
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, refused) {
		t.Errorf("opened with %v", err)
	}
	path := onlyRows(t, cfg.Dir)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(b, []byte("value 1500"))
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Load = func(_, value []byte) error {
		if string(value[1:]) == "alue 1500" {
			t.Error("a damaged row is handed over")
		}
		return nil
	}
	var damage *datadir.CorruptionError
	if _, err := Open(t.Context(), cfg); !errors.As(err, &damage) {
		t.Errorf("opened with %v", err)
	}
}

// A start logs its progress and the total.
func TestStartTellsItsProgress(t *testing.T) {
	cfg, _ := storedRows(t, 3*datadir.ProgressSteps)
	var text bytes.Buffer
	cfg.Logger, cfg.toldEach = slog.New(slog.NewTextHandler(&text, nil)), 1
	stop(t, open(t, cfg))
	for _, want := range []string{
		fmt.Sprintf(`msg="reading the checkpoint" rows=%d of=%d`, datadir.ProgressSteps, 3*datadir.ProgressSteps),
		fmt.Sprintf(`msg="reading the checkpoint" rows=%d of=%d`, 2*datadir.ProgressSteps, 3*datadir.ProgressSteps),
		`msg="reading the log" files=\d+ of=\d+`,
	} {
		if !regexp.MustCompile(want).Match(text.Bytes()) {
			t.Errorf("%s is missing in:\n%s", want, text.String())
		}
	}
}

// onlyRows returns the one file of rows in a data directory.
func onlyRows(t testing.TB, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, datadir.CheckpointDir, "*.rows"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}
