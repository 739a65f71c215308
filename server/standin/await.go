package standin

import (
	"fmt"
	"strings"
	"time"
)

// AwaitOwners waits until a semaphore has n owners, and returns them. A semaphore that is gone, or was never
// there, has 0. If it takes too long, the test fails with what is there instead.
func (s *Server) AwaitOwners(node, name string, n int) []Owner {
	s.helper()()
	var owners []Owner
	s.await(func() string {
		if owners = s.Owners(node, name); len(owners) == n {
			return ""
		}
		return fmt.Sprintf("semaphore %q of %s has %d owners, not %d", name, s.path(node), len(owners), n)
	})
	return owners
}

// AwaitWaiters is AwaitOwners for waiters.
func (s *Server) AwaitWaiters(node, name string, n int) []Waiter {
	s.helper()()
	var waiters []Waiter
	s.await(func() string {
		if waiters = s.Waiters(node, name); len(waiters) == n {
			return ""
		}
		return fmt.Sprintf("semaphore %q of %s has %d waiters, not %d", name, s.path(node), len(waiters), n)
	})
	return waiters
}

// AwaitNoSession waits until a session is gone from a coordination node; 0: until all are.
func (s *Server) AwaitNoSession(node string, session uint64) {
	s.helper()()
	s.await(func() string {
		for _, other := range s.Sessions(node) {
			if session == 0 || other.ID == session {
				return fmt.Sprintf("session %d of %s is still there", other.ID, s.path(node))
			}
		}
		return ""
	})
}

// await waits until look finds nothing amiss.
func (s *Server) await(look func() string) {
	s.helper()()
	until := time.Now().Add(s.settings.patience)
	for {
		amiss := look()
		if amiss == "" {
			return
		}
		if time.Now().After(until) {
			s.fail("%s\n%s", amiss, s.situation())
			return
		}
		time.Sleep(pollPause)
	}
}

// eventsShown is the number of latest events that a failure lists.
const eventsShown = 50

// situation describes the present state and the events that led to it.
func (c *core) situation() string {
	text, err := c.dump()
	if err != nil {
		text = err.Error() + "\n"
	}
	var out strings.Builder
	out.WriteString("There is:\n" + text + "What has happened:\n")
	events, err := c.events()
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	if more := len(events) - eventsShown; more > 0 {
		fmt.Fprintf(&out, "  (%d events before)\n", more)
		events = events[more:]
	}
	for _, e := range events {
		fmt.Fprintf(&out, "  %v\n", e)
	}
	return out.String()
}
