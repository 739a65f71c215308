package slowest

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
)

// Stage is a part of the way of a request.
type Stage int

// The stages, in their order. Those from Turn to Apply are the same for all requests of an entry.
const (
	Room   Stage = iota // the server has no room for it
	Turn                // it waits for a turn of the group
	Encode              // is handled and encoded with the others of its entry
	Log                 // waits for raft, and for the goroutine that writes the log
	Write               // is written to the log, or waits while earlier entries are
	Sync                // the same of the log's syncs
	Commit              // waits for other servers, and for raft
	Apply               // waits for a turn, and is executed with its entry
	Answer              // waits until the turn hands out the answers
	Send                // the answer waits for its stream's writer, or for its client
	Leader              // until this server led; on one that does not lead: all but Room and Send
	Stages              // their number
)

var stageNames = [Stages]string{"room", "turn", "encode", "log", "write", "sync", "commit", "apply", "answer", "send",
	"leader"}

// String returns the name of the stage.
func (s Stage) String() string { return stageNames[s] }

// Entry has the instants at which an entry of the log that this server proposed left the stages from Turn to Apply. Log
// to Sync are 0 if other servers were faster than the append here.
type Entry [Apply + 1]coordination.Instant

// Proposals has the times of the last entries that were proposed and are not executed.
type Proposals struct {
	times       [64][2]coordination.Instant
	added, next int
}

// Add adds n entries that were encoded in a turn, by its beginning and now.
func (p *Proposals) Add(n int, turn, now coordination.Instant) {
	for range n {
		p.times[p.added%len(p.times)] = [2]coordination.Instant{turn, now}
		p.added++
	}
}

// Next completes the times of the next entry that is executed. It reports false if others have displaced it.
func (p *Proposals) Next(e *Entry) bool {
	n := p.next
	p.next++
	e[Turn], e[Encode] = p.times[n%len(p.times)][0], p.times[n%len(p.times)][1]
	return n < p.added && p.added-n <= len(p.times)
}

// maxEntries bounds the entries that are remembered. An answer that is sent after so many further ones has one stage in
// the place of theirs.
const maxEntries = 1024

// entries remembers the last entries. The holder of the group's turn puts them; any goroutine may get them.
type entries [maxEntries]struct {
	index atomic.Uint64 // 0 while left changes
	left  [len(Entry{})]atomic.Int64
}

func (l *entries) put(index uint64, e *Entry) {
	slot := &l[index%maxEntries]
	slot.index.Store(0)
	for i := range e {
		slot.left[i].Store(int64(e[i]))
	}
	slot.index.Store(index)
}

func (l *entries) get(index uint64) (e Entry, known bool) {
	slot := &l[index%maxEntries]
	if index == 0 || slot.index.Load() != index {
		return e, false
	}
	for i := range e {
		e[i] = coordination.Instant(slot.left[i].Load())
	}
	return e, slot.index.Load() == index
}

// Request is a request that was answered.
type Request struct {
	Kind    coordination.RequestKind
	Led     bool // by this server
	Node    coordination.NodeID
	Session coordination.SessionID
	Name    string // of the semaphore
	// The arrival, the time that it waited for room after that, the time of the first answer, and that of its sending.
	Received, Room, Delivered, Sent coordination.Instant
	Index                           coordination.Index // of the entry that the answer follows from, 0 if from none
}

// Micros are microseconds, as many as the type holds.
type Micros uint32

// MicrosOf converts a duration.
func MicrosOf[D coordination.Instant | time.Duration](d D) Micros {
	return Micros(min(max(int64(d), 0)/int64(time.Microsecond), math.MaxUint32))
}

// split divides the time of a request among the stages. The leader has changed last at an instant.
func (l *entries) split(q *Request, changed coordination.Instant) (stages [Stages]Micros) {
	var took [Stages]coordination.Instant
	at := q.Received
	leave := func(stage Stage, to coordination.Instant) {
		to = max(min(to, q.Delivered), at)
		took[stage], at = to-at, to
	}
	leave(Room, q.Received+q.Room)
	switch e, known := l.get(uint64(q.Index)); {
	case known:
		if changed < q.Delivered { // until then it waited for another leader, or for any
			leave(Leader, changed)
		}
		admitted := at
		for stage := Turn; stage <= Apply; stage++ {
			leave(stage, e[stage])
		}
		leave(Answer, q.Delivered)
		l.chargeDisk(&took, uint64(q.Index), &e, admitted)
	case q.Led && changed <= at:
		leave(Turn, q.Delivered)
	default:
		leave(Leader, q.Delivered)
	}
	took[Send] = q.Sent - q.Delivered
	for i := range took {
		stages[i] = MicrosOf(took[i])
	}
	return stages
}

// chargeDisk finds the appends of earlier entries for which a request waited, in the queue of the group or of the log,
// and moves their time to Write and Sync.
func (l *entries) chargeDisk(took *[Stages]coordination.Instant, index uint64, own *Entry,
	admitted coordination.Instant) {
	last := own[Log]
	for i := index - 1; i > 0 && index-i < maxEntries; i-- {
		e, known := l.get(i)
		if !known || e[Apply] <= admitted {
			return
		}
		if begun := e[Log]; begun == last || begun == 0 { // several entries share an append
			continue
		}
		last = e[Log]
		for _, to := range []Stage{Write, Sync} {
			charge := func(from Stage, since, until coordination.Instant) {
				d := min(e[to], until) - max(e[to-1], since)
				d = max(min(d, took[from]), 0)
				took[from], took[to] = took[from]-d, took[to]+d
			}
			charge(Turn, admitted, own[Turn])
			charge(Log, own[Encode], own[Log])
		}
	}
}
