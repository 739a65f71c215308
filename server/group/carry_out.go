package group

import (
	"cmp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// carryOut does the work that the replica wants done: commands first, so that the disk is at work while messages go
// out. The turn is held.
func (g *core) carryOut() {
	work := g.takeWork()
	if len(work.Commands) > 0 {
		entries := g.entries(work.Commands)
		clear(work.Commands)
		for _, e := range entries {
			g.inFlight += len(e)
		}
		g.proposed.Add(len(entries), g.begun, g.clock.Now())
		g.store.Propose(uint64(g.replica.Term()), entries)
	}
	if work.Barrier != 0 {
		g.store.ReadIndex(work.Barrier)
	}
	g.say(work)
}

// companyPatience bounds the time for which commands that may wait (coordination.Leader.MayWait) wait for others to
// share their entry. Where clients hand a lock around, the last holder queues up again just when the next one has got
// it and will release it soon: a write for the queueing alone would delay the release until its end.
const companyPatience = 2 * time.Millisecond

// takeWork takes the replica's work, but leaves commands that may wait and have not waited long. The turn is held.
func (g *core) takeWork() coordination.Work[*call] {
	if g.replica.MayWait() {
		now, patience := g.shell.Now(), cmp.Or(g.config.patience, companyPatience)
		g.companyUntil = min(g.companyUntil, now+coordination.Instant(patience))
		if now < g.companyUntil {
			return g.replica.TakeAllButCommands()
		}
	}
	g.companyUntil = coordination.Never
	return g.replica.Take()
}

// say hands messages to streams and answers to calls. The turn is held.
func (g *core) say(work coordination.Work[*call]) {
	g.unsaid.Say(g.link, work.Messages, g.replica)
	if g.unsaid.Length() > 0 {
		g.queue.bell.Ring()
	}
	for i := range work.Answers {
		a := &work.Answers[i]
		a.Waiter.done <- callAnswer{outcome: a.Outcome, err: callErrors[a.End]}
		*a = coordination.Answer[*call]{}
	}
}

// answerBarriers wakes the reads whose read index has been applied. The turn is held.
func (g *core) answerBarriers() {
	kept := g.barriers[:0]
	for _, b := range g.barriers {
		if b.index <= uint64(g.replica.Machine().Index()) {
			g.readIndex(g.rounds.pass(b.id))
		} else {
			g.rounds.answer(b.id)
			kept = append(kept, b)
		}
	}
	g.barriers = kept
}

// answerReads runs as many reads as this turn has room for, and leaves the others to the next one. The turn is held.
func (g *core) answerReads() {
	done, rows := 0, 0
	for ; done < len(g.reads) && (done == 0 || rows+g.reads[done].rows <= maxReadRows); done++ {
		c := g.reads[done]
		if c.claimed.Swap(true) { // its caller has gone
			continue
		}
		rows += c.rows
		c.done <- callAnswer{outcome: c.read(g)}
	}
	left := copy(g.reads, g.reads[done:])
	clear(g.reads[left:])
	if g.reads = g.reads[:left]; left > 0 {
		g.queue.bell.Ring()
	}
}

// errLeaderGone reports that a leader had a command and lost the leadership: the command may or may not be executed.
// Like streams.ErrNotLeading, by which it is known that it will not be, it travels between servers as it is.
var errLeaderGone = status.Error(codes.Aborted, "The leader changed while the command was under way")

// callErrors are the errors that the callers get, by the end of the call.
var callErrors = [...]error{
	coordination.CallAnswered: nil,
	coordination.CallNotLed:   streams.ErrNotLeading,
	coordination.CallLost:     errLeaderGone,
}
