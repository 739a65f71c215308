package history

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/group/events"
)

// endsLogged bounds the ends of sessions of a node that have lines of their own in a second. Of more, one line names as
// many.
const endsLogged = 3

// nodesLogged bounds the nodes whose ends are logged in a second. One line stands for the rest.
const nodesLogged = 16

var endTexts = map[coordination.OccurrenceKind]string{
	coordination.OccurSessionExpired: "expired", coordination.OccurSessionStopped: "stopped by its client",
	coordination.OccurSessionEnded: "ended by an administrator",
}

// report logs the events of a second that this server saw as the leader: sessions that ended while they held or awaited
// something, and changes of the data of persistent semaphores.
func report(logger *slog.Logger, taken []events.Rare) {
	type ends struct {
		path  string
		list  []*events.Rare
		count uint64
	}
	var order []*ends
	nodes := make(map[string]*ends)
	for i := range taken {
		e := &taken[i]
		switch {
		case !e.Led:
		case changeTexts[e.Kind] != "" && (e.Session != 0 || e.SumsKind):
			logChange(logger, e) // the server that had a call audits it
		case endTexts[e.Kind] != "" && e.More.Held+e.More.Awaited > 0:
			n := nodes[e.More.Path]
			if n == nil {
				n = &ends{path: e.More.Path}
				nodes[e.More.Path] = n
				order = append(order, n)
			}
			if n.count += 1 + e.Skipped; e.Node != 0 {
				n.list = append(n.list, e)
			}
		}
	}
	for at, n := range order {
		if at == nodesLogged {
			rest := uint64(0)
			for _, n := range order[at:] {
				rest += n.count
			}
			logger.Info("sessions of more nodes have ended with locks or waits", "nodes", len(order)-at,
				"sessions", rest)
			return
		}
		if n.count <= endsLogged && len(n.list) > 0 {
			for _, e := range n.list {
				logEnd(logger, e)
			}
			continue
		}
		var first []string
		for _, e := range n.list[:min(endsLogged, len(n.list))] {
			more := e.More
			first = append(first, fmt.Sprintf("%d %q %s", e.Session, lograte.Printable(more.Description, 32),
				endTexts[e.Kind]))
		}
		logger.Info("sessions have ended with locks or waits", "path", lograte.Cut(n.path), "sessions", n.count,
			"first", strings.Join(first, ", "))
	}
}

func logEnd(logger *slog.Logger, e *events.Rare) {
	more := e.More
	names := make([]string, len(more.Names))
	for i, name := range more.Names {
		names[i] = lograte.Printable(name, maxTextBytes)
	}
	fields := []any{"path", lograte.Cut(more.Path), "session", uint64(e.Session), "why", endTexts[e.Kind],
		"description", lograte.Cut(more.Description)}
	fields = append(fields, clientFields(&more.Client)...)
	if more.Client.Lost != 0 {
		fields = append(fields, "silent_ms", more.Client.SilentMillis)
	}
	if e.Kind == coordination.OccurSessionEnded {
		fields = append(fields, "by", lograte.Cut(more.User), "reason", lograte.Cut(more.Reason))
	}
	logger.Info("a session has ended with locks or waits", append(fields, "held", more.Held, "awaited", more.Awaited,
		"semaphores", strings.Join(names, ", "))...)
}

var changeTexts = map[coordination.OccurrenceKind]string{
	coordination.OccurDataChanged:      "data of a semaphore was changed",
	coordination.OccurSemaphoreCreated: "a semaphore was created",
	coordination.OccurSemaphoreDeleted: "a semaphore was deleted",
}

// logChange is the audit line of a change of configuration.
func logChange(logger *slog.Logger, e *events.Rare) {
	if e.SumsKind { // by any session or call, of any semaphore
		logger.Info("semaphores were changed", "path", lograte.Cut(e.More.Path), "what", changeTexts[e.Kind],
			"changes", 1+e.Skipped)
		return
	}
	fields := []any{"path", lograte.Cut(e.More.Path), "semaphore", lograte.Cut(e.Semaphore), "session",
		uint64(e.Session)}
	fields = append(fields, clientFields(&e.More.Client)...)
	logger.Info(changeTexts[e.Kind], append(fields, "bytes_before", e.Before, "bytes", e.Count,
		"changes", 1+e.Skipped)...)
}

func clientFields(c *coordination.Client) []any {
	if c.Peer == "" {
		return []any{"from", "unknown since the leader changed"}
	}
	return []any{"user", lograte.Cut(c.User), "from", c.Peer, "sdk", c.Library}
}
