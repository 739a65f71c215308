//go:build linux

package rt

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// worlds are run in processes of their own, by name. Each writes into its log.
var worlds = map[string]struct {
	config Config
	run    func(*testing.T, *log)
}{
	"chance":   {Config{Seed: 1}, chance},
	"other":    {Config{Seed: 2}, chance},
	"yielding": {Config{Seed: 1, Yield: 20000}, racing},
	"eager":    {Config{Seed: 1}, racing},
	"freeze":   {Config{Seed: 1}, freezing},
	"clock":    {Config{Seed: 1}, clocks},
	"timers":   {Config{Seed: 1}, timers},
	"mutex":    {Config{Seed: 1}, mutexes},
	"preempt":  {Config{Seed: 1}, preempted},
	"disk":     {Config{Seed: 1}, disk},
	"spin":     {Config{Seed: 1, Spin: 10000}, spinning},
}

// log collects what a world saw.
type log struct{ strings.Builder }

func (l *log) add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

const childVariable = "SIM_RT_WORLD"

// TestWorld is one world, in the process that inWorld starts.
func TestWorld(t *testing.T) {
	w, ok := worlds[os.Getenv(childVariable)]
	if !ok {
		t.Skip("run by the other tests")
	}
	var l log
	Run(t, w.config, func(t *testing.T) {
		w.run(t, &l)
		fmt.Printf("<<<%s>>>\n", l.String())
		os.Exit(0) // goroutines are frozen
	})
}

// inWorld runs a world and returns its log.
func inWorld(t *testing.T, name string, env ...string) string {
	t.Helper()
	if !Patched {
		t.Skip("needs the patched runtime: make sim-check")
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestWorld$")
	child.Env = append(os.Environ(), childVariable+"="+name, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off",
		"GOTRACEBACK=all")
	child.Env = append(child.Env, env...)
	output, err := child.CombinedOutput()
	text := string(output)
	if name == "spin" {
		return text
	}
	_, text, found := strings.Cut(text, "<<<")
	text, _, whole := strings.Cut(text, ">>>")
	if err != nil || !found || !whole {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
	return text
}

func TestChanceComesFromTheSeed(t *testing.T) {
	first := inWorld(t, "chance")
	for i := range 5 {
		if again := inWorld(t, "chance", "X="+strings.Repeat("x", 1000*i)); again != first {
			t.Fatalf("run %d:\n%s\nthe first:\n%s", i, again, first)
		}
	}
	other := strings.Split(inWorld(t, "other"), "\n")
	for i, line := range strings.Split(first, "\n") {
		if line != "" && line == other[i] {
			t.Errorf("with another seed, this is the same: %s", line)
		}
	}
}

func TestYieldIsOfTheSeed(t *testing.T) {
	yielding, eager := inWorld(t, "yielding"), inWorld(t, "eager")
	if yielding == eager {
		t.Errorf("with and without yields: %s", eager)
	}
	if again := inWorld(t, "yielding"); again != yielding {
		t.Errorf("%s\nthen %s", yielding, again)
	}
}

func TestWorldSpins(t *testing.T) {
	if text := inWorld(t, "spin"); !strings.Contains(text, "spinning at one instant") ||
		!strings.Contains(text, "last goroutine is") {
		t.Error(text)
	}
}

func TestWorlds(t *testing.T) {
	for _, name := range []string{"freeze", "clock", "timers", "mutex", "preempt", "disk"} {
		t.Run(name, func(t *testing.T) {
			if text := inWorld(t, name); strings.TrimSpace(text) != "" {
				t.Error(text)
			}
		})
	}
}

// chance logs everything that is up to chance.
func chance(_ *testing.T, l *log) {
	var selected []int
	a, b, c := make(chan int, 40), make(chan int, 40), make(chan int, 40)
	for range 40 {
		a <- 0
		b <- 1
		c <- 2
	}
	for range 40 {
		select {
		case n := <-a:
			selected = append(selected, n)
		case n := <-b:
			selected = append(selected, n)
		case n := <-c:
			selected = append(selected, n)
		}
	}
	l.add("select %v", selected)

	var fired []int
	for i := range 30 {
		time.AfterFunc(time.Second, func() { fired = append(fired, i) })
	}
	time.Sleep(2 * time.Second)
	l.add("timers %v", fired)

	numbers, keys := map[int]bool{}, map[string]bool{}
	for i := range 100 {
		numbers[i], keys[fmt.Sprint(i)] = true, true
	}
	var order []any
	for n := range numbers {
		order = append(order, n)
	}
	for k := range keys {
		order = append(order, k)
	}
	l.add("maps %v", order)
	l.add("math/rand %v", rand.Uint64())
	var random [8]byte
	_, _ = crand.Read(random[:])
	l.add("crypto/rand %x", random)
	l.add("maphash %x", maphash.String(maphash.MakeSeed(), "x"))
}

// racing logs the order in which goroutines get a lock and send.
func racing(_ *testing.T, l *log) {
	var mutex sync.Mutex
	var all sync.WaitGroup
	var order []int
	for i := range 10 {
		all.Go(func() {
			for range 30 {
				mutex.Lock()
				order = append(order, i)
				mutex.Unlock()
			}
		})
	}
	all.Wait()
	l.add("%v", order)
}

func freezing(_ *testing.T, l *log) {
	var steps [3]atomic.Int64
	var ended atomic.Bool
	for i := range 3 {
		As(Node(i+1), func() {
			go func() {
				defer ended.Store(true)
				for {
					time.Sleep(10 * time.Millisecond)
					steps[i].Add(1)
				}
			}()
			time.AfterFunc(700*time.Millisecond, func() { steps[i].Add(1000) })
		})
	}
	time.Sleep(105 * time.Millisecond)
	Freeze(1)
	Kill(2)
	time.Sleep(time.Second)
	if n := steps[0].Load(); n != 10 {
		l.add("a frozen node made %d steps", n)
	}
	Thaw(1)
	Thaw(2)
	time.Sleep(100 * time.Millisecond)
	if n := steps[0].Load(); n < 1019 || n > 1021 { // the sleep that was over, those of now, and the timer
		l.add("after it went on, it has made %d steps", n)
	}
	if n := steps[1].Load(); n != 10 {
		l.add("a killed node made %d steps", n)
	}
	if n := steps[2].Load(); n < 1119 || n > 1121 {
		l.add("beside them, another made %d steps", n)
	}
	if ended.Load() {
		l.add("a killed node ran its deferred functions")
	}
}

// near reports whether two durations are equal but for rounding.
func near(a, b time.Duration) bool { return (a - b).Abs() < 100*time.Nanosecond }

func clocks(_ *testing.T, l *log) {
	begun := time.Now()
	check := func(what string, got, want time.Duration) {
		if !near(got, want) {
			l.add("%s: %v, should be %v", what, got, want)
		}
	}
	SetRate(1, 50_000)
	As(1, func() { time.Sleep(1050 * time.Millisecond) })
	check("a sleep of 1.05 s on a clock that is 5 % fast", time.Since(begun), time.Second)
	As(1, func() { check("its clock then", time.Since(begun), 1050*time.Millisecond) })
	SetRate(1, 0)

	var before, after time.Time
	As(2, func() { before = time.Now() })
	Jump(2, time.Hour)
	time.Sleep(time.Second)
	As(2, func() { after = time.Now() })
	check("the monotonic clock beside a jump", after.Sub(before), time.Second)
	check("the wall clock after a jump", after.Round(0).Sub(before.Round(0)), time.Hour+time.Second)

	As(3, func() { before = time.Now() })
	Suspend(3, time.Minute)
	time.Sleep(time.Minute)
	Thaw(3)
	As(3, func() { after = time.Now() })
	check("the monotonic clock after a suspension", after.Sub(before), 0)
	check("the wall clock after a suspension", after.Round(0).Sub(before.Round(0)), time.Minute)
	check("the world's clock", time.Since(begun), 62*time.Second)
}

// timers wants no timer to fire before its time on the clock of its node, whatever happens to that.
func timers(_ *testing.T, l *log) {
	const due = time.Second
	var fired atomic.Int32
	begin := func(node Node) {
		As(node, func() {
			begun := time.Now()
			done := func(what string, after time.Duration) {
				fired.Add(1)
				if passed := time.Since(begun); passed < after {
					l.add("node %d: %s of %v is over after %v", node, what, after, passed)
				}
			}
			go func() { time.Sleep(due); done("a sleep", due) }()
			time.AfterFunc(due, func() { done("a function", due) })
			timer := time.NewTimer(due)
			go func() { <-timer.C; done("a timer", due) }()
			lazy := time.NewTimer(due)
			go func() {
				for { // nobody waits in its channel
					select {
					case <-lazy.C:
						done("a timer that is polled", due)
						return
					default:
						time.Sleep(time.Millisecond)
					}
				}
			}()
			reset := time.NewTimer(time.Hour)
			reset.Reset(due)
			go func() { <-reset.C; done("a timer that was reset", due) }()
			ticker := time.NewTicker(due)
			go func() {
				for i := range 3 {
					<-ticker.C
					done("a ticker", due*time.Duration(i+1))
				}
			}()
		})
	}
	for node := range Node(3) {
		begin(node + 1)
	}
	time.Sleep(100 * time.Millisecond)
	SetRate(1, -100_000)
	SetRate(2, +100_000)
	Suspend(3, 5*time.Second)
	time.Sleep(5 * time.Second)
	Thaw(3)
	time.Sleep(10 * time.Second)
	if n := fired.Load(); n != 3*8 {
		l.add("%d timers have fired", n)
	}
}

func mutexes(_ *testing.T, l *log) {
	var plain sync.Mutex
	var shared sync.RWMutex
	plain.Lock()
	shared.Lock()
	time.AfterFunc(time.Second, plain.Unlock)
	time.AfterFunc(2*time.Second, shared.Unlock)
	begun := time.Now()
	plain.Lock()
	shared.RLock()
	if passed := time.Since(begun); passed != 2*time.Second {
		l.add("waited %v", passed)
	}
}

// preempted has goroutines wait for another one in ways that do not block.
func preempted(*testing.T, *log) {
	ways := []func(done func() bool){
		func(done func() bool) {
			var m sync.Mutex
			for !done() {
				m.Lock()
				m.Unlock() //nolint:staticcheck // only to pass by
			}
		},
		func(done func() bool) {
			var m sync.RWMutex
			for !done() {
				m.RLock()
				m.RUnlock() //nolint:staticcheck // only to pass by
			}
		},
		func(done func() bool) {
			c := make(chan int)
			for !done() {
				select {
				case c <- 1:
				default:
				}
			}
		},
	}
	for _, wait := range ways {
		var done atomic.Bool
		go done.Store(true)
		wait(done.Load)
	}
}

func disk(t *testing.T, l *log) {
	dir := t.TempDir()
	var seen []string
	HookDisk(func(op Op, name, to string, offset int64, data []byte) (int, error) {
		if filepath.Dir(name) != dir && name != dir {
			return 0, nil
		}
		seen = append(seen, fmt.Sprint(op, " ", filepath.Base(name), " ", offset, " ", len(data)))
		switch string(data) {
		case "full":
			return 0, syscall.ENOSPC
		case "half":
			return 2, syscall.EIO
		}
		return 0, nil
	})
	name := filepath.Join(dir, "a")
	f, err := os.Create(name)
	if err != nil {
		l.add("%v", err)
		return
	}
	_, _ = f.Write([]byte("123"))
	_, _ = f.WriteAt([]byte("4567"), 10)
	if n, err := f.WriteAt([]byte("full"), 14); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		l.add("a refused write: %d, %v", n, err)
	}
	if n, err := f.WriteAt([]byte("half"), 14); n != 2 || !errors.Is(err, syscall.EIO) {
		l.add("half a write: %d, %v", n, err)
	}
	_ = f.Sync()
	_ = syscall.Fdatasync(int(f.Fd()))
	_ = f.Truncate(5)
	_ = f.Close()
	_ = os.Rename(name, filepath.Join(dir, "b"))
	_ = os.Remove(filepath.Join(dir, "b"))
	d, _ := os.Open(dir)
	_ = d.Sync()
	_ = d.Close()
	base := filepath.Base(dir)
	want := []string{"create a 578 0", "write a -1 3", "write a 10 4", "write a 14 4", "write a 14 4", "sync a 0 0",
		"synced a 0 0", "sync a 0 0", "synced a 0 0", "truncate a 5 0", "rename a 0 0", "remove b 0 0",
		"sync " + base + " 0 0", "synced " + base + " 0 0"}
	if !slices.Equal(seen, want) {
		l.add("seen %q", seen)
	}
	HookDisk(func(Op, string, string, int64, []byte) (int, error) { return 0, nil })
}

// spinning waits for the time without letting it pass.
func spinning(*testing.T, *log) {
	var again func()
	again = func() { time.AfterFunc(0, again) }
	again()
	time.Sleep(time.Second)
}
