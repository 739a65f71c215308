package group

import (
	"context"
	"log/slog"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
)

// For whoever debugs, the leader tells of the sessions whose time was up: no stream of theirs is there to
// tell.

// tellsTimeouts reports whether anybody wants to know; the level of a log does not change.
func tellsTimeouts(logger *slog.Logger) bool {
	return logger.Enabled(context.Background(), slog.LevelDebug)
}

// timingOut is a session that an entry may end, and where its node is: the entry may drop that as well.
type timingOut struct {
	*coordination.ExpireSession
	path string
}

// timingOut are the sessions that an entry may end because their time is up. It is asked before the entry is
// executed.
func (g *core) timingOut(e *coordination.Entry) (found []timingOut) {
	if g.replica.Reign() == 0 {
		return nil
	}
	for _, command := range e.Commands {
		if c, ok := command.(*coordination.ExpireSession); ok &&
			g.replica.Machine().HasSession(c.Node, c.Session) {
			found = append(found, timingOut{c, g.replica.Machine().PathOfNode(c.Node).String()})
		}
	}
	return found
}

// tellTimedOut tells of those that have ended with it. Others have been attached again in the last moment.
func (g *core) tellTimedOut(sessions []timingOut) {
	for _, c := range sessions {
		if !g.replica.Machine().HasSession(c.Node, c.Session) {
			g.logger.Debug("a session has ended: its time was up", "session", uint64(c.Session), "path",
				lograte.Cut(c.path), "node", uint64(c.Node))
		}
	}
}
