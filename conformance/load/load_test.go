package load

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// What a histogram says is what the sorted durations say, to a thousandth.
func TestHistogram(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	h := new(Histogram)
	if h.Percentile(50) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Error("an empty histogram has something")
	}
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(time.Duration(1)<<random.IntN(40)))
		h.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, p := range []float64{0, 1, 50, 90, 99, 99.9, 100} {
		want := all[min(len(all)-1, int(float64(len(all))*p/100))]
		if got := h.Percentile(p); got < want || got > want+want>>exactBits {
			t.Errorf("p%g is %v, want %v", p, got, want)
		}
	}
	for _, d := range []time.Duration{0, all[100], all[10_000], all[19_999]} {
		low, _ := slices.BinarySearch(all, d+1)
		high, _ := slices.BinarySearch(all, d+d>>exactBits+1)
		if got := int(h.CountUpTo(d)); got < low || got > high {
			t.Errorf("%d up to %v, want %d to %d", got, d, low, high)
		}
	}
	if h.Max() != all[len(all)-1] || h.Count() != uint64(len(all)) {
		t.Errorf("%d, the longest %v; want %d, %v", h.Count(), h.Max(), len(all), all[len(all)-1])
	}
	h.Add(-1)
	h.Add(1 << 62)
	if h.Percentile(0) != 0 || h.Max() != 1<<62 {
		t.Errorf("from %v to %v", h.Percentile(0), h.Max())
	}
}

// Each bucket begins where the one before ends.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for i := range buckets - 1 {
		if last := longestIn(i); bucketOf(last) != i || bucketOf(last+1) != i+1 {
			t.Fatalf("%d, the last of bucket %d, is in %d and the next one in %d", last, i, bucketOf(last),
				bucketOf(last+1))
		}
	}
}

// counted is a session of a server that has one holder of each name.
type counted struct {
	server *sync.Map // name to *sync.Mutex
	names  map[string]int
	fails  bool
}

func (c *counted) Acquire(name string, _ uint64) error {
	if c.fails {
		return errors.New("lost")
	}
	c.names[name]++
	lock, _ := c.server.LoadOrStore(name, new(sync.Mutex))
	lock.(*sync.Mutex).Lock()
	return nil
}

func (c *counted) Release(name string) error {
	lock, _ := c.server.Load(name)
	lock.(*sync.Mutex).Unlock()
	return nil
}

// The sessions of W1 keep to a semaphore of their own, those of W2 to one, and all of them to those that were
// announced.
func TestLoads(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{Pairs, HandOver} {
		server := new(sync.Map)
		var sessions []*counted
		for range 4 {
			sessions = append(sessions, &counted{server: server, names: make(map[string]int)})
		}
		over, took := make(chan struct{}), new(Histogram)
		time.AfterFunc(10*time.Millisecond, func() { close(over) })
		if _, err := Run(kind, "x-", sessions, over, took); err != nil {
			t.Fatal(err)
		}
		announced := kind.Semaphores("x-", len(sessions))
		if want := map[string]int{"pairs": 4, "handover": 1}[kind.Name]; len(announced) != want {
			t.Errorf("%s announces %q", kind.Name, announced)
		}
		steps := 0
		for i, s := range sessions {
			for name, n := range s.names {
				if name != announced[i%len(announced)] {
					t.Errorf("session %d of %s takes %q, of %q", i, kind.Name, name, announced)
				}
				steps += n
			}
		}
		if took.Count() != uint64(steps) {
			t.Errorf("%d steps of %s were counted, want %d", took.Count(), kind.Name, steps)
		}
	}
	over, took := make(chan struct{}), new(Histogram)
	close(over)
	late := []*counted{{server: new(sync.Map), names: make(map[string]int)}}
	if _, err := Run(Pairs, "", late, over, took); err != nil || took.Count() != 1 {
		t.Errorf("%d steps when it is over before it begins, %v", took.Count(), err)
	}
	if _, err := Run(Pairs, "", []*counted{{fails: true}}, make(chan struct{}), new(Histogram)); err == nil {
		t.Error("a failure is not told")
	}
}
