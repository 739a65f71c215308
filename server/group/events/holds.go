package events

import (
	"hash/maphash"
	"slices"

	"github.com/coordd/coordd/coordination"
)

const (
	holdSlots = 16_384 // semaphores whose last holds are known
	holdsKept = 20     // of each
	// usualHolds is the least number of holds that have a usual time.
	usualHolds = 5
)

// Hold is a time for which a session held a semaphore, in milliseconds since 1970. Ended is 0 while it lasts.
type Hold struct {
	Session        coordination.SessionID
	Order          coordination.OrderID
	Granted, Ended uint64
	Cause          coordination.OccurrenceKind // as in Occurrence
}

// holdSlot is a ring of the last holds of a semaphore.
type holdSlot struct {
	semaphore uint64 // hash of its name and node, 0: none
	ended     uint64 // holds of it, of which the last holdsKept are here
	holds     [holdsKept]Hold
}

// holds is a table of slots. A semaphore that is used takes the slot from the one that had it: only other semaphores
// displace what it has, and no flood of events. A slot is allocated with its first use.
type holds struct {
	seed  maphash.Seed
	slots [holdSlots]*holdSlot
}

// slot returns the place of a semaphore, and its hash.
func (t *holds) slot(node coordination.NodeID, name string) (**holdSlot, uint64) {
	hash := max(1, maphash.String(t.seed, name)^uint64(node)*0x9e3779b97f4a7c15)
	return &t.slots[hash%holdSlots], hash
}

// end keeps a hold that has ended.
func (t *holds) end(o *coordination.Occurrence) {
	place, hash := t.slot(o.Node, o.Semaphore)
	if *place == nil {
		*place = new(holdSlot)
	}
	slot := *place
	if slot.semaphore != hash {
		slot.semaphore, slot.ended = hash, 0
	}
	slot.holds[slot.ended%holdsKept] = Hold{Session: o.Session, Order: o.Order, Granted: o.Before,
		Ended: o.StampMillis, Cause: o.Cause}
	slot.ended++
}

// Usual returns the median of the times of holds in milliseconds, 0 if fewer than usualHolds are known.
func Usual(holds []Hold) uint64 {
	var times []uint64
	for _, h := range holds {
		if h.Granted != 0 && h.Ended >= h.Granted {
			times = append(times, h.Ended-h.Granted)
		}
	}
	if len(times) < usualHolds {
		return 0
	}
	slices.Sort(times)
	return max(1, times[len(times)/2]) // 0 is for an unknown time
}
