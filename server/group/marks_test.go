package group

import (
	"fmt"
	"sync"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
)

// TestMarksWaitForTheLastServer runs a rolling upgrade: as long as one server is an older program's there are
// no marks, whatever is due, and each takes its checkpoints by itself. From then on all take them at the
// marks.
func TestMarksWaitForTheLastServer(t *testing.T) {
	const old, entries = 2, 20
	c := openCompared(t, 3, func(i int, config *Config) {
		config.Marks = coordination.MarkPolicy{Commands: 5, PeriodMillis: manualMarks.PeriodMillis}
		config.Log.CheckpointCommands = entries
		if i == old {
			config.Formats = coordination.Formats{Version: codec.VersionEntries - 1, Since: codec.Since}
		}
	})
	leader, _ := c.leader()
	for n := range 2 * entries {
		c.makeDirectory(scheme.Path{"local", fmt.Sprint("early-", n)}, leader)
	}
	for i, g := range c.groups {
		if err := g.store.Checkpoints.Await(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
		if _, known := g.comparer.Newest(); known {
			t.Errorf("server %d has come to a mark", i)
		}
	}
	stopTest(t, c.groups[old])
	c.configs[old].Formats = coordination.Formats{}
	c.open(old)
	c.upgraded()
	leader, _ = c.leader()
	for n := 0; ; n++ {
		c.makeDirectory(scheme.Path{"local", fmt.Sprint("late-", n)}, leader)
		index, known := c.groups[leader].comparer.Newest()
		heard := 0
		for i, g := range c.groups {
			if g.comparer.Has(index) && known && i != leader {
				heard++
			}
		}
		if heard == len(c.groups)-1 {
			break
		}
		if n > 10_000 {
			t.Fatal("no mark")
		}
	}
	for _, g := range c.groups { // on a busy machine any of them may lead by now
		g.hold(g.turn.Lock())
		g.core.replica.SetMarkPolicy(manualMarks)
		g.turn.Unlock()
	}
	c.makeDirectory(scheme.Path{"local", "settled"}, leader) // behind every mark that is on its way
	var last uint64
	for _, g := range c.groups {
		g.hold(g.turn.Lock())
		last = max(last, uint64(g.core.replica.Machine().Index()))
		g.turn.Unlock()
	}
	for i := range c.groups {
		c.idle(i, last)
	}
	c.makeDirectory(poison(0), leader)
	last = c.mark()
	for i := range c.groups {
		c.compared(i, last, 2)
	}
	c.wantNoDivergence(0, 1, 2)
}

// TestCheckpointsAreAtMarks: when the log of the leader is due for a checkpoint it marks the log, so that all
// servers take theirs at one index. A server that no mark comes to takes one by itself, a little later.
func TestCheckpointsAreAtMarks(t *testing.T) {
	t.Parallel()
	for led := false; !led && !t.Failed(); {
		t.Run("try", func(t *testing.T) { // which ends when what runs beside others in it has
			t.Run("with one leader", func(t *testing.T) {
				if led = checkpointsAreAtMarks(t); !led { // as on a busy machine
					t.Log("another leader came, who writes marks")
				}
			})
		})
	}
}

// checkpointsAreAtMarks reports whether one server led all the time; else it says nothing.
func checkpointsAreAtMarks(t *testing.T) (led bool) {
	t.Helper()
	const entries = 40
	c := openCompared(t, 3, func(_ int, config *Config) { config.Log.CheckpointCommands = entries })
	c.upgraded()
	leader, follower := c.leader()
	term := c.groups[leader].Log().Figures().Term
	same := func() bool {
		f := c.groups[leader].Log().Figures()
		return f.Term == term && f.Leading
	}
	fill := func(name string, until func() bool) {
		t.Helper()
		for n := 0; !until(); n++ {
			if n > 100*entries {
				if same() {
					t.Fatal("waited in vain")
				}
				return
			}
			c.makeDirectory(scheme.Path{"local", fmt.Sprint(name, n)}, leader)
		}
	}
	fill("a", func() bool { _, known := c.groups[leader].comparer.Newest(); return known })
	first, _ := c.groups[leader].comparer.Newest()
	for i := range c.groups {
		c.compared(i, first, 2)
		c.idle(i, first)
	}
	g := c.groups[leader]
	g.hold(g.turn.Lock())
	g.config.Marks = coordination.MarkPolicy{} // it writes no more marks, as one that does not know of them
	g.turn.Unlock()
	before := c.groups[follower].Log()
	fill("b", func() bool { return before.Checkpoints.Due() })
	awaited := 0
	fill("c", func() bool {
		if before.Checkpoints.Due() && !before.Checkpoints.Overdue() {
			awaited++
		}
		return before.Figures().Checkpoint > first
	})
	if !same() {
		return false
	}
	if err := before.Checkpoints.Await(t.Context(), first+entries); err != nil {
		t.Fatal(err)
	}
	newest, _ := c.groups[follower].comparer.Newest()
	if !same() {
		return false
	}
	if newest != first || awaited == 0 {
		t.Errorf("digest of entry %d, %d times it was waited for a mark", newest, awaited)
	}
	return true
}

// TestMarkedCheckpointIsTakenInSlices counts the turns that a server needs for the checkpoint at a mark: in
// none of them more rows are captured than rowsPerTurn and the one that closes it.
func TestMarkedCheckpointIsTakenInSlices(t *testing.T) {
	const directories = 20 * rowsPerTurn
	c := openCompared(t, 3, nil)
	c.upgraded()
	leader, follower := c.leader()
	c.makeDirectory(poison(0), leader)
	first := c.mark() // of what there is
	for i := range c.groups {
		c.idle(i, first)
	}
	var calls sync.WaitGroup
	for w := range 16 {
		calls.Go(func() {
			for n := w; n < directories; n += 16 {
				c.makeDirectory(scheme.Path{"local", fmt.Sprint("slice-", n)}, leader)
			}
		})
	}
	calls.Wait()
	var index uint64
	turns := 0
	for index == 0 { // a follower that is held up may be elected nevertheless
		_, follower = c.leader()
		g := c.groups[follower]
		g.hold(g.turn.Lock())
		index = c.markUnless(g)
		for index != 0 {
			g.core.work()
			if g.comparer.Has(index) {
				break
			}
			if g.core.checkpoint != nil && g.core.checkpoint.offered == nil {
				turns++
			}
		}
		g.turn.Unlock()
	}
	if turns < directories/rowsPerTurn {
		t.Errorf("%d turns for %d rows", turns, directories)
	}
	c.compared(follower, index, 2)
	c.wantNoDivergence(0, 1, 2)
}
