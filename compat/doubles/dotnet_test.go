package doubles

import "time"

// The states of failure of the .NET SDK, of which the coordination client is a draft in an unmerged branch.
const (
	// SessionTransport.cs:524
	DotNetHangsInStart FailureState = "hang: SessionStarted is awaited without end"
	// SessionTransport.cs:702
	DotNetHangsBehind FailureState = "hang: the stream does not end behind the client's side"
	// SessionTransport.cs:424
	DotNetLosesChanged FailureState = "change lost: it came before the watch was known"
	// SessionRequestRegistry.cs:40
	DotNetDropsResult FailureState = "result dropped: nobody waits for its id"
	// SessionTransport.cs:276
	DotNetConfuses FailureState = "result of another method taken"
	// SessionTransport.cs:144
	DotNetCancelled FailureState = "session over: the stream has ended"
)

// DotNet is the .NET SDK.
var DotNet = SDK{
	Habits: Habits{
		SDK: ".NET", Version: "draft 0608690b",
		Read: []string{"ydb-platform/ydb-dotnet-sdk 0608690b src/Ydb.Sdk/src/Coordination/SessionTransport.cs:64-146,399-600,667-719",
			".../RequestRegistry/SessionRequestRegistry.cs:14-54", ".../Watcher/WatcherRegistry.cs:26-64"},
		BuildInfo: "ydb-dotnet-sdk/0.35.0", Timeout: 5 * time.Second, Counts: true, KeyBytes: 16, FirstID: 1,
		// A Failure cancels everything but the wait for SessionStarted (:574, :524).
		AwaitsEnd: Well,
		// SessionStop is never sent, since the flag that forbids it is set just before it is asked (:673,
		// :677).
		Goodbye: HalfCloses, Unended: DotNetHangsBehind,
		States: []FailureState{DotNetHangsInStart, DotNetHangsBehind, DotNetLosesChanged, DotNetDropsResult,
			DotNetConfuses,
			DotNetCancelled},
	},
	Client: func(d *Double) Client { return &dotNet{Double: d, watches: make(map[uint64]bool)} },
}

type dotNet struct {
	*Double
	watches map[uint64]bool
}

// Sends implements Client.
func (n *dotNet) Sends(*Call) bool { return true }

// Wakes implements Client.
func (n *dotNet) Wakes() (time.Duration, FailureState) { return 0, Well }

// Receives implements Client (RunProcessingStreamResponse, :84).
func (n *dotNet) Receives(m *Response) FailureState {
	if changed := m.GetDescribeSemaphoreChanged(); changed != nil && !n.watches[changed.GetReqId()] {
		return DotNetLosesChanged
	}
	method, id := resultOf(m)
	if method == "" {
		return Well
	}
	if n.find(method, id) == nil {
		for _, c := range n.open {
			if c.ID == id {
				return DotNetConfuses
			}
		}
		return DotNetDropsResult
	}
	if m.GetDescribeSemaphoreResult().GetWatchAdded() {
		n.watches[id] = true
	}
	return Well
}

// Ends implements Client: there is no second stream.
func (n *dotNet) Ends(e Ending) Next {
	switch {
	case !e.Started:
		return Next{State: DotNetHangsInStart}
	case e.Asked:
		return Next{}
	}
	return Next{State: DotNetCancelled}
}
