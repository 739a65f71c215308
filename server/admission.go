package server

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme/outcome"
)

// diskFull refuses what would take more of a disk that is nearly full. A stream ends with it: SDKs overlook a bad status
// in a result, and would take the lock for acquired.
var diskFull = &coordination.Refusal{Status: outcome.Unavailable, Text: "The disk of the leading server is nearly full"}

// notYetReadable refuses a command that an older server of the cluster would not be able to read.
var notYetReadable = &coordination.Refusal{Status: outcome.Unavailable, Text: "Unsupported until every server of the cluster is upgraded"}

// formats is which commands this server can read, and with which version each came.
type formats struct {
	version uint64
	since   func(coordination.Command) uint64
}

var ownFormats = formats{codec.Version, codec.Since}

// allowedVersion is the newest version of commands that every server of the cluster can read. Before anything is known of
// the others it is the first.
func (g *group) allowedVersion() uint64 {
	if g.config.Cluster.ListenPeer == "" {
		return g.config.formats.version
	}
	return max(1, g.store.ClusterVersion())
}

// crowded tells whether what makes the state larger is refused: the disk of this server, which leads, is nearly full, and
// no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *group) crowded() bool { return g.store.Writable() != nil && !g.store.HandingOver() }

// restricted tells whether there is any command that is refused.
func (g *group) restricted() bool { return g.allowed < g.config.formats.version || g.crowded() }

// refusalOf is why a command must not be written at present, nil if it may.
func (g *group) refusalOf(c coordination.Command) *coordination.Refusal {
	switch {
	case g.config.formats.since(c) > g.allowed:
		return notYetReadable
	case g.crowded() && !shrinks(c):
		return diskFull
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

// turnAway ends the stream of an event that would become a command that is refused, and reports whether it did. There is
// a leader.
func (g *group) turnAway(e *event) bool {
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
	g.leader.TurnAway(g.clock.now(), e.id, refusal)
	return true
}
