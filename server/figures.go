package server

import (
	"maps"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group"
)

// Figures is how a server does, for monitoring. No value in it is one that a client chooses.
type Figures struct {
	Readiness Readiness
	// Issues are all that there can be, by their kind, and whether there is one.
	Issues map[string]bool
	Group  group.Figures
	Log    raftstore.Figures
	// StateBytes is how large the state is, and StateLimit how large it may be; 0 if there is no limit.
	StateBytes, StateLimit uint64

	Connections ConnectionFigures
	Hardening   Hardening
	// HTTPConnections is how many connections of monitoring programs are open.
	HTTPConnections int

	// Methods is by name; those that are not served here are together under the name UnknownMethod.
	Methods map[string]MethodFigures
	// Requests is Session requests that were answered, by their kind and the status.
	Requests map[string]map[string]uint64
	// Failures is Session streams that were ended with a Failure, by its status.
	Failures map[string]uint64
	// Changes is how many changes clients were told of.
	Changes uint64
	// Granted is how long clients waited for an acquire that was granted without a Pending, Queued with one
	// before.
	Granted, Queued histogram.Reading
	// Rejected is how often a login or a token was, by why.
	Rejected map[string]uint64
	// Panics is how many panics were recovered from.
	Panics uint64
	// Resources are those of rate limiters that somebody wants the figures of; see Server.ResourceFigures.
	Resources []ResourceFigures
}

// UnknownMethod stands for all methods that the server does not have.
const UnknownMethod = "unknown"

// ConnectionFigures is how many there are and were of what clients open, and of what the limits kept out or
// closed.
type ConnectionFigures struct {
	Open, Calls                                        int
	ReceivedBytes                                      int64
	Refused, Evicted, Resets, ReceivingMost, EndUnread uint64 // connections
	RefusedCalls, RefusedStreams                       uint64
}

// MethodFigures is what became of the calls of a method.
type MethodFigures struct {
	// Results is by status: YDB's name of it, such as NOT_FOUND, where the answer has one; gRPC's, such as
	// Unavailable, otherwise.
	Results map[string]uint64
	// Latency is of calls with one request; Count is 0 for streams.
	Latency histogram.Reading
}

// ResourceFigures is what this server has of a resource of a rate limiter.
type ResourceFigures struct {
	Node, Resource string
	quota.State
}

// ResourceFigures adds a resource to the figures, if it was acquired here and its node's counters are
// detailed.
func (s *Server) ResourceFigures(f *Figures, node, resource string) {
	if state, is := s.group.ResourceState(node, resource); is && state.Detailed {
		f.Resources = append(f.Resources, ResourceFigures{node, resource, state})
	}
}

// Figures is how things stand. It takes no turn of the group, waits for no disk and for no other server, and
// may be called once the server is open.
func (s *Server) Figures() Figures {
	used, limits := s.group.StateSize()
	c := s.connections
	f := Figures{
		Readiness: s.Shown(), Issues: s.shownIssues(), Group: s.group.Figures(), Log: s.store.Figures(),
		StateBytes: used,
		Connections: ConnectionFigures{Open: c.Open(), Calls: c.CallsUnderWay(), ReceivedBytes: c.Received(),
			Refused: c.Refused(),
			Evicted: c.Evicted(), Resets: c.Cut(), ReceivingMost: c.CutForReceiving(),
			EndUnread: c.CutForUnread(), RefusedCalls: c.RefusedCalls(),
			RefusedStreams: c.RefusedStreams()},
		Hardening: s.config.Hardening, Methods: make(map[string]MethodFigures),
		Requests: make(map[string]map[string]uint64), Failures: make(map[string]uint64),
		Changes: s.meters.changed.Load(), Granted: s.meters.granted.Read(), Queued: s.meters.queued.Read(),
		Rejected: make(map[string]uint64), Panics: s.panics.count.Load(),
	}
	if limits.State != UnlimitedState {
		f.StateLimit = limits.State
	}
	if s.http.server != nil {
		f.HTTPConnections = s.http.server.Open()
	}
	for method, meter := range s.meters.methods {
		f.Methods[method] = meter.read()
	}
	f.Methods[UnknownMethod] = s.meters.unknown.read()
	for kind, name := range sessionRequests {
		f.Requests[name] = make(map[string]uint64)
		for slot := range statusSlots {
			if n := s.meters.requests[kind][slot].Load(); n > 0 || slot == 0 {
				f.Requests[name][slotStatus(slot)] = n
			}
		}
	}
	f.Requests["start"] = map[string]uint64{slotStatus(0): s.meters.started.Load()}
	for slot := 1; slot < statusSlots; slot++ {
		if n := s.meters.failures[slot].Load(); n > 0 {
			f.Failures[slotStatus(slot)] = n
		}
	}
	for why := range rejections {
		f.Rejected[why.String()] = s.meters.rejected[why].Load()
	}
	return f
}

// sessionRequests is what the kinds of requests are called.
var sessionRequests = map[coordination.RequestKind]string{
	coordination.RequestAcquire: "acquire", coordination.RequestRelease: "release",
	coordination.RequestCreate: "create",
	coordination.RequestUpdate: "update", coordination.RequestDelete: "delete",
	coordination.RequestDescribe: "describe", coordination.RequestStop: "stop",
}

func (m *methodMeter) read() MethodFigures {
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

// Shown is the readiness that those are told who ask for it by gRPC's health service or by HTTP. During an
// election it is what it was before.
func (s *Server) Shown() Readiness {
	worst := s.shown.Load().worst
	return Readiness{Ready: worst.gravity != fatal, Reason: worst.text}
}

// issueKinds are those that are shown also while there is none.
var issueKinds = []issueKind{issueStopping, issueFailed, issueNoMember, issueNoLeader, issueKeptOut,
	issueReplaying, issueCatchingUp, issueDisk, issueDiverged, issueSilent, issueFull, issueMemory, issueMute,
	issueUnlike, issueLimits}

func (s *Server) shownIssues() map[string]bool {
	shown := s.shown.Load()
	found := make(map[string]bool)
	for _, kind := range issueKinds {
		found[string(kind)] = false
	}
	for _, i := range append(shown.also[:len(shown.also):len(shown.also)], shown.worst) {
		if i.kind != "" {
			found[string(i.kind)] = true
		}
	}
	return found
}

// MethodNames are those of all methods that the server counts, in order.
func (f *Figures) MethodNames() []string { return slices.Sorted(maps.Keys(f.Methods)) }
