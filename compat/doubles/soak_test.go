package doubles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

const (
	// soakVariable is how long TestLeaderChanges takes; `make doubles-soak` sets 30 minutes.
	soakVariable = "DOUBLES_SOAK"
	briefSoak    = 8 * time.Second
	// leadership is how long a server leads.
	leadership = 1500 * time.Millisecond
	// leastPerSecond is how many requests of each double have to be answered, else the run shows nothing.
	leastPerSecond = 2
)

// explained are states that a right server brings an SDK to as well, and why. They are counted.
var explained = map[FailureState]string{
	JavaLost:          "the SDK tries for 5 s, of which its channel's pauses may take all",
	JavaStaysBroken:   "the SDK recovers from one break, whatever breaks its stream",
	PythonExpiredLoop: "the SDK never forgets a session that has expired",
}

// TestLeaderChanges is rule 8: all doubles work on three servers, of which another leads every now and then, and none
// notices. One of each SDK is on each server, and the three fight for a lock.
func TestLeaderChanges(t *testing.T) {
	lasts := briefSoak
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	}
	servers := startCluster(t)
	working, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	// What is under way when the time is over has time to end.
	ending, end := context.WithTimeout(t.Context(), lasts+time.Minute)
	defer end()

	path := node(t, dial(t, servers[0].address))
	counts := &tally{states: make(map[string]map[FailureState]int)}
	var running sync.WaitGroup
	var workers []*worker
	for _, sdk := range All() {
		holders := new(atomic.Int32)
		for i, s := range servers {
			w := &worker{t: t, sdk: sdk, name: fmt.Sprintf("%s on server %d", sdk.SDK, i+1), holders: holders, tally: counts,
				lock: "lock of " + sdk.SDK, own: fmt.Sprintf("%s %d", sdk.SDK, i), watches: sdk.SDK != Rust.SDK}
			workers = append(workers, w)
			conn := dial(t, s.address)
			running.Go(func() { w.run(working, ending, func() *Double { return Start(ending, sdk, conn, path) }) })
		}
	}
	begun := time.Now()
	changes := 0
	for working.Err() == nil {
		select {
		case <-working.Done():
		case <-time.After(leadership):
			if err := servers[0].lead(ending); err == nil {
				changes++
			} else {
				t.Log(err) // there is none to hand over while one is elected
			}
		}
	}
	took := time.Since(begun)
	running.Wait()

	if changes == 0 {
		t.Error("void: the leader has not changed")
	}
	way := fmt.Sprintf("servers, %d leader changes in %v", changes, took.Round(time.Second))
	for _, sdk := range All() {
		var notes []string
		rate := -1.0
		for _, w := range workers {
			if w.sdk.SDK == sdk.SDK {
				r := float64(w.answered.Load()) / took.Seconds()
				if rate < 0 || r < rate {
					rate = r
				}
				if r < leastPerSecond {
					t.Errorf("void: %s had %.1f requests a second answered", w.name, r)
				}
			}
		}
		result := "double"
		states := counts.states[sdk.SDK]
		for _, state := range slices.SortedFunc(maps.Keys(states), cmp.Compare[FailureState]) {
			why := cmp.Or(explained[state], "NOT EXPLAINED")
			if explained[state] == "" {
				t.Errorf("the server has brought %s to %q %d times", sdk.SDK, state, states[state])
				result = "FAILED"
			}
			notes = append(notes, fmt.Sprintf("%d times %q: %s", states[state], state, why))
		}
		if rate < leastPerSecond || changes == 0 {
			result = "FAILED"
		}
		record(sdk.SDK, sdk.Version, "rule 8: leader changes", way, result,
			strings.Join(append([]string{fmt.Sprintf("%.0f requests a second and more of each", rate)}, notes...), "; "))
	}
}

// tally counts the states that doubles have entered.
type tally struct {
	sync.Mutex
	states map[string]map[FailureState]int // by SDK
}

func (c *tally) add(d *Double) {
	c.Lock()
	defer c.Unlock()
	for _, state := range d.States() {
		if c.states[d.SDK] == nil {
			c.states[d.SDK] = make(map[FailureState]int)
		}
		c.states[d.SDK][state]++
	}
}

// worker keeps a double of an SDK at work, and replaces one that has failed.
type worker struct {
	t         *testing.T
	sdk       SDK
	name      string
	holders   *atomic.Int32 // of the lock
	lock, own string        // semaphores: one for all of the SDK, one for this worker
	watches   bool
	tally     *tally
	answered  atomic.Int64
}

func (w *worker) run(working, ending context.Context, begin func() *Double) {
	for working.Err() == nil {
		d := begin()
		err := w.work(working, ending, d)
		d.Leave()
		w.answered.Add(d.Answered())
		w.tally.add(d)
		if err != nil && !errors.Is(err, ErrLost) {
			w.t.Errorf("%s: %v, in %q, attached %d times", w.name, err, d.States(), d.Attaches())
			return
		}
		if err != nil && len(d.States()) == 0 {
			w.t.Errorf("%s: given up in no state of failure: %+v", w.name, d.Ending())
			return
		}
	}
}

// work goes on until the time is over.
func (w *worker) work(working, ending context.Context, d *Double) error {
	expect := func(r *Request, want func(*Response) bool) error {
		answer, err := d.Do(ending, r)
		if err == nil && !want(answer) {
			err = fmt.Errorf("%v is answered by %v", r, answer)
		}
		return err
	}
	succeeded := func(m *Response) bool {
		_, body := arm(m.ProtoReflect())
		return statusOf(body) == Ydb.StatusIds_SUCCESS
	}
	if err := expect(Lock(w.own, Infinite), func(m *Response) bool { return m.GetAcquireSemaphoreResult().GetAcquired() }); err != nil {
		return err
	}
	for i := 0; working.Err() == nil; i++ {
		if err := expect(Lock(w.lock, 30_000), func(m *Response) bool { return m.GetAcquireSemaphoreResult().GetAcquired() }); err != nil {
			return err
		}
		if n := w.holders.Add(1); n != 1 {
			w.t.Errorf("%s: %d hold its lock", w.name, n)
		}
		err := errors.Join(
			expect(Update(w.own, fmt.Sprint(i)), succeeded),
			expect(Describe(w.own, w.watches), succeeded))
		w.holders.Add(-1)
		if err != nil {
			return err
		}
		if err := expect(Release(w.lock), succeeded); err != nil {
			return err
		}
	}
	return nil
}
