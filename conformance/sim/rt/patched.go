//go:build simrt

package rt

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

// Patched reports whether the program has the patched runtime.
const Patched = true

// The functions and variables of the patched standard library: conformance/sim/overlay/files.

//go:linkname simStart runtime.simStart
func simStart(seed uint64, yield, patience uint32, spin uint64, record []simSwitch)

//go:linkname simSetNode runtime.simSetNode
func simSetNode(node int32) int32

//go:linkname simHold runtime.simHold
func simHold(node int32, frozen, dead bool)

//go:linkname simSetRate runtime.simSetRate
func simSetRate(node int32, ppm int64)

//go:linkname simShift runtime.simShift
func simShift(node int32, monotonic, wall int64)

//go:linkname simGoroutines runtime.simGoroutines
func simGoroutines(node int32) int

//go:linkname simCount runtime.simCount
func simCount() uint64

// simSwitch is one goroutine switch, laid out as in the runtime.
type simSwitch struct {
	now                             int64
	goroutine, pc, function, chance uint64
}

var recorded []simSwitch

func start(c Config) {
	recorded = make([]simSwitch, c.Record)
	simStart(c.Seed, c.Yield, c.Patience, c.Spin, recorded)
}

// spareThreads makes threads that are idle then. One that the runtime needs later, when that is, is then not allocated
// on the heap between objects of the world.
func spareThreads() {
	var locked, unlocked sync.WaitGroup
	release := make(chan struct{})
	for range 8 {
		locked.Add(1)
		unlocked.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			locked.Done()
			<-release
		})
	}
	locked.Wait()
	close(release)
	unlocked.Wait()
}

func setNode(node Node) Node { return Node(simSetNode(int32(node))) }

func hold(node Node, frozen, dead bool) { simHold(int32(node), frozen, dead) }

func setRate(node Node, ppm int64) { simSetRate(int32(node), ppm) }

func shift(node Node, monotonic, wall int64) { simShift(int32(node), monotonic, wall) }

// Goroutines returns the number of goroutines of a node.
func Goroutines(node Node) int { return simGoroutines(int32(node)) }

// Switches returns how many goroutine switches there have been.
func Switches() uint64 { return simCount() }

// WriteSwitches writes the recorded switches, one a line: the virtual time, the goroutine, where it goes on, its
// function, and the state of chance. The first line in which two runs differ shows where something else than the seed
// decided.
func WriteSwitches(to io.Writer) error {
	w := bufio.NewWriter(to)
	name := func(pc uint64) string {
		if f := runtime.FuncForPC(uintptr(pc)); f != nil {
			return f.Name()
		}
		return "?"
	}
	list := recorded[:min(simCount(), uint64(len(recorded)))]
	for _, s := range list {
		fmt.Fprintf(w, "%v g%d %s (%s) %x\n", time.Duration(s.now-list[0].now), s.goroutine-list[0].goroutine,
			name(s.pc), name(s.function), s.chance)
	}
	return w.Flush()
}
