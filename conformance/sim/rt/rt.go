// Package rt is the simulation's seam to the Go runtime: chance and scheduling that come from a seed, processes that
// can be frozen and killed, a clock for each of them, and a hook in front of everything that changes a file.
//
// All of it needs the runtime that conformance/sim/overlay patches, and the build tag simrt. Without them the functions
// do nothing, or the nearest thing that the ordinary runtime can do, and [Patched] is false: the same simulation then
// runs, but no run can be repeated, nothing is frozen, and all servers share one clock.
//
// A process is a node: a number that a goroutine and a timer inherit from the goroutine that makes them. The
// simulation's own goroutines are node 0. A killed node is one whose goroutines never run again, so no code of a server
// runs after its crash, neither deferred functions nor the end of a write.
package rt

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// Run runs the world in a bubble of its own, in virtual time and with all chance from the seed. A process can do it
// only once: afterwards pools, caches and frozen goroutines of the first world are left over. For the latter the world
// ends with os.Exit, unless all of its goroutines end.
func Run(t *testing.T, c Config, world func(*testing.T)) {
	steady := os.Getenv("GODEBUG") == "asyncpreemptoff=1" && os.Getenv("GOGC") == "off" && runtime.GOMAXPROCS(0) == 1
	if Patched && !steady {
		t.Fatal("from its beginning, the program needs GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 GOGC=off")
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Spin == 0 {
		c.Spin = DefaultSpin
	}
	debug.SetGCPercent(-1) // the collector would run at other moments each time
	cryptotest.SetGlobalRandom(t, c.Seed)
	spareThreads()
	synctest.Test(t, func(t *testing.T) {
		start(c)
		world(t)
	})
}

// As calls f as a node: what f starts belongs to it, and f sees its clock.
func As(node Node, f func()) {
	defer setNode(setNode(node))
	f()
}

// Freeze makes a node stand still until Thaw. Its clock goes on.
func Freeze(node Node) { hold(node, true, false) }

// Thaw lets a frozen node continue.
func Thaw(node Node) { hold(node, false, false) }

// Kill makes a node stand still for ever. Its timers are dropped as they become due.
func Kill(node Node) { hold(node, true, true) }

// SetRate makes a node's clocks go ppm millionths faster than the world's, from now on.
func SetRate(node Node, ppm int64) { setRate(node, ppm) }

// Jump sets a node's wall clock forward, or back. Its monotonic clock is not affected.
func Jump(node Node, by time.Duration) { shift(node, 0, int64(by)) }

// Suspend makes a node stand still like a suspended machine: neither its monotonic clock nor its timers go on. The
// caller thaws it once the pause has passed, and not before.
func Suspend(node Node, pause time.Duration) {
	Freeze(node)
	shift(node, -int64(pause), int64(pause))
}
