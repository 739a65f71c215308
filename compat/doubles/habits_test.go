package doubles

import "time"

// Habits are what an SDK does on the wire, as far as it is the same in all states.
type Habits struct {
	SDK, Version string
	// Read is where the behaviour was read: a revision, and files with lines.
	Read []string
	// BuildInfo is the header by which the server knows the SDK, and Ticket the token that it sends, empty
	// for none.
	BuildInfo   string
	EmptyTicket bool

	// Timeout is the session timeout that it asks for.
	Timeout time.Duration
	// FirstSequence is the first attach's number; Counts says that each further one is higher by one.
	FirstSequence uint64
	Counts        bool
	KeyBytes      int
	Description   string

	// FirstID is the first request's id; PerMethod says that each method counts for itself, so that ids
	// collide.
	FirstID   uint64
	PerMethod bool

	// StartPatience is how long it waits for SessionStarted, 0: for ever. AnyMessage says that each message
	// renews it.
	StartPatience time.Duration
	AnyMessage    bool
	// Silence is how long nothing may come before it breaks the stream, 0: for ever. QueueSilence is the same
	// for messages that are no pings.
	Silence, QueueSilence time.Duration
	// EchoesPings says that it answers a ping by a ping.
	EchoesPings bool

	// Reattaches says that a broken stream is followed by another for the same session.
	Reattaches bool
	// Resends are the methods whose requests are sent again after that; the others fail. SameIDs says how.
	Resends []string
	SameIDs bool

	// AwaitsEnd is the state in which it is when a stream does not end behind a Failure or a SessionStopped,
	// Well if it does not wait for that.
	AwaitsEnd FailureState
	// Recovery is how long it tries to attach again, 0: as its Client says.
	Recovery time.Duration
	// Goodbye is how it leaves, and Unended its state when the stream does not end within GoodbyePatience
	// behind that.
	Goodbye         Goodbye
	GoodbyePatience time.Duration
	Unended         FailureState

	// States are all its states of failure.
	States []FailureState
}

// Goodbye is how an SDK ends its session.
type Goodbye int

// The ways to leave.
const (
	// Cancels breaks the stream: the session lives on until its timeout.
	Cancels Goodbye = iota
	// HalfCloses ends the client's side of the stream, and the session lives on as well.
	HalfCloses
	// Stops asks for the session's end, and waits for that of the stream.
	Stops
	// StopsAndHalfCloses asks for the session's end, and ends its side when it has heard of it.
	StopsAndHalfCloses
)

// FailureState is where a wrong server brings an SDK.
type FailureState string

// Well is none.
const Well FailureState = ""

// HotLoop is the state of any SDK that attaches over and over without a pause.
const HotLoop FailureState = "attaches in a hot loop"

// hot is how many attaches within a second are a hot loop.
const hot = 30

// Patience is how long a double waits where its SDK would for ever.
const Patience = 10 * time.Second

// All are the SDKs that have a double.
func All() []SDK { return []SDK{CPP, Java, Python, Rust, DotNet} }

// SDK is an SDK's habits, and what it does in the states that it is in.
type SDK struct {
	Habits
	Client func(*Double) Client
}

// Client is what of an SDK depends on its state. One goroutine calls all of it.
type Client interface {
	// Sends is told of a request that is about to be sent, and says whether that is to happen now.
	Sends(*Call) bool
	// Receives is told of each message before anything else is done with it.
	Receives(*Response) FailureState
	// Wakes is called when the session is attached, and then whenever it wanted; zero: not again.
	Wakes() (time.Duration, FailureState)
	// Ends is told how a stream ended, and says what comes next.
	Ends(Ending) Next
}

// Ending is how a stream ended.
type Ending struct {
	Started bool     // the session was attached
	Failure *Failure // what it was told last
	Stopped bool
	Err     error // of gRPC; io.EOF: OK; nil: the double has broken it
	Late    bool  // no SessionStarted came in time
	Silent  bool  // nothing came for too long
	Asked   bool  // the test broke it
}

// Next is what an SDK does behind the end of a stream.
type Next struct {
	State FailureState
	Again bool // attach again
	After time.Duration
}
