package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coordd/coordd/conformance/record"
	"github.com/coordd/coordd/server/standin"
	"github.com/coordd/coordd/server/standin/faults"
)

// maxOrderedBytes bounds a recording that is ordered: it is one answer.
const maxOrderedBytes = 4 << 20

var (
	errRecords   = errors.New("a recording is under way: save-recording ends it")
	errNoRecords = errors.New("no recording is under way: record begins one")
)

// recordings are made when they are ordered, one at a time.
type recordings struct {
	set      *faults.Set
	database string

	mutex    sync.Mutex
	recorder *record.Recorder // nil: none is under way
	dir      string           // of its file
	since    time.Time
}

// takeRecordings adds the orders for recordings.
func takeRecordings(p *standin.Process, logger *slog.Logger) (end func()) {
	_, database := endpointOf(p)
	r := &recordings{set: p.Faults(), database: database}
	to := p.Orders()
	to.Add("record", "begin to record what is said on streams that are opened from now on, and in calls",
		r.order(func() (any, error) { return nil, r.begin() }))
	to.Add("save-recording", "end the recording; answers it as a script, as --record writes it",
		r.order(func() (any, error) { return r.save() }))
	to.Look("recording", "whether a recording is under way, and since when", r.order(func() (any, error) {
		return map[string]any{"recording": r.recorder != nil, "since": r.since}, nil
	}))
	return func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if r.recorder == nil {
			return
		}
		if _, err := r.save(); err != nil {
			logger.Warn("the recording that is under way did not end well", "error", err)
		}
	}
}

// order is an order without arguments that holds the mutex.
func (r *recordings) order(do func() (any, error)) func(context.Context, *faults.Arguments) (any, error) {
	return func(_ context.Context, a *faults.Arguments) (any, error) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return a.Then(do)
	}
}

func (r *recordings) begin() error {
	if r.recorder != nil {
		return errRecords
	}
	dir, err := os.MkdirTemp("", "coordd-recording-")
	if err != nil {
		return err
	}
	recorder, err := record.Start(filepath.Join(dir, "recording.txt"), r.database, maxOrderedBytes)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	r.recorder, r.dir, r.since = recorder, dir, time.Now()
	r.set.SetTap(recorder)
	return nil
}

// save ends the recording and returns it.
func (r *recordings) save() (string, error) {
	if r.recorder == nil {
		return "", errNoRecords
	}
	r.set.SetTap(nil)
	err := r.recorder.Close()
	text, failed := os.ReadFile(filepath.Join(r.dir, "recording.txt"))
	err = errors.Join(err, failed, os.RemoveAll(r.dir))
	r.recorder, r.dir, r.since = nil, "", time.Time{}
	return string(text), err
}
