package doubles

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// tenure is a time during which a client may have believed that it holds tokens: from the message about it until it
// began to release them, or its session's timeout after the last message that it heard.
type tenure struct {
	name        string
	count       uint64
	order       uint64 // order id, 0 if the client did not read it
	from, until time.Duration
}

// deliveryMargin is by how much tenures may overlap: a client notes a message when it runs, which on a busy
// machine is later than when it came. It is far below one session's timeout.
const deliveryMargin = 200 * time.Millisecond

// checkTenures looks for moments at which more than limit tokens of one semaphore were believed to be held,
// and, where the limit is one holder, for a later holder with a smaller order id. It returns the first
// finding.
func checkTenures(tenures []tenure, limit func(name string) uint64) error {
	type edge struct {
		at    time.Duration
		begin bool
		count uint64
	}
	edges := make(map[string][]edge)
	for _, t := range tenures {
		if until := t.until - deliveryMargin; until > t.from {
			edges[t.name] = append(edges[t.name], edge{t.from, true, t.count}, edge{until, false, t.count})
		}
	}
	for name, list := range edges {
		slices.SortFunc(list, func(a, b edge) int {
			switch {
			case a.at != b.at:
				return int(max(-1, min(1, a.at-b.at)))
			case a.begin == b.begin:
				return 0
			case b.begin:
				return -1
			}
			return 1
		})
		held := uint64(0)
		for _, e := range list {
			if !e.begin {
				held -= e.count
			} else if held += e.count; held > limit(name) {
				return fmt.Errorf("%d tokens of %s, more than %d, were believed to be held at once, at %v",
					held, name, limit(name), e.at)
			}
		}
	}
	last := make(map[string]tenure)
	for _, t := range slices.SortedFunc(slices.Values(tenures), func(a, b tenure) int {
		return int(max(-1, min(1, a.from-b.from)))
	}) {
		if t.order == 0 || limit(t.name) != 1 {
			continue
		}
		if before := last[t.name]; before.order > t.order {
			return fmt.Errorf("order id %d of %s was followed by %d: %+v, %+v", before.order, t.name, t.order,
				before, t)
		}
		last[t.name] = t
	}
	return nil
}

// TestTenuresAreChecked wants the check to see what it should.
func TestTenuresAreChecked(t *testing.T) {
	const s = time.Second
	limit := func(name string) uint64 { return uint64(len(name)) }
	for name, c := range map[string]struct {
		tenures []tenure
		found   bool
	}{
		"one after the other": {[]tenure{{"a", 1, 3, 0, s}, {"a", 1, 4, s, 2 * s}}, false},
		"within the margin":   {[]tenure{{"a", 1, 3, 0, s}, {"a", 1, 4, s - s/10, 2 * s}}, false},
		"two at once":         {[]tenure{{"a", 1, 3, 0, s}, {"a", 1, 4, s / 2, 2 * s}}, true},
		"two of two":          {[]tenure{{"ab", 1, 4, 0, s}, {"ab", 1, 3, s / 2, 2 * s}}, false},
		"three of two":        {[]tenure{{"ab", 1, 0, 0, 3 * s}, {"ab", 2, 0, s / 2, 2 * s}}, true},
		"other semaphores":    {[]tenure{{"a", 1, 5, 0, s}, {"b", 1, 4, s / 2, 2 * s}}, false},
		"order goes back":     {[]tenure{{"a", 1, 4, 0, s}, {"a", 1, 3, 2 * s, 3 * s}}, true},
	} {
		if err := checkTenures(c.tenures, limit); (err != nil) != c.found {
			t.Errorf("%s: %v", name, err)
		}
	}
}
