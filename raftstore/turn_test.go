package raftstore

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// exclusive is a handler that notices when it is called twice at a time.
type exclusive struct {
	*recorder
	inside, clashes, flushes atomic.Int32
}

func (e *exclusive) Committed(entries []Entry) {
	if e.inside.Add(1) != 1 {
		e.clashes.Add(1)
	}
	e.recorder.Committed(entries)
	e.inside.Add(-1)
}

func (e *exclusive) Flush(bool) { e.flushes.Add(1) }

// TestOneTurnAtATime: any goroutine that brings mail may take the turn; two never have it at once, and mail left during
// another's turn is not forgotten.
func TestOneTurnAtATime(t *testing.T) {
	for name, cfg := range map[string]Config{
		"memory": {InMemory: true, Logger: noLog}, "disk": smallConfig(filepath.Join(t.TempDir(), "data")),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, cfg)
			defer stop(t, s)
			h := &exclusive{recorder: newRecorder(s)}
			if err := s.Start(h); err != nil {
				t.Fatal(err)
			}
			term := h.lead(t)
			const proposers, each = 8, 50
			var proposing sync.WaitGroup
			for p := range proposers {
				proposing.Go(func() {
					for i := range each { // each waits for its own, so that the store is quiet time and again
						command := fmt.Sprint(p, " ", i)
						s.Propose(term, [][]byte{[]byte(command)})
						h.waitCommand(t, command)
					}
				})
			}
			proposing.Wait()
			if n := len(h.commands()); n != proposers*each || h.clashes.Load() != 0 || h.flushes.Load() == 0 {
				t.Errorf("%d commands, %d clashes, %d flushes", n, h.clashes.Load(), h.flushes.Load())
			}
		})
	}
}
