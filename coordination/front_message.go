package coordination

// ClientKind names the arms of a client's message.
type ClientKind uint8

// The arms of SessionRequest.
const (
	// ClientEmpty: no arm is set, or one that this server does not know.
	ClientEmpty ClientKind = iota
	ClientStart
	ClientStop
	ClientPing
	ClientPong
	// ClientSemaphore: one of the six semaphore requests.
	ClientSemaphore
	// ClientUnsupported: one of the arms that the protocol reserves.
	ClientUnsupported
)

// ClientMessage is one message of the client's side of a stream. Which fields count depends on Kind.
type ClientMessage struct {
	Kind    ClientKind
	ReqID   uint64
	Opaque  uint64         // ping and pong
	Start   *AttachRequest // start
	Request *Request       // semaphore requests
	// Received is the arrival of a request, 0 where the times of a Reply are not wanted, and RoomMicros the time for
	// which it waited for room after that.
	Received   Instant
	RoomMicros uint32
}

// ReplyKind names the arms of a server's message.
type ReplyKind uint8

// The arms of SessionResponse.
const (
	// ReplyNone: nothing is to be sent.
	ReplyNone ReplyKind = iota
	ReplyStarted
	ReplyStopped
	ReplyFailure
	ReplyPing
	ReplyPong
	// ReplyPending is acquire_semaphore_pending.
	ReplyPending
	// ReplyResult is the result arm of Request.
	ReplyResult
	// ReplyChanged is describe_semaphore_changed.
	ReplyChanged
)

// Reply is one message of the server's side of a stream. Which fields count depends on Kind.
type Reply struct {
	Kind       ReplyKind
	Request    RequestKind
	RoomMicros uint32 // with Received: as in ClientMessage
	ReqID      uint64
	Session    SessionID
	Opaque     uint64
	Refusal    *Refusal // nil for success
	Done       bool
	// If ClientMessage.Received is known: the request whose first answer this is, nil for a later one; the times of the
	// request and of the answer; and Message.Index. Queued reports that there was a Pending before.
	Asked         *Request
	Received      Instant
	Delivered     Instant
	Index         Index
	Queued        bool
	WatchAdded    bool
	DataChanged   bool
	OwnersChanged bool
	Description   *SemaphoreDescription
}

// Ending is the end of a stream's RPC once all replies are sent.
type Ending uint8

// The endings of §2.9.
const (
	// EndingNone: the stream goes on.
	EndingNone Ending = iota
	// EndingOK: after SessionStopped, or after a Failure.
	EndingOK
	// EndingInvalidStart: INVALID_ARGUMENT, the first message was no SessionStart.
	EndingInvalidStart
	// EndingStartOverdue: DEADLINE_EXCEEDED, the first message did not come in time.
	EndingStartOverdue
	// EndingAbandoned: CANCELLED, the client closed its side.
	EndingAbandoned
	// EndingSilent: UNAVAILABLE without a message, because any message would be a sign of life.
	EndingSilent
)

// Forward is a Front's message for the Leader; at most one of its fields is set.
type Forward struct {
	Attach       *AttachRequest
	Request      *Request
	Sequence     Sequence // of Request
	Acknowledged Sequence // with Request: all below are answered
	Answered     Sequence // with Request: Origin.Answered
	Roster       *Roster
	Detach       bool // the stream has ended
	Lost         bool // its relay is lost; only the leader's own server sets this
}

// Bytes is the size of a message under way, 0 if only the Front acts on it.
func (m *ClientMessage) Bytes() int {
	switch {
	case m.Request != nil:
		return m.Request.Bytes()
	case m.Start != nil:
		return m.Start.Bytes()
	case m.Kind == ClientStop:
		return messageBytes
	}
	return 0
}
