// Package events keeps the last events of a server in a ring, for those that watch locks change hands.
package events

import (
	"hash/maphash"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/turn"
)

const (
	// maxEvents bounds the events that a server remembers, of 112 bytes and a name each.
	maxEvents = 10_000
	// maxEventTextBytes is how much of a name, a path, a user or a reason an event keeps. What is shorter is
	// shared with the state.
	maxEventTextBytes = 128
)

// Event is an occurrence with its number in the ring.
type Event struct {
	coordination.Occurrence
	// Sequence numbers the events of a ring, from 1.
	Sequence uint64
}

// Ring holds the last events in the order in which this server saw them. Once it is full an event allocates nothing,
// and each watcher reads at its own pace.
type Ring struct {
	ring uint64 // names this start of the server

	mutex    sync.Mutex
	list     []coordination.Occurrence // a ring once it has maxEvents
	last     uint64                    // sequence of the last event, from 1; 0: there was none
	watchers map[*Watcher]bool
	closed   bool
	leader   [2]uint64 // the term and server of the last event about a leader
	rare     rare
	holds    holds
	ends     Ends
	index    coordination.Index // of the last event of the log
	base     coordination.Index // see Begin
}

// New makes a ring without events; number names it, and is not 0.
func New(number uint64) *Ring {
	return &Ring{ring: number, watchers: make(map[*Watcher]bool), rare: rare{open: make(map[sumKey]int),
		shares: newShares()}, holds: holds{seed: maphash.MakeSeed()}}
}

// Begin notes up to which entry the state came as a whole when the server was started.
func (r *Ring) Begin(base coordination.Index) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.base = base
}

// Base returns the index that Begin has noted.
func (r *Ring) Base() uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return uint64(r.base)
}

// Add appends what has occurred, where is the state then; nil: nothing of it is rare. The list remains its owner's.
func (r *Ring) Add(wallMillis uint64, occurred []coordination.Occurrence, where Where) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i := range occurred {
		o := &occurred[i]
		kept := r.addOne(wallMillis, o)
		if where == nil {
			continue
		}
		if where.Leads() {
			r.ends.count(o)
		}
		if o.Kind == coordination.OccurLockLost {
			r.holds.end(o)
		}
		if second := o.StampMillis / 1000; o.Number != 0 && second > r.rare.second {
			r.rare.pass(second)
		}
		if class, is := classOf(o); is {
			rare := *kept
			rare.Semaphore = o.Semaphore
			if o.More != nil && (len(o.More.Names) > 0 || len(o.More.Path) > maxEventTextBytes) {
				more := *kept.More
				more.Path, more.Names = o.More.Path, o.More.Names // callers look for them
				rare.More = &more
			}
			r.rare.add(class, &rare, where)
		}
	}
	for w := range r.watchers {
		w.bell.Ring()
	}
}

// addOne appends one. The mutex is held.
func (r *Ring) addOne(wallMillis uint64, o *coordination.Occurrence) (kept *coordination.Occurrence) {
	r.last++
	if len(r.list) < maxEvents {
		r.list = append(r.list, *o)
	}
	kept = &r.list[(r.last-1)%maxEvents]
	*kept = *o
	kept.Semaphore = eventText(o.Semaphore)
	r.index = max(r.index, o.Index)
	kept.Index = r.index
	if kept.StampMillis == 0 {
		kept.StampMillis = wallMillis
	}
	if o.More != nil {
		kept.More = shortened(o.More)
	}
	return kept
}

// shortened returns the beginnings of texts, without names: a ring would keep 10,000 of the longest texts in memory. It
// returns m itself if nothing of it is longer.
func shortened(m *coordination.OccurrenceMore) *coordination.OccurrenceMore {
	longest := max(len(m.Path), len(m.Act), len(m.Target), len(m.Reason), len(m.User), len(m.Description))
	if longest <= maxEventTextBytes && len(m.Names) == 0 {
		return m
	}
	short := *m
	short.Names = nil
	for _, text := range []*string{&short.Path, &short.Act, &short.Target, &short.Reason, &short.User,
		&short.Description} {
		*text = eventText(*text)
	}
	return &short
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

// Lead adds an event for watchers if this server now takes another one for the leader of a term than before; 0: no
// server.
func (r *Ring) Lead(wallMillis, applied, term, server uint64) {
	now := [...]uint64{term, server}
	r.mutex.Lock()
	same := r.leader == now
	r.leader = now
	r.mutex.Unlock()
	if !same {
		r.Add(wallMillis, []coordination.Occurrence{{Kind: coordination.OccurLeader, Index: coordination.Index(applied),
			More: &coordination.OccurrenceMore{Term: term, Server: server}}}, nil)
	}
}

// Keep keeps an entry of the log that the machine does not know of.
func (r *Ring) Keep(wallMillis uint64, o *coordination.Occurrence, where Where) {
	o.StampMillis = max(wallMillis, where.StampMillis())
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if class, is := classOf(o); is {
		r.rare.add(class, o, where)
	}
}

// Elected keeps the first entry of a term, with its leader if this server knows it.
func (r *Ring) Elected(wallMillis uint64, index coordination.Index, term uint64, where Where) {
	more := &coordination.OccurrenceMore{Term: term}
	r.mutex.Lock()
	if r.leader[0] == term {
		more.Server = r.leader[1]
	}
	r.mutex.Unlock()
	r.Keep(wallMillis, &coordination.Occurrence{Kind: coordination.OccurLeader, Index: index, Number: 1, More: more},
		where)
}

// Trace notes of what trace the client is part of that has a session from now on.
func (r *Ring) Trace(wallMillis uint64, attached *coordination.Message, trace string) {
	r.Add(wallMillis, []coordination.Occurrence{{Kind: coordination.OccurSessionTraced, Node: attached.Node,
		Session: attached.Session, More: &coordination.OccurrenceMore{Trace: trace}}}, nil)
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

// Take returns the rare events since the last call, in the order of their classes, and how many more there were than
// had a place. Those that later ones of the same second may join, and what came after, are left for the next call
// unless all are wanted.
func (r *Ring) Take(all bool) (taken []Rare, lost uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	taken = r.rare.take(all)
	lost, r.rare.lost = r.rare.lost, 0
	return taken, lost
}

// Holds returns the last holds of a semaphore that have ended since this server was started, the newest first. It has
// holdsKept at most.
func (r *Ring) Holds(node coordination.NodeID, semaphore string) (list []Hold) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	place, hash := r.holds.slot(node, semaphore)
	slot := *place
	if slot == nil || slot.semaphore != hash {
		return nil
	}
	for i := range min(slot.ended, holdsKept) {
		list = append(list, slot.holds[(slot.ended-1-i)%holdsKept])
	}
	return list
}

// Ends returns the present counts.
func (r *Ring) Ends() Ends {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.ends
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
