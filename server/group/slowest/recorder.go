package slowest

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
)

// The bounds of what is kept.
const (
	windowTime   = 10 * time.Second
	windowMost   = 64 // requests of a window, in the last fullWindows
	fullWindows  = 6
	windowRest   = 8 // requests of a window that is older
	maxWindows   = 360
	unknownFloor = -1
)

// Record is a slow request.
type Record struct {
	Request
	Ended  int64 // nanoseconds since 1970
	Total  Micros
	Stages [Stages]Micros
	// Collecting is the time of it for which the garbage was collected, and LongTurn the longest turn of its window, if
	// that fell into it.
	Collecting, LongTurn Micros
	// Checkpoint reports whether a checkpoint was written at its end, NewLeader whether the leader changed meanwhile.
	Checkpoint, NewLeader bool
}

// Window is a time with its slowest requests, and what the process did meanwhile.
type Window struct {
	Ends    time.Time
	Records []Record
	// Collections counts garbage collections, with their pauses in sum, the time that one takes, and the processor
	// time for which goroutines helped.
	Collections                                   int
	CollectionPaused, CollectionTook, AssistedFor time.Duration
	// The longest turn, and of the appends to the log the longest, but for its syncs, and the longest syncs.
	LongestTurn, LongestWrite, LongestSync time.Duration
}

// Recorder keeps the slowest requests.
type Recorder struct {
	entries entries
	// What a request has to exceed to be kept, and the end of the present window, for a look without the lock.
	floor, until atomic.Int64
	// Of the present window, set by the holder of the group's turn.
	turnBegun, turn, write, sync atomic.Int64
	led                          atomic.Int64 // when the leader changed last

	mutex       sync.Mutex
	present     Window
	past        []Window // the latest comes last
	collections collections
	checkpoint  func() bool
}

// New returns an empty recorder. checkpoint reports whether a checkpoint is being written.
func New(checkpoint func() bool) *Recorder {
	r := &Recorder{checkpoint: checkpoint, present: Window{Records: make([]Record, 0, windowMost)}}
	r.floor.Store(unknownFloor)
	r.collections.read()
	return r
}

// Put notes an entry. The group's turn is held.
func (r *Recorder) Put(index uint64, e *Entry) { r.entries.put(index, e) }

// Wrote notes an append to the log. The group's turn is held.
func (r *Recorder) Wrote(took, syncing time.Duration) {
	raise(&r.write, int64(took-syncing))
	raise(&r.sync, int64(syncing))
}

// Turned notes a turn of the group at its end. The turn is held.
func (r *Recorder) Turned(begun, ended coordination.Instant) {
	if raise(&r.turn, int64(ended-begun)) {
		r.turnBegun.Store(int64(begun))
	}
}

func raise(longest *atomic.Int64, to int64) bool {
	longer := to > longest.Load()
	if longer {
		longest.Store(to)
	}
	return longer
}

// Led notes that the leader has changed. The group's turn is held.
func (r *Recorder) Led(now coordination.Instant) { r.led.Store(int64(now)) }

// Wants reports whether a request that was received at an instant and is sent now is one for Add. It is cheap.
func (r *Recorder) Wants(received, now coordination.Instant) bool {
	return int64(now-received) > r.floor.Load() || int64(now) >= r.until.Load()
}

// Add keeps a request if it is among the slowest.
func (r *Recorder) Add(q Request) {
	if len(q.Name) > coordination.MaxSemaphoreNameBytes { // an acquire may have megabytes of it
		q.Name = strings.Clone(q.Name[:coordination.MaxSemaphoreNameBytes])
	}
	now, changed := time.Now(), coordination.Instant(r.led.Load())
	record := Record{Request: q, Ended: now.UnixNano(), Total: MicrosOf(q.Sent - q.Received),
		Stages: r.entries.split(&q, changed), Checkpoint: r.checkpoint(), NewLeader: changed > q.Received}
	if begun := r.turnBegun.Load(); begun+r.turn.Load() > int64(q.Received) && begun < int64(q.Delivered) {
		record.LongTurn = MicrosOf(coordination.Instant(r.turn.Load()))
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if int64(q.Sent) >= r.until.Load() {
		r.turnOver(now, q.Sent)
	}
	kept := &r.present.Records
	if len(*kept) < windowMost {
		*kept = append(*kept, record)
	} else if least := shortest(*kept); record.Total > (*kept)[least].Total {
		(*kept)[least] = record
	}
	if len(*kept) == windowMost {
		r.floor.Store(int64((*kept)[shortest(*kept)].Total) * int64(time.Microsecond))
	}
}

func shortest(list []Record) (least int) {
	for i := range list {
		if list[i].Total < list[least].Total {
			least = i
		}
	}
	return least
}

// turnOver ends the present window, and begins the one that now is in. The mutex is held.
func (r *Recorder) turnOver(now time.Time, at coordination.Instant) {
	if len(r.present.Records) > 0 {
		r.explain()
		closed := r.present
		closed.Records = slices.Clone(closed.Records)
		r.past = append(r.past, closed)
		if len(r.past) > maxWindows {
			r.past = append(r.past[:0], r.past[1:]...)
		}
		if old := len(r.past) - 1 - fullWindows; old >= 0 {
			r.past[old].Records = slices.Clone(slowest(r.past[old].Records, windowRest))
		}
	}
	clear(r.present.Records)
	ends := now.Truncate(windowTime).Add(windowTime)
	r.present = Window{Ends: ends, Records: r.present.Records[:0]}
	for _, longest := range []*atomic.Int64{&r.turn, &r.write, &r.sync} {
		longest.Store(0)
	}
	r.floor.Store(unknownFloor)
	r.until.Store(int64(at) + int64(ends.Sub(now)))
}

// explain notes what the process did in the present window. The mutex is held.
func (r *Recorder) explain() {
	w, lists := &r.present, [][]Record{r.present.Records}
	number, paused, average, assisted := r.collections.read()
	w.Collections += number
	w.CollectionPaused += paused
	w.CollectionTook = max(w.CollectionTook, average)
	w.AssistedFor += assisted
	w.LongestTurn, w.LongestWrite = time.Duration(r.turn.Load()), time.Duration(r.write.Load())
	w.LongestSync = time.Duration(r.sync.Load())
	if n := len(r.past); n > 0 { // a collection may have ended since then
		lists = append(lists, r.past[n-1].Records)
	}
	for _, list := range lists {
		for i := range list {
			q := &list[i]
			begun := q.Ended - int64(q.Total)*int64(time.Microsecond)
			q.Collecting = max(q.Collecting, MicrosOf(r.collections.within(begun, q.Ended)))
		}
	}
}

// slowest sorts a list, the slowest first, and returns the first of it.
func slowest(list []Record, most int) []Record {
	slices.SortFunc(list, func(a, b Record) int { return int(int64(b.Total) - int64(a.Total)) })
	return list[:min(most, len(list))]
}

// Windows returns all windows that are kept, the present one last.
func (r *Recorder) Windows() []Window {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.explain()
	list := append(slices.Clone(r.past), r.present)
	for i := range list {
		list[i].Records = slices.Clone(list[i].Records)
	}
	return list
}
