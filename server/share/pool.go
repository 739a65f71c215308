// Package share divides what is scarce on a server among its callers: places for calls and streams, and turns
// in a line for a processor. The rule is the same everywhere and has three constants:
//
//   - a subject has at most as much as is still free, which is half of what the others leave;
//   - callers that are not known have at most a quarter together, those that are known all;
//   - the administrator's socket has a sixteenth of its own.
//
// So a subject alone gets half, n greedy ones get 1/(n+1) each, and as much is left for the next one.
package share

const (
	unknownPart = 4
	ownerPart   = 16
)

// OfUnknown returns what unknown callers may have together of total.
func OfUnknown(total int64) int64 { return max(1, total/unknownPart) }

// Class ranks callers by how far they have proved their identity.
type Class uint8

// The classes of callers.
const (
	// Unknown callers have proved nothing.
	Unknown Class = iota
	// Arriving callers have not been authenticated yet: they wait for nothing but that.
	Arriving
	// Known callers have proved their name; where authentication is off, all are.
	Known
	// Owner is a caller by the administrator's socket.
	Owner
)

// Subject is a party that has a share. Known callers are named by their user, unknown ones by their address, and
// arriving ones by their connection.
// A Known subject without a name stands for all of them and is bounded by the total alone.
type Subject struct {
	Class Class
	Name  string
}

// Pool counts the places that are in use. Its methods are not safe for concurrent use.
type Pool struct {
	total, used, unknown, owner int
	by                          map[Subject]int // subjects without a place are not in it
}

// NewPool returns a pool of total places, all free.
func NewPool(total int) *Pool { return &Pool{total: total, by: make(map[Subject]int)} }

// Used returns the number of places in use.
func (p *Pool) Used() int { return p.used }

// Enter takes a place for the subject, if its share allows one more.
func (p *Pool) Enter(s Subject) bool {
	if !p.allows(s) {
		return false
	}
	p.Force(s)
	return true
}

func (p *Pool) allows(s Subject) bool {
	free := p.total - p.used
	if s.Class != Owner {
		free -= max(0, p.total/ownerPart-p.owner)
	}
	if s.Class == Unknown {
		free = min(free, int(OfUnknown(int64(p.total)))-p.unknown)
	}
	if s.Class == Owner || s == (Subject{Class: Known}) {
		return free > 0
	}
	return p.by[s] < free
}

// Force takes a place whatever the share.
func (p *Pool) Force(s Subject) { p.add(s, 1) }

// Leave gives a place of the subject back.
func (p *Pool) Leave(s Subject) { p.add(s, -1) }

func (p *Pool) add(s Subject, n int) {
	p.used += n
	switch s.Class {
	case Unknown:
		p.unknown += n
	case Owner:
		p.owner += n
	}
	if p.by[s] += n; p.by[s] == 0 {
		delete(p.by, s)
	}
}
