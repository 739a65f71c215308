package check

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Tenure is a time during which a client had proof that it holds tokens: from the message that proved it until it began
// to release them or, whichever is earlier, its session's timeout after the last sign of life. Times are those of a
// clock that all clients share.
type Tenure struct {
	Name    string
	Session uint64
	Count   uint64
	Order   uint64 // order id, 0 if the client did not ask for it
	From    time.Duration
	Until   time.Duration
}

// Tenures looks for a moment at which more tokens of one semaphore than its limit were believed to be held and, where
// the limit is 1, for a later holder with a smaller order id. Each tenure counts as shorter by margin: a client may
// notice a message later than it came. A limit of 0 is not known. Tenures returns the first finding.
func Tenures(tenures []Tenure, limits func(name string) uint64, margin time.Duration) error {
	byName := make(map[string][]Tenure)
	for _, t := range tenures {
		if limits(t.Name) != 0 {
			byName[t.Name] = append(byName[t.Name], t)
		}
	}
	for name, list := range byName {
		slices.SortStableFunc(list, func(a, b Tenure) int { return cmp.Compare(a.From, b.From) })
		if err := overlap(name, list, limits(name), margin); err != nil {
			return err
		}
		if limits(name) == 1 {
			if err := ordered(list); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlap expects the tenures in the order of From.
func overlap(name string, tenures []Tenure, limit uint64, margin time.Duration) error {
	var held []Tenure
	for _, t := range tenures {
		if t.Until -= margin; t.Until <= t.From {
			continue
		}
		held = append(slices.DeleteFunc(held, func(old Tenure) bool { return old.Until <= t.From }), t)
		sum, carry := uint64(0), uint64(0)
		for _, h := range held {
			if sum, carry = bits.Add64(sum, h.Count, 0); carry != 0 {
				sum = math.MaxUint64
				break
			}
		}
		if carry != 0 || sum > limit {
			return fmt.Errorf("%d tokens of %s, more than %d, were believed to be held at %v: %+v", sum, name, limit,
				t.From, held)
		}
	}
	return nil
}

// ordered expects the tenures in the order of From.
func ordered(tenures []Tenure) error {
	var last Tenure
	for _, t := range tenures {
		if t.Order == 0 {
			continue
		}
		if last.Order > t.Order {
			return fmt.Errorf("order id %d of %s was followed by %d: %+v, %+v", last.Order, t.Name, t.Order, last, t)
		}
		last = t
	}
	return nil
}
