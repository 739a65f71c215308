package coordination

import (
	"cmp"
	"math"

	"github.com/coordd/coordd/scheme"
)

// The identifiers of the protocol. Each starts at 1; 0 means "none".
type (
	// NodeID identifies one incarnation of a coordination node and is never reused.
	NodeID = scheme.NodeID
	// SessionID identifies a session within its node (§2.4).
	SessionID uint64
	// SemaphoreID identifies one incarnation of a semaphore within its node; clients never see it.
	SemaphoreID uint64
	// OrderID is the place of a link in the node's one sequence of acquires (§3.5). It is the fencing token.
	OrderID uint64
	// Index is a position in the replicated log.
	Index uint64
	// Term is the reign of one leader.
	Term uint64
	// StreamID identifies a client's stream towards the leader.
	StreamID uint64
	// Sequence numbers the requests of one stream, from 1.
	Sequence uint64
)

// Infinite is the acquire timeout that never runs out (§3.4).
const Infinite uint64 = math.MaxUint64

// Instant is a moment on the caller's clock, in nanoseconds from an arbitrary origin. It never goes back.
type Instant int64

// Never is later than every moment.
const Never Instant = math.MaxInt64

// After returns the moment that lies millis milliseconds later; Never if that is beyond the clock.
func (t Instant) After(millis uint64) Instant {
	if millis > uint64(Never-max(t, 0))/nanosPerMilli {
		return Never
	}
	return t + Instant(millis*nanosPerMilli)
}

// Epoch names one attachment of a stream to a session: the leader's term and a counter within it. A later
// attachment of the same session has a larger epoch.
type Epoch struct {
	Term    Term
	Counter uint64
}

// Compare orders epochs by age.
func (e Epoch) Compare(other Epoch) int {
	if c := cmp.Compare(e.Term, other.Term); c != 0 {
		return c
	}
	return cmp.Compare(e.Counter, other.Counter)
}

// Address is the destination of an answer: the stream that was attached under Epoch, and its request Sequence. An
// answer whose epoch is no longer the session's current one is dropped.
type Address struct {
	Epoch    Epoch
	Sequence Sequence
}

// CallID names a call about the path tree or the users, so that it can be repeated to the next leader and
// still be executed once only. Every command of such a call begins with its name.
type CallID struct {
	// Nonce is drawn at random by the server that took the call, and stays the same when the call is
	// repeated. 0 is no name: such a call is answered to nobody in particular, and must not be repeated.
	Nonce uint64
}

// ResourceID identifies one incarnation of a resource within its node. Ids grow and are never used again.
type ResourceID uint64

// Place is where among the commands of its entry a command is, from 0.
type Place uint32

// Position is where in the log a command is. The index is that of its entry; commands that have an entry each
// have place 0, and so have all that were written before an entry could have several.
type Position struct {
	Index Index
	Place Place
}

// Compare orders positions by age.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Index, other.Index), cmp.Compare(p.Place, other.Place))
}
