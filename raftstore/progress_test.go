package raftstore

import (
	"context"
	"testing"
)

// TestProgress wants progress exactly while turns come to an end, and a write that does not end to be known.
func TestProgress(t *testing.T) {
	s := open(t, Config{InMemory: true, Logger: noLog})
	defer stop(t, s)
	h := newRecorder(s)
	if err := s.Start(h); err != nil {
		t.Fatal(err)
	}
	h.lead(t)
	if !s.Progress(t.Context()) || s.AwaitsDisk() {
		t.Error("a log that works makes no progress, or waits for its disk")
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	s.inbox.task(func(*loop) { close(entered); <-leave })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Progress(ctx) {
		t.Error("a log whose turn does not end makes progress")
	}
	close(leave)
}
