// Package revisions keeps former versions of semaphores' data for people who ask what has changed. Each server keeps
// those that it has seen itself, in memory; nothing depends on them. The package is pure.
package revisions

import "math/bits"

// Limits of what is kept; the oldest goes first.
const (
	// MaxOfSemaphore bounds the revisions of a semaphore.
	MaxOfSemaphore = 10
	// MaxSemaphoreBytes bounds the data that is kept of a semaphore. Of longer data only the length is kept.
	MaxSemaphoreBytes = 64 << 10
	// MaxBytes bounds what all revisions take. Beyond it a node with many of them loses its oldest ones, so a tenant
	// does not displace the others' few.
	MaxBytes = 16 << 20
	// recordBytes is the charge of a revision: itself, an author's name, and its part of the tables.
	recordBytes = 384
)

// Revision describes data until another version replaced it.
type Revision struct {
	Version uint64
	Millis  uint64 // when it came, since 1970; 0: unknown
	Author  string
	Bytes   int
	Data    []byte // nil unless Kept
	Kept    bool   // the data is
}

// Store keeps revisions. The zero Store is empty. Each call takes a bounded time, whatever a node or all of them have.
type Store struct {
	nodes map[uint64]*node
	sizes [bits.UintSize][]*node // by the length of the number of their bytes
	bytes int
}

// node has the revisions of the semaphores of a node.
type node struct {
	id         uint64
	semaphores map[uint64]*list
	first      *record // in the order in which they came
	last       *record
	bytes      int
	place      int // in its list of Store.sizes
}

// list is the revisions of a semaphore, the oldest first.
type list struct {
	records []*record
	bytes   int // of data
}

type record struct {
	Revision
	semaphore      uint64
	previous, next *record // of the node
}

// Add keeps a revision of a semaphore, later than those that are kept of it. Its data must not change.
func (s *Store) Add(id, semaphore uint64, r Revision) {
	if len(r.Data) > MaxSemaphoreBytes {
		r.Data, r.Kept = nil, false
	}
	if s.nodes == nil {
		s.nodes = make(map[uint64]*node)
	}
	n := s.nodes[id]
	if n == nil {
		n = &node{id: id, semaphores: make(map[uint64]*list)}
		s.nodes[id] = n
	}
	l := n.semaphores[semaphore]
	if l == nil {
		l = new(list)
		n.semaphores[semaphore] = l
	}
	added := &record{Revision: r, semaphore: semaphore, previous: n.last}
	if n.last == nil {
		n.first = added
	} else {
		n.last.next = added
	}
	n.last = added
	l.records = append(l.records, added)
	l.bytes += len(r.Data)
	s.charge(n, recordBytes+len(r.Data))
	for len(l.records) > MaxOfSemaphore || l.bytes > MaxSemaphoreBytes {
		s.removeFirst(n, semaphore)
	}
	for s.bytes > MaxBytes {
		largest := s.largest()
		s.removeFirst(largest, largest.first.semaphore)
	}
}

// largest returns a node of which no other one takes twice the bytes.
func (s *Store) largest() *node {
	for i := len(s.sizes) - 1; ; i-- {
		if of := s.sizes[i]; len(of) > 0 {
			return of[len(of)-1]
		}
	}
}

// charge changes the bytes that a node takes. A node that takes none is forgotten.
func (s *Store) charge(n *node, bytes int) {
	if n.bytes > 0 {
		of := &s.sizes[bits.Len(uint(n.bytes))]
		end := len(*of) - 1
		(*of)[n.place], (*of)[end].place = (*of)[end], n.place
		(*of)[end] = nil
		*of = (*of)[:end]
	}
	s.bytes += bytes
	if n.bytes += bytes; n.bytes == 0 {
		delete(s.nodes, n.id)
		return
	}
	of := &s.sizes[bits.Len(uint(n.bytes))]
	n.place = len(*of)
	*of = append(*of, n)
}

// removeFirst removes the oldest revision of a semaphore.
func (s *Store) removeFirst(n *node, semaphore uint64) {
	l := n.semaphores[semaphore]
	r := l.records[0]
	l.records[0] = nil
	l.records = l.records[1:]
	l.bytes -= len(r.Data)
	if len(l.records) == 0 {
		delete(n.semaphores, semaphore)
	}
	if r.previous == nil {
		n.first = r.next
	} else {
		r.previous.next = r.next
	}
	if r.next == nil {
		n.last = r.previous
	} else {
		r.next.previous = r.previous
	}
	s.charge(n, -recordBytes-len(r.Data))
}

// Of returns the revisions of a semaphore, the oldest first.
func (s *Store) Of(id, semaphore uint64) (revisions []Revision) {
	if n := s.nodes[id]; n != nil && n.semaphores[semaphore] != nil {
		for _, r := range n.semaphores[semaphore].records {
			revisions = append(revisions, r.Revision)
		}
	}
	return revisions
}

// Forget forgets the revisions of a semaphore.
func (s *Store) Forget(id, semaphore uint64) {
	for n := s.nodes[id]; n != nil && n.semaphores[semaphore] != nil; {
		s.removeFirst(n, semaphore)
	}
}

// ForgetNode forgets those of a node.
func (s *Store) ForgetNode(id uint64) {
	if n := s.nodes[id]; n != nil {
		s.charge(n, -n.bytes)
	}
}

// ForgetData forgets the data of a node's revisions, and keeps all else.
func (s *Store) ForgetData(id uint64) {
	n := s.nodes[id]
	if n == nil {
		return
	}
	bytes := 0
	for r := n.first; r != nil; r = r.next {
		bytes += len(r.Data)
		r.Data, r.Kept = nil, false
	}
	for _, l := range n.semaphores {
		l.bytes = 0
	}
	s.charge(n, -bytes)
}
