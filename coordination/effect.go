package coordination

import "github.com/coordd/coordd/scheme/outcome"

// EffectKind is the kind of an Effect.
type EffectKind uint8

// The effects of a command, in the order of §4.6.
const (
	// EffectResult answers a semaphore request for good. Order is set if the request had been waiting.
	EffectResult EffectKind = iota + 1
	// EffectPending reports that an acquire waits, from WaitEpoch on, for TimeoutMillis.
	EffectPending
	// EffectWaitDropped reports that a wait ended without an answer, because its session did.
	EffectWaitDropped
	// EffectChanged reports a change of a semaphore that may concern watches.
	EffectChanged
	// EffectAttached reports that the session now belongs to the stream of Address.Epoch.
	EffectAttached
	// EffectAttachRefused reports that the stream of Address.Epoch got no session.
	EffectAttachRefused
	// EffectSessionEnded reports that a session is gone: stopped (Address set, to be answered) or expired.
	EffectSessionEnded
	// EffectCallDone answers a call about the path tree or the users.
	EffectCallDone
	// EffectNodeDropped reports that a coordination node is gone with everything in it.
	EffectNodeDropped
	// EffectResourceAltered reports that the effective settings of the node's resources may have changed.
	EffectResourceAltered
	// EffectResourceDropped reports that Resource of the node is gone.
	EffectResourceDropped
)

// Effect is one consequence of a command. Which fields count depends on Kind.
type Effect struct {
	Kind    EffectKind
	Node    NodeID
	Session SessionID
	Address Address

	Request RequestKind // EffectResult: which arm answers
	Refusal *Refusal    // nil for success
	Done    bool        // EffectResult: acquired or released

	Order         OrderID
	WaitEpoch     Position
	TimeoutMillis uint64

	Semaphore     SemaphoreID
	DataChanged   bool
	OwnersChanged bool
	Deleted       bool // EffectChanged: the semaphore is gone

	Created bool // EffectAttached: a new session

	Resource ResourceID

	Call    CallID
	Outcome outcome.Outcome
}

// RequestKind names the requests a session can make.
type RequestKind uint8

// The requests of an attached session (§2.6).
const (
	RequestNone RequestKind = iota
	RequestAcquire
	RequestRelease
	RequestCreate
	RequestUpdate
	RequestDelete
	RequestDescribe
	RequestStop
)

// Known reports whether k is one of the kinds above.
func (k RequestKind) Known() bool { return k > RequestNone && k <= RequestStop }
