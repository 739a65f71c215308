package doubles

import (
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

// The states of failure of the Python SDK.
const (
	// stream.py:67
	PythonBreaksIdle FailureState = "stream broken: no message within 3 s"
	// stream.py:50
	PythonNotStarted FailureState = "stream broken: no message within 3 s before SessionStarted"
	// reconnector.py:81
	PythonExpiredLoop FailureState = "attaches for ever to a session that has expired"
	// semaphore.py:27
	PythonMistakesGrant FailureState = "takes acquired=false for a grant"
	// reconnector.py:127
	PythonDropsResult FailureState = "result dropped: nobody waits for its id"
	// reconnector.py:127
	PythonConfuses FailureState = "result of another method taken"
	// stream.py:49
	PythonHangsInStart FailureState = "hang: pings but no SessionStarted"
)

// Python is the Python SDK, whose blocking client is the other one in a thread.
var Python = SDK{
	Habits: Habits{
		SDK: "Python", Version: "3.31.2",
		Read: []string{"ydb-platform/ydb-python-sdk 53b1b16 ydb/aio/coordination/stream.py:29-129",
			".../reconnector.py:52-131",
			".../semaphore.py:23-98", "ydb/_grpc/grpcwrapper/ydb_coordination.py:208-215"},
		BuildInfo: "ydb-python-sdk/3.31.2", Timeout: 30 * time.Second, FirstID: 1,
		StartPatience: 3 * time.Second, AnyMessage: true, Silence: 3 * time.Second,
		QueueSilence: 30 * time.Second, EchoesPings: true, Reattaches: true,
		Resends: []string{"create_semaphore", "delete_semaphore", "update_semaphore", methodDescribe,
			methodAcquire, methodRelease}, SameIDs: true,
		// Failure and SessionStopped say nothing to it: it goes on until the stream ends, or is silent.
		AwaitsEnd: PythonBreaksIdle, Goodbye: Cancels,
		States: []FailureState{PythonBreaksIdle, PythonNotStarted, PythonExpiredLoop, PythonMistakesGrant,
			PythonDropsResult,
			PythonConfuses, PythonHangsInStart},
	},
	Client: func(d *Double) Client { return &python{Double: d} },
}

type python struct {
	*Double
	pings int // before SessionStarted
}

// Sends implements Client.
func (p *python) Sends(*Call) bool { return true }

// Wakes implements Client.
func (p *python) Wakes() (time.Duration, FailureState) { return 0, Well }

// pythonStartPings pings before SessionStarted are enough to see that it waits for nothing.
const pythonStartPings = 3

// Receives implements Client (_dispatch_loop, reconnector.py:101).
func (p *python) Receives(m *Response) FailureState {
	if m.GetSessionStarted() != nil {
		p.pings = 0
	}
	if m.GetPing() != nil && !p.attached {
		if p.pings++; p.pings >= pythonStartPings {
			return PythonHangsInStart
		}
	}
	method, id := resultOf(m)
	if method == "" {
		return Well
	}
	if p.find(method, id) == nil {
		for _, c := range p.open {
			if c.ID == id {
				return PythonConfuses
			}
		}
		return PythonDropsResult
	}
	if r := m.GetAcquireSemaphoreResult(); r.GetStatus() == Ydb.StatusIds_SUCCESS && r != nil &&
		!r.GetAcquired() {
		p.enter(PythonMistakesGrant) // and goes on
	}
	return Well
}

// Ends implements Client (_connection_loop, reconnector.py:74): at once, whatever it was, with the same id.
func (p *python) Ends(e Ending) Next {
	next := Next{Again: true}
	switch {
	case e.Late:
		next.State = PythonNotStarted
	case e.Silent:
		next.State = PythonBreaksIdle
	case e.Failure.GetStatus() == Ydb.StatusIds_SESSION_EXPIRED:
		next.State = PythonExpiredLoop
	}
	return next
}
