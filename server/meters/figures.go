package meters

import (
	"maps"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/histogram"
)

// Figures are the counts at one time. No value in it is one that a client chooses.
type Figures struct {
	// Methods is by name; those that are not served here are together under the name UnknownMethod.
	Methods map[string]MethodFigures
	// Requests is Session requests that were answered, by their kind and the status.
	Requests map[string]map[string]uint64
	// Failures is Session streams that were ended with a Failure, by its status.
	Failures map[string]uint64
	// Changes is the number of changes that were reported to clients.
	Changes uint64
	// Granted has the clients' waits for an acquire that was granted without a Pending, Queued those with a Pending.
	Granted, Queued histogram.Reading
	// Rejected counts the logins and tokens that were rejected, by reason.
	Rejected map[string]uint64
}

// UnknownMethod stands for all methods that the server does not have.
const UnknownMethod = "unknown"

// MethodFigures are the results of the calls of a method.
type MethodFigures struct {
	// Results is by status: YDB's name of it, such as NOT_FOUND, where the answer has one; gRPC's, such as
	// Unavailable, otherwise.
	Results map[string]uint64
	// Latency is of calls with one request; Count is 0 for streams.
	Latency histogram.Reading
}

// MethodNames are those of all methods that the server counts, in order.
func (f *Figures) MethodNames() []string { return slices.Sorted(maps.Keys(f.Methods)) }

// Read returns the counts.
func (m *Meters) Read() Figures {
	f := Figures{Methods: make(map[string]MethodFigures), Requests: make(map[string]map[string]uint64),
		Failures: make(map[string]uint64), Rejected: make(map[string]uint64),
		Changes: m.changed.Load(), Granted: m.granted.Read(), Queued: m.queued.Read()}
	for method, meter := range m.methods {
		f.Methods[method] = meter.read()
	}
	f.Methods[UnknownMethod] = m.unknown.read()
	for kind, name := range RequestNames {
		f.Requests[name] = make(map[string]uint64)
		for slot := range statusSlots {
			if n := m.requests[kind][slot].Load(); n > 0 || slot == 0 {
				f.Requests[name][slotStatus(slot)] = n
			}
		}
	}
	f.Requests["start"] = map[string]uint64{slotStatus(0): m.started.Load()}
	for slot := 1; slot < statusSlots; slot++ {
		if n := m.failures[slot].Load(); n > 0 {
			f.Failures[slotStatus(slot)] = n
		}
	}
	for why := range rejections {
		f.Rejected[why.String()] = m.rejected[why].Load()
	}
	return f
}

// RequestNames are the names of the kinds of requests.
var RequestNames = map[coordination.RequestKind]string{
	coordination.RequestAcquire: "acquire", coordination.RequestRelease: "release",
	coordination.RequestCreate: "create",
	coordination.RequestUpdate: "update", coordination.RequestDelete: "delete",
	coordination.RequestDescribe: "describe", coordination.RequestStop: "stop",
}

func (m *Method) read() MethodFigures {
	f := MethodFigures{Results: make(map[string]uint64), Latency: m.latency.Read()}
	for code := range m.codes {
		if n := m.codes[code].Load(); n > 0 {
			f.Results[codes.Code(code).String()] = n
		}
	}
	for slot := range m.statuses {
		if n := m.statuses[slot].Load(); n > 0 {
			f.Results[slotStatus(slot)] = n
		}
	}
	return f
}
