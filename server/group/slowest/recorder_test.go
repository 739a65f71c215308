package slowest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/coordd/coordd/coordination"
)

const milli = coordination.Instant(time.Millisecond)

func newTest() *Recorder { return New(func() bool { return false }) }

// one returns the only request that was kept.
func one(t *testing.T, r *Recorder) *Record {
	t.Helper()
	list := r.Windows()
	if len(list) != 1 || len(list[0].Records) != 1 {
		t.Fatalf("kept: %+v", list)
	}
	return &list[0].Records[0]
}

// longest returns the stage that took most, and the sum of all.
func longest(stages [Stages]Micros) (most Stage, sum Micros) {
	for s, took := range stages {
		if sum += took; took > stages[most] {
			most = Stage(s)
		}
	}
	return most, sum
}

// TestTheDelayedStageIsNamed delays each stage of a request by 71 ms, and each of the others by 1 ms.
func TestTheDelayedStageIsNamed(t *testing.T) {
	for stage := range Leader {
		r := newTest()
		var left [Stages]coordination.Instant
		at := 1000 * milli
		for s := range Leader {
			if at += milli; s == stage {
				at += 70 * milli
			}
			left[s] = at
		}
		r.Put(7, (*Entry)(left[:Apply+1]))
		q := Request{Received: 1000 * milli, Room: left[Room] - 1000*milli, Delivered: left[Answer], Sent: left[Send],
			Index: 7, Led: true}
		if !r.Wants(q.Received, q.Sent) {
			t.Fatal("it is not wanted")
		}
		r.Add(q)
		record := one(t, r)
		if most, sum := longest(record.Stages); most != stage || record.Stages[most] != 71_000 || sum != record.Total {
			t.Errorf("%s is slow: %v of %d", stage, record.Stages, record.Total)
		}
	}
}

// TestWithoutAnEntry: an answer that follows from no entry, or from one that is not known any more, waited for a turn,
// or for the leader.
func TestWithoutAnEntry(t *testing.T) {
	for led, want := range map[bool]Stage{true: Turn, false: Leader} {
		r := newTest()
		r.Add(Request{Received: milli, Delivered: 51 * milli, Sent: 52 * milli, Index: 9, Led: led})
		if most, _ := longest(one(t, r).Stages); most != want {
			t.Errorf("led: %v: %v", led, one(t, r).Stages)
		}
	}
}

// TestStagesOverALeaderChange: of a request that began under another leader, or under none, the time until this server
// led is not charged to a turn of its own. A change after the answer charges nothing.
func TestStagesOverALeaderChange(t *testing.T) {
	here := [Stages]Micros{Room: 1000, Turn: 34_000, Encode: 1000, Apply: 4000, Answer: 1000, Send: 2000}
	later, elsewhere := here, [Stages]Micros{Room: 1000, Leader: 40_000, Send: 2000}
	later[Leader], later[Turn] = 29_000, 5000
	for name, test := range map[string]struct {
		changed  coordination.Instant
		led, own bool // own: the entry of the request is this server's
		want     [Stages]Micros
	}{
		"executed here":                 {40 * milli, true, true, later},
		"executed by an earlier leader": {40 * milli, true, false, elsewhere},
		"another server leads":          {40 * milli, false, false, elsewhere},
		"before the request":            {10 * milli, true, true, here},
		"after the answer":              {52 * milli, true, true, here},
	} {
		r := newTest()
		if test.own {
			r.Put(7, &Entry{Turn: 45 * milli, Encode: 46 * milli, Apply: 50 * milli})
		}
		r.Led(test.changed)
		r.Add(Request{Received: 10 * milli, Room: milli, Delivered: 51 * milli, Sent: 53 * milli, Index: 7,
			Led: test.led})
		if got := one(t, r); got.Stages != test.want || got.NewLeader != (test.changed > 10*milli) {
			t.Errorf("%s: %+v, want %v", name, got, test.want)
		}
	}
}

// TestEarlierAppends: the wait for a turn, and that in the log, belong to the appends of earlier entries that were
// under way meanwhile, each of them counted once.
func TestEarlierAppends(t *testing.T) {
	r := newTest()
	r.Put(1, &Entry{Turn: 1, Encode: 1, Log: 1 * milli, Write: 2 * milli, Sync: 10 * milli, Commit: 10 * milli,
		Apply: 10 * milli}) // before the request
	early := Entry{Turn: 10 * milli, Encode: 10 * milli, Log: 15 * milli, Write: 55 * milli, Sync: 65 * milli,
		Commit: 65 * milli, Apply: 66 * milli}
	r.Put(2, &early)
	r.Put(3, &early)
	r.Put(4, &Entry{Turn: 60 * milli, Encode: 61 * milli, Log: 70 * milli, Write: 71 * milli, Sync: 73 * milli,
		Commit: 74 * milli, Apply: 75 * milli})
	r.Add(Request{Received: 20 * milli, Delivered: 76 * milli, Sent: 77 * milli, Index: 4, Led: true})
	want := [Stages]Micros{Encode: 1000, Log: 5000, Write: 36_000, Sync: 5000 + 4000 + 2000, Commit: 1000, Apply: 1000,
		Answer: 1000, Send: 1000}
	if got := one(t, r).Stages; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestEntriesAreDisplaced: neither an entry that others have displaced is found, nor a proposal.
func TestEntriesAreDisplaced(t *testing.T) {
	var l entries
	for i := range uint64(2 * maxEntries) {
		l.put(i+1, &Entry{Turn: coordination.Instant(i + 1)})
	}
	if _, known := l.get(maxEntries); known {
		t.Error("an old entry is known")
	}
	if e, known := l.get(maxEntries + 1); !known || e[Turn] != maxEntries+1 {
		t.Errorf("%v, %v", e, known)
	}
	var p Proposals
	var e Entry
	p.Add(60, 1, 2)
	p.Add(10, 3, 4)
	for i := range 70 {
		if known := p.Next(&e); known != (i >= 6) || known && (e[Turn] == 3) != (i >= 60) {
			t.Errorf("proposal %d: %v, %v", i, known, e)
		}
	}
	if p.Next(&e) {
		t.Error("there was no further one")
	}
}

// TestTheSlowestAreKept adds requests at random, and wants those of them that are slowest.
func TestTheSlowestAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTest()
		r.Add(Request{})
		r.until.Store(1 << 62) // one window
		var all []int
		for range 10_000 {
			took := rand.IntN(1_000_000)
			all = append(all, took)
			if sent := coordination.Instant(took) * 1000; r.Wants(0, sent) {
				r.Add(Request{Sent: sent})
			}
		}
		slices.Sort(all)
		var kept []int
		for _, record := range r.Windows()[0].Records {
			kept = append(kept, int(record.Total))
		}
		slices.Sort(kept)
		if want := all[len(all)-windowMost:]; !slices.Equal(kept, want) {
			t.Errorf("kept are %v, want %v", kept, want)
		}
	})
}

// TestMemoryIsBounded fills windows for three hours: those of a minute keep 64 requests, older ones the slowest 8, and
// after an hour they are gone.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun, name := newTest(), time.Now(), strings.Repeat("n", coordination.MaxSemaphoreNameBytes)
		for range 3 * maxWindows {
			for i := range coordination.Instant(100) {
				now := coordination.Instant(time.Since(begun)) + 100*milli
				if q := (Request{Received: now - (i+1)*milli, Sent: now, Name: name}); r.Wants(q.Received, now) {
					r.Add(q)
				}
			}
			time.Sleep(windowTime)
		}
		list, records := r.Windows(), 0
		for i, w := range list {
			records += len(w.Records)
			want := windowRest
			if i >= len(list)-1-fullWindows {
				want = windowMost
			}
			for _, one := range w.Records {
				if len(w.Records) != want || one.Total <= Micros(100-want)*1000 {
					t.Fatalf("window %d of %d has %d requests, one of %d us", i, len(list), len(w.Records), one.Total)
				}
			}
		}
		if len(list) != maxWindows+1 || cap(r.past) > 2*maxWindows {
			t.Errorf("%d windows, in %d places", len(list), cap(r.past))
		}
		bytes := int(unsafe.Sizeof(*r)) + cap(r.past)*int(unsafe.Sizeof(Window{})) +
			(records+windowMost)*int(unsafe.Sizeof(Record{}))
		if t.Logf("%d requests of %d bytes, %d bytes in all, without names", records, unsafe.Sizeof(Record{}),
			bytes); bytes > 800<<10 {
			t.Error("that is too much")
		}
	})
}

// TestWhatWentOn: a request shows the collections and the longest turn of its time, a new leader and a checkpoint, and
// a window its collections, turns and appends.
func TestWhatWentOn(t *testing.T) {
	writes := false
	r := New(func() bool { return writes })
	before := r.collections.number
	r.Add(Request{Received: milli, Delivered: 2 * milli, Sent: 2 * milli})
	if got := one(t, r); got.LongTurn != 0 || got.Checkpoint || got.NewLeader {
		t.Errorf("nothing went on: %+v", got)
	}
	runtime.GC()
	runtime.GC()
	writes = true
	r.Turned(10*milli, 60*milli)
	r.Turned(70*milli, 80*milli)
	r.Wrote(30*time.Millisecond, 20*time.Millisecond)
	r.Led(50 * milli)
	r.Add(Request{Received: 40 * milli, Delivered: 90 * milli, Sent: 91 * milli})
	r.Add(Request{Received: 65 * milli, Delivered: 90 * milli, Sent: 91 * milli})
	w := r.Windows()[0]
	if hit, missed := w.Records[1], w.Records[2]; hit.LongTurn != 50_000 || !hit.Checkpoint || !hit.NewLeader ||
		missed.LongTurn != 0 || missed.NewLeader {
		t.Errorf("got %+v and %+v", hit, missed)
	}
	if n := r.collections.number - before; n < 2 || w.Collections != int(n) || w.CollectionPaused <= 0 ||
		w.LongestTurn != 50*time.Millisecond || w.LongestWrite != 10*time.Millisecond ||
		w.LongestSync != 20*time.Millisecond {
		t.Errorf("got %+v, %d collections", w, n)
	}
	c := collections{known: []collection{{10, 30}, {50, 60}, {90, 100}}}
	for _, want := range [][3]int64{{0, 10, 0}, {20, 55, 15}, {0, 1000, 40}, {52, 54, 2}} {
		if got := c.within(want[0], want[1]); int64(got) != want[2] {
			t.Errorf("from %d to %d: %d, want %d", want[0], want[1], got, want[2])
		}
	}
}

// TestManyGoroutines uses a recorder as a server does, for the race detector.
func TestManyGoroutines(t *testing.T) {
	r := newTest()
	var work sync.WaitGroup
	for i := range uint64(4) {
		work.Go(func() {
			for n := range uint64(2000) {
				sent := coordination.Instant(n) * milli * 50
				if i == 0 { // the holder of the turn
					at := coordination.Instant(n)
					r.Put(n+1, &Entry{at, at, at, at, at, at, at, at})
					r.Turned(at, at+1)
					r.Wrote(1, 1)
				} else if r.Wants(0, sent) {
					r.Add(Request{Sent: sent, Index: coordination.Index(n), Name: fmt.Sprint(n)})
				}
				if e, known := r.entries.get(n + 1); known && (e[Turn] != e[Apply] || e[Turn] != e[Sync]) {
					t.Errorf("half of an entry: %v", e)
				}
			}
		})
	}
	work.Wait()
}

// TestNothingIsAllocated: neither for a request, kept or not, nor for an entry.
func TestNothingIsAllocated(t *testing.T) {
	r := newTest()
	r.Add(Request{Sent: 1})
	n := uint64(0)
	if got := testing.AllocsPerRun(1000, func() {
		n++
		now := coordination.Instant(n)
		r.Put(n, &Entry{Turn: now})
		r.Turned(now, now)
		r.Wrote(1, 1)
		if r.Wants(0, now) {
			r.Add(Request{Sent: now, Index: coordination.Index(n)})
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkRequest is the cost of a request that is not kept, and of one that is.
func BenchmarkRequest(b *testing.B) {
	for name, sent := range map[string]coordination.Instant{"dropped": milli / 2, "kept": 2 * milli} {
		b.Run(name, func(b *testing.B) {
			r := newTest()
			for range windowMost {
				r.Add(Request{Sent: milli})
			}
			r.Put(1, &Entry{})
			b.ReportAllocs()
			for b.Loop() {
				if r.Wants(0, sent) {
					r.Add(Request{Sent: sent, Index: 1})
				}
			}
		})
	}
}

// BenchmarkEntry is the cost of an entry and its turn.
func BenchmarkEntry(b *testing.B) {
	r, p := newTest(), Proposals{}
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		p.Add(1, 1, 2)
		r.Wrote(1, 1)
		e := Entry{Commit: 3}
		p.Next(&e)
		r.Put(n, &e)
		r.Turned(1, 2)
	}
}
