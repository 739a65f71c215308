package standin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/events"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	SessionStarted   EventKind = "session started"
	SessionAttached  EventKind = "session attached" // again
	SessionDetached  EventKind = "session detached" // no client has it any more
	SessionStopped   EventKind = "session stopped"  // by its client
	SessionExpired   EventKind = "session expired"  // by time
	SessionEnded     EventKind = "session ended"    // by somebody else
	LockGranted      EventKind = "lock granted"
	LockAwaited      EventKind = "lock awaited"
	LockLost         EventKind = "lock lost"  // an owner is one no more
	WaitEnded        EventKind = "wait ended" // a waiter is one no more, and has become no owner
	SemaphoreDeleted EventKind = "semaphore deleted"
	LeaderChanged    EventKind = "leader changed"
)

var eventKinds = map[coordination.OccurrenceKind]EventKind{
	coordination.OccurSessionStarted:   SessionStarted,
	coordination.OccurSessionAttached:  SessionAttached,
	coordination.OccurSessionDetached:  SessionDetached,
	coordination.OccurSessionStopped:   SessionStopped,
	coordination.OccurSessionExpired:   SessionExpired,
	coordination.OccurSessionEnded:     SessionEnded,
	coordination.OccurLockGranted:      LockGranted,
	coordination.OccurLockAwaited:      LockAwaited,
	coordination.OccurLockLost:         LockLost,
	coordination.OccurWaitEnded:        WaitEnded,
	coordination.OccurSemaphoreDeleted: SemaphoreDeleted,
	coordination.OccurLeader:           LeaderChanged,
}

// Event is something that happened to a session or a semaphore.
type Event struct {
	Kind EventKind
	// After is the time that the Advance had been under way by the turned clock; 0 for events outside of an Advance.
	After time.Duration
	// Node is the path of the coordination node, empty if it is gone.
	Node      string
	Session   uint64
	Semaphore string
	OrderID   uint64
	Count     uint64
}

// unnoticed are the kinds of events of which no client hears.
var unnoticed = map[EventKind]bool{SessionDetached: true, SessionExpired: true, SessionEnded: true, LeaderChanged: true}

const maxUnnoticed = 50

// unnoticedEvents remembers the latest events that are unnoticed.
type unnoticedEvents struct {
	mutex sync.Mutex
	of    *group.Group
	from  *events.Watcher
	last  []timedEvent
}

// timedEvent is an event with its time by the log or, if the log has no time of it, the time at which it was found.
type timedEvent struct {
	Event
	at time.Time
}

// find returns the latest events that are unnoticed, since the first call.
func (u *unnoticedEvents) find(c *core) ([]timedEvent, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.lookPatience())
	defer cancel()
	g, err := c.leader(ctx)
	if err != nil {
		return nil, err
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.of != g { // the first call, or another server leads
		if u.from != nil {
			u.from.Close()
		}
		u.of, u.from = g, g.Events().Watch(0, 0)
	}
	err = readEach(ctx, g, u.from, func(e Event, stampMillis uint64) {
		if !unnoticed[e.Kind] {
			return
		}
		at := time.Now()
		if stampMillis > 0 {
			at = time.UnixMilli(int64(stampMillis))
		}
		u.last = append(u.last, timedEvent{e, at})
	})
	u.last = u.last[max(0, len(u.last)-maxUnnoticed):]
	return append([]timedEvent{}, u.last...), err
}

// String is the event for people.
func (e Event) String() string {
	text := string(e.Kind)
	if e.Session != 0 {
		text += fmt.Sprintf(": session %d", e.Session)
	}
	if e.Semaphore != "" {
		text += fmt.Sprintf(", semaphore %q", e.Semaphore)
	}
	if e.Node != "" {
		text += " of " + e.Node
	}
	if e.After != 0 {
		text += fmt.Sprintf(", after %v", e.After)
	}
	return text
}

// Events returns the events so far, as the leading server has seen them since its start; of many only the last ones.
func (s *Server) Events() []Event {
	s.helper()()
	events, err := s.events()
	if err != nil {
		s.fail("events: %v", err)
	}
	return events
}

func (c *core) events() ([]Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.lookPatience())
	defer cancel()
	g, err := c.leader(ctx)
	if err != nil {
		return nil, err
	}
	from := g.Events().Watch(^uint64(0), 0) // all there are, because no ring has this name
	defer from.Close()
	return read(ctx, g, from, 0)
}

// read takes the events that are there.
func read(ctx context.Context, g *group.Group, from *events.Watcher, after time.Duration) (found []Event,
	err error) {
	err = readEach(ctx, g, from, func(e Event, _ uint64) {
		e.After = after
		found = append(found, e)
	})
	return found, err
}

// readEach calls add with each event that is there, and its time by the log, 0 if that is unknown.
func readEach(ctx context.Context, g *group.Group, from *events.Watcher, add func(Event, uint64)) error {
	const most = 256
	paths := make(map[coordination.NodeID]string)
	for list := make([]events.Event, 0, most); ; {
		if list, _ = from.Next(list[:0]); len(list) == 0 {
			return nil
		}
		if err := findPaths(ctx, g, list, paths); err != nil {
			return err
		}
		for _, e := range list {
			kind, known := eventKinds[e.Kind]
			if !known {
				continue
			}
			add(Event{Kind: kind, Node: paths[e.Node], Session: uint64(e.Session), Semaphore: e.Semaphore,
				OrderID: uint64(e.Order), Count: e.Count}, e.StampMillis)
		}
	}
}

// findPaths finds where the nodes of events are.
func findPaths(ctx context.Context, g *group.Group, list []events.Event,
	paths map[coordination.NodeID]string) error {
	_, err := g.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		for _, e := range list {
			if path := m.PathOfNode(e.Node); path != nil {
				paths[e.Node] = path.String()
			}
		}
		return outcome.Done()
	})
	return err
}
