//go:build simrt

package rt

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
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

//go:linkname simFileHook os.simHook
var simFileHook func(op, name, to string, offset int64, data []byte) (int, error)

//go:linkname simDescriptorHook syscall.simHook
var simDescriptorHook func(op string, fd int, offset int64) error

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

// HookDisk installs a hook before everything that changes a file.
func HookDisk(h DiskHook) {
	// To look at the inode is cheaper than to ask for the name. Inodes are other ones in each run, so this is no map:
	// when one grows depends on its keys.
	var names []inode
	simFileHook = func(op, name, to string, offset int64, data []byte) (int, error) {
		if to != "" || op == string(Remove) {
			names = names[:0]
		}
		return h(Op(op), name, to, offset, data)
	}
	here, _ := os.Getwd()
	simDescriptorHook = func(op string, fd int, offset int64) error {
		var stat syscall.Stat_t
		if err := syscall.Fstat(fd, &stat); err != nil {
			return err
		}
		at := slices.IndexFunc(names, func(i inode) bool { return i.number == stat.Ino })
		if at < 0 {
			link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err != nil {
				return err
			}
			at = len(names)
			names = append(names, inode{stat.Ino, strings.TrimPrefix(link, here+"/")})
		}
		_, err := h(Op(op), names[at].name, "", offset, nil)
		return err
	}
}

type inode struct {
	number uint64
	name   string
}

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
