package group

import (
	"context"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// MaxInspectedRows bounds the rows that Inspect visits, so that no request waits for a long listing.
const MaxInspectedRows = 256

// Inspected is the result of one turn's inspection.
type Inspected struct {
	coordination.Inspected
	// Standings are those of the sessions, in their order; nil unless this server leads.
	Standings []Standing
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
		found := Inspected{Inspected: c.replica.Machine().Inspect(q, from, rows)}
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
