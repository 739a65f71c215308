package group

import (
	"context"
	"log/slog"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
)

// At debug level the leader logs the sessions that expire: they have no stream whose log could show it.

// tellsTimeouts reports whether the log is at debug level, which does not change.
func tellsTimeouts(logger *slog.Logger) bool {
	return logger.Enabled(context.Background(), slog.LevelDebug)
}

// timingOut is a session that an entry may expire, and the path of its node, which the entry may drop as well.
type timingOut struct {
	*coordination.ExpireSession
	path string
}

// timingOut returns the sessions that an entry may expire. It is called before the entry is executed.
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

// tellTimedOut logs those that have expired. Others have been attached again in the last moment.
func (g *core) tellTimedOut(sessions []timingOut) {
	for _, c := range sessions {
		if !g.replica.Machine().HasSession(c.Node, c.Session) {
			g.logger.Debug("a session has ended: its time was up", "session", uint64(c.Session), "path",
				lograte.Cut(c.path), "node", uint64(c.Node))
		}
	}
}
