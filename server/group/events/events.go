// Package events keeps the last events of a server in a ring, for those that watch locks change hands.
package events

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/turn"
)

const (
	// maxEvents is how many events a server remembers, of 72 bytes and a name each.
	maxEvents = 10_000
	// maxEventTextBytes is how much of a name, a path, a user or a reason an event keeps. What is shorter is
	// shared with the state.
	maxEventTextBytes = 128
)

// Ring holds the last events in the order in which this server saw them. Once it is full an event allocates nothing,
// and each watcher reads at its own pace.
type Ring struct {
	ring uint64 // names this start of the server

	mutex    sync.Mutex
	list     []coordination.Occurrence // a ring once it has maxEvents
	last     uint64                    // sequence of the last event, from 1; 0: there was none
	watchers map[*Watcher]bool
	closed   bool
	leader   coordination.OccurrenceMore // that was told last
}

// New makes a ring without events; number names it, and is not 0.
func New(number uint64) *Ring { return &Ring{ring: number, watchers: make(map[*Watcher]bool)} }

// Add appends what has occurred. The list remains its owner's.
func (r *Ring) Add(wallMillis uint64, occurred []coordination.Occurrence) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i := range occurred {
		r.addOne(wallMillis, &occurred[i])
	}
	for w := range r.watchers {
		w.bell.Ring()
	}
}

// addOne appends one. The mutex is held.
func (r *Ring) addOne(wallMillis uint64, o *coordination.Occurrence) {
	r.last++
	if len(r.list) < maxEvents {
		r.list = append(r.list, *o)
	}
	kept := &r.list[(r.last-1)%maxEvents]
	*kept = *o
	kept.Semaphore = eventText(o.Semaphore)
	if kept.StampMillis == 0 {
		kept.StampMillis = wallMillis
	}
	if o.More != nil && len(o.More.Path) > maxEventTextBytes {
		short := *o.More
		short.Path = eventText(short.Path)
		kept.More = &short
	}
}

// eventText is a text, or a copy of its beginning: a part of it would keep all of it in memory.
func eventText(text string) string {
	if len(text) <= maxEventTextBytes {
		return text
	}
	end := maxEventTextBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// Lead adds an event if this server now takes another one for the leader of a term than before; 0: no server.
func (r *Ring) Lead(wallMillis, term, server uint64) {
	now := coordination.OccurrenceMore{Term: term, Server: server}
	r.mutex.Lock()
	same := r.leader == now
	r.leader = now
	r.mutex.Unlock()
	if !same {
		r.Add(wallMillis, []coordination.Occurrence{{Kind: coordination.OccurLeader, More: &now}})
	}
}

// Trace notes of what trace the client is part of that has a session from now on.
func (r *Ring) Trace(wallMillis uint64, attached *coordination.Message, trace string) {
	r.Add(wallMillis, []coordination.Occurrence{{Kind: coordination.OccurSessionTraced, Node: attached.Node,
		Session: attached.Session, More: &coordination.OccurrenceMore{Trace: trace}}})
}

// Close ends all watching.
func (r *Ring) Close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.closed {
		r.closed = true
		for w := range r.watchers {
			close(w.over)
		}
	}
}

// Event is what happened.
type Event struct {
	coordination.Occurrence
	// Sequence numbers the events of a ring, from 1.
	Sequence uint64
}

// Watcher reads the events of this server. One goroutine at a time may use it.
type Watcher struct {
	events *Ring
	bell   turn.Bell
	over   chan struct{}
	at     uint64 // sequence of the last event that was read
}

// Watch begins to read behind an event that was read before, if it is of this ring; otherwise with the first
// one that is there. Ring 0 is from now on. It is to be closed.
func (r *Ring) Watch(ring, sequence uint64) *Watcher {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	w := &Watcher{events: r, bell: turn.NewBell(), over: make(chan struct{})}
	switch ring {
	case 0:
		w.at = r.last
	case r.ring:
		w.at = min(sequence, r.last)
	}
	r.watchers[w] = true
	if r.closed {
		close(w.over)
	}
	return w
}

// Close ends the watching.
func (w *Watcher) Close() {
	w.events.mutex.Lock()
	defer w.events.mutex.Unlock()
	delete(w.events.watchers, w)
}

// Ring names the ring that is read.
func (w *Watcher) Ring() uint64 { return w.events.ring }

// Sequence is that of the last event that was read, or is gone.
func (w *Watcher) Sequence() uint64 { return w.at }

// Next appends the next events, as many as fit. It tells how many before them are gone because they were not
// read in time.
func (w *Watcher) Next(into []Event) (read []Event, skipped uint64) {
	r := w.events
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if oldest := r.last - uint64(len(r.list)); w.at < oldest {
		skipped = oldest - w.at
		w.at = oldest
	}
	for w.at < r.last && len(into) < cap(into) {
		into = append(into, Event{r.list[w.at%maxEvents], w.at + 1})
		w.at++
	}
	return into, skipped
}

// News gets something when there may be more to read.
func (w *Watcher) News() <-chan struct{} { return w.bell }

// Over is closed when there will be nothing more.
func (w *Watcher) Over() <-chan struct{} { return w.over }
