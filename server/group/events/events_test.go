package events

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/coordd/coordd/coordination"
)

func occurrences(first, n int) (list []coordination.Occurrence) {
	for i := range n {
		list = append(list, coordination.Occurrence{Kind: coordination.OccurLockGranted,
			Order: coordination.OrderID(first + i), StampMillis: 7})
	}
	return list
}

// followerPlace is a server that knows nothing and does not lead.
type followerPlace struct{}

func (followerPlace) PathOfNode(coordination.NodeID) string { return "" }
func (followerPlace) TenantOf(coordination.NodeID) string   { return "" }
func (followerPlace) PathOfTenant(string) string            { return "" }
func (followerPlace) ClientOf(coordination.NodeID, coordination.SessionID) *coordination.Client {
	return nil
}
func (followerPlace) Leads() bool         { return false }
func (followerPlace) StampMillis() uint64 { return 0 }

// TestEventsAreBounded fills the ring and goes on: what is old is gone, whoever is late is told, and a long
// name is cut.
func TestEventsAreBounded(t *testing.T) {
	r := New(1)
	early, late := r.Watch(0, 0), r.Watch(0, 0)
	defer early.Close()
	defer late.Close()
	list := make([]Event, 0, 100)
	for at := 1; at <= 3*maxEvents; at += 50 {
		r.Add(1, occurrences(at, 50), nil)
		select {
		case <-early.News():
		default:
			t.Fatal("nobody was told of news")
		}
		read, skipped := early.Next(list[:0])
		if len(read) != 50 || skipped != 0 || read[0].Sequence != uint64(at) ||
			read[49].Order != coordination.OrderID(at+49) {
			t.Fatalf("behind %d: %d events from %d on, %d are gone", at, len(read), read[0].Sequence, skipped)
		}
	}
	if len(r.list) != maxEvents {
		t.Errorf("%d events are kept", len(r.list))
	}
	read, skipped := late.Next(list[:0])
	if len(read) != 100 || skipped != 2*maxEvents || read[0].Sequence != 2*maxEvents+1 ||
		read[0].Order != 2*maxEvents+1 {
		t.Errorf("%d events from %d on, %d are gone", len(read), read[0].Sequence, skipped)
	}
	for ring, want := range map[uint64]uint64{0: 3 * maxEvents, r.ring: 3*maxEvents - 5,
		r.ring + 1: 2 * maxEvents} {
		w := r.Watch(ring, 3*maxEvents-5)
		read, _ := w.Next(list[:0])
		if got := w.Sequence() - uint64(len(read)); got != want || w.Ring() != r.ring {
			t.Errorf("ring %d is read behind %d, want %d", ring, got, want)
		}
		w.Close()
	}
	if len(r.watchers) != 2 {
		t.Errorf("%d watchers are left", len(r.watchers))
	}

	r.Add(1, []coordination.Occurrence{{Semaphore: strings.Repeat("ä", 1<<20),
		More: &coordination.OccurrenceMore{Path: strings.Repeat("p", 1000)}}, {Semaphore: "short"}}, nil)
	long := r.list[(r.last-2)%maxEvents]
	if long.Semaphore != strings.Repeat("ä", maxEventTextBytes/2) || long.StampMillis != 1 ||
		len(long.More.Path) != maxEventTextBytes {
		t.Errorf("%d bytes of the name and %d of the path, at %d", len(long.Semaphore), len(long.More.Path),
			long.StampMillis)
	}
	if size := unsafe.Sizeof(long); maxEvents*(size+maxEventTextBytes) > 3<<20 {
		t.Errorf("an event takes %d bytes besides its name", size)
	}
}

// TestEventsDoNotAllocate fills the ring, so that nothing is to be allocated any more, whether somebody
// watches or not.
func TestEventsDoNotAllocate(t *testing.T) {
	r := New(1)
	r.Add(1, occurrences(1, maxEvents), nil)
	more := occurrences(1, 3)
	more[1].Kind, more[1].Semaphore = coordination.OccurLockLost, "lock"
	r.Add(1, more, followerPlace{}) // the lock has a slot from now on
	for _, watched := range []bool{false, true} {
		if watched {
			defer r.Watch(0, 0).Close()
		}
		if n := testing.AllocsPerRun(1000, func() { r.Add(1, more, followerPlace{}) }); n != 0 {
			t.Errorf("watched is %v: %v allocations", watched, n)
		}
	}
}

// TestLeadersAreEvents notes a leader once, and each change.
func TestLeadersAreEvents(t *testing.T) {
	r := New(1)
	w := r.Watch(0, 0)
	for _, leader := range [][2]uint64{{1, 7}, {1, 7}, {1, 0}, {2, 8}, {2, 8}} {
		r.Lead(5, 0, leader[0], leader[1])
	}
	var got [][2]uint64
	read, _ := w.Next(make([]Event, 0, 10))
	for _, e := range read {
		got = append(got, [2]uint64{e.More.Term, e.More.Server})
	}
	if len(got) != 3 || got[0] != [2]uint64{1, 7} || got[1] != [2]uint64{1, 0} || got[2] != [2]uint64{2, 8} {
		t.Errorf("got %v", got)
	}
	r.Close()
	select {
	case <-w.Over():
	default:
		t.Error("it is not over")
	}
	w = r.Watch(0, 0)
	<-w.Over()
}

// TestUsual: a few holds have no usual time, more have their median, and those whose beginning is unknown do not count.
func TestUsual(t *testing.T) {
	holds := []Hold{{Granted: 100, Ended: 110}, {Ended: 900}, {Granted: 200, Ended: 500}, {Granted: 510, Ended: 515},
		{Granted: 700, Ended: 800}}
	if got := Usual(holds); got != 0 {
		t.Errorf("four holds: %d", got)
	}
	if got := Usual(append(holds, Hold{Granted: 600, Ended: 620})); got != 20 {
		t.Errorf("five holds: %d", got)
	}
	if got := Usual(make([]Hold, 7)); got != 0 {
		t.Errorf("unknown holds: %d", got)
	}
	same := Hold{Granted: 7, Ended: 7}
	if got := Usual([]Hold{same, same, same, same, same}); got != 1 {
		t.Errorf("short holds: %d", got)
	}
}
