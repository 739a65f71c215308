package group

import (
	"context"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/streams"
)

// MaxInspectedRows bounds the rows that Inspect visits, so that no request waits for a long listing.
const MaxInspectedRows = 256

// Inspected is the result of one turn's inspection.
type Inspected struct {
	coordination.Inspected
	// Standings are those of the sessions, in their order; nil unless this server leads.
	Standings []Standing
	// WallMillis is the time of the turn by which locks are granted, since 1970.
	WallMillis uint64
}

// Standing is the leader's state of a session.
type Standing struct {
	// Attached reports whether a client has the session, by Stream on Server.
	Attached bool
	Server   uint64
	Stream   coordination.StreamID
	// DetachedMillis is the moment from which on no client has had it, in milliseconds since 1970, 0 if that was before
	// this reign; without a client it lives on for LeftMillis.
	DetachedMillis, LeftMillis uint64
}

// Inspect returns the part of q from a place on that one turn finds in the state that this server has applied. It
// visits the given number of rows, but not more than MaxInspectedRows.
func (g *Group) Inspect(ctx context.Context, q *coordination.Inspection, from coordination.InspectionPlace,
	rows int) (Inspected, error) {
	rows = min(rows, MaxInspectedRows)
	return captureCore(ctx, g, rows, func(c *core) Inspected {
		found := Inspected{Inspected: c.replica.Machine().Inspect(q, from, rows), WallMillis: c.clock.WallMillis()}
		if c.replica.Reign() == 0 {
			return found
		}
		found.Standings = make([]Standing, len(found.Sessions))
		for i := range found.Sessions {
			found.Standings[i] = c.standing(&found.Sessions[i])
		}
		return found
	})
}

// InspectSemaphore is an Inspect of one semaphore and the first of its links. It finds nothing if the semaphore does
// not exist.
func InspectSemaphore(ctx context.Context, g *Group, node scheme.Path, name string) (Inspected, error) {
	return captureCore(ctx, g, MaxInspectedRows, func(c *core) Inspected {
		m := c.replica.Machine()
		entry, _ := m.Tree().Lookup(node)
		found := Inspected{WallMillis: c.clock.WallMillis()}
		if row := m.FindSemaphore(entry.Node, name); row.ID != 0 {
			q := &coordination.Inspection{Kind: coordination.InspectSemaphores, Path: node, Semaphore: row.ID}
			found.Inspected = m.Inspect(q, coordination.InspectionPlace{}, MaxInspectedRows)
		}
		return found
	})
}

// ChildrenAfter captures a path, and up to MaxInspectedRows of what is directly below it with names after the given
// one, once this server is up to date.
func ChildrenAfter(ctx context.Context, g *Group, caller coordination.Caller, path scheme.Path,
	after string) (Described, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return Described{}, outcome.Outcome{}, err
	}
	return g.glance(ctx, caller, path, MaxInspectedRows+lineageRows, func(m *coordination.Machine) (d Described) {
		d.Lineage, d.Outcome = m.Tree().EntryToDescribe(path)
		d.Children = m.Tree().ChildrenAfter(path, after, MaxInspectedRows)
		return d
	})
}

// InspectSessionsOf finds those of the named sessions that exist, up to MaxInspectedRows of them, without their links.
func InspectSessionsOf(ctx context.Context, g *Group, nodes, sessions []uint64) (Inspected, error) {
	most := min(len(nodes), len(sessions), MaxInspectedRows)
	return captureCore(ctx, g, most, func(c *core) (found Inspected) {
		for i, node := range nodes[:most] {
			seen, there := coordination.InspectSession(c.replica.Machine(), coordination.NodeID(node),
				coordination.SessionID(sessions[i]))
			if !there {
				continue
			}
			found.Sessions = append(found.Sessions, seen)
			if c.replica.Reign() != 0 {
				found.Standings = append(found.Standings, c.standing(&seen))
			}
		}
		return found
	})
}

// standing returns the state of a session at the leader, which is here. The turn is held.
func (g *core) standing(s *coordination.InspectedSession) Standing {
	now := g.clock.Now()
	known, _ := g.replica.Standing(now, s.Node, s.ID)
	standing := Standing{Attached: known.Attached, LeftMillis: known.LeftMillis}
	if !known.Attached && known.Detached != coordination.Never {
		standing.DetachedMillis = g.clock.WallMillis() - uint64(time.Duration(now-known.Detached).Milliseconds())
	}
	if !known.Attached {
		return standing
	}
	sink, _ := g.replica.SinkOf(known.Stream)
	switch stream := sink.(type) {
	case *streams.Stream:
		standing.Server, standing.Stream = g.store.Member(), stream.ID()
	case *streams.RemoteStream:
		standing.Server, standing.Stream = stream.Where()
	}
	return standing
}

// ClientOf returns the client of a stream of this server, nil if the stream is not open any more.
func (g *Group) ClientOf(stream coordination.StreamID) streams.Client {
	if s := g.streams.Find(stream); s != nil {
		return s.Client()
	}
	return nil
}
