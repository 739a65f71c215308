package model

import "math"

// Infinite is the acquire timeout without a timer (§3.4).
const Infinite uint64 = math.MaxUint64

// Kind names an arm of a client's message.
type Kind string

// The arms of a client's message. The six semaphore requests also name the result that answers them.
const (
	Start       Kind = "start"
	Stop        Kind = "stop"
	Ping        Kind = "ping"
	Pong        Kind = "pong"
	Empty       Kind = "empty"       // no arm, or an unknown one
	Unsupported Kind = "unsupported" // one of the reserved arms
	Create      Kind = "create"
	Update      Kind = "update"
	Delete      Kind = "delete"
	Acquire     Kind = "acquire"
	Release     Kind = "release"
	Describe    Kind = "describe"
)

// Request is one message of a client. Which fields count depends on Kind.
type Request struct {
	Kind   Kind
	ReqID  uint64
	Opaque uint64 // ping and pong

	// Start (§2.3).
	Path          string
	Session       uint64
	SeqNo         uint64
	Description   string
	ProtectionKey string

	// TimeoutMillis is the session's in a start, the wait's in an acquire.
	TimeoutMillis uint64

	// Semaphore requests (§3).
	Name           string
	Data           string
	Count          uint64
	Limit          uint64
	Ephemeral      bool
	Force          bool
	IncludeOwners  bool
	IncludeWaiters bool
	WatchData      bool
	WatchOwners    bool
}

// ReplyKind names an arm of the server's message.
type ReplyKind string

// The arms of the server's message.
const (
	Started   ReplyKind = "started"
	Stopped   ReplyKind = "stopped"
	Failure   ReplyKind = "failure"
	PingOut   ReplyKind = "ping"
	PongOut   ReplyKind = "pong"
	Pending   ReplyKind = "pending"
	Result    ReplyKind = "result"
	ChangedBy ReplyKind = "changed"
)

// Reply is one message of the server. Which fields count depends on Kind.
type Reply struct {
	Kind          ReplyKind
	To            Kind // of a Result: the request it answers
	ReqID         uint64
	Session       uint64
	Opaque        uint64
	Status        Status
	Text          string // empty on success
	Done          bool   // acquired, or released
	WatchAdded    bool
	DataChanged   bool
	OwnersChanged bool
	Description   *Description

	// Group and Block say how far the order of messages is fixed. Messages of one Group that follow each
	// other on a stream may come in another order, as long as those of one Block keep theirs. Group 0 is
	// fixed.
	Group int
	Block int

	ticket int // of a Pending: the wait that it reports
}

// Description answers a describe (§3.8).
type Description struct {
	Name      string
	Data      string
	Count     uint64
	Limit     uint64
	Ephemeral bool
	Owners    []LinkDescription
	Waiters   []LinkDescription
}

// LinkDescription is an owner or a waiter, both in ascending order id; TimeoutMillis of an owner is 0.
type LinkDescription struct {
	Order         uint64
	Session       uint64
	TimeoutMillis uint64
	Count         uint64
	Data          string
}

// Status is a status number of the protocol.
type Status int

// The statuses that a coordination node can answer with.
const (
	Success            Status = 400000
	BadRequest         Status = 400010
	Aborted            Status = 400040
	Unavailable        Status = 400050
	Timeout            Status = 400090
	BadSession         Status = 400100
	PreconditionFailed Status = 400120
	AlreadyExists      Status = 400130
	NotFound           Status = 400140
	SessionExpired     Status = 400150
)

// Ending is the way in which a stream has ended (§2.9).
type Ending string

// The endings.
const (
	Open         Ending = ""
	EndedOK      Ending = "ok"
	InvalidStart Ending = "invalid argument: first message must be a session start"
	Abandoned    Ending = "cancelled: request abandoned"
)

// Change is an event that watches of a semaphore wait for.
type Change struct {
	Name         string
	Data, Owners bool
}
