package group

import (
	"fmt"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/group/slowest"
	"github.com/coordd/coordd/server/group/streams"
)

func (g *core) handleStore(e storeEvent) error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.leading != 0:
		g.replay.leads.Store(true)
		g.replica.Leading(coordination.Term(e.leading), g.store.Lineage())
	case e.following:
		g.replay.leads.Store(false)
		g.replica.Following()
		g.setLeader()
		g.uplink.Toward(e.term, e.leader)
		g.events.Lead(g.clock.WallMillis(), uint64(g.replica.Machine().Index()), e.term, e.leader)
	case e.restored > uint64(g.replica.Machine().Index()):
		// otherwise a later one was in its place already when it was loaded
		if err := g.restore(); err != nil {
			return err
		}
	case e.barrier&readBarrier != 0:
		g.committed.Store(max(e.index, g.committed.Load()))
		g.barriers = append(g.barriers, passedBarrier{e.barrier, e.index})
	case e.barrier != 0:
		g.replica.BarrierPassed(e.barrier)
	}
	for i := range e.entries {
		if err := g.apply(&e.entries[i], e.at); err != nil {
			return err
		}
		e.entries[i].Data, e.entries[i].Append = nil, nil
	}
	g.answerBarriers()
	if n := len(e.entries); n > 0 {
		g.reportApplied(e.entries[n-1].Index)
		g.applied.Store(uint64(g.replica.Machine().Index()))
		g.size.publish(g.replica.Machine())
		g.startCheckpoint()
	}
	return nil
}

// reportApplied says to the store that everything up to index is executed, and how many commands that were
// since the last time.
func (g *core) reportApplied(index uint64) {
	g.store.Applied(index, g.executed)
	g.executed = 0
}

// restore goes on with the state of another member that is stored now: that of the checkpoint which the log
// told of, or of a later one. The entries up to that may still come.
func (g *core) restore() error {
	machine, err := loadMachine(g.config, g.store)
	if err != nil {
		return err
	}
	skipped := g.replica.Machine().Index() + 1
	g.replica.Restored(machine)
	g.limiter.Restored(g.token, machine)
	machine.Observe() // what came as a whole has occurred before
	g.observeBehind = ^uint64(0)
	g.events.Add(max(g.clock.WallMillis(), machine.StampMillis()), []coordination.Occurrence{{
		Kind: coordination.OccurSkipped, Index: skipped, Before: uint64(machine.Index())}}, eventPlace{g})
	g.digestRestored()
	g.checkpoint = nil
	g.access.publish(machine)
	g.size.publish(machine)
	g.applied.Store(uint64(machine.Index()))
	return nil
}

// apply executes one entry. An entry that this program cannot read stops the server: it must not be skipped.
// A panic ends the turn, and the group with it, before anything of the entry is told to anybody: what is
// published comes behind the whole entry, what is said behind the whole turn.
func (g *core) apply(e *raftstore.Entry, committed coordination.Instant) error {
	if g.replica.Covered(coordination.Index(e.Index)) {
		return nil
	}
	g.entry.Index, g.entry.Term = coordination.Index(e.Index), coordination.Term(e.Term)
	if err := codec.DecodeEntry(e.Data, &g.entry); err != nil {
		return fmt.Errorf("entry %d of the log: %w", e.Index, err)
	}
	if g.config.Executing != nil {
		g.config.Executing(g.replica.Machine(), &g.entry)
	}
	g.executed += len(g.entry.Commands)
	before := g.replica.Reign()
	if before != 0 {
		g.inFlight -= len(e.Data)
	} else {
		g.leftOver -= min(g.leftOver, len(e.Data))
	}
	g.observe(e.Index)
	var timingOut []timingOut
	if g.debugs {
		timingOut = g.timingOut(&g.entry)
	}
	quiet := g.replica.IsQuiet()
	g.limiter.Applied(g.token, g.replica.Machine(), g.replica.Committed(g.clock.Now(), &g.entry))
	if quiet && !g.replica.IsQuiet() {
		g.quiet.Store(false)
	}
	g.tellTimedOut(timingOut)
	g.noteEvents()
	if g.entry.Marked() {
		g.checkpointAtMark()
	}
	clear(g.entry.Commands)
	g.replayed(g.entry.Index)
	g.access.publish(g.replica.Machine())
	if g.replica.Reign() != before {
		g.setLeader()
	}
	g.noteEntry(e)
	g.timeEntry(e, committed, before != 0 && e.Data != nil)
	return nil
}

// timeEntry keeps the times of an entry that was executed, for the requests that it answers. own reports whether this
// server has proposed it, with commands. The turn is held.
func (g *core) timeEntry(e *raftstore.Entry, committed coordination.Instant, own bool) {
	times := slowest.Entry{slowest.Commit: committed}
	if a := e.Append; a != nil {
		g.Slow.Wrote(a.Took, a.Syncing)
		times[slowest.Log] = g.clock.At(a.Begun)
		times[slowest.Sync] = times[slowest.Log] + coordination.Instant(a.Took)
		times[slowest.Write] = times[slowest.Sync] - coordination.Instant(a.Syncing)
	}
	if own && g.proposed.Next(&times) {
		times[slowest.Apply] = g.clock.Now()
		g.Slow.Put(e.Index, &times)
	}
}

// observe begins to collect events once what was in the log at the start is executed: that is no news. The
// turn is held.
func (g *core) observe(applied uint64) {
	if applied > g.observeBehind {
		g.replica.Machine().Observe()
		g.observeBehind = ^uint64(0)
	}
}

// noteEvents keeps what has occurred. The turn is held.
func (g *core) noteEvents() {
	occurred := g.replica.Machine().Occurred()
	if len(occurred) == 0 {
		return
	}
	now := uint64(0)
	for i := range occurred {
		if occurred[i].StampMillis == 0 { // few are: the clock is not asked for each entry
			now = g.clock.WallMillis()
			break
		}
	}
	g.events.Add(now, occurred, eventPlace{g})
}

// noteEntry keeps what only the log has: elections, and changes of the membership. The turn is held.
func (g *core) noteEntry(e *raftstore.Entry) {
	switch {
	case e.Data != nil || g.observeBehind != ^uint64(0):
	case e.Change == nil:
		g.events.Elected(g.clock.WallMillis(), coordination.Index(e.Index), e.Term, eventPlace{g})
	case e.Change.Act != "":
		g.events.Keep(g.clock.WallMillis(), &coordination.Occurrence{Kind: coordination.OccurAdministered,
			Index: coordination.Index(e.Index), Number: 1,
			More: &coordination.OccurrenceMore{Act: e.Change.Act, Target: e.Change.Member}}, eventPlace{g})
	}
}

// eventPlace is the state at an event. The turn is held.
type eventPlace struct{ *core }

// PathOfNode implements events.Where.
func (g eventPlace) PathOfNode(id coordination.NodeID) string {
	if path := g.replica.Machine().PathOfNode(id); path != nil {
		return path.String()
	}
	return ""
}

// TenantOf implements events.Where.
func (g eventPlace) TenantOf(id coordination.NodeID) string {
	if path := g.replica.Machine().PathOfNode(id); path != nil {
		return g.replica.Machine().Tree().TopOf(path)
	}
	return events.NoTenant
}

// PathOfTenant implements events.Where.
func (g eventPlace) PathOfTenant(name string) string {
	path := g.replica.Machine().Tree().Database()
	if name != "" && name != events.NoTenant {
		path = append(path, name)
	}
	return path.String()
}

// ClientOf implements events.Where.
func (g eventPlace) ClientOf(id coordination.NodeID, session coordination.SessionID) *coordination.Client {
	return g.replica.ClientOf(id, session)
}

// StampMillis implements events.Where.
func (g eventPlace) StampMillis() uint64 { return g.replica.Machine().StampMillis() }

// Leads implements events.Where.
func (g eventPlace) Leads() bool { return g.replica.Reign() != 0 }

// setLeader has the streams turn to the leader that the replica has now, or to none. Calls do so by
// themselves, once they have their answers.
func (g *core) setLeader() {
	g.Slow.Led(g.clock.Now())
	g.proposed = slowest.Proposals{}
	g.quiet.Store(false)
	g.inFlight, g.unsaid = 0, streams.Unsaid{}
	if g.link != nil {
		g.link.End()
		g.link = nil
	}
	reign := g.replica.Reign()
	if reign == 0 {
		g.streams.Follow(nil)
		return
	}
	g.link = streams.NewLocal(g.self, reign, g.replica.Term())
	g.streams.Follow(g.link)
	g.events.Lead(g.clock.WallMillis(), uint64(g.replica.Machine().Index()), uint64(g.replica.Term()), g.store.Member())
	g.uplink.Toward(uint64(g.replica.Term()), 0) // it wakes calls, which must find that this server leads
	g.markReady()
}

func (g *core) handle(e event) {
	switch c := e.call; {
	case c == nil:
		g.replica.Forward(g.clock.Now(), e.Reign, e.ID, e.Sink, e.Forward)
	case c.read == nil && (c.claimed.Swap(true) || g.refuses(c)): // its caller has gone, or has been refused
	case c.read == nil:
		g.replica.Call(g.clock.Now(), c, c.attempt.command, c.attempt.since, c.attempt.repeated)
	default:
		g.reads = append(g.reads, c)
	}
}

// refuses answers a call that is refused by what this server has applied, and reports whether it did: the call
// never comes into the log. Only a leader that a majority has confirmed lately has applied every change that
// was acknowledged, such as a permission. A repeated call may have been executed: the log has its outcome. The
// turn is held.
func (g *core) refuses(c *call) bool {
	if g.link == nil || c.attempt.repeated || !g.lease.MaySpeak() {
		return false
	}
	answer, refused := g.replica.Machine().Refusal(c.attempt.command)
	if refused {
		c.done <- callAnswer{outcome: answer}
	}
	return refused
}
