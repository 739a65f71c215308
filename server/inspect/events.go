package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/history"
)

// maxEvents and maxEventsBytes bound an answer with events: gRPC's clients take 4 MiB unless they say otherwise.
const (
	maxEvents      = 1000
	maxEventsBytes = 3 << 20
)

// eventsPatience bounds the wait for other servers: each scans 64 MiB for a question that few events answer.
const eventsPatience = 3 * time.Second

// fitting returns how many events an answer may have.
func fitting(list []*adminpb.Event) int {
	bytes := 0
	for i, e := range list {
		if bytes += proto.Size(e); bytes > maxEventsBytes {
			return max(i, 1)
		}
	}
	return len(list)
}

// catchUpOrNot waits until this server has what was acknowledged before. A caller whose rights need not be judged gets
// an answer from a server that cannot, and behind is true: events are asked for when no leader is found.
func (s *Service) catchUpOrNot(ctx context.Context, caller coordination.Caller) (behind bool, err error) {
	if caller.Enforced {
		return false, s.Group.CatchUp(ctx)
	}
	catching, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	return s.Group.CatchUp(catching) != nil && ctx.Err() == nil, ctx.Err()
}

// Events implements adminpb.InspectServer.
func (s *Service) Events(ctx context.Context, r *adminpb.EventsRequest) (*adminpb.EventsResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	behind, err := s.catchUpOrNot(ctx, caller)
	if err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	if r.GetPath() != "" {
		r.Path = scheme.SplitLoose(r.GetPath()).String()
	}
	if now := s.Group.Shell().WallMillis(); r.GetWithinMillis() > 0 {
		r.SinceMillis = now - min(now, r.GetWithinMillis())
	}
	question := &clusterpb.EventsQuestion{Request: r, Subject: []byte(caller.Subject), Enforced: caller.Enforced}
	var own *adminpb.EventsResponse
	var failed error
	asking, cancelAsking := context.WithTimeout(ctx, eventsPatience)
	defer cancelAsking()
	_, answers, unknown := askAll(asking, s, question, func() *clusterpb.EventsAnswer {
		own, failed = s.eventsHere(ctx, r, caller)
		return &clusterpb.EventsAnswer{Response: own}
	})
	if failed != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, failed)
	}
	for _, gap := range unfilled(answers) {
		text := fmt.Sprintf("the entries %d to %d of the log, which no asked server kept", gap.GetFirstIndex(),
			gap.GetLastIndex())
		if !slices.Contains(own.Unknown, text) {
			own.Unknown = append(own.Unknown, text)
		}
	}
	own.Gaps = nil
	if behind {
		own.Unknown = append(own.Unknown, "what has happened since this server last heard of a leader")
	}
	own.Unknown = append(own.Unknown, unknown...)
	seen := s.eyes(ctx, caller)
	var lists [][]*adminpb.Event
	for _, answer := range answers {
		response := answer.GetResponse()
		if response != own {
			own.Unknown = append(own.Unknown, response.GetUnknown()...)
		}
		lists = append(lists, seen.permit(response.GetEvents()))
		own.More = own.GetMore() || response.GetMore()
	}
	limit := limitOf(r)
	own.Events = history.Merge(limit+1, lists...)
	if len(own.GetEvents()) > limit {
		own.Events, own.More = own.GetEvents()[:limit], true
	}
	if fits := fitting(own.GetEvents()); fits < len(own.GetEvents()) {
		own.Events, own.More = own.GetEvents()[:fits], true
	}
	for _, e := range own.GetEvents() {
		redact(e, caller.Subject, seen.all)
	}
	return own, nil
}

// unfilled returns the gaps of servers that no other one that has answered fills. The others have empty answers.
func unfilled(answers []*clusterpb.EventsAnswer) (gaps []*adminpb.Gap) {
	lacks := func(a *clusterpb.EventsAnswer, gap *adminpb.Gap) bool {
		return a.GetResponse() == nil || slices.ContainsFunc(a.GetResponse().GetGaps(), func(other *adminpb.Gap) bool {
			return other.GetFirstIndex() <= gap.GetLastIndex() && other.GetLastIndex() >= gap.GetFirstIndex()
		})
	}
	for _, a := range answers {
		for _, gap := range a.GetResponse().GetGaps() {
			if !slices.ContainsFunc(answers, func(a *clusterpb.EventsAnswer) bool { return !lacks(a, gap) }) {
				gaps = append(gaps, gap)
			}
		}
	}
	return gaps
}

func limitOf(r *adminpb.EventsRequest) int {
	return int(min(cmp.Or(r.GetLimit(), maxEvents), maxEvents))
}

// eventsHere returns the events that this server keeps, and the holds that it knows.
func (s *Service) eventsHere(ctx context.Context, r *adminpb.EventsRequest,
	caller coordination.Caller) (*adminpb.EventsResponse, error) {
	seen, response := s.eyes(ctx, caller), &adminpb.EventsResponse{}
	version, key := s.History.Version(), keyOf(r)
	if !seen.all || !s.repeats.find(version, key, response) {
		if err := s.readEvents(ctx, r, seen, response); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			s.Logger.Warn("not all events can be read", "error", err)
			response.Unknown = append(response.Unknown, fmt.Sprintf("server %s cannot read all of its events",
				s.Group.Log().Members().NameOf(s.Group.Log().Member())))
		} else if seen.all {
			s.repeats.keep(version, key, response)
		}
	}
	if len(r.GetSemaphore()) == 0 {
		return response, nil
	}
	_, err := s.Group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		entry, there := m.Tree().Lookup(scheme.SplitLoose(r.GetPath()))
		if there && entry.Node != 0 && seen.mayRead(m, place{node: entry.Node}) {
			for _, h := range s.Group.Events().Holds(entry.Node, string(r.GetSemaphore())) {
				response.Holds = append(response.Holds, history.HoldOf(&h))
			}
		}
		return outcome.Done()
	})
	return response, cmp.Or(ctx.Err(), err)
}

// readEvents adds to an answer the events and the gaps of this server's files.
func (s *Service) readEvents(ctx context.Context, r *adminpb.EventsRequest, seen *eyes,
	response *adminpb.EventsResponse) error {
	limit := limitOf(r)
	found, err := s.History.Read(ctx, &history.Query{Before: r.GetBefore(), After: r.GetAfter(),
		SinceMillis: r.GetSinceMillis(), Limit: limit + 1, Administers: seen.all,
		Wanted: func(e *adminpb.Event) bool {
			if e.GetKind() == adminpb.Event_GAP {
				response.Gaps = append(response.Gaps, &adminpb.Gap{FirstIndex: e.GetIndex(),
					LastIndex: e.GetLastIndex()})
				return false
			}
			return history.Wants(r, e)
		}, Permit: seen.permit})
	response.Events, response.More = found[:min(limit, len(found))], len(found) > limit
	return err
}

// eyes decide which events a caller sees, by the rights as they are now.
type eyes struct {
	ctx     context.Context
	service *Service
	caller  coordination.Caller
	all     bool
	may     map[place]bool // the caller may read the rows; places that are missing were not looked up
}

// place is a node, or a directory with many.
type place struct {
	node coordination.NodeID
	path string
}

func placeOfEvent(e *adminpb.Event) place {
	if history.SumsMany(e) {
		return place{path: e.GetPath()}
	}
	return place{node: coordination.NodeID(e.GetNode())}
}

func (s *Service) eyes(ctx context.Context, caller coordination.Caller) *eyes {
	return &eyes{ctx, s, caller, s.administers(caller), map[place]bool{{}: false}}
}

// permit removes from events those that the caller does not see. Acts of administrators and the events of dropped nodes
// are for administrators: another node at the same path has another id.
func (y *eyes) permit(list []*adminpb.Event) []*adminpb.Event {
	if y.all {
		return list
	}
	var unknown []place
	for _, e := range list {
		at := placeOfEvent(e)
		if _, known := y.may[at]; !known {
			y.may[at] = false
			unknown = append(unknown, at)
		}
	}
	for places := range slices.Chunk(unknown, maxPageRows) { // a turn each
		_, err := y.service.Group.Read(y.ctx, func(m *coordination.Machine) outcome.Outcome {
			for _, at := range places {
				y.may[at] = y.mayRead(m, at)
			}
			return outcome.Done()
		})
		if err != nil {
			break
		}
	}
	return slices.DeleteFunc(list, func(e *adminpb.Event) bool {
		return !y.may[placeOfEvent(e)] || e.GetKind() == adminpb.Event_ADMINISTERED
	})
}

func (y *eyes) mayRead(m *coordination.Machine, at place) bool {
	path := scheme.SplitLoose(at.path)
	if at.node != 0 {
		path = m.PathOfNode(at.node)
	}
	entry, found := m.Tree().Lookup(path)
	return found && len(path) > 0 && m.Tree().Rights(entry, m.Subject(y.caller))&scheme.SelectRow != 0
}
