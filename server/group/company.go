package group

import (
	"cmp"
	"time"

	"github.com/coordd/coordd/coordination"
)

// companyPatience is how long commands that may wait (coordination.Leader.MayWait) do so for others that come
// with them to the log. Where clients hand a lock around, the last holder queues up again just when the next
// one has it, who will let go soon. With a write of its own for the queueing, the release would have to wait
// for the end of that write.
const companyPatience = 2 * time.Millisecond

// takeWork takes what the replica wants done, but leaves commands that may wait and have not waited long. The
// turn is held.
func (g *Group) takeWork() coordination.Work[*call] {
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
