package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

// source gives a history its events.
type source struct {
	index coordination.Index
	next  []events.Rare
	log   strings.Builder
	full  error
	base  uint64 // of the state
	came  uint64 // Received
}

// add adds an event of a class with so much text.
func (s *source) add(class events.Class, text int) {
	s.index++
	s.next = append(s.next, events.Rare{Class: class, Led: true, Occurrence: coordination.Occurrence{
		Kind: coordination.OccurDataChanged, Index: s.index, Number: 1, Node: 1, Session: 1,
		Semaphore: strings.Repeat("s", text), StampMillis: uint64(1000 * s.index),
		More: &coordination.OccurrenceMore{}}})
}

func (s *source) open(fs files.FS) *History {
	return New(Config{FS: fs, Dir: "data/events", Server: 7, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Take: func(bool) ([]events.Rare, uint64) {
			taken := s.next
			s.next = nil
			return taken, 0
		}, Name: func(id uint64) string { return fmt.Sprint("server ", id) }, Space: func() error { return s.full },
		Base: func() uint64 { return s.base }, Received: func() uint64 { return s.came }})
}

// indexes returns the indexes of the events that are found, the newest first.
func indexes(t *testing.T, h *History, q Query) (list []uint64) {
	t.Helper()
	if q.Wanted == nil {
		q.Wanted = func(e *adminpb.Event) bool { return e.GetKind() != adminpb.Event_GAP }
	}
	if q.Limit == 0 {
		q.Limit = 1 << 20
	}
	found, err := h.Read(context.Background(), &q)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		list = append(list, e.GetIndex())
	}
	return list
}

// TestHistorySurvives writes, restarts, and reads with all bounds.
func TestHistorySurvives(t *testing.T) {
	memory, s := rig.New("data"), &source{}
	var h *History
	for range 3 {
		h = s.open(memory)
		for range 4 {
			s.add(events.Class(s.index)%events.Classes, 10)
			h.step(time.UnixMilli(0), false)
		}
		h.close()
	}
	at := func(index uint64) *adminpb.Event { return &adminpb.Event{Index: index, Number: 1} }
	for what, c := range map[string]struct {
		q    Query
		want []uint64
	}{
		"all":    {Query{}, []uint64{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
		"limit":  {Query{Limit: 2}, []uint64{12, 11}},
		"before": {Query{Before: at(4)}, []uint64{3, 2, 1}},
		"after":  {Query{After: at(10)}, []uint64{12, 11}},
		"since":  {Query{SinceMillis: 11_000}, []uint64{12, 11}},
		"wanted": {Query{Wanted: func(e *adminpb.Event) bool { return e.GetIndex()%5 == 0 }}, []uint64{10, 5}},
	} {
		if got := indexes(t, h, c.q); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	if names, _ := memory.List("data/events"); len(names) != int(events.Classes) {
		t.Errorf("three starts have made the files %q", names)
	}
	if n := strings.Count(s.log.String(), "data of a semaphore was changed"); n != 12 {
		t.Errorf("%d changes of configuration are logged, want 12", n)
	}
}

// TestGapOfARestoredState: a state that came as a whole has a history that nobody here kept. That is a gap of a history
// that has no files, and of no other.
func TestGapOfARestoredState(t *testing.T) {
	for _, base := range []uint64{0, 41} {
		memory, s := rig.New("data"), &source{base: base, index: 41}
		var gaps []uint64
		for range 2 {
			h := s.open(memory)
			s.add(events.OtherEnds, 10)
			h.step(time.UnixMilli(0), false)
			h.close()
			s.base += 3
			gaps = nil
			for _, e := range readAll(t, h) {
				if e.GetKind() == adminpb.Event_GAP {
					gaps = append(gaps, e.GetIndex(), e.GetLastIndex())
				}
			}
		}
		if want := []uint64{1, base}; base == 0 && gaps != nil || base > 0 && !slices.Equal(gaps, want) {
			t.Errorf("the gaps of a history that began with entry %d are %d", base, gaps)
		}
	}
}

// TestGapOfACrashAfterAnInstall: a server gets a state in the place of the log, and ends before it writes that. What is
// between its newest event and that state is a gap, once. A state that its files go beyond has its gap there.
func TestGapOfACrashAfterAnInstall(t *testing.T) {
	memory, s := rig.New("data"), &source{}
	for _, step := range []struct {
		came, index uint64
		want        [][2]uint64
	}{{0, 0, nil}, {0, 3, nil}, {3, 5, nil}, {40, 40, [][2]uint64{{8, 40}}}, {40, 41, [][2]uint64{{8, 40}}}} {
		s.came, s.index = step.came, coordination.Index(step.index)
		h := s.open(memory)
		for range 2 {
			s.add(events.OtherEnds, 10)
			h.step(time.UnixMilli(0), false)
		}
		if got := gaps(t, h); !slices.Equal(got, step.want) {
			t.Errorf("a state as of entry %d, events from %d on: the gaps are %d, want %d", step.came, step.index+1,
				got, step.want)
		}
		h.close()
	}
}

// TestHistoryIsBounded floods one class: the events of the others stay.
func TestHistoryIsBounded(t *testing.T) {
	memory, s := rig.New("data"), &source{}
	h := s.open(memory)
	s.add(events.Audit, 10)
	for range 11 { // megabytes
		for range 1024 {
			s.add(events.OtherEnds, 1000)
		}
		h.step(time.UnixMilli(0), false)
	}
	h.close()
	got := indexes(t, h, Query{})
	if oldest := got[len(got)-1]; oldest != 1 || len(got) < 7*1000 || len(got) > 8*1024 || got[0] != uint64(s.index) {
		t.Errorf("%d events from %d to %d are kept", len(got), oldest, got[0])
	}
	if used := memory.Used(); used > int64(events.ClassBytes[events.OtherEnds])+segmentBytes {
		t.Errorf("the files have %d bytes", used)
	}
}

// TestHistoryCrashes writes and syncs at random, and makes images of what a crash may leave: each opens, has what was
// synced, has nothing that was not written, and can be continued.
func TestHistoryCrashes(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	marks := rig.Marks{}
	for round := range 6 {
		memory, s := rig.New("data"), &source{}
		written, synced := map[uint64]bool{}, map[uint64]bool{}
		check := func(image *rig.Memory) {
			t.Helper()
			after := &source{index: s.index + 1000}
			h := after.open(image)
			before := indexes(t, h, Query{})
			for _, index := range before {
				if !written[index] {
					t.Fatalf("seed %d, round %d: event %d was never written", seed, round, index)
				}
			}
			for index := range synced {
				if !slices.Contains(before, index) {
					t.Fatalf("seed %d, round %d: event %d was synced, and is lost", seed, round, index)
				}
			}
			if len(before) < len(written) {
				marks["lost what was not synced"]++
			}
			after.add(events.Audit, 10)
			after.add(events.OtherEnds, 10)
			h.step(time.UnixMilli(0), false)
			h.close()
			if got := indexes(t, h, Query{}); !h.retry.IsZero() || len(got) != len(before)+2 {
				t.Fatalf("seed %d, round %d: %d events were there, and %d after two more: %s", seed, round,
					len(before), len(got), after.log.String())
			}
			marks["continued"]++
		}
		memory.Before = func(string, string) error {
			if random.IntN(10) == 0 {
				hook := memory.Before
				memory.Before = nil
				check(memory.Crash(random))
				memory.Before = hook
			}
			return nil
		}
		h := s.open(memory)
		for step := range 12 {
			for range random.IntN(4) {
				s.add(events.Class(random.IntN(int(events.Classes))), random.IntN(300_000))
				if e := EventOf(&s.next[len(s.next)-1].Occurrence, nil); proto.Size(e) <= maxEventBytes {
					written[uint64(s.index)] = true
				}
			}
			h.step(time.UnixMilli(0), false)
			switch random.IntN(4) {
			case 0:
				h.step(time.UnixMilli(int64(step+1)*syncPeriod.Milliseconds()), false)
				if !h.unsynced {
					synced = maps.Clone(written)
					marks["synced"]++
				}
			case 1:
				h.close()
				synced = maps.Clone(written)
				h = s.open(memory)
				marks["restarted"]++
			}
		}
	}
	marks.Report(t, "synced", "restarted", "continued", "lost what was not synced")
}

// TestHistoryStops meets errors and a full disk: events are lost and counted, and a line is logged.
func TestHistoryStops(t *testing.T) {
	for _, fault := range rig.Faults {
		memory, s := rig.New("data"), &source{}
		h := s.open(memory)
		s.add(events.Audit, 10)
		h.step(time.UnixMilli(0), false)
		memory.Before = func(step, _ string) error {
			if rig.Changes(step) {
				return fault
			}
			return nil
		}
		for range 3 {
			s.add(events.Audit, 10)
			h.step(time.UnixMilli(0), false)
		}
		memory.Before = nil
		h.close()
		if got := indexes(t, h, Query{}); h.Lost() != 3 || !slices.Contains(got, 1) ||
			strings.Count(s.log.String(), "events cannot be written") != 1 {
			t.Errorf("%v: %d are lost, there are %d\n%s", fault, h.Lost(), got, s.log.String())
		}
	}
	memory, s := rig.New("data"), &source{full: errors.New("no room")}
	h := s.open(memory)
	for range 3 {
		s.add(events.Audit, 10)
		h.step(time.UnixMilli(0), false)
	}
	s.full = nil
	s.add(events.Audit, 10)
	h.step(time.UnixMilli(0), false)
	if got := indexes(t, h, Query{}); h.Lost() != 3 || !slices.Equal(got, []uint64{4}) ||
		strings.Count(s.log.String(), "nearly full") != 1 {
		t.Errorf("a full disk: %d are lost, there are %d\n%s", h.Lost(), got, s.log.String())
	}
}

// TestHistoryStartsAgain meets faults at random steps, in the middle of segments too, and then a disk that is well:
// what was kept is there, and what comes after a while is kept.
func TestHistoryStartsAgain(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	marks := rig.Marks{}
	for round := range 14 {
		memory, s := rig.New("data"), &source{}
		h := s.open(memory)
		now := time.UnixMilli(0)
		kept := func(n int) (indexes []uint64) {
			for range n {
				s.add(events.Class(random.IntN(int(events.Classes))), random.IntN(10_000))
				indexes = append(indexes, uint64(s.index))
			}
			h.step(now, false)
			now = now.Add(writePeriod)
			return indexes
		}
		wanted := kept(10 + random.IntN(20))
		lost := uint64(0)
		for phase := range 1 + random.IntN(4) {
			if phase == 0 || random.IntN(2) == 0 {
				h.close()
				lost += h.Lost()
				h = s.open(memory)
			}
			fault, left := rig.Faults[random.IntN(len(rig.Faults))], random.IntN(3)
			steps := []string{"", "write", "sync", "create", "allocate", "rename", "remove"} // "": all
			fails := steps[random.IntN(len(steps))]
			if phase == 0 {
				fails, left = steps[round%len(steps)], 0
			}
			memory.Before = func(step, _ string) error {
				if rig.Changes(step) && (fails == "" || step == fails) {
					if left--; left < 0 {
						marks[step]++
						return fault
					}
				}
				return nil
			}
			for range 1 + random.IntN(40) {
				kept(random.IntN(3))
			}
			memory.Before = nil
			now = now.Add(retryPeriod)
			wanted = append(wanted, kept(1+random.IntN(30))...)
		}
		h.close()
		got := indexes(t, h, Query{})
		for _, index := range wanted {
			if !slices.Contains(got, index) {
				t.Fatalf("seed %d, round %d: event %d of %d is lost\n%s", seed, round, index, s.index, s.log.String())
			}
		}
		if n := uint64(len(got)) + lost + h.Lost(); n < uint64(s.index) {
			t.Errorf("seed %d, round %d: %d of %d events are kept, or counted as lost", seed, round, n, s.index)
		}
		stopped, begun := "events cannot be written", "events are written again"
		if strings.Count(s.log.String(), stopped) != strings.Count(s.log.String(), begun) {
			t.Errorf("seed %d, round %d:\n%s", seed, round, s.log.String())
		}
	}
	marks.Report(t, "write", "sync", "create", "allocate", "rename", "remove")
}

// leaderPlace is a leader that knows nothing.
type leaderPlace struct{}

func (leaderPlace) PathOfNode(coordination.NodeID) string { return "/local/x" }

// TenantOf: node 1 and 101 are of one.
func (leaderPlace) TenantOf(id coordination.NodeID) string { return fmt.Sprint(id % 100) }
func (leaderPlace) PathOfTenant(string) string             { return "/local" }
func (leaderPlace) ClientOf(coordination.NodeID, coordination.SessionID) *coordination.Client {
	return nil
}
func (leaderPlace) Leads() bool         { return true }
func (leaderPlace) StampMillis() uint64 { return 10_000_000 }

// TestNoTenantDisplacesAnAct: sessions of one node end at 1,000 a second for ten minutes, and its data changes. An act
// of an administrator, the end of another node's session and the tenant's own first one stay, and all are counted.
func TestNoTenantDisplacesAnAct(t *testing.T) {
	ring, memory, s := events.New(1), rig.New("data"), &source{}
	h := s.open(memory)
	h.config.Take = ring.Take
	index := coordination.Index(0)
	occur := func(kind coordination.OccurrenceKind, node coordination.NodeID, session coordination.SessionID) {
		index++
		ring.Add(0, []coordination.Occurrence{{Kind: kind, Index: index, Number: 1, Node: node, Session: session,
			SemaphoreID: 1, Semaphore: "flags", StampMillis: uint64(index),
			More: &coordination.OccurrenceMore{Path: "/local/x", Held: 1, Names: []string{"lock"}}}}, leaderPlace{})
	}
	occur(coordination.OccurAdministered, 0, 0)
	occur(coordination.OccurSessionExpired, 2, 1)
	const seconds, rate = 600, 1000
	for second := range seconds {
		for i := range rate {
			occur(coordination.OccurSessionExpired, 1, coordination.SessionID(second*rate+i+1))
			occur(coordination.OccurDataChanged, 1, 1)
		}
		h.step(time.UnixMilli(int64(second)*1000), false)
	}
	h.step(time.UnixMilli(seconds*1000), true)
	h.close()
	found, err := h.Read(context.Background(), &Query{Limit: 1 << 20,
		Wanted: func(*adminpb.Event) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	counted, first, act, other := uint64(0), false, false, false
	for _, e := range found {
		switch {
		case e.GetKind() == adminpb.Event_ADMINISTERED:
			act = true
		case e.GetNode() == 2:
			other = true
		case e.GetKind() == adminpb.Event_SESSION_EXPIRED:
			first = first || e.GetSession() == 1
			counted += 1 + e.GetSkipped()
		}
	}
	if !act || !other || !first || counted != seconds*rate || h.Lost() != 0 {
		t.Errorf("the act %v, the other tenant's %v, the first one's %v; %d of %d are counted, %d lost", act, other,
			first, counted, seconds*rate, h.Lost())
	}
	if lines := strings.Count(s.log.String(), "sessions have ended"); lines > seconds+2 {
		t.Errorf("%d lines of the log", lines)
	}
}

// TestRetriesKeepOldEvents: a class has all its files when a disk gives no more space to a new one. Each attempt begins
// a file; none of them costs more of the old files than one that succeeds.
func TestRetriesKeepOldEvents(t *testing.T) {
	memory, s := rig.New("data"), &source{}
	h := s.open(memory)
	now := time.UnixMilli(0)
	for range 9 {
		for range 1000 {
			s.add(events.OtherEnds, 1000)
		}
		h.step(now, false)
	}
	before := len(indexes(t, h, Query{}))
	memory.Before = func(step, _ string) error {
		if step == "allocate" {
			return syscall.ENOSPC
		}
		return nil
	}
	for range 1100 { // more than the present file has room for
		s.add(events.OtherEnds, 1000)
	}
	for range 20 {
		s.add(events.OtherEnds, 1000)
		h.step(now, false)
		now = now.Add(retryPeriod)
	}
	memory.Before = nil
	s.add(events.OtherEnds, 1000)
	h.step(now.Add(retryPeriod), false)
	if after := len(indexes(t, h, Query{})); after < before-2100 {
		t.Errorf("there were %d events; after 20 attempts to write one there are %d", before, after)
	}
}

// TestEmptyFilesDoNotCount is the same where only the first file of a class cannot be allocated.
func TestEmptyFilesDoNotCount(t *testing.T) {
	memory, s := rig.New("data"), &source{}
	h := s.open(memory)
	now := time.UnixMilli(0)
	memory.Before = func(step, _ string) error {
		if step == "allocate" {
			return syscall.ENOSPC
		}
		return nil
	}
	for range 5 {
		s.add(events.Audit, 10)
		now = now.Add(retryPeriod)
		h.step(now, false)
	}
	memory.Before = nil
	s.add(events.Audit, 10)
	h.step(now.Add(retryPeriod), false)
	h.close()
	if names, _ := memory.List("data/events"); len(names) != 1 {
		t.Errorf("one file is written, and there are %q", names)
	}
}

// gaps reads the gaps of a history.
func gaps(t *testing.T, h *History) (list [][2]uint64) {
	t.Helper()
	_, err := h.Read(context.Background(), &Query{Limit: 1000, Wanted: func(e *adminpb.Event) bool {
		if e.GetKind() == adminpb.Event_GAP {
			list = append(list, [2]uint64{e.GetIndex(), e.GetLastIndex()})
		}
		return false
	}})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestWhatIsLostIsAGap: events that a full or broken disk does not take are a part of the log that this server lacks:
// one that asks must hear of it, from a dead server's files too.
func TestWhatIsLostIsAGap(t *testing.T) {
	for what, stop := range map[string]func(*rig.Memory, *source, bool){
		"full": func(_ *rig.Memory, s *source, on bool) {
			if s.full = nil; on {
				s.full = syscall.ENOSPC
			}
		},
		"broken": func(m *rig.Memory, _ *source, on bool) {
			if m.Before = nil; on {
				m.Before = func(step, _ string) error {
					if rig.Changes(step) {
						return syscall.EIO
					}
					return nil
				}
			}
		},
	} {
		memory, s := rig.New("data"), &source{}
		h, now := s.open(memory), time.UnixMilli(0)
		step := func() {
			s.add(events.Configuration, 10)
			h.step(now, false)
			now = now.Add(retryPeriod)
		}
		step() // 1
		stop(memory, s, true)
		for range 3 { // 2 to 4
			step()
		}
		stop(memory, s, false)
		step() // 5
		step() // 6
		h.close()
		h = s.open(memory)
		if got := gaps(t, h); !slices.Equal(got, [][2]uint64{{2, 4}}) {
			t.Errorf("%s: the gaps are %d, want that from 2 to 4", what, got)
		}
	}
}
