package history

import (
	"cmp"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

var eventKinds = map[coordination.OccurrenceKind]adminpb.Event_Kind{
	coordination.OccurSessionStarted:   adminpb.Event_SESSION_STARTED,
	coordination.OccurSessionAttached:  adminpb.Event_SESSION_ATTACHED,
	coordination.OccurSessionDetached:  adminpb.Event_SESSION_DETACHED,
	coordination.OccurSessionStopped:   adminpb.Event_SESSION_STOPPED,
	coordination.OccurSessionExpired:   adminpb.Event_SESSION_EXPIRED,
	coordination.OccurSessionEnded:     adminpb.Event_SESSION_ENDED,
	coordination.OccurLockGranted:      adminpb.Event_LOCK_GRANTED,
	coordination.OccurLockAwaited:      adminpb.Event_LOCK_AWAITED,
	coordination.OccurLockLost:         adminpb.Event_LOCK_LOST,
	coordination.OccurWaitEnded:        adminpb.Event_WAIT_ENDED,
	coordination.OccurSemaphoreDeleted: adminpb.Event_SEMAPHORE_DELETED,
	coordination.OccurNodeDropped:      adminpb.Event_NODE_DROPPED,
	coordination.OccurSessionTraced:    adminpb.Event_SESSION_TRACED,
	coordination.OccurLeader:           adminpb.Event_LEADER,
	coordination.OccurSemaphoreCreated: adminpb.Event_SEMAPHORE_CREATED,
	coordination.OccurDataChanged:      adminpb.Event_DATA_CHANGED,
	coordination.OccurAdministered:     adminpb.Event_ADMINISTERED,
	coordination.OccurSkipped:          adminpb.Event_GAP,
}

// maxTextBytes bounds the part of a text of a client that is shown.
const maxTextBytes = 128

// EventOf returns the event of an occurrence, with everything that it has; nameOf names servers.
func EventOf(o *coordination.Occurrence, nameOf func(uint64) string) *adminpb.Event {
	e := &adminpb.Event{Kind: eventKinds[o.Kind], TimeMillis: o.StampMillis, Node: uint64(o.Node),
		Session: uint64(o.Session), Semaphore: []byte(o.Semaphore), OrderId: uint64(o.Order), Count: o.Count,
		Index: uint64(o.Index), Number: o.Number, Cause: eventKinds[o.Cause], SemaphoreId: uint64(o.SemaphoreID),
		Before: o.Before}
	more := o.More
	if more == nil {
		return e
	}
	e.User, e.Reason = lograte.Printable(more.User, maxTextBytes), lograte.Printable(more.Reason, maxTextBytes)
	e.Path, e.Term, e.Traceparent, e.Act = more.Path, more.Term, more.Trace, more.Act
	if more.Server != 0 {
		e.Server = nameOf(more.Server)
	}
	e.Target = lograte.Printable(more.Target, maxTextBytes)
	e.Description = lograte.Printable(more.Description, maxTextBytes)
	e.SilentMillis, e.Lost = more.Client.SilentMillis, adminpb.Event_Lost(more.Client.Lost)
	if c := more.Client; c.Peer+c.Library+c.User != "" {
		e.Client = &adminpb.SessionClient{Address: c.Peer, Sdk: c.Library, User: c.User}
	}
	e.Held, e.Awaited = uint64(more.Held), uint64(more.Awaited)
	for _, name := range more.Names {
		e.Names = append(e.Names, []byte(name))
	}
	return e
}

// keptOf returns the event of a rare one.
func keptOf(r *events.Rare, nameOf func(uint64) string) *adminpb.Event {
	e := EventOf(&r.Occurrence, nameOf)
	e.Skipped, e.LastIndex, e.LastNumber, e.SumsKind = r.Skipped, uint64(r.LastIndex), r.LastNumber, r.SumsKind
	if e.Contended = r.More.Contended; r.Kind == coordination.OccurSkipped {
		e.LastIndex = r.Before
	}
	return e
}

// Compare orders events of all servers of a cluster by their places in the log. Those that compare equal are the same
// one.
func Compare(a, b *adminpb.Event) int {
	return cmp.Or(cmp.Compare(a.GetIndex(), b.GetIndex()), cmp.Compare(a.GetNumber(), b.GetNumber()))
}

// HoldOf returns a hold for an answer.
func HoldOf(h *events.Hold) *adminpb.Hold {
	return &adminpb.Hold{Session: uint64(h.Session), OrderId: uint64(h.Order), GrantedMillis: h.Granted,
		EndedMillis: h.Ended, Cause: eventKinds[h.Cause]}
}
