package group

import (
	"context"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// inside is the group as its parts use it.
type inside struct{ *Group }

// Kick implements streams.Core.
func (g inside) Kick() { g.kick() }

// Ring implements streams.Core.
func (g inside) Ring() { g.queue.bell.Ring() }

// Member implements streams.Core.
func (g inside) Member() uint64 { return g.store.Member() }

// Traced implements streams.Core.
func (g inside) Traced(attached *coordination.Message, trace string) {
	g.events.Trace(g.clock.WallMillis(), attached, trace)
}

// MaySpeak implements streams.Core.
func (g inside) MaySpeak() bool { return g.lease.MaySpeak() }

// Put implements streams.Core.
func (g inside) Put(s streams.Said) { g.queue.put(event{Said: s}) }

// IsMember implements streams.Core.
func (g inside) IsMember(server uint64) bool {
	_, is := g.store.Members().Find(server)
	return is || g.alone()
}

// Look implements limiter.Core.
func (g inside) Look(ctx context.Context, rows int, look func(*coordination.Machine)) error {
	_, err := capture(ctx, g.Group, rows, func(m *coordination.Machine) struct{} { look(m); return struct{}{} })
	return err
}

// Panicked implements limiter.Core.
func (g inside) Panicked(reason any) {
	g.turn.Lock()
	defer g.turn.Unlock()
	g.panicked(reason)
}
