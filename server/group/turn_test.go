package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/streams"
)

// deafHandler is a log's handler that does nothing: the test tells the group itself what the log says.
type deafHandler struct{}

func (deafHandler) Committed([]raftstore.Entry) {}
func (deafHandler) Leading(uint64)              {}
func (deafHandler) Following(uint64, uint64)    {}
func (deafHandler) ReadReady(uint64, uint64)    {}
func (deafHandler) CheckpointDone(uint64)       {}
func (deafHandler) Flush(bool)                  {}
func (deafHandler) Failed(error)                {}

// groupByHand is a group whose turns the test takes, on a store that was opened.
func groupByHand(t *testing.T, store *raftstore.Store) (g *Group, failure *error) {
	t.Helper()
	failure = new(error)
	g = newGroup(Config{Database: "/local", Limits: coordination.DefaultLimits(), Clock: clock.New(nil),
		Failed: func(err error) { *failure = err }})
	g.store, g.lease, g.logFull = store, store, store.Checkpoints.LogFull
	var err error
	if g.stored, err = newLoader(g.config); err != nil {
		t.Fatal(err)
	}
	if err := store.Rows(g.stored.add); err != nil {
		t.Fatal(err)
	}
	if err := g.load(); err != nil {
		t.Fatal(err)
	}
	if err := store.Start(deafHandler{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g, failure
}

// workOnce takes a turn.
func workOnce(g *Group) {
	defer g.turn.Unlock()
	g.hold(g.turn.Lock()).work()
}

// emptyEntries are entries without a command.
func emptyEntries(term, first, last uint64) (entries []raftstore.Entry) {
	for index := first; index <= last; index++ {
		entries = append(entries, raftstore.Entry{Index: index, Term: term})
	}
	return entries
}

// TestLongTurnsAreTheGroupsOwn wants the goroutine that writes the log, and those that read what other
// servers say, to do little work only: while they are busy nothing is written, and no heartbeat is heard.
// What takes long waits for the group's own goroutine.
func TestLongTurnsAreTheGroupsOwn(t *testing.T) {
	store, err := raftstore.Open(t.Context(), raftstore.Config{InMemory: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, failure := groupByHand(t, store)
	next := uint64(1)
	commit := func(term uint64, n uint64, data []byte) {
		entries := emptyEntries(term, next, next+n-1)
		entries[0].Data = data
		next += n
		handler{g}.Committed(entries)
	}
	large := codec.AppendCommand(nil, &coordination.CreateSemaphore{Data: make([]byte, 2<<20)})
	for _, step := range []struct {
		name string
		tell func()
		long bool
	}{
		{"an entry", func() { commit(1, 1, nil) }, false},
		{"a batch", func() { commit(1, 300, nil) }, false},
		{"a large batch", func() { commit(1, 5000, nil) }, true},
		{"a large command", func() { commit(1, 1, large) }, true},
		{"a dropped node", func() {
			commit(1, 1, codec.AppendCommand(nil, &coordination.DropNode{Path: scheme.Path{"local", "no"}}))
		}, true},
		{"another leader", func() { handler{g}.Following(2, 7) }, true},
		{"the leadership", func() { handler{g}.Leading(3) }, true},
		{"the first entry of the term that is led", func() { commit(3, 1, nil) }, true},
		{"an entry that is led", func() { commit(3, 1, nil) }, false},
		{"many requests", func() {
			for range 5000 {
				g.queue.put(event{call: &call{
					read: func(*core) outcome.Outcome { return outcome.Done() },
					done: make(chan callAnswer, 1)}})
			}
		}, true},
		{"the leadership lost", func() { handler{g}.Following(4, 0) }, true},
		{"another member's checkpoint", func() { handler{g}.Restore(next + 10) }, true},
	} {
		select {
		case <-g.queue.bell:
		default:
		}
		step.tell()
		handler{g}.Flush(false)
		if left := !g.queue.empty(); left != step.long {
			t.Errorf("%s: left to the group's own goroutine is %v, want %v", step.name, left, step.long)
		}
		if step.long {
			select {
			case <-g.queue.bell:
			default:
				t.Errorf("%s: nobody woke the group's own goroutine", step.name)
			}
		}
		workOnce(g)
		if !g.queue.empty() || *failure != nil {
			t.Fatalf("%s: not done in a turn of the group's own: %v", step.name, *failure)
		}
	}
}

// TestCheckpointsFollowEachOther installs two checkpoints of other members while the group is busy: the rows
// are those of the later one already when it hears of the first. What lies between is in them, and is not
// executed again.
func TestCheckpointsFollowEachOther(t *testing.T) {
	directory := t.TempDir()
	before := openTest(t, func(config *Config) { config.Log.InMemory, config.Log.Dir = false, directory })
	for _, name := range []string{"a", "b", "c", "d"} {
		createNode(t, before, scheme.Path{"local", name})
	}
	if err := before.checkpointNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopTest(t, before)

	store, err := raftstore.Open(t.Context(), raftstore.Config{Dir: directory, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	second := before.store.Figures().Checkpoint
	first := second - 3
	g, failure := groupByHand(t, store)
	machine, err := coordination.NewMachine("/local", coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	g.core.replica = coordination.NewReplica[streams.Sink, *call](machine, g.config.Formats)
	handler{g}.Restore(first)
	handler{g}.Committed(emptyEntries(1, first+1, second-1))
	handler{g}.Committed(emptyEntries(1, second, second))
	handler{g}.Restore(second)
	handler{g}.Committed(emptyEntries(1, second+1, second+2))
	workOnce(g)
	if *failure != nil {
		t.Fatal(*failure)
	}
	if index := uint64(g.core.replica.Machine().Index()); index != second+2 || g.applied.Load() != index {
		t.Errorf("the machine has entry %d, the group tells %d, want %d", index, g.applied.Load(), second+2)
	}
	var invariant *InvariantError
	handler{g}.Committed(emptyEntries(1, second+2, second+2))
	workOnce(g)
	if !errors.As(*failure, &invariant) {
		t.Errorf("an entry that came twice was passed over: %v", *failure)
	}
}

// While the log is full because a checkpoint is not written yet, requests wait, and go on by themselves when
// it is.
func TestRequestsWaitWhileTheLogIsFull(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	config := testConfig(t)
	config.Log.InMemory = true
	g, err := Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	g.logFull = full.Load
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer stopTest(t, g)
	<-g.ready
	createNode(t, g, testNode)
	client := openSession(t, g, 60_000)
	full.Store(true)
	applied := g.applied.Load()
	client.ask(1, &coordination.Request{Kind: coordination.RequestCreate, Name: "lock", Limit: 1})
	held := func() bool {
		g.hold(g.turn.Lock())
		defer g.turn.Unlock()
		return g.core.waitsForCheckpoint && g.queue.length() > 0
	}
	eventually(t, "the request to be held", held)
	turns := g.turns.Load() + 5
	eventually(t, "more turns to be taken", func() bool { return g.turns.Load() >= turns })
	if !held() || g.applied.Load() != applied {
		t.Fatal("a request was handled although the log is full")
	}
	full.Store(false)
	eventually(t, "the request to be handled", func() bool { return g.applied.Load() > applied })
}

// TestRequestsGather has a write of the log take its time: what clients ask for meanwhile becomes one entry
// behind it. Who only reads does not wait for the disk.
func TestRequestsGather(t *testing.T) {
	disk := make(chan struct{}, 1) // held while the disk takes its time
	together := make(chan int, 100)
	config := testConfig(t)
	config.Log.Dir = t.TempDir()
	config.Log.Slow = func(string) {
		disk <- struct{}{}
		<-disk
	}
	config.Executing = func(_ *coordination.Machine, e *coordination.Entry) { together <- len(e.Commands) }
	g := startTest(t, config)
	defer stopTest(t, g)
	createNode(t, g, testNode)
	const sessions = 20
	var clients []*testClient
	for range sessions {
		clients = append(clients, openSession(t, g, 600_000))
	}
	for round := range uint64(3) {
		eventually(t, "nothing to be under way", func() bool { return !g.store.Writing() && !g.busy.Load() })
		for len(together) > 0 {
			<-together
		}
		disk <- struct{}{}
		for i, c := range clients {
			c.ask(round+1, take(fmt.Sprint("lock ", round, " ", i)))
			if i == 0 {
				eventually(t, "the first to be written", func() bool { return g.busy.Load() && g.store.Writing() })
			}
		}
		before := g.turns.Load()
		g.queue.bell.Ring()
		eventually(t, "a turn", func() bool { return g.turns.Load() > before })
		if n := g.queue.length(); n != sessions-1 {
			t.Errorf("%d requests wait for the write, want %d", n, sessions-1)
		}
		if round == 2 { // what is read is that of the moment
			if _, err := g.Read(t.Context(), func(m *coordination.Machine) outcome.Outcome {
				return outcome.Done()
			}); err != nil {
				t.Fatal(err)
			}
		}
		<-disk
		for _, c := range clients {
			if r := c.next(t); r.Kind != coordination.ReplyResult || !r.Done {
				t.Fatalf("got %+v", r)
			}
		}
		if first, others := <-together, <-together; first != 1 || others != sessions-1 {
			t.Errorf("%d and %d requests share an entry, want 1 and %d", first, others, sessions-1)
		}
	}
}
