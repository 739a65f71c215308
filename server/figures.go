package server

import (
	"context"
	"math"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/admin"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/meters"
	"github.com/coordd/coordd/server/readiness"
	"github.com/coordd/coordd/server/statelimit"
)

// Figures are a server's metrics. No value in it is one that a client chooses.
type Figures struct {
	Readiness readiness.State
	// Issues are all that there can be, by their kind, and whether there is one.
	Issues map[string]bool
	Group  group.Figures
	Log    raftstore.Figures
	// StateBytes is the size of the state, and StateLimit its limit; 0: no limit.
	StateBytes, StateLimit uint64

	Connections ConnectionFigures
	Hardening   Hardening
	// HTTPConnections counts the open connections of monitoring programs.
	HTTPConnections int

	meters.Figures // of calls and their answers
	Budgets        []*budget.Budget
	// EventsLost counts the events that the history could not keep.
	EventsLost uint64
	// Panics counts the recovered panics.
	Panics uint64
	// Resources are those of rate limiters that somebody wants the figures of; see Server.ResourceFigures.
	Resources []ResourceFigures
	// Semaphores are those that the operator wants the figures of; see Server.SemaphoreFigures.
	Semaphores []SemaphoreFigures
}

// ConnectionFigures count the connections, calls and streams of clients, and those that the limits refused or closed.
type ConnectionFigures struct {
	Open, Calls                                        int
	ReceivedBytes                                      int64
	Refused, Evicted, Resets, ReceivingMost, EndUnread uint64 // connections
	RefusedCalls, RefusedStreams                       uint64
}

// ResourceFigures is this server's view of a resource of a rate limiter.
type ResourceFigures struct {
	Node, Resource string
	quota.State
}

// ResourceFigures adds a resource to the figures, if it was acquired here and its node's counters are
// detailed.
func (s *Server) ResourceFigures(f *Figures, node, resource string) {
	if state, is := s.group.Limiter().StateOf(node, resource); is && state.Detailed {
		f.Resources = append(f.Resources, ResourceFigures{node, resource, state})
	}
}

// SemaphoreFigures are those of one semaphore, zero if it does not exist.
type SemaphoreFigures struct {
	Node, Semaphore string
	// HeldSince is the time of the oldest owner's grant, zero if that is not known or it has no owner.
	HeldSince       time.Time
	Owners, Waiters int
	// Waited is the age of the oldest of the waits that have an end, and Used the largest part of its timeout that one
	// of them has waited, 0 to 1. They are of the first waiters in the queue only; see group.MaxInspectedRows.
	Waited time.Duration
	Used   float64
	// UsualHold is the median time of the last holds that this server has seen end, 0 if they are too few.
	UsualHold time.Duration
}

// SemaphoreFigures adds a semaphore to the figures, as this server knows it. Unlike Figures it takes a turn of the
// group.
func (s *Server) SemaphoreFigures(ctx context.Context, f *Figures, node, name string) {
	found, err := group.InspectSemaphore(ctx, s.group, scheme.SplitLoose(node), name)
	if err != nil {
		return
	}
	shown := SemaphoreFigures{Node: node, Semaphore: name}
	for i := range found.Semaphores {
		seen := &found.Semaphores[i]
		shown.Owners, shown.Waiters = seen.Owners, seen.Waiters
		shown.UsualHold = time.Duration(events.Usual(s.group.Events().Holds(seen.Node, name))) * time.Millisecond
		for _, l := range seen.Links {
			shown.add(&l, found.WallMillis)
		}
	}
	f.Semaphores = append(f.Semaphores, shown)
}

// add adds an owner or a waiter at a time in milliseconds since 1970.
func (f *SemaphoreFigures) add(l *coordination.InspectedLink, now uint64) {
	switch began := l.BeganMillis; {
	case began == 0:
	case l.Owner && f.HeldSince.IsZero():
		f.HeldSince = time.UnixMilli(int64(began))
	case !l.Owner && l.TimeoutMillis != math.MaxUint64 && l.TimeoutMillis > 0:
		waited := now - min(began, now)
		f.Waited = max(f.Waited, time.Duration(waited)*time.Millisecond)
		f.Used = max(f.Used, min(float64(waited)/float64(l.TimeoutMillis), 1))
	}
}

// Budgets returns what bounds the memory and the work of requests, in the order of docs/dev/limits.md.
func (s *Server) Budgets() []*budget.Budget {
	return slices.Concat(s.connections.Budgets(), s.group.Budgets(), s.sessions.Budgets(),
		[]*budget.Budget{s.calls.Packing})
}

// Figures returns the metrics. It takes no turn of the group, waits for no disk and for no other server, and may be
// called once the server is open.
func (s *Server) Figures() Figures {
	used, limits := s.group.StateSize()
	c := s.connections
	f := Figures{
		Readiness: s.readiness.Shown(), Issues: s.readiness.ShownIssues(),
		Group: s.group.Figures(), Log: s.store.Figures(), EventsLost: s.inspect.Load().History.Lost(),
		StateBytes: used,
		Connections: ConnectionFigures{Open: c.Open(), Calls: c.CallsUnderWay(), ReceivedBytes: c.Received(),
			Refused: c.Refused(),
			Evicted: c.Evicted(), Resets: c.Cut(), ReceivingMost: c.CutForReceiving(),
			EndUnread: c.CutForUnread(), RefusedCalls: c.RefusedCalls(),
			RefusedStreams: c.RefusedStreams()},
		Hardening: s.config.Hardening, Figures: s.meters.Read(), Panics: s.panics.Count(),
		Budgets: s.Budgets(),
	}
	if limits.State != statelimit.Unlimited {
		f.StateLimit = limits.State
	}
	if s.http.server != nil {
		f.HTTPConnections = s.http.server.Open()
	}
	return f
}

// reading returns the figures of the console's charts.
func (s *Server) reading() admin.Reading {
	f := s.Figures()
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(memory)
	r := admin.Reading{At: time.Now(), Waits: f.Granted.Plus(f.Queued), Appends: f.Log.Appends, Applied: f.Log.Applied,
		Levels: &adminpb.Sample{Sessions: uint64(f.Group.Counts.Sessions), Owners: uint64(f.Group.Counts.Owners),
			Waiters: uint64(f.Group.Counts.Waiters), Streams: uint64(f.Group.Streams),
			Connections: uint64(f.Connections.Open), StateBytes: f.StateBytes, MemoryBytes: memory[0].Value.Uint64()}}
	for _, m := range f.Methods {
		r.Calls += m.Latency.Count
	}
	return r
}
