package doubles

import (
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The states of failure of the Rust SDK. All but the last two end its receiving loop, and the session with
// it.
const (
	// coordination_session.rs:95
	RustStartFails FailureState = "not started: the first message is another"
	// coordination_session.rs:304
	RustEndsOnStarted FailureState = "session over: a second SessionStarted"
	// coordination_session.rs:362
	RustEndsOnStopped FailureState = "session over: SessionStopped without being asked"
	// coordination_session.rs:362
	RustEndsOnChanged FailureState = "session over: DescribeSemaphoreChanged"
	// session/mod.rs:46
	RustEndsOnEmpty FailureState = "session over: an empty response"
	// session/mod.rs:94
	RustEndsOnUnsupported FailureState = "session over: an unsupported response"
	// session/mod.rs:53
	RustEndsOnFailure FailureState = "session over: Failure"
	// session/mod.rs:67-90
	RustEndsOnStatus FailureState = "session over: a result that is no SUCCESS"
	// session/mod.rs:87
	RustEndsOnMissing FailureState = "session over: a describe result without one"
	// coordination_session.rs:364
	RustEndsOnBreak FailureState = "session over: the stream has ended"
	// controller.rs:66
	RustDropsResult FailureState = "result dropped: nobody waits for its id"
	// coordination_session.rs:92
	RustHangsInStart FailureState = "hang: nothing comes behind SessionStart"
)

// Rust is the Rust SDK. It stores who waits for a result behind sending the request (controller.rs:44, :52),
// so a result can come too early for it; no server can see that, and the double does not do it.
var Rust = SDK{
	Habits: Habits{
		SDK: "Rust", Version: "0.17.0",
		Read: []string{"ydb-platform/ydb-rs-sdk 0a36d74 ydb/src/client_coordination/session/coordination_session.rs:67-370",
			".../session/controller.rs:32-71", ".../session/lease.rs:40-77",
			"ydb/src/grpc_wrapper/raw_coordination_service/session/mod.rs:42-110"},
		BuildInfo: "ydb-rust-sdk/0.17.0", EmptyTicket: true, Timeout: 20 * time.Second, KeyBytes: 16,
		FirstID: 0, PerMethod: true, AwaitsEnd: Well, Goodbye: Cancels,
		States: []FailureState{RustStartFails, RustEndsOnStarted, RustEndsOnStopped, RustEndsOnChanged,
			RustEndsOnEmpty, RustEndsOnUnsupported,
			RustEndsOnFailure, RustEndsOnStatus, RustEndsOnMissing, RustEndsOnBreak, RustDropsResult,
			RustHangsInStart},
	},
	Client: func(d *Double) Client { return &rust{d} },
}

type rust struct{ *Double }

// Sends implements Client.
func (r *rust) Sends(*Call) bool { return true }

// Wakes implements Client.
func (r *rust) Wakes() (time.Duration, FailureState) { return 0, Well }

// Receives implements Client (receive_messages_loop_iteration, coordination_session.rs:291).
func (r *rust) Receives(m *Response) FailureState {
	name, body := arm(m.ProtoReflect())
	if !r.attached && name != "session_started" {
		if name == "failure" { // an error that the caller sees
			return Well
		}
		return RustStartFails
	}
	switch name {
	case "":
		return RustEndsOnEmpty
	case "unsupported_6", "unsupported_7", "unsupported_16", "unsupported_17", "unsupported_18":
		return RustEndsOnUnsupported
	case "session_started":
		if r.attached {
			return RustEndsOnStarted
		}
	case "session_stopped":
		return RustEndsOnStopped
	case "describe_semaphore_changed":
		return RustEndsOnChanged
	case "failure":
		return RustEndsOnFailure
	}
	method, _ := resultOf(m)
	switch {
	case method == "":
		return Well
	case statusOf(body) != Ydb.StatusIds_SUCCESS:
		return RustEndsOnStatus
	case m.GetDescribeSemaphoreResult() != nil &&
		m.GetDescribeSemaphoreResult().GetSemaphoreDescription() == nil:
		return RustEndsOnMissing
	case r.dropped(m):
		return RustDropsResult
	}
	return Well
}

// statusOf is the status of a result.
func statusOf(result protoreflect.Message) Ydb.StatusIds_StatusCode {
	return Ydb.StatusIds_StatusCode(result.Get(result.Descriptor().Fields().ByName("status")).Enum())
}

// Ends implements Client: there is no second stream.
func (r *rust) Ends(e Ending) Next {
	switch {
	case e.Late:
		return Next{State: RustHangsInStart}
	case e.Started && !e.Asked:
		return Next{State: RustEndsOnBreak}
	}
	return Next{}
}
