package server

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

// meters count what clients ask for and what they are told. All of it is atomic additions.
type meters struct {
	methods map[string]*methodMeter // complete before the first call
	unknown methodMeter             // all methods that are not served here
	// requests is by kind and status, failures by status.
	requests [coordination.RequestStop + 1][statusSlots]atomic.Uint64
	failures [statusSlots]atomic.Uint64
	started  atomic.Uint64
	changed  atomic.Uint64
	// granted is how long clients waited for what they got, at once and behind a Pending.
	granted, queued histogram.Histogram
	rejected        [rejections]atomic.Uint64
}

// rejection is why a caller is not taken for who he says he is.
type rejection int

const (
	rejectedPassword rejection = iota
	rejectedWait               // too many wrong passwords before
	rejectedOverload           // too many logins at once
	rejectedToken
	rejections
)

func (r rejection) String() string {
	return [rejections]string{"wrong_password", "too_many_attempts", "overloaded", "invalid_token"}[r]
}

const (
	// codeSlots is how many codes gRPC has.
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

// methodMeter counts the calls of one method.
type methodMeter struct {
	latency  histogram.Histogram // of calls with one request
	codes    [codeSlots]atomic.Uint64
	statuses [statusSlots]atomic.Uint64 // of calls that are answered by an Operation
}

// count counts a call that is over.
func (m *methodMeter) count(answer any, err error) {
	if operation, is := calls.OperationIn(answer); is && err == nil {
		m.statuses[statusSlot(outcome.Status(operation.GetStatus()))].Add(1)
		return
	}
	if code := int(status.Code(err)); code < codeSlots {
		m.codes[code].Add(1)
	}
}

// add makes a meter of a method before it is served.
func (m *meters) add(method string) *methodMeter {
	if m.methods == nil {
		m.methods = make(map[string]*methodMeter)
	}
	if m.methods[method] == nil {
		m.methods[method] = new(methodMeter)
	}
	return m.methods[method]
}

// of is the meter of a method.
func (m *meters) of(method string) *methodMeter {
	if known := m.methods[method]; known != nil {
		return known
	}
	return &m.unknown
}

// refuse counts a call that was refused before it had a handler.
func (m *meters) refuse(method string, err error) { m.of(method).count(nil, err) }

// timed counts calls of a handler and how long they take.
func (m *methodMeter) timed(begun time.Time, answer any, err error) {
	m.latency.Observe(time.Since(begun))
	m.count(answer, err)
}

// reply counts what a Session stream is told.
func (m *meters) reply(r *coordination.Reply) {
	switch r.Kind {
	case coordination.ReplyResult:
		m.requests[r.Request][refusalSlot(r.Refusal)].Add(1)
		switch {
		case r.Waited == 0:
		case r.Queued:
			m.queued.Observe(time.Duration(r.Waited))
		default:
			m.granted.Observe(time.Duration(r.Waited))
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

// reject counts a caller who is turned away.
func (m *meters) reject(why rejection) { m.rejected[why].Add(1) }
