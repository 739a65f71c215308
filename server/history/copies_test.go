package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/rig"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

// copying is a server that applies a log, some time after it was written, and keeps what happens each second.
type copying struct {
	ring    *events.Ring
	history *History
	applied int    // entries
	lag     uint64 // milliseconds
	phase   uint64 // of the second at which it keeps events
}

// at goes on to a moment of the log's time.
func (c *copying) at(millis uint64, log [][]coordination.Occurrence) {
	for c.applied < len(log) && log[c.applied][0].StampMillis+c.lag <= millis {
		c.ring.Add(0, log[c.applied], leaderPlace{})
		c.applied++
	}
	if millis%1000 == c.phase {
		c.history.step(time.UnixMilli(int64(millis)), false)
	}
}

// flood makes a log of some seconds with more than the buckets have room for: ends with locks and without, changes of
// data by two sessions, and acts of two users.
func flood(random *rand.Rand, millis uint64) (log [][]coordination.Occurrence) {
	kinds := []coordination.OccurrenceKind{coordination.OccurSessionExpired, coordination.OccurDataChanged,
		coordination.OccurLockLost, coordination.OccurAdministered}
	for now := uint64(1000); now < millis; now += random.Uint64N(20) {
		var entry []coordination.Occurrence
		for range 1 + random.IntN(9) {
			o := coordination.Occurrence{Kind: kinds[random.IntN(len(kinds))],
				Cause: coordination.OccurSessionExpired, Index: coordination.Index(len(log) + 1),
				Number: uint32(len(entry) + 1), StampMillis: now, Node: coordination.NodeID(1 + random.IntN(10)/9),
				Session:     coordination.SessionID(1 + random.IntN(2)),
				SemaphoreID: coordination.SemaphoreID(1 + random.IntN(30)),
				More:        &coordination.OccurrenceMore{Path: "/local/x"}}
			switch o.Kind {
			case coordination.OccurAdministered:
				o.More.User = fmt.Sprint("user ", random.IntN(2))
			case coordination.OccurSessionExpired:
				o.More.Held = random.IntN(10) / 9
			}
			entry = append(entry, o)
		}
		log = append(log, entry)
	}
	return log
}

// countedEvents counts events with those that they stand for, and changes of data among them.
func countedEvents(list []*adminpb.Event) (counted, changes int) {
	for _, e := range list {
		if counted += 1 + int(e.GetSkipped()); e.GetKind() == adminpb.Event_DATA_CHANGED {
			changes += 1 + int(e.GetSkipped())
		}
	}
	return counted, changes
}

// TestCopiesFallTogether: three servers apply a flood. Two keep the same events, whenever each of them writes; one lags
// behind, keeps some of a second before it is over, and is started anew with full buckets in the middle. Merged in any
// order, each event is counted once; but for changes of data, of which the server that was started anew may have begun
// a sum in a second in which the others had no token for more.
func TestCopiesFallTogether(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 2 {
		log := flood(random, 9_000)
		total, data := 0, 0
		for _, entry := range log {
			total += len(entry)
			for _, o := range entry {
				if o.Kind == coordination.OccurDataChanged {
					data++
				}
			}
		}
		servers := make([]*copying, 3)
		fs := make([]*rig.Memory, 3)
		open := func(i int) {
			s := &source{}
			if fs[i] == nil {
				fs[i] = rig.New("data")
			}
			servers[i].ring, servers[i].history = events.New(1), s.open(fs[i])
			servers[i].history.config.Take = servers[i].ring.Take
		}
		for i := range servers {
			lag := random.Uint64N(200)
			servers[i] = &copying{lag: lag, phase: lag + 1 + random.Uint64N(999-lag)}
			open(i)
		}
		servers[2].lag, servers[2].phase = random.Uint64N(1500), random.Uint64N(1000)
		restart := 3_000 + random.Uint64N(3_000)
		for now := uint64(1000); now < 13_000; now++ {
			for i, c := range servers {
				if i == 2 && now == restart {
					c.history.step(time.UnixMilli(0), true)
					c.history.close()
					open(2)
				}
				c.at(now, log)
			}
		}
		var lists [][]*adminpb.Event
		for _, c := range servers {
			c.history.step(time.UnixMilli(0), true)
			lists = append(lists, readAll(t, c.history))
			c.history.close()
		}
		if !slices.EqualFunc(lists[0], lists[1], func(a, b *adminpb.Event) bool { return proto.Equal(a, b) }) {
			t.Errorf("seed %d, round %d: two servers keep other events: %d and %d", seed, round, len(lists[0]),
				len(lists[1]))
		}
		if n, changes := countedEvents(lists[0]); n != total || changes != data || len(lists[0]) == total {
			t.Errorf("seed %d, round %d: %d events with %d changes are %d with %d", seed, round, total, data, n,
				changes)
		}
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2}, {2, 0}, {0, 1}} {
			var copies [][]*adminpb.Event
			for _, i := range order {
				var list []*adminpb.Event
				for _, e := range lists[i] {
					list = append(list, proto.CloneOf(e))
				}
				copies = append(copies, list)
			}
			merged := Merge(1<<20, copies...)
			if n, changes := countedEvents(merged); n-changes != total-data {
				t.Errorf("seed %d, round %d: merged as %d, %d events are shown as %d", seed, round, order, total-data,
					n-changes)
			}
			if len(order) == 2 && order[1] == 1 && len(merged) != len(lists[0]) {
				t.Errorf("seed %d, round %d: copies do not fall together", seed, round)
			}
		}
	}
}

// TestElectionsFallTogether: servers see elections by clocks of their own, and one that catches up does not know the
// leader of then. Merged, an election is one event with its leader; a caller that follows sees each once, at once.
func TestElectionsFallTogether(t *testing.T) {
	leaders := map[uint64]uint64{6: 3, 7: 2}
	var asked, merged []*adminpb.Event
	for i, knows := range [][]uint64{{7}, {6, 7}, {6}, {6, 7}} {
		ring, h, _ := server(t)
		for term := uint64(6); term <= 7; term++ {
			if slices.Contains(knows, term) {
				ring.Lead(uint64(1000*i), 0, term, leaders[term])
			}
			ring.Elected(uint64(1000*i), coordination.Index(100+5*(term-6)), term, leaderPlace{})
		}
		h.step(time.UnixMilli(0), false)
		if asked == nil { // it is the first to answer
			asked = readAll(t, h)
		}
		merged = Merge(10, merged, readAll(t, h))
	}
	if len(merged) != 2 || merged[0].GetServer() != "server 2" || merged[1].GetServer() != "server 3" {
		t.Errorf("merged: %v", merged)
	}
	q := &Query{After: asked[0], Wanted: all}
	for _, e := range merged {
		if q.matches(e) || len(asked) != 2 {
			t.Errorf("a caller that has seen %v is shown %v", asked, e)
		}
	}
}

// TestSumsBesideSingleEvents: of two copies of a sum the larger one is right, and what another server has by itself is
// not counted twice.
func TestSumsBesideSingleEvents(t *testing.T) {
	event := func(index, more, last uint64) *adminpb.Event {
		return &adminpb.Event{Kind: adminpb.Event_SESSION_EXPIRED, Index: index, Number: 1, Skipped: more,
			LastIndex: last, LastNumber: 1, SumsKind: more > 0}
	}
	for _, test := range []struct {
		lists [][]*adminpb.Event
		want  []uint64 // index and more, the newest first
	}{
		{[][]*adminpb.Event{{event(5, 3, 9)}, {event(5, 9, 20)}}, []uint64{5, 9}},
		{[][]*adminpb.Event{{event(1, 6, 7)}, {event(3, 0, 0), event(2, 0, 0)}}, []uint64{3, 0, 2, 0, 1, 4}},
		{[][]*adminpb.Event{{event(1, 6, 7), event(8, 2, 10)}, {event(1, 4, 5), event(6, 4, 10)}},
			[]uint64{8, 2, 6, 1, 1, 4}},
		{[][]*adminpb.Event{{event(1, 6, 7)}, {{Kind: adminpb.Event_SESSION_ENDED, Index: 2, Number: 1}}},
			[]uint64{2, 0, 1, 6}},
	} {
		for range 2 {
			var copies [][]*adminpb.Event
			for _, list := range test.lists {
				var copied []*adminpb.Event
				for _, e := range list {
					copied = append(copied, proto.CloneOf(e))
				}
				copies = append(copies, copied)
			}
			var got []uint64
			for _, e := range Merge(10, copies...) {
				got = append(got, e.GetIndex(), e.GetSkipped())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v are shown as %d, want %d", test.lists, got, test.want)
			}
			slices.Reverse(test.lists)
		}
	}
}
