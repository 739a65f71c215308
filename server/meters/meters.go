package meters

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
)

// Meters count requests of clients and the answers to them. All of it is atomic additions.
type Meters struct {
	methods map[string]*Method // complete before the first call
	unknown Method             // all methods that are not served here
	// requests is by kind and status, failures by status.
	requests [coordination.RequestStop + 1][statusSlots]atomic.Uint64
	failures [statusSlots]atomic.Uint64
	started  atomic.Uint64
	changed  atomic.Uint64
	// granted has the clients' waits for a grant at once, queued those after a Pending.
	granted, queued histogram.Histogram
	rejected        [rejections]atomic.Uint64
}

// Rejection is the reason for which a login or a token was refused.
type Rejection int

// The reasons.
const (
	RejectedPassword Rejection = iota
	RejectedWait               // too many wrong passwords before
	RejectedOverload           // too many logins at once
	RejectedToken
	rejections
)

// String returns the name of the reason in the metrics.
func (r Rejection) String() string {
	return [rejections]string{"wrong_password", "too_many_attempts", "overloaded", "invalid_token"}[r]
}

const (
	// codeSlots is the number of gRPC's codes.
	codeSlots = int(codes.Unauthenticated) + 1
	// statusSlots is one for each status of YDB that is an answer here, which are ten apart, and one for all
	// others.
	statusSlots = (int(outcome.Unsupported)-int(outcome.Success))/statusStep + 2
	statusStep  = 10
)

// statusSlot is where a status is counted.
func statusSlot(s outcome.Status) int {
	slot := (int(s) - int(outcome.Success)) / statusStep
	if slot < 0 || slot >= statusSlots {
		return statusSlots - 1
	}
	return slot
}

// slotStatus is the name of what is counted there.
func slotStatus(slot int) string {
	if slot == statusSlots-1 {
		return "OTHER"
	}
	return (outcome.Success + outcome.Status(slot*statusStep)).String()
}

// Method counts the calls of one method.
type Method struct {
	latency  histogram.Histogram // of calls with one request
	codes    [codeSlots]atomic.Uint64
	statuses [statusSlots]atomic.Uint64 // of calls that are answered by an Operation
}

// count counts a call that is over.
func (m *Method) count(answer any, err error) {
	if operation, is := calls.OperationIn(answer); is && err == nil {
		m.statuses[statusSlot(outcome.Status(operation.GetStatus()))].Add(1)
		return
	}
	if code := int(status.Code(err)); code < codeSlots {
		m.codes[code].Add(1)
	}
}

// Add makes a meter of a method before it is served.
func (m *Meters) Add(method string) *Method {
	if m.methods == nil {
		m.methods = make(map[string]*Method)
	}
	if m.methods[method] == nil {
		m.methods[method] = new(Method)
	}
	return m.methods[method]
}

// of is the meter of a method.
func (m *Meters) of(method string) *Method {
	if known := m.methods[method]; known != nil {
		return known
	}
	return &m.unknown
}

// Ended counts a stream that has ended, or a call that was refused before it had a handler.
func (m *Meters) Ended(method string, err error) { m.of(method).count(nil, err) }

// Timed counts calls of a handler and how long they take.
func (m *Method) Timed(begun time.Time, answer any, err error) {
	m.latency.Observe(time.Since(begun))
	m.count(answer, err)
}

// Reply counts a message to the client of a Session stream.
func (m *Meters) Reply(r *coordination.Reply) {
	switch r.Kind {
	case coordination.ReplyResult:
		m.requests[r.Request][refusalSlot(r.Refusal)].Add(1)
		switch waited := time.Duration(r.Delivered - r.Received); {
		case !r.Done || r.Request != coordination.RequestAcquire || r.Received == 0:
		case r.Queued:
			m.queued.Observe(waited)
		default:
			m.granted.Observe(waited)
		}
	case coordination.ReplyStarted:
		m.started.Add(1)
	case coordination.ReplyStopped:
		m.requests[coordination.RequestStop][0].Add(1)
	case coordination.ReplyChanged:
		m.changed.Add(1)
	case coordination.ReplyFailure:
		m.failures[refusalSlot(r.Refusal)].Add(1)
	}
}

func refusalSlot(r *coordination.Refusal) int {
	if r == nil {
		return 0
	}
	return statusSlot(r.Status)
}

// Reject counts a caller who is turned away.
func (m *Meters) Reject(why Rejection) { m.rejected[why].Add(1) }
