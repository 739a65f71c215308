package group

import (
	"cmp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// carryOut does what the replica wants: commands first, so that the disk is at work while messages go out.
func (g *core) carryOut() {
	work := g.takeWork()
	if len(work.Commands) > 0 {
		entries := g.entries(work.Commands)
		clear(work.Commands)
		for _, e := range entries {
			g.inFlight += len(e)
		}
		g.store.Propose(uint64(g.replica.Term()), entries)
	}
	if work.Barrier != 0 {
		g.store.ReadIndex(work.Barrier)
	}
	g.say(work)
}

// companyPatience is how long commands that may wait (coordination.Leader.MayWait) do so for others that come
// with them to the log. Where clients hand a lock around, the last holder queues up again just when the next
// one has it, who will let go soon. With a write of its own for the queueing, the release would have to wait
// for the end of that write.
const companyPatience = 2 * time.Millisecond

// takeWork takes what the replica wants done, but leaves commands that may wait and have not waited long. The
// turn is held.
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

// say hands on what is to be told to streams and to those who wait for calls. The turn is held.
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

// answerBarriers lets those go on whose index is applied. The turn is held.
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

// answerReads lets those have their look that this turn has room for, and leaves the others to the next one.
// The turn is held.
func (g *core) answerReads() {
	done, rows := 0, 0
	for ; done < len(g.reads) && (done == 0 || rows+g.reads[done].rows <= maxReadRows); done++ {
		c := g.reads[done]
		if c.claimed.Swap(true) { // nobody waits for it any more
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

// The ways in which a leader does not answer a command. They travel between servers as they are.
var (
	// errLeaderGone: nobody here knows what becomes of the command.
	errLeaderGone = status.Error(codes.Aborted, "The leader changed while the command was under way")
)

// callErrors are what those who wait make of a call's end.
var callErrors = [...]error{
	coordination.CallAnswered: nil,
	coordination.CallNotLed:   streams.ErrNotLeading,
	coordination.CallLost:     errLeaderGone,
}
