package group

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
)

// A server that starts with entries behind its checkpoint tells how many of them it has executed, until it is
// through.
func TestReplayTellsItsProgress(t *testing.T) {
	config := testConfig(t)
	config.Log.Dir = t.TempDir()
	g := startTest(t, config)
	for n := range 20 {
		createNode(t, g, scheme.Path{"local", fmt.Sprint("node", n)})
	}
	stopTest(t, g)
	var text bytes.Buffer
	config.Log.Logger = slog.New(slog.NewTextHandler(&text, nil))
	g, err := Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	g.replay.period = 1
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	<-g.Ready()
	if entries, of, replaying := g.Replaying(); replaying || entries != of || of < 20 {
		t.Errorf("replaying %v, %d of %d entries", replaying, entries, of)
	}
	_, of, _ := g.Replaying()
	stopTest(t, g)
	for _, n := range []uint64{1, of} {
		if want := fmt.Sprintf("msg=\"executing the log again\" entries=%d of=%d\n", n,
			of); strings.Count(text.String(), want) != 1 {
			t.Errorf("not told once: %s\n%s", want, text.String())
		}
	}
	if want := fmt.Sprintf("entries=%d ", of+1); strings.Contains(text.String(), want) {
		t.Errorf("told of what is new: %s", text.String())
	}
}

// Only a server that leads says that it is replaying: for another one what counts is how far the leader is.
func TestReplayOfALeader(t *testing.T) {
	store, err := raftstore.Open(t.Context(), raftstore.Config{InMemory: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, failure := groupByHand(t, store)
	g.core.beginReplay(0, 10)
	step := func(want bool, entries uint64) {
		t.Helper()
		workOnce(g)
		if n, of, replaying := g.Replaying(); n != entries || of != 10 || replaying != want ||
			*failure != nil {
			t.Errorf("replaying %v, %d of %d; want %v, %d; %v", replaying, n, of, want, entries, *failure)
		}
	}
	handler{g}.Following(2, 7)
	handler{g}.Committed(emptyEntries(1, 1, 3))
	step(false, 3)
	handler{g}.Leading(3)
	step(true, 3)
	handler{g}.Committed(emptyEntries(1, 4, 9))
	step(true, 9)
	handler{g}.Following(4, 7)
	step(false, 9)
	handler{g}.Leading(5)
	handler{g}.Committed(emptyEntries(1, 10, 10))
	step(false, 10)
	handler{g}.Committed(emptyEntries(5, 11, 11))
	step(false, 10)
}
