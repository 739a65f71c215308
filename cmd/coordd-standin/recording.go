package main

import (
	"context"
	"errors"
	"log/slog"
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
	since    time.Time
}

// takeRecordings adds the orders for recordings.
func takeRecordings(p *standin.Process, _ *slog.Logger) (end func()) {
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
		_, _ = r.save() // if one is under way
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
	r.recorder, r.since = record.InMemory(r.database, maxOrderedBytes), time.Now()
	r.set.SetTap(r.recorder)
	return nil
}

// save ends the recording and returns it.
func (r *recordings) save() (string, error) {
	if r.recorder == nil {
		return "", errNoRecords
	}
	r.set.SetTap(nil)
	err := r.recorder.Close()
	text := r.recorder.Text()
	r.recorder, r.since = nil, time.Time{}
	return text, err
}
