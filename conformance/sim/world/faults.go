package world

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/rt"
)

// Why a server may end, or may not come back with its data.
const (
	diskFailed = "its disk failed"
	rotten     = "a bit of its data was turned"
	wiped      = "its directory was emptied"
)

// happen makes an event happen.
func (w *World) happen(e plan.Event) {
	w.do(func() {
		w.counts["fault "+string(e.Kind)]++
		w.note("event %s server %d other %d all %v for %v n %d share %v", e.Kind, e.Server, e.Other, e.All, e.For, e.N,
			e.Share)
		targets := w.servers
		if !e.All {
			targets = w.servers[e.Server : e.Server+1]
		}
		for _, s := range targets {
			w.befall(s, w.servers[e.Other], e)
		}
	})
}

// befall makes an event happen to a server. The lock is held, here and below.
func (w *World) befall(s, other *server, e plan.Event) {
	switch e.Kind {
	case plan.Cut, plan.OneWay, plan.Partial, plan.Isolate, plan.Reset, plan.ResetOne, plan.HalfOpen, plan.Delay,
		plan.SlowLink:
		w.breakNetwork(s, other, e)
	case plan.CrashAt, plan.EIO, plan.ENOSPC, plan.ShortWrite, plan.LowSpace, plan.SlowSync, plan.FreezeSync:
		if s.life != nil {
			w.breakDisk(s.life, e)
		}
	case plan.Remove:
		w.change(s, func(ctx context.Context) error { return w.remove(ctx, s, e.Other) })
	case plan.Add:
		w.change(s, func(ctx context.Context) error { return w.addIfAbsent(ctx, s, e) })
	case plan.Promote:
		w.change(s, func(ctx context.Context) error { return w.promote(ctx, s, e.Other) })
	case plan.Transfer:
		w.disturb()
		w.change(s, func(ctx context.Context) error { return w.transfer(ctx, s) })
	default:
		if s.life != nil {
			w.breakProcess(s, e)
		}
	}
}

// breakNetwork makes an event of the network happen.
func (w *World) breakNetwork(s, other *server, e plan.Event) {
	switch e.Kind {
	case plan.Cut:
		w.cut(e.For, s.host, other.host)
		w.cut(e.For, other.host, s.host)
	case plan.OneWay:
		w.cut(e.For, s.host, other.host)
	case plan.Partial:
		w.divide(s, e)
	case plan.Isolate:
		for _, host := range w.hosts() {
			if host != s.host {
				w.cut(e.For, s.host, host)
				w.cut(e.For, host, s.host)
			}
		}
	case plan.Reset:
		w.disturb()
		w.net.Reset(s.host, -1)
	case plan.ResetOne:
		w.disturb()
		w.net.Reset(s.host, int(e.N))
	case plan.HalfOpen:
		w.disturb()
		w.net.Silence(s.host)
	case plan.Delay:
		w.slow(s, other, e, time.Duration(e.N)*time.Millisecond, 0)
	case plan.SlowLink:
		w.slow(s, other, e, 0, e.N)
	}
}

// cut stops what one host sends to another, for a while.
func (w *World) cut(d plan.Duration, from, to string) {
	if from == to {
		return
	}
	w.net.Cut(from, to, true)
	w.after(d, func() { w.net.Cut(from, to, false) })
}

// after is later, but for the event that lasts to the end.
func (w *World) after(d plan.Duration, f func()) {
	if d > 0 {
		w.later(d.Std(), f)
	}
}

// divide partitions a set of servers from the others; one server still reaches all.
func (w *World) divide(bridge *server, e plan.Event) {
	for i, a := range w.servers {
		for j, b := range w.servers {
			if a != bridge && b != bridge && e.N>>i&1 != e.N>>j&1 {
				w.cut(e.For, a.host, b.host)
			}
		}
	}
}

func (w *World) slow(s, other *server, e plan.Event, extra time.Duration, perSecond int64) {
	both := func(extra time.Duration, perSecond int64) {
		w.net.Slow(s.host, other.host, extra, perSecond)
		w.net.Slow(other.host, s.host, extra, perSecond)
	}
	both(extra, perSecond)
	w.after(e.For, func() { both(0, 0) })
}

// hosts returns all hosts except the administrators'.
func (w *World) hosts() []string {
	hosts := []string{sharedHost}
	for _, s := range w.servers {
		hosts = append(hosts, s.host)
	}
	for _, c := range w.clients {
		hosts = append(hosts, c.Host())
	}
	return hosts
}

// breakDisk makes an event of the disk happen.
func (w *World) breakDisk(l *life, e plan.Event) {
	s := l.server
	comeback := max(e.For.Std(), time.Millisecond)
	switch e.Kind {
	case plan.CrashAt:
		s.disk.Trigger(e.N, "", func(rt.Op) (int, error) {
			w.do(func() {
				if s.life == l {
					w.cutPower(s, disk.Loss{Share: e.Share, Torn: true})
					w.bootAfter(comeback, s)
				}
			})
			select {} // nothing of the server runs any more
		})
	case plan.EIO:
		l.comeback = comeback
		s.disk.Trigger(e.N, "", func(rt.Op) (int, error) { return 0, syscall.EIO })
	case plan.ShortWrite:
		l.comeback = comeback
		s.disk.Trigger(e.N, rt.Write, func(rt.Op) (int, error) { return int(e.N), syscall.ENOSPC })
	case plan.ENOSPC:
		l.comeback = comeback
		s.disk.Set(func(f *disk.Faults) { f.Full = true })
		w.after(e.For, func() { s.disk.Set(func(f *disk.Faults) { f.Full = false }) })
	case plan.LowSpace:
		s.disk.Set(func(f *disk.Faults) { f.Free = max(e.N, 1) })
		w.after(e.For, func() { s.disk.Set(func(f *disk.Faults) { f.Free = 0 }) })
	case plan.SlowSync:
		s.disk.Set(func(f *disk.Faults) { f.Sync = time.Duration(e.N) * time.Millisecond })
		w.after(e.For, func() { s.disk.Set(func(f *disk.Faults) { f.Sync = 0 }) })
	case plan.FreezeSync:
		s.disk.Trigger(1, rt.Sync, func(rt.Op) (int, error) {
			w.do(func() { w.freeze(l, e.For) })
			return 0, nil
		})
	}
}

// breakProcess makes an event of a running process, or of its machine, happen.
func (w *World) breakProcess(s *server, e plan.Event) {
	l := s.life
	switch e.Kind {
	case plan.Freeze:
		w.freeze(l, e.For)
	case plan.Clock:
		s.clockPPM = e.N
		rt.SetRate(l.node, e.N)
	case plan.Jump:
		rt.Jump(l.node, time.Duration(e.N)*time.Millisecond)
	case plan.Suspend:
		if !l.stands() && e.For > 0 {
			l.suspended, l.permit = true, false
			rt.Suspend(l.node, e.For.Std())
			time.AfterFunc(e.For.Std(), func() { w.do(func() { l.suspended = false; l.goOn() }) })
		}
	case plan.Kill:
		w.kill(s)
		w.bootAfter(e.For.Std(), s)
	case plan.Power:
		w.cutPower(s, disk.Loss{Share: e.Share, Torn: e.N == plan.TornWrites})
		w.bootAfter(e.For.Std(), s)
	case plan.Rot, plan.Wipe:
		if w.mayRuin(s) {
			w.ruin(s, e)
		}
	case plan.Stop:
		w.shut(l, e.For)
	case plan.Upgrade:
		s.version = int(e.N)
		w.shut(l, e.For)
	default:
		panic("no such event: " + string(e.Kind))
	}
}

// freeze makes a process stand still for a while.
func (w *World) freeze(l *life, d plan.Duration) {
	l.frozen++
	l.permit = false
	l.hold(true)
	w.after(d, func() { l.frozen--; l.goOn() })
}

// stands reports whether a process stands still.
func (l *life) stands() bool { return l.frozen > 0 || l.suspended }

// goOn lets a process go on that nothing holds any more.
func (l *life) goOn() {
	if !l.stands() && l.server.life == l {
		l.hold(false)
	}
}

// mayRuin reports whether the cluster lives on without the data of a server.
func (w *World) mayRuin(s *server) bool {
	members, ruined := 0, 1
	for _, other := range w.servers {
		if other.member == present {
			members++
			if other.ruined != "" && other != s {
				ruined++
			}
		}
	}
	return s.member == present && s.has.executed > 0 && 2*ruined < members
}

// ruin kills a server and destroys data of it.
func (w *World) ruin(s *server, e plan.Event) {
	w.cutPower(s, disk.Loss{Share: 1})
	var err error
	if e.Kind == plan.Wipe {
		s.ruined = wiped
		err = s.disk.Empty(s.nextDir())
		s.has = memory{}
	} else {
		s.ruined, s.rotten = rotten, true
		var where string
		where, err = s.disk.Rot(atRest)
		w.note("%s: %s", s.name, where)
	}
	if err != nil {
		w.violation("the simulation cannot change a directory: %v", err)
	}
	w.bootAfter(e.For.Std(), s)
}

// atRest chooses the files of which nothing is lost that a server may lose: a checkpoint, and all segments of the log
// but the last, whose last batch may have been torn.
func atRest(names []string) []string {
	var files, segments []string
	for _, name := range names {
		switch filepath.Ext(name) {
		case ".db":
			files = append(files, name)
		case ".log":
			segments = append(segments, name)
		}
	}
	return append(files, segments[:max(0, len(segments)-1)]...)
}

// stopPatience bounds a graceful stop that nothing holds up.
const stopPatience = 5 * time.Second

// shut stops a server gracefully and starts it again.
func (w *World) shut(l *life, d plan.Duration) {
	if l.running == nil || l.excuse != "" {
		return
	}
	l.excuse, l.comeback = "it was asked to stop", max(d.Std(), time.Millisecond)
	running := l.running
	rt.As(l.node, func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
			defer cancel()
			err := running.Stop(ctx)
			w.do(func() { l.ended(fmt.Errorf("stopped: %w", err)) })
		}()
	})
}

// addIfAbsent adds a server that is no member.
func (w *World) addIfAbsent(ctx context.Context, s *server, e plan.Event) error {
	is := present
	w.do(func() { is = s.member })
	if is == present {
		return nil
	}
	if err := w.add(ctx, s, e.Other); err != nil || e.N == 1 {
		return err
	}
	return w.promote(ctx, s, e.Other)
}
