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
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// Node is a process of the simulated world. There are at most MaxNodes in one run; a restarted server gets a new one.
type Node int32

// World is the node of the simulation itself. It is never frozen, and its clock is the bubble's.
const World Node = 0

// MaxNodes bounds the nodes of one run.
const MaxNodes = 1024

// Config says how the runtime decides where it is free to.
type Config struct {
	Seed uint64
	// Yield, of 65536, is how often a goroutine that becomes runnable does not run next, as it would otherwise. A
	// sixteenth as often, a goroutine gives way in a channel operation or before it locks a mutex.
	Yield uint32
	// Patience is after how many channel operations and locks without a switch a goroutine has to give way, as the
	// runtime's preemption would make it. 0 means DefaultPatience.
	Patience uint32
	// Spin is after how many switches at one instant of the virtual time the program ends with all stacks: something
	// waits without letting the time pass. 0 means DefaultSpin.
	Spin uint64
	// Record is how many switches are recorded for WriteSwitches.
	Record int
}

// Defaults of Config.
const (
	DefaultPatience = 20_000
	DefaultSpin     = 5_000_000
)

// Run runs the world in a bubble of its own, in virtual time and with all chance from the seed. A process can do it
// only once: afterwards pools, caches and frozen goroutines of the first world are left over.
func Run(t *testing.T, c Config, world func(*testing.T)) {
	if Patched && runtime.GOMAXPROCS(0) != 1 {
		t.Fatal("the simulation has to run with GOMAXPROCS=1 from the beginning")
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Spin == 0 {
		c.Spin = DefaultSpin
	}
	// The collector would run at other moments each time. GOGC is not enough: the limit of memory starts it, too.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 40)
	cryptotest.SetGlobalRandom(t, c.Seed)
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

// Suspended takes a pause out of the monotonic clock of a node that was frozen for so long, as a machine's suspension
// does. Its wall clock is not affected.
func Suspended(node Node, pause time.Duration) { shift(node, -int64(pause), int64(pause)) }

// Op is a change of a file.
type Op string

// The operations that a disk hook is called for, each before it happens; Synced follows a sync that succeeded.
const (
	Write    Op = "write"    // data at an offset; -1 is the file's position
	Create   Op = "create"   // an open with O_CREATE or O_TRUNC; the offset has the flags
	Truncate Op = "truncate" // to the offset
	Allocate Op = "allocate" // up to the offset
	Rename   Op = "rename"
	Remove   Op = "remove" // of one name, not by RemoveAll
	Sync     Op = "sync"   // of data or everything, of a file or a directory
	Synced   Op = "synced"
)

// DiskHook is called for each change of a file. An error takes the change's place; of a Write the first keep bytes are
// then written nevertheless. It is called on the goroutine, and so the node, that changes the file.
type DiskHook func(op Op, name, to string, offset int64, data []byte) (keep int, err error)
