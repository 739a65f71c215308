package standin

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/group"
)

// Owner is a session that owns some of a semaphore.
type Owner struct {
	Session, OrderID, Count uint64
	Data                    []byte
}

// Waiter is a session that waits for some of a semaphore.
type Waiter struct {
	Session, OrderID, Count uint64
	Data                    []byte
	// Timeout is the whole time that it waits, or Forever.
	Timeout time.Duration
}

// Forever is the Timeout of who waits without end.
const Forever = time.Duration(math.MaxInt64)

// Session is a session of a coordination node.
type Session struct {
	ID          uint64
	Description string
	Timeout     time.Duration
	// Attached reports whether a client has it. Otherwise it lives on for Left.
	Attached bool
	Left     time.Duration
}

// Owners are those of a semaphore, in the order in which they came: none if there is no such semaphore, or no
// such coordination node. The path of the node may be relative to the database.
func (s *Server) Owners(node, name string) []Owner {
	s.helper()()
	var owners []Owner
	for _, l := range s.links(node, name, true) {
		owners = append(owners, Owner{uint64(l.Session), uint64(l.Order), l.Count, l.Data})
	}
	return owners
}

// Waiters are those of a semaphore, the first in the queue first; none as for Owners.
func (s *Server) Waiters(node, name string) []Waiter {
	s.helper()()
	var waiters []Waiter
	for _, l := range s.links(node, name, false) {
		waiters = append(waiters, Waiter{uint64(l.Session), uint64(l.Order), l.Count, l.Data,
			duration(l.TimeoutMillis)})
	}
	return waiters
}

func duration(millis uint64) time.Duration {
	if millis > uint64(math.MaxInt64/time.Millisecond) {
		return Forever
	}
	return time.Duration(millis) * time.Millisecond
}

// Data returns the data of a semaphore, or nil if there is no such semaphore.
func (s *Server) Data(node, name string) []byte {
	s.helper()()
	for _, sem := range s.find(coordination.InspectSemaphores, node, name).Semaphores {
		if sem.Name == name {
			return append([]byte{}, sem.Data...)
		}
	}
	return nil
}

// Sessions are those of a coordination node by their ids, none if there is no such node.
func (s *Server) Sessions(node string) []Session {
	s.helper()()
	found := s.find(coordination.InspectSessions, node, "")
	var sessions []Session
	for i, seen := range found.Sessions {
		if seen.Continued {
			continue
		}
		standing := found.Standings[i]
		sessions = append(sessions, Session{ID: uint64(seen.ID), Description: seen.Description,
			Timeout: duration(seen.TimeoutMillis), Attached: standing.Attached,
			Left: duration(standing.LeftMillis)})
	}
	return sessions
}

// links are the owners of a semaphore, or its waiters.
func (s *Server) links(node, name string, owners bool) []coordination.InspectedLink {
	s.helper()()
	var links []coordination.InspectedLink
	for _, sem := range s.find(coordination.InspectSemaphores, node, name).Semaphores {
		if sem.Name != name {
			continue
		}
		for _, l := range sem.Links {
			if l.Owner == owners {
				links = append(links, l)
			}
		}
	}
	return links
}

// lookPatience bounds a look: on a busy machine one may take longer than a test is ready to wait for what it
// looks for.
func (c *core) lookPatience() time.Duration { return max(c.settings.patience, defaultPatience) }

// find is inspect of one node.
func (s *Server) find(kind coordination.InspectionKind, node, prefix string) group.Inspected {
	s.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), s.lookPatience())
	defer cancel()
	found, err := s.inspect(ctx, &coordination.Inspection{Kind: kind, Path: s.path(node), Prefix: prefix})
	if err != nil {
		s.fail("look at %s: %v", node, err)
	}
	return found
}

// path is where a node is that a test names.
func (c *core) path(node string) scheme.Path {
	return scheme.SplitLoose(c.faults.Path(node))
}

// catchUpPatience is until another leader is looked for.
const catchUpPatience = 500 * time.Millisecond

// inspect has the leader look at everything that q is about. What it sees is a page after another, so it is
// as of one moment only while nobody changes anything.
func (c *core) inspect(ctx context.Context, q *coordination.Inspection) (all group.Inspected, err error) {
	for {
		g, err := c.leader(ctx)
		if err != nil {
			return all, err
		}
		if err := catchUp(ctx, g); ctx.Err() != nil {
			return all, err
		} else if err != nil {
			time.Sleep(pollPause)
			continue
		}
		all, ok, err := pages(ctx, g, q)
		if err != nil || ok {
			return all, err
		}
	}
}

// catchUp has a server that leads wait for what is on its way. One that is cut off from the others may wait
// for ever, while another one leads.
func catchUp(ctx context.Context, g *group.Group) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	return g.CatchUp(ctx)
}

// pages collects what a server sees. It reports whether that one has led all the time.
func pages(ctx context.Context, g *group.Group, q *coordination.Inspection) (all group.Inspected, led bool,
	err error) {
	for {
		page, err := g.Inspect(ctx, q, all.Next, group.MaxInspectedRows)
		if err != nil {
			return all, false, err
		}
		if len(page.Standings) < len(page.Sessions) {
			return all, false, nil
		}
		all.Nodes = append(all.Nodes, page.Nodes...)
		all.Semaphores = append(all.Semaphores, page.Semaphores...)
		all.Sessions = append(all.Sessions, page.Sessions...)
		all.Standings = append(all.Standings, page.Standings...)
		if all.Next = page.Next; page.Done {
			return all, true, nil
		}
	}
}

// Dump is all coordination nodes with what is in them, for people and golden files: with the same requests in
// the same order it is the same.
func (s *Server) Dump() string {
	s.helper()()
	text, err := s.dump()
	if err != nil {
		s.fail("dump: %v", err)
	}
	return text
}

func (c *core) dump() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.lookPatience())
	defer cancel()
	var found [3]group.Inspected
	for i, kind := range []coordination.InspectionKind{coordination.InspectNodes,
		coordination.InspectSemaphores, coordination.InspectSessions} {
		var err error
		if found[i], err = c.inspect(ctx, &coordination.Inspection{Kind: kind}); err != nil {
			return "", err
		}
	}
	var out strings.Builder
	for _, n := range found[0].Nodes {
		fmt.Fprintf(&out, "%s\n", n.Path)
		for _, sem := range found[1].Semaphores {
			if sem.Node == n.ID {
				dumpSemaphore(&out, &sem)
			}
		}
		for i, seen := range found[2].Sessions {
			if seen.Node == n.ID && !seen.Continued {
				dumpSession(&out, &seen, found[2].Standings[i].Attached)
			}
		}
	}
	return out.String(), nil
}

func dumpSemaphore(out *strings.Builder, sem *coordination.InspectedSemaphore) {
	if !sem.Continued {
		fmt.Fprintf(out, "  semaphore %q: %s of %s", sem.Name, amount(sem.Count), amount(sem.Limit))
		if sem.Ephemeral {
			out.WriteString(", ephemeral")
		}
		dumpData(out, sem.Data)
	}
	for _, l := range sem.Links {
		role := "waiter"
		if l.Owner {
			role = "owner"
		}
		fmt.Fprintf(out, "    %s: session %d, order id %d, %s", role, l.Session, l.Order, amount(l.Count))
		if !l.Owner && l.TimeoutMillis != coordination.Infinite {
			fmt.Fprintf(out, ", for %v", duration(l.TimeoutMillis))
		}
		dumpData(out, l.Data)
	}
}

// amount formats a count of tokens.
func amount(n uint64) string {
	if n == math.MaxUint64 {
		return "all"
	}
	return fmt.Sprint(n)
}

func dumpData(out *strings.Builder, data []byte) {
	if len(data) > 0 {
		fmt.Fprintf(out, ", %q", data)
	}
	out.WriteByte('\n')
}

func dumpSession(out *strings.Builder, seen *coordination.InspectedSession, attached bool) {
	fmt.Fprintf(out, "  session %d: timeout %v", seen.ID, duration(seen.TimeoutMillis))
	if seen.Description != "" {
		fmt.Fprintf(out, ", %q", seen.Description)
	}
	if !attached {
		out.WriteString(", without a client")
	}
	out.WriteByte('\n')
}
