//go:build unix

package crash

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tenure is a time during which a client may have believed that it holds tokens: from when it was told until
// it began to release them, or its session's timeout after the last message that it heard. Times are this
// machine's monotonic clock in nanoseconds, the same for all processes.
type tenure struct {
	Name    string
	Session uint64
	Count   uint64
	Order   uint64 // order id, 0 if the client did not ask
	From    int64
	Until   int64
}

func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Unix has it
	}
	return t.Nano()
}

// pulse is when a client last heard something.
type pulse struct {
	timeout time.Duration // of its session
	last    atomic.Int64
}

func (p *pulse) beat() { p.last.Store(monotonic()) }

// silence is how long nothing was heard.
func (p *pulse) silence() time.Duration { return time.Duration(monotonic() - p.last.Load()) }

func (p *pulse) expired() bool { return p.last.Load() != 0 && p.silence() > p.timeout }

// until is how long the client may believe that its session lives.
func (p *pulse) until() int64 { return p.last.Load() + p.timeout.Nanoseconds() }

// deliveryMargin is by how much tenures may overlap: a client notes a message when its goroutine runs, which
// on a busy machine is later than when it came. It is far below what a server would have to get wrong to
// matter: one lease.
const deliveryMargin = 200 * time.Millisecond

// checkTenures looks for moments at which more than limit tokens of one semaphore were believed to be held,
// and, where the limit is one holder, for a later holder with a smaller order id. It returns the first
// finding.
func checkTenures(tenures []tenure, limits func(name string) uint64) error {
	type edge struct {
		at    int64
		count int64
		by    tenure
	}
	edges := make(map[string][]edge)
	for _, t := range tenures {
		if until := t.Until - deliveryMargin.Nanoseconds(); until > t.From {
			edges[t.Name] = append(edges[t.Name], edge{t.From, int64(t.Count), t},
				edge{until, -int64(t.Count), t})
		}
	}
	for name, list := range edges {
		slices.SortFunc(list, func(a, b edge) int {
			if a.at != b.at {
				return int(max(-1, min(1, a.at-b.at)))
			}
			return int(max(-1, min(1, a.count-b.count)))
		})
		held := make(map[tenure]bool)
		sum := uint64(0)
		for _, e := range list {
			if e.count < 0 {
				delete(held, e.by)
				sum -= uint64(-e.count)
				continue
			}
			held[e.by] = true
			if sum += uint64(e.count); sum > limits(name) {
				return fmt.Errorf("%d tokens of %s, more than %d, were believed to be held at once: %v", sum,
					name, limits(name), held)
			}
		}
	}
	return checkOrder(tenures, limits)
}

func checkOrder(tenures []tenure, limits func(name string) uint64) error {
	sorted := slices.SortedFunc(slices.Values(tenures), func(a, b tenure) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return int(max(-1, min(1, a.From-b.From)))
	})
	var last tenure
	for _, t := range sorted {
		if t.Order == 0 || limits(t.Name) != 1 {
			continue
		}
		if last.Name == t.Name && last.Order > t.Order {
			return fmt.Errorf("order id %d of %s was followed by %d: %+v, %+v", last.Order, t.Name, t.Order,
				last, t)
		}
		last = t
	}
	return nil
}

// The check itself sees what it should.
func TestTenuresAreChecked(t *testing.T) {
	const second = int64(time.Second)
	limits := func(name string) uint64 { return uint64(len(name)) }
	cases := map[string]struct {
		tenures []tenure
		found   string
	}{
		"one after the other": {[]tenure{{"a", 1, 1, 3, 0, second}, {"a", 2, 1, 4, second, 2 * second}}, ""},
		"within the margin": {[]tenure{{"a", 1, 1, 3, 0, second},
			{"a", 2, 1, 4, second - second/10, 2 * second}}, ""},
		"two at once": {[]tenure{{"a", 1, 1, 3, 0, second}, {"a", 2, 1, 4, second / 2, 2 * second}},
			"2 tokens of a"}, "two of two": {[]tenure{{"ab", 1, 1, 4, 0, second},
			{"ab", 2, 1, 3, second / 2, 2 * second}}, ""},
		"three of two": {[]tenure{{"ab", 1, 1, 0, 0, 3 * second}, {"ab", 2, 2, 0, second / 2, 2 * second}},
			"3 tokens of ab"}, "other semaphores": {[]tenure{{"a", 1, 1, 5, 0, second},
			{"b", 2, 1, 4, second / 2, 2 * second}}, ""},
		"order goes back": {[]tenure{{"a", 1, 1, 4, 0, second}, {"a", 2, 1, 3, 2 * second, 3 * second}}, "followed by 3"},
	}
	for name, c := range cases {
		err := checkTenures(c.tenures, limits)
		if (err == nil) != (c.found == "") || err != nil && !strings.Contains(err.Error(), c.found) {
			t.Errorf("%s: %v, want %q", name, err, c.found)
		}
	}
}
