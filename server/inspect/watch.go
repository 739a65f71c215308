package inspect

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/group/streams"
	"github.com/coordd/coordd/server/history"
)

// maxEventsAtOnce is how many events are taken from the ring at once.
const maxEventsAtOnce = 256

var (
	errWatchAll = status.Error(codes.PermissionDenied,
		"Only administrators may watch everything: give the path of a coordination node")
	errWatchNode = status.Error(codes.NotFound, "There is no such coordination node whose rows you may read")
	errStopping  = status.Error(codes.Unavailable, streams.ErrStopped.Error())
)

// watch is a Watch under way.
type watch struct {
	*Service
	ctx    context.Context
	stream grpc.ServerStreamingServer[adminpb.Event]
	caller coordination.Caller
	path   string
	node   coordination.NodeID // 0: all of them
	access uint64              // version of the rights with which it was last looked whether the caller may
	paths  map[coordination.NodeID]string
	from   *events.Watcher
}

// Watch implements adminpb.InspectServer. It looks again whether the caller may whenever rights have changed,
// before it tells anything more.
func (s *Service) Watch(r *adminpb.WatchRequest, stream grpc.ServerStreamingServer[adminpb.Event]) error {
	ctx := stream.Context()
	if err := s.Serves(ctx); err != nil {
		return err
	}
	w := &watch{Service: s, ctx: ctx, stream: stream, caller: s.Caller(ctx), path: r.GetPath()}
	if err := w.begin(); err != nil {
		return err
	}
	w.from = s.Group.Events().Watch(r.GetRing(), r.GetSequence())
	defer w.from.Close()
	first := adminpb.Event_BEGIN
	if r.GetRing() != 0 && r.GetRing() != w.from.Ring() { // the server was started anew, or is another one
		first = adminpb.Event_GAP
	}
	if err := w.sendPosition(first, 0); err != nil {
		return err
	}
	return w.run()
}

// begin looks for the node, once this server is up to date.
func (w *watch) begin() error {
	ctx, cancel := w.InTime(w.ctx)
	defer cancel()
	if err := w.Group.CatchUp(ctx); err != nil {
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return w.look(ctx)
}

// look finds out whether the caller may watch, as far as this server knows.
func (w *watch) look(ctx context.Context) error {
	w.access = w.Group.AccessVersion()
	if err := w.Serves(ctx); err != nil {
		return err
	}
	if w.path == "" {
		if !w.administers(w.caller) {
			return errWatchAll
		}
		return nil
	}
	before := w.node
	_, err := w.Group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		w.node = 0
		entry, found := m.Tree().Lookup(scheme.SplitLoose(w.path))
		if found && entry.Node != 0 && m.Tree().Rights(entry, m.Subject(w.caller))&scheme.SelectRow != 0 {
			w.node = entry.Node
		}
		return outcome.Done()
	})
	switch {
	case err != nil:
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	case w.node == 0, before != 0 && w.node != before:
		return errWatchNode
	}
	return nil
}

// sendPosition says behind which event what follows is.
func (w *watch) sendPosition(kind adminpb.Event_Kind, skipped uint64) error {
	return w.stream.Send(&adminpb.Event{Kind: kind, Ring: w.from.Ring(), Sequence: w.from.Sequence(),
		Skipped: skipped})
}

func (w *watch) run() error {
	list := make([]events.Event, 0, maxEventsAtOnce)
	for {
		var skipped uint64
		behind := w.from.Sequence()
		list, skipped = w.from.Next(list[:0])
		if skipped > 0 {
			e := &adminpb.Event{Kind: adminpb.Event_GAP, Ring: w.from.Ring(), Sequence: behind + skipped,
				Skipped: skipped}
			if err := w.stream.Send(e); err != nil {
				return err
			}
		}
		if err := w.send(list); err != nil {
			return err
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-w.from.News():
		case <-w.from.Over():
			return errStopping
		case <-w.ctx.Done():
			return status.FromContextError(w.ctx.Err()).Err()
		}
	}
}

// send sends those events that the watch is about.
func (w *watch) send(list []events.Event) error {
	if len(list) == 0 {
		return nil
	}
	if w.Group.AccessVersion() != w.access {
		if err := w.look(w.ctx); err != nil {
			return err
		}
	}
	if err := w.findPaths(list); err != nil {
		return err
	}
	for i := range list {
		if e := &list[i]; w.node == 0 || e.Node == w.node || e.Kind == coordination.OccurSkipped {
			if err := w.stream.Send(w.eventToPB(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxKnownPaths bounds what a watch remembers of where nodes are.
const maxKnownPaths = 1000

// findPaths finds where the nodes of events are.
func (w *watch) findPaths(list []events.Event) error {
	if w.node != 0 {
		return nil
	}
	if len(w.paths) > maxKnownPaths || w.paths == nil {
		w.paths = make(map[coordination.NodeID]string)
	}
	unknown := make(map[coordination.NodeID]scheme.Path)
	for i := range list {
		if _, known := w.paths[list[i].Node]; !known && list[i].Node != 0 {
			unknown[list[i].Node] = nil
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	_, err := w.Group.Read(w.ctx, func(m *coordination.Machine) outcome.Outcome {
		for node := range unknown {
			unknown[node] = m.PathOfNode(node)
		}
		return outcome.Done()
	})
	for node, path := range unknown {
		if w.paths[node] = ""; path != nil {
			w.paths[node] = path.String()
		}
	}
	if err != nil {
		return errStopping
	}
	return nil
}

func (w *watch) eventToPB(e *events.Event) *adminpb.Event {
	p := history.EventOf(&e.Occurrence, w.Group.Log().Members().NameOf)
	p.Ring, p.Sequence = w.from.Ring(), e.Sequence
	switch {
	case p.GetPath() != "":
	case w.node != 0:
		p.Path = w.path
	default:
		p.Path = w.paths[e.Node]
	}
	redact(p, w.caller.Subject, w.administers(w.caller))
	return p
}
