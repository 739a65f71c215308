package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/conformance/sim/client"
	"github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/server/adminpb"
)

// heal ends all faults: connections carry again, all members run, and servers that have lost their data are replaced as
// docs/cluster.md says.
func (w *World) heal() {
	w.do(func() {
		w.note("heal")
		w.healed, w.healedAt = true, w.trace.Now()
		for _, p := range w.neighbours {
			p.Kill()
		}
		w.net.Heal()
		for _, s := range w.servers {
			s.disk.Set(func(f *disk.Faults) { *f = disk.Faults{} })
			s.disk.Trigger(0, "", nil)
			if l := s.life; l != nil {
				l.frozen = 0
				l.goOn()
			}
			switch {
			case s.ruined != "":
				w.change(s, func(ctx context.Context) error { return w.replace(ctx, s) })
			case s.life == nil && s.member != absent:
				w.boot(s)
			}
		}
	})
	go w.upgrade()
}

// upgrade ends an upgrade that has begun, one server after the other: before that servers refuse what older ones cannot
// read.
func (w *World) upgrade() {
	for _, s := range w.servers {
		for old := true; old && w.over.Err() == nil; time.Sleep(100 * time.Millisecond) {
			w.do(func() {
				s.version = 0
				l := s.life
				if old = l != nil && l.version != 0 && s.member != absent; old {
					w.shut(l, 0)
				}
			})
		}
	}
}

// replace removes a server whose data is gone, and adds it again.
func (w *World) replace(ctx context.Context, s *server) error {
	w.note("replace %s: %s", s.name, s.ruined)
	if err := w.add(ctx, s, s.index+1); err != nil {
		return err
	}
	return w.promote(ctx, s, s.index+1)
}

// stepsAfterHealing is the number of steps that each client has to make within Plan.Settle.
const stepsAfterHealing = 2

// awaitLife waits until all clients are served again.
func (w *World) awaitLife() {
	healed := time.Now()
	begun := make([]int, len(w.clients))
	for i, c := range w.clients {
		begun[i] = c.Steps()
	}
	for {
		late := slices.IndexFunc(w.clients, func(c *client.Client) bool {
			return c.Steps() < begun[c.Number()]+stepsAfterHealing && !c.Idle()
		})
		if late < 0 {
			w.trace.Note("live again after %v", time.Since(healed))
			return
		}
		if time.Since(healed) > w.plan.Settle.Std() {
			w.do(func() {
				w.violation("client %d (%s) has made %d steps in %v after all faults had ended", late,
					w.plan.Clients[late].Kind, w.clients[late].Steps()-begun[late], w.plan.Settle)
			})
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// agreePatience bounds the time until servers have executed the same entries, once clients are quiet.
const agreePatience = 30 * time.Second

// finish ends the clients and waits until all members have executed the same.
func (w *World) finish() {
	if w.sdk != nil {
		w.sdk.finish()
	}
	w.inside.stop()
	for _, stop := range w.stops {
		stop()
	}
	for _, c := range w.clients {
		c.Wait()
	}
	w.agree()
	steps := 0
	for _, c := range w.clients {
		steps += c.Steps()
	}
	w.counts["steps"] = int64(steps)
	w.counts["entries"] = int64(len(w.inside.entries))
	w.note("end: %s", fmt.Sprint(w.applied()))
}

// agree waits until all members have executed the same.
func (w *World) agree() {
	quiet := time.Now()
	for {
		applied := w.applied()
		if len(slices.Compact(slices.Clone(applied))) <= 1 {
			return
		}
		if time.Since(quiet) > agreePatience {
			w.do(func() { w.violation("members have executed different entries at the end: %v", applied) })
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// applied returns what the members have executed that run.
func (w *World) applied() []uint64 {
	var lives []*life
	w.do(func() {
		for _, s := range w.servers {
			if s.serves() {
				lives = append(lives, s.life)
			}
		}
	})
	var applied []uint64
	for _, l := range lives {
		applied = append(applied, l.applied())
	}
	return applied
}

// applied returns the last entry that a server has executed, 0 if it does not answer.
func (l *life) applied() (index uint64) {
	if l.group != nil {
		return l.group.Log().AppliedIndex()
	}
	_ = l.world.administer(context.Background(), l.server, func(ctx context.Context, c adminpb.ClusterClient) error {
		status, err := c.Status(ctx, &adminpb.ClusterStatusRequest{})
		index = status.GetApplied()
		return err
	})
	return index
}
