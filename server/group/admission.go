package group

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme/outcome"
)

// DiskFull refuses what would take more of a disk that is nearly full. A stream ends with it: SDKs overlook a bad
// status in a result, and would take the lock for acquired.
var DiskFull = &coordination.Refusal{Status: outcome.Unavailable, Text: "The disk of the leading server is nearly full"}

// NotYetReadable refuses a command that an older server of the cluster would not be able to read.
var NotYetReadable = &coordination.Refusal{Status: outcome.Unavailable, Text: "Unsupported until every server of the cluster is upgraded"}

// Formats is which commands a program can read.
type Formats struct {
	// Version is the newest version of commands that it knows.
	Version uint64
	// Since says with which version a command came.
	Since func(coordination.Command) uint64
}

// OwnFormats are those of this program.
var OwnFormats = Formats{codec.Version, codec.Since}

// allowedVersion is the newest version of commands that every server of the cluster can read. Before anything is
// known of the others it is the first.
func (g *Group) allowedVersion() uint64 {
	if g.alone() {
		return g.config.Formats.Version
	}
	return max(1, g.store.ClusterVersion())
}

// Crowded tells whether what makes the state larger is refused: the disk of this server, which leads, is nearly full,
// and no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *Group) Crowded() bool { return g.store.Writable() != nil && !g.store.HandingOver() }

// restricted tells whether there is any command that is refused.
func (g *Group) restricted() bool { return g.allowed < g.config.Formats.Version || g.Crowded() }

// refusalOf is why a command must not be written at present, nil if it may.
func (g *Group) refusalOf(c coordination.Command) *coordination.Refusal {
	switch {
	case g.config.Formats.Since(c) > g.allowed:
		return NotYetReadable
	case g.Crowded() && !shrinks(c):
		return DiskFull
	}
	return nil
}

// shrinks tells whether a command makes the state smaller, or is needed for one that does.
func shrinks(c coordination.Command) bool {
	switch c := c.(type) {
	case *coordination.Attach:
		return c.Session != 0
	case *coordination.ReleaseSemaphore, *coordination.DeleteSemaphore, *coordination.StopSession,
		*coordination.DropNode, *coordination.RemoveDirectory, *coordination.RemoveUser:
		return true
	}
	return false
}

// requestCommands is what requests of a stream become. A describe becomes none.
var requestCommands = map[coordination.RequestKind]coordination.Command{
	coordination.RequestAcquire: &coordination.AcquireSemaphore{},
	coordination.RequestRelease: &coordination.ReleaseSemaphore{},
	coordination.RequestCreate:  &coordination.CreateSemaphore{},
	coordination.RequestUpdate:  &coordination.UpdateSemaphore{},
	coordination.RequestDelete:  &coordination.DeleteSemaphore{},
	coordination.RequestStop:    &coordination.StopSession{},
}

// turnAway ends the stream of an event that would become a command that is refused, and reports whether it did. There
// is a leader.
func (g *Group) turnAway(e *event) bool {
	var command coordination.Command
	switch {
	case e.forward.Attach != nil:
		command = &coordination.Attach{Session: e.forward.Attach.Session}
	case e.forward.Request != nil:
		command = requestCommands[e.forward.Request.Kind]
	}
	if command == nil {
		return false
	}
	refusal := g.refusalOf(command)
	if refusal == nil {
		return false
	}
	g.sinks[e.id] = e.sink
	g.leader.TurnAway(g.clock.Now(), e.id, refusal)
	return true
}
