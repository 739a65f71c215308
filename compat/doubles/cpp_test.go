package doubles

import (
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

// The states of failure of the C++ SDK. An abort ends the whole process.
const (
	CPPAbortsOnEmpty       FailureState = "abort: Unexpected empty response received" // :1392
	CPPAbortsOnUnsupported FailureState = "abort: Unsupported message received"       // :1705
	CPPAbortsOnSessionZero FailureState = "abort: SessionStarted with session id 0"   // :1453
	// :709, called by :1468
	CPPAbortsOnSecondStarted FailureState = "abort: a second SessionStarted"
	CPPAbortsOnPending       FailureState = "abort: AcquireSemaphorePending for an unexpected one" // :1535
	CPPHangsBehindFailure    FailureState = "hang: no end of the stream behind Failure"            // :1281
	CPPHangsBehindStopped    FailureState = "hang: no end of the stream behind SessionStopped"     // :1523
	// :1635, :1607
	CPPHangsInDescribe FailureState = "hang: Changed came before the description"
	CPPPingTimesOut    FailureState = "expired: its own ping is not answered in time" // :1344
	CPPStartTimesOut   FailureState = "expired: no SessionStarted in time"            // :1708
	// :896, :899
	CPPExpires FailureState = "expired: nothing for twice the session timeout"
	// surface.md §1.5
	CPPBansEndpoint FailureState = "endpoint banned: a stream has not ended with OK"
	// :776, :785, :1650
	CPPDropsResult         FailureState = "result dropped: nobody waits for its id or method"
	cppReconnectMultiplier              = 2
	cppBackoff                          = 250 * time.Millisecond
)

// CPP is the C++ SDK.
var CPP = SDK{
	Habits: Habits{
		SDK: "C++", Version: "3.17.0",
		Read:      []string{"maladetska/ydb-cpp-sdk e72175666 src/client/coordination/coordination.cpp:708-847,859-1066,1328-1724"},
		BuildInfo: "ydb-cpp-sdk/3.17.0", Timeout: 5 * time.Second, FirstSequence: 1, Counts: true,
		KeyBytes: 8, FirstID: 1, StartPatience: 5 * time.Second, Reattaches: true,
		Resends: []string{methodAcquire, methodRelease}, SameIDs: true, AwaitsEnd: CPPHangsBehindFailure,
		Goodbye: Stops, Unended: CPPHangsBehindStopped,
		States: []FailureState{CPPAbortsOnEmpty, CPPAbortsOnUnsupported, CPPAbortsOnSessionZero,
			CPPAbortsOnSecondStarted,
			CPPAbortsOnPending, CPPHangsBehindFailure, CPPHangsBehindStopped, CPPHangsInDescribe,
			CPPPingTimesOut, CPPStartTimesOut, CPPExpires, CPPBansEndpoint, CPPDropsResult},
	},
	Client: func(d *Double) Client { return &cpp{Double: d, sent: make(map[string]*Call)} },
}

type cpp struct {
	*Double
	// sent is the last operation sent for a semaphore that is not acknowledged (LastSentOp); the next waits
	// for that.
	sent     map[string]*Call
	queue    []*Call
	good     time.Time // when what was answered last had been sent
	ping     uint64    // its opaque while it is not answered, else 0
	due      time.Time // when it has to be
	pinged   time.Time
	delay    time.Duration
	deadline time.Time
	everWell bool
}

func ofSemaphore(method string) bool { return method == methodAcquire || method == methodRelease }

// Sends implements Client.
func (c *cpp) Sends(call *Call) bool {
	if !ofSemaphore(call.Method) {
		return true
	}
	if last := c.sent[call.Name]; last != nil && last != call {
		c.queue = append(c.queue, call)
		return false
	}
	c.sent[call.Name] = call
	return true
}

// acknowledged sends the next operation of a semaphore.
func (c *cpp) acknowledged(call *Call) {
	if c.sent[call.Name] == call {
		delete(c.sent, call.Name)
	}
	for i, next := range c.queue {
		if next.Name == call.Name && c.sent[call.Name] == nil {
			c.queue = append(c.queue[:i:i], c.queue[i+1:]...)
			c.sent[call.Name] = next
			c.write(next)
			return
		}
	}
}

// Receives implements Client (ProcessResponse, :1389).
func (c *cpp) Receives(m *Response) FailureState {
	method, _ := arm(m.ProtoReflect())
	switch method {
	case "":
		return CPPAbortsOnEmpty
	case "unsupported_6", "unsupported_7", "unsupported_16", "unsupported_17", "unsupported_18":
		return CPPAbortsOnUnsupported
	case "pong":
		if m.GetPong().GetOpaque() == c.ping {
			c.ping, c.good = 0, later(c.good, c.pinged)
		}
	case "session_started":
		switch {
		case m.GetSessionStarted().GetSessionId() == 0:
			return CPPAbortsOnSessionZero
		case c.attached:
			return CPPAbortsOnSecondStarted
		}
		c.good, c.ping, c.delay, c.deadline, c.everWell = time.Now(), 0, 0, time.Time{}, true
		c.sent = make(map[string]*Call)
	case "acquire_semaphore_pending":
		id := m.GetAcquireSemaphorePending().GetReqId()
		if call := c.find(methodAcquire, id); call != nil {
			if c.sent[call.Name] != call {
				return CPPAbortsOnPending
			}
			c.good = later(c.good, call.Sent)
			call.Acked = true
			c.acknowledged(call)
		} else if c.find(methodRelease, id) != nil {
			return CPPAbortsOnPending
		}
	case "describe_semaphore_changed":
		if c.find(methodDescribe, m.GetDescribeSemaphoreChanged().GetReqId()) != nil {
			return CPPHangsInDescribe
		}
	default:
		if c.dropped(m) {
			return CPPDropsResult
		}
		if method, id := resultOf(m); method != "" {
			call := c.find(method, id)
			c.good = later(c.good, call.Sent)
			if ofSemaphore(method) {
				c.acknowledged(call)
			}
		}
	}
	return Well
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Wakes implements Client (OnSelfPingTimer, :1328).
func (c *cpp) Wakes() (time.Duration, FailureState) {
	now := time.Now()
	if c.ping != 0 && !now.Before(c.due) {
		return 0, CPPPingTimesOut
	}
	if now.Before(c.good.Add(c.Timeout / 2)) {
		return c.good.Add(c.Timeout * 2 / 3).Sub(now), Well
	}
	c.ping, c.pinged = c.takeID(""), now
	c.due = later(c.good.Add(c.Timeout), now.Add(c.Timeout/4))
	c.send(pingOf(c.ping))
	return c.due.Sub(now), Well
}

// Ends implements Client (OnProcessorStatus, :859; the fatal ones :1425).
func (c *cpp) Ends(e Ending) Next {
	switch e.Failure.GetStatus() {
	case Ydb.StatusIds_SESSION_EXPIRED, Ydb.StatusIds_UNAUTHORIZED, Ydb.StatusIds_NOT_FOUND:
		return Next{}
	}
	now := time.Now()
	switch {
	case e.Late:
		return Next{State: CPPStartTimesOut}
	case !c.everWell, e.Stopped: // the first attach is not repeated
		return Next{}
	case c.deadline.IsZero():
		c.deadline = c.good.Add(cppReconnectMultiplier * c.Timeout)
	case !now.Before(c.deadline):
		return Next{State: CPPExpires}
	}
	next := Next{Again: true, After: min(c.delay, c.deadline.Sub(now))}
	if c.delay = min(2*c.delay, c.Timeout); c.delay == 0 {
		c.delay = cppBackoff
	}
	if bans(e.Err) {
		next.State = CPPBansEndpoint
	}
	return next
}
