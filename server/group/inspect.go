package group

import (
	"context"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// MaxInspectedRows is how many rows Inspect looks at, so that nobody's requests wait for somebody's listing.
const MaxInspectedRows = 256

// Inspected is what one turn found.
type Inspected struct {
	coordination.Inspected
	// Standings are those of the sessions, in their order; nil unless this server leads.
	Standings []Standing
}

// Standing is what the leader knows of a session.
type Standing struct {
	// Attached tells that a client has it. Its stream is Stream on Server.
	Attached bool
	Server   uint64
	Stream   coordination.StreamID
	// DetachedMillis is since when no client has it, in milliseconds since 1970, 0 if that was before this
	// leader; it lives on for LeftMillis if that stays so.
	DetachedMillis, LeftMillis uint64
}

// Inspect returns what one turn finds of q from a place on, by looking at so many rows: MaxInspectedRows or
// fewer. It is as of what this server has applied.
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

// standing is how a session stands with the leader here. The turn is held.
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

// ClientOf is the client of a stream of this server, nil if the stream is not open any more.
func (g *Group) ClientOf(stream coordination.StreamID) streams.Client {
	if s := g.streams.Find(stream); s != nil {
		return s.Client()
	}
	return nil
}
