package doubles

import (
	"time"
)

// The states of failure of the Java SDK.
const (
	// SessionImpl.java:210
	JavaLost FailureState = "LOST: not attached again within 5 s"
	// SessionImpl.java:154
	JavaStaysBroken   FailureState = "a second break is not recovered from"
	JavaCancelsStop   FailureState = "stop cancelled: the stream has not ended within 1 s" // Stream.java:121
	JavaLosesResponse FailureState = "lost response: nobody waits for its id"              // Stream.java:219
	// StreamMsg.java:137, :349
	JavaMistakes     FailureState = "call failed: an answer of another type"
	JavaNotStarted   FailureState = "not started: neither SessionStarted nor Failure came" // Stream.java:97
	JavaLosesStarted FailureState = "lost the start message: a second SessionStarted"      // Stream.java:235
	JavaPessimizes   FailureState = "endpoint pessimized: a stream has not ended with OK"  // surface.md §1.5
	javaStep                      = 250 * time.Millisecond
)

// Java is the Java SDK.
var Java = SDK{
	Habits: Habits{
		SDK: "Java", Version: "2.4.10",
		Read: []string{"ydb-platform/ydb-java-sdk bc6886d coordination/src/main/java/tech/ydb/coordination/impl/Stream.java:41-253",
			".../impl/SessionImpl.java:123-304", ".../impl/StreamMsg.java:85-371",
			".../settings/CoordinationSessionSettings.java:14-15"},
		BuildInfo: "ydb-java-sdk/2.4.10", Timeout: 5 * time.Second, KeyBytes: 16, FirstID: 1,
		StartPatience: 5 * time.Second, Reattaches: true, Resends: []string{methodAcquire, methodRelease},
		AwaitsEnd: Well, Recovery: 5 * time.Second,
		Goodbye: StopsAndHalfCloses, GoodbyePatience: time.Second, Unended: JavaCancelsStop,
		States: []FailureState{JavaLost, JavaStaysBroken, JavaCancelsStop, JavaLosesResponse, JavaMistakes,
			JavaNotStarted,
			JavaLosesStarted, JavaPessimizes},
	},
	Client: func(d *Double) Client { return &java{Double: d, watches: make(map[uint64]bool)} },
}

type java struct {
	*Double
	watches map[uint64]bool // ids whose Changed is waited for
	broken  time.Time       // zero: not being reconnected
	retry   int
	// reconnected is its state RECONNECTED, which no break is recovered from.
	connected, reconnected bool
}

// Sends implements Client.
func (j *java) Sends(*Call) bool { return true }

// Wakes implements Client.
func (j *java) Wakes() (time.Duration, FailureState) { return 0, Well }

// Receives implements Client (Stream.onNext, :143).
func (j *java) Receives(m *Response) FailureState {
	switch {
	case m.GetSessionStarted() != nil:
		if j.attached {
			return JavaLosesStarted
		}
		j.reconnected = j.connected
		j.connected, j.broken = true, time.Time{}
		return Well
	case m.GetDescribeSemaphoreChanged() != nil:
		id := m.GetDescribeSemaphoreChanged().GetReqId()
		if j.find(methodDescribe, id) != nil {
			return JavaMistakes // the message is taken from the map by its id, whatever it is
		}
		if !j.watches[id] {
			return JavaLosesResponse
		}
		delete(j.watches, id)
		return Well
	}
	method, id := resultOf(m)
	if method == "" {
		return Well
	}
	if j.find(method, id) == nil {
		for _, c := range j.open {
			if c.ID == id {
				return JavaMistakes
			}
		}
		return JavaLosesResponse
	}
	if c := j.find(method, id); c.Request.GetDescribeSemaphore().GetWatchData() ||
		c.Request.GetDescribeSemaphore().GetWatchOwners() {
		j.watches[id] = true // even if the server reports no watch
	}
	return Well
}

// Ends implements Client (the handler in connectToSession, :125, and restoreSession, :201). A failed attempt
// has two handlers; one of them begins to count anew, and that both try makes no more streams than one does,
// since they exclude each other.
func (j *java) Ends(e Ending) Next {
	var state FailureState
	if bans(e.Err) {
		state = JavaPessimizes
	}
	switch {
	case e.Late && !j.connected:
		return Next{State: JavaNotStarted}
	case !j.connected, e.Stopped:
		return Next{State: state}
	case j.reconnected:
		return Next{State: JavaStaysBroken}
	}
	if now := time.Now(); j.broken.IsZero() {
		j.broken, j.retry = now, 0
	} else if now.Sub(j.broken) >= j.Recovery {
		return Next{State: JavaLost}
	}
	after := min(javaStep<<min(j.retry, 5), j.Recovery)
	j.retry++
	clear(j.watches)
	return Next{State: state, Again: true, After: after}
}
