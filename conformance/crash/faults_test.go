//go:build linux

package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// fault is one thing that goes wrong with a cluster under load, and is over when run returns: all servers run
// again and can reach each other.
type fault struct {
	name string
	run  func(*exercise) error
}

// faults are all kinds, in the order of the short form's choice.
func faults() []fault {
	return []fault{
		{"kill -9 the leader", func(x *exercise) error { return x.killServer(x.leader) }},
		{"SIGTERM the leader", func(x *exercise) error { return x.terminateServer(x.leader) }},
		{"pause the leader", func(x *exercise) error { return x.pauseServer(x.leader) }},
		{"cut the leader off", func(x *exercise) error { return x.cutServer(x.leader) }},
		{"kill -9 a follower", func(x *exercise) error { return x.killServer(x.follower()) }},
		{"pause a follower", func(x *exercise) error { return x.pauseServer(x.follower()) }},
		{"cut a follower off", func(x *exercise) error { return x.cutServer(x.follower()) }},
		{"cut what the leader sends", func(x *exercise) error {
			a, b := others(x.leader)
			return x.cutWays(x.leader, oneWayMode, way{x.leader, a}, way{x.leader, b})
		}},
		{"cut what the leader hears", func(x *exercise) error {
			a, b := others(x.leader)
			return x.cutWays(x.leader, oneWayMode, way{a, x.leader}, way{b, x.leader})
		}},
		{"cut what a follower sends", func(x *exercise) error {
			f := x.follower()
			a, b := others(f)
			return x.cutWays(f, oneWayMode, way{f, a}, way{f, b})
		}},
		{"cut what a follower hears", func(x *exercise) error {
			f := x.follower()
			a, b := others(f)
			return x.cutWays(f, oneWayMode, way{a, f}, way{b, f})
		}},
		{"cut the leader from one follower", func(x *exercise) error {
			f := x.follower()
			return x.cutWays(f, anyMode, between(x.leader, f)...)
		}},
		{"cut one way from the leader to one follower", func(x *exercise) error {
			f := x.follower()
			return x.cutWays(f, oneWayMode, way{x.leader, f})
		}},
		{"cut one way from one follower to the leader", func(x *exercise) error {
			f := x.follower()
			return x.cutWays(f, oneWayMode, way{f, x.leader})
		}},
		{"cut the followers from each other", func(x *exercise) error {
			a, b := others(x.leader)
			return x.cutWays(-1, anyMode, between(a, b)...)
		}},
		{"kill -9 all servers", (*exercise).killAll},
		{"restart all servers one after the other", (*exercise).rollingRestart},
		{"leave a follower behind the log's start", (*exercise).leaveBehind},
		{"replace a follower", (*exercise).replace},
	}
}

func anyMode(r *rand.Rand) cutMode    { return []cutMode{hold, swallow, reset}[r.IntN(3)] }
func oneWayMode(r *rand.Rand) cutMode { return []cutMode{hold, swallow}[r.IntN(2)] }

func (x *exercise) follower() int {
	a, b := others(x.leader)
	return []int{a, b}[x.random.IntN(2)]
}

// dwell is how long a fault goes on once the others have been seen to work.
func (x *exercise) dwell() time.Duration {
	return time.Duration(x.random.Int64N(x.dwellMost.Nanoseconds()))
}

// endure waits until the servers that are well have gone on with their work, and a little longer.
func (x *exercise) endure(victims ...int) error {
	if err := x.progress(victims...); err != nil {
		return err
	}
	time.Sleep(x.dwell()) // how long the fault lasts
	return nil
}

func (x *exercise) killServer(i int) error {
	x.hits(i)
	x.kill(i)
	if err := x.endure(i); err != nil {
		return err
	}
	return x.start(i)
}

func (x *exercise) terminateServer(i int) error {
	x.hits(i)
	if err := x.terminate(i); err != nil {
		return err
	}
	if err := x.endure(i); err != nil {
		return err
	}
	return x.start(i)
}

// pauseServer stops a process for a while. Its clients go elsewhere if that takes too long for them.
func (x *exercise) pauseServer(i int) error {
	x.hits(i)
	pause := time.Second + time.Duration(x.random.Int64N(x.pauseMost.Nanoseconds()))
	x.note("for %v", pause.Round(time.Millisecond))
	p := x.process(i)
	if err := p.Pause(); err != nil {
		return err
	}
	time.Sleep(pause) // the fault itself
	err := x.progress(i)
	return errors.Join(err, p.Resume())
}

func (x *exercise) cutServer(i int) error {
	a, b := others(i)
	return x.cutWays(i, anyMode, append(between(i, a), between(i, b)...)...)
}

// cutWays cuts ways and heals them. The clients of one server may lose their streams; -1: of none.
func (x *exercise) cutWays(victim int, choose func(*rand.Rand) cutMode, ways ...way) error {
	mode := choose(x.random)
	x.note("%s, server %d: %v", mode, victim, ways)
	victims := []int{victim}
	if victim < 0 {
		victims = nil
	}
	x.hits(victims...)
	x.network.cut(mode, ways...)
	err := x.endure(victims...)
	x.network.heal()
	return errors.Join(err, x.await("the servers open other connections", x.network.replaced))
}

func (x *exercise) killAll() error {
	x.hits(0, 1, 2)
	var killing sync.WaitGroup
	for i := range servers {
		killing.Go(func() { x.kill(i) })
	}
	killing.Wait()
	return x.startAll()
}

// rollingRestart stops and starts every server in good order. Sessions must outlive it.
func (x *exercise) rollingRestart() error {
	expired := x.expired()
	for i := range servers {
		x.hits(i)
		if err := x.terminate(i); err != nil {
			return err
		}
		if err := x.progress(i); err != nil {
			return fmt.Errorf("without server %d: %w", i, err)
		}
		if err := x.start(i); err != nil {
			return err
		}
		if _, err := x.awaitLeader(x.ctx); err != nil {
			return err
		}
		if err := x.settle(); err != nil {
			return fmt.Errorf("after server %d was restarted: %w", i, err)
		}
	}
	if now := x.expired(); now != expired {
		return fmt.Errorf("%d sessions were lost", now-expired)
	}
	return nil
}

// replace has a new server with an empty directory take the place of one whose disk is lost, as
// docs/cluster.md says.
func (x *exercise) replace() error {
	f := x.follower()
	x.hits(f)
	x.kill(f)
	if err := x.progress(f); err != nil {
		return err
	}
	if err := x.command("remove", x.names[f]); err != nil {
		return err
	}
	if err := x.command("add", x.names[f], x.peerAddress(f)); err != nil {
		return err
	}
	x.replaced[f]++
	if err := x.start(f); err != nil {
		return err
	}
	return x.command("promote", x.names[f], "--wait")
}

// leaveBehind pauses a follower while more is written than the log keeps, so that it needs a checkpoint.
func (x *exercise) leaveBehind() error { return x.leaveServerBehind(x.follower()) }

func (x *exercise) leaveServerBehind(f int) error {
	x.hits(f)
	before := x.logged(f, tookCheckpoint)
	p := x.process(f)
	if err := p.Pause(); err != nil {
		return err
	}
	err := errors.Join(x.fill(x.leader), x.progress(f))
	if err = errors.Join(err, p.Resume()); err != nil {
		return err
	}
	return x.await("the follower takes a checkpoint",
		func() bool { return x.logged(f, tookCheckpoint) > before })
}

// tookCheckpoint is what a server logs when it has installed a checkpoint of another.
const tookCheckpoint = "took over a checkpoint"
