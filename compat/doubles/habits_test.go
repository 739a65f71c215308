package doubles

import "time"

// Habits describe an SDK on the wire, as far as it is the same in all states.
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
	// FirstSequence is the first attach's number; with Counts each further one is higher by one.
	FirstSequence uint64
	Counts        bool
	KeyBytes      int
	Description   string

	// FirstID is the first request's id; with PerMethod each method counts for itself, so that ids collide.
	FirstID   uint64
	PerMethod bool

	// StartPatience limits the wait for SessionStarted, 0: for ever. With AnyMessage each message renews it.
	StartPatience time.Duration
	AnyMessage    bool
	// Silence is the longest time without a message before it breaks the stream, 0: for ever. QueueSilence is the same
	// for messages that are no pings.
	Silence, QueueSilence time.Duration
	// EchoesPings: it answers a ping by a ping.
	EchoesPings bool

	// Reattaches: a broken stream is followed by another for the same session.
	Reattaches bool
	// Resends are the methods whose requests are sent again after that, with SameIDs under the same ids; the others
	// fail.
	Resends []string
	SameIDs bool

	// AwaitsEnd is its state when a stream does not end after a Failure or a SessionStopped, Well if it does not wait
	// for that.
	AwaitsEnd FailureState
	// Recovery is the time for which it tries to attach again, 0: its Client decides.
	Recovery time.Duration
	// Goodbye is the way in which it leaves, and Unended its state when the stream does not end within GoodbyePatience
	// after that.
	Goodbye         Goodbye
	GoodbyePatience time.Duration
	Unended         FailureState

	// States are all its states of failure.
	States []FailureState
}

// Goodbye is the way in which an SDK ends its session.
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

// Well is no failure.
const Well FailureState = ""

// HotLoop is the state of any SDK that attaches over and over without a pause.
const HotLoop FailureState = "attaches in a hot loop"

// hot is the number of attaches within a second that make a hot loop.
const hot = 30

// Patience limits a double's wait where its SDK would wait for ever.
const Patience = 10 * time.Second

// All are the SDKs that have a double.
func All() []SDK { return []SDK{CPP, Java, Python, Rust, DotNet} }

// SDK is an SDK's habits, and what it does in the states that it is in.
type SDK struct {
	Habits
	Client func(*Double) Client
}

// Client is the part of an SDK that depends on its state. One goroutine calls all of it.
type Client interface {
	// Sends is called with a request before it is sent, and reports whether to send it now.
	Sends(*Call) bool
	// Receives is called with each message before it is handled.
	Receives(*Response) FailureState
	// Wakes is called when the session is attached, and then whenever it wanted; zero: not again.
	Wakes() (time.Duration, FailureState)
	// Ends is called with the end of a stream, and returns the next step.
	Ends(Ending) Next
}

// Ending is the way in which a stream ended.
type Ending struct {
	Started bool     // the session was attached
	Failure *Failure // the last message
	Stopped bool
	Err     error // of gRPC; io.EOF: OK; nil: the double has broken it
	Late    bool  // no SessionStarted came in time
	Silent  bool  // nothing came for too long
	Asked   bool  // the test broke it
}

// Next is the next step of an SDK after the end of a stream.
type Next struct {
	State FailureState
	Again bool // attach again
	After time.Duration
}
