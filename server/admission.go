package server

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// errDiskFull is the text with which a server refuses what would take more of a disk that is nearly full.
const errDiskFull = "The disk of the leading server is nearly full"

// diskFull is how a stream ends whose request cannot be placed: SDKs overlook a bad status in a result, and would take
// the lock for acquired.
var diskFull = &coordination.Refusal{Status: scheme.Unavailable, Text: errDiskFull}

// crowded tells whether what makes the state larger is refused: the disk of this server, which leads, is nearly full, and
// no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *group) crowded() bool { return g.store.Writable() != nil && !g.store.HandingOver() }

// turnAway ends the stream of an event that would make the state larger, and reports whether it did. Reading, releasing,
// deleting, stopping and taking up a session that is there go on. There is a leader.
func (g *group) turnAway(e *event) bool {
	switch {
	case e.forward.Attach != nil:
		if e.forward.Attach.Session != 0 {
			return false
		}
		g.sinks[e.id] = e.sink
	case e.forward.Request == nil || !enlarges(e.forward.Request.Kind):
		return false
	}
	g.leader.TurnAway(g.clock.now(), e.id, diskFull)
	return true
}

func enlarges(kind coordination.RequestKind) bool {
	switch kind {
	case coordination.RequestAcquire, coordination.RequestCreate, coordination.RequestUpdate:
		return true
	}
	return false
}

// shrinks tells whether a command about the path tree or users makes the state smaller.
func shrinks(c coordination.Command) bool {
	switch c.(type) {
	case *coordination.DropNode, *coordination.RemoveDirectory, *coordination.RemoveUser:
		return true
	}
	return false
}
