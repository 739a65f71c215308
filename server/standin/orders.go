package standin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/coordd/coordd/server/standin/faults"
)

// Controls takes orders to this stand-in by a name and arguments, as `coordd-standin ctl` and HTTP
// have it: each is a method of Server as well.
func (s *Server) Controls() *faults.Controls { return s.controls() }

// controls are the orders of the faults, and those for all of a stand-in.
func (c *core) controls() *faults.Controls {
	to, latest := c.faults.Controls(), new(unnoticedEvents)
	to.Add("restart",
		"[empty=true]: stop all servers and start them again, "+
			"with what was acknowledged or as after the loss of all data",
		func(_ context.Context, a *faults.Arguments) (any, error) {
			empty := a.Flag("empty")
			return a.Then(func() (any, error) { return nil, c.restart(empty) })
		})
	to.Add("advance", "d=10s: let time pass, on a stand-in with --fake-time; answers what has happened",
		func(_ context.Context, a *faults.Arguments) (any, error) {
			d := a.Duration("d")
			return a.Then(func() (any, error) {
				events, err := c.advance(d)
				return map[string]any{"events": nonNil(events), "elapsed": c.elapsed().String()}, err
			})
		})
	to.Look("dump", "all coordination nodes with what is in them, as text",
		func(_ context.Context, a *faults.Arguments) (any, error) {
			return a.Then(func() (any, error) { return c.dump() })
		})
	to.Look("elapsed", "whether time stands still, and how much of it has passed by advance",
		func(_ context.Context, a *faults.Arguments) (any, error) {
			return a.Then(func() (any, error) {
				return map[string]any{"fake_time": c.clock != nil, "elapsed": c.elapsed().String()}, nil
			})
		})
	to.Look("events", "[unnoticed=true]: what has happened so far, or the last 50 events of which no client heard",
		func(_ context.Context, a *faults.Arguments) (any, error) {
			unnoticed := a.Flag("unnoticed")
			return a.Then(func() (any, error) {
				if unnoticed {
					return latest.find(c)
				}
				events, err := c.events()
				return nonNil(events), err
			})
		})
	to.Add("load", "text=: make the coordination nodes and semaphores of a fixture, in the form of a dump",
		func(ctx context.Context, a *faults.Arguments) (any, error) {
			text := a.Text("text")
			return a.Then(func() (any, error) { return nil, c.load(ctx, text) })
		})
	return to
}

// nonNil is a list that is one in JSON, too.
func nonNil(events []Event) []Event {
	if events == nil {
		return []Event{}
	}
	return events
}

// MarshalJSON implements json.Marshaler: durations are texts.
func (e Event) MarshalJSON() ([]byte, error) { return timedEvent{Event: e}.MarshalJSON() }

// MarshalJSON implements json.Marshaler.
func (e timedEvent) MarshalJSON() ([]byte, error) {
	after := ""
	if e.After != 0 {
		after = e.After.String()
	}
	return json.Marshal(struct {
		At        time.Time `json:"at,omitzero"`
		Kind      EventKind `json:"kind"`
		After     string    `json:"after,omitempty"`
		Node      string    `json:"node,omitempty"`
		Session   uint64    `json:"session,omitempty"`
		Semaphore string    `json:"semaphore,omitempty"`
		OrderID   uint64    `json:"order_id,omitempty"`
		Count     uint64    `json:"count,omitempty"`
	}{e.at, e.Kind, after, e.Node, e.Session, e.Semaphore, e.OrderID, e.Count})
}
