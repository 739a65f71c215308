package group

import (
	"context"
	"testing"
)

// TestProgress wants progress exactly while turns come to an end.
func TestProgress(t *testing.T) {
	g := openTest(t, nil)
	if !Progress(t.Context(), g) {
		t.Error("a group that works makes no progress")
	}
	g.hold(g.turn.Lock())
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan bool)
	go func() { answered <- Progress(ctx, g) }()
	cancel()
	if <-answered {
		t.Error("a group whose turn does not end makes progress")
	}
	g.turn.Unlock()
}
