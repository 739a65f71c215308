package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/scheme"
)

// TestSlicesAreApart has a checkpoint go on at a moment that does not pass: there is one slice, however many
// turns there are, and the next one a pause later.
func TestSlicesAreApart(t *testing.T) {
	hands := &stoodClock{}
	g := openTest(t, func(config *Config) { config.Shell = clock.New(hands) })
	for n := range 3 * rowsPerTurn {
		createNode(t, g, scheme.Path{"local", fmt.Sprint("node-", n)})
	}
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	g.core.beginCheckpoint()
	for slices := 0; g.core.checkpoint != nil; slices++ {
		if slices > 20 {
			t.Fatal("there is no end of it")
		}
		before := hands.now
		if due := g.core.nextSlice(); due > before {
			t.Errorf("slice %d is due %v later", slices, time.Duration(due-before))
		}
		g.core.work()
		if g.core.checkpoint == nil {
			break
		}
		again := g.core.checkpoint.next
		if again == before { // the last rows
			continue
		}
		g.core.work()
		if g.core.checkpoint == nil || g.core.checkpoint.next != again || g.core.nextSlice() != again {
			t.Fatal("a slice follows without a pause")
		}
		if again != before+coordination.Instant(slicePause) {
			t.Errorf("the next one is due %v later", time.Duration(again-before))
		}
		hands.now = again
	}
	if pauses := hands.now / coordination.Instant(slicePause); pauses < 3 {
		t.Errorf("%d pauses in %d rows", pauses, 3*rowsPerTurn)
	}
}

// stoodClock stands still.
type stoodClock struct{ now coordination.Instant }

// Now implements hooks.Clock.
func (c *stoodClock) Now() coordination.Instant { return c.now }

// AfterFunc implements hooks.Clock.
func (*stoodClock) AfterFunc(time.Duration, func()) hooks.Timer { return nil }
