package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/openloop"
	"github.com/coordd/coordd/internal/load"
)

// disturbance goes on beside a cell of the open loop.
type disturbance struct {
	begin  func(o *openBench, t *turn, cell openCell, of servers, b *beside) error
	probes bool // a program that writes and syncs runs as well
}

var (
	buffered     = disturbance{diskWriter(0), true}
	syncing      = disturbance{diskWriter(160), true}
	moving       = disturbance{(*openBench).moveLeader, false}
	slowFollower = disturbance{(*openBench).stopFollower, false}
	restarts     = disturbance{(*openBench).restartFollower, false}
	checkpointed = disturbance{(*openBench).changeData, false}
)

const (
	movePeriod    = 5 * time.Second
	stopPeriod    = 200 * time.Millisecond // a follower runs as long as it stands still
	restartPeriod = 10 * time.Second
	probePeriod   = 5 * time.Millisecond
	changesRate   = 2000 // of data, a second
)

// beside is a disturbance that goes on.
type beside struct {
	work    sync.WaitGroup
	stop    context.CancelFunc
	pid     int           // of a program that is neither server nor generator, 0 without one
	ended   time.Duration // processor time of servers that were killed
	mutex   sync.Mutex
	probe   load.Times
	spans   []span
	failure error
}

// disturb begins what goes on beside a cell.
func (o *openBench) disturb(t *turn, cell openCell, of servers) (*beside, error) {
	ctx, cancel := context.WithCancel(t)
	own := newTurn(ctx)
	b := &beside{stop: cancel}
	t.later(func() { b.stop(); b.work.Wait(); own.end() })
	if cell.beside == nil {
		return b, nil
	}
	if cell.beside.probes {
		b.goes(func() error { return b.writeAndSync(own, o.dir) })
	}
	return b, cell.beside.begin(o, own, cell, of, b)
}

// goes does some work until the disturbance ends.
func (b *beside) goes(do func() error) {
	b.work.Go(func() {
		if err := do(); err != nil {
			b.mutex.Lock()
			b.failure = errors.Join(b.failure, err)
			b.mutex.Unlock()
		}
	})
}

// cpu is the processor time of the other program.
func (b *beside) cpu() (time.Duration, error) {
	if b.pid == 0 {
		return 0, nil
	}
	return machine.CPU(b.pid)
}

// end ends the disturbance, and returns what the program that writes and syncs waited for, and the parts of the
// requests by the spans of the disturbance. Those shortly before and after a span are a part of their own, since they
// may have waited for what it has left.
func (b *beside) end(each []openloop.Answered, begun time.Time) (load.Times, []openPart) {
	b.stop()
	b.work.Wait()
	if b.failure != nil {
		fmt.Fprintln(os.Stderr, "bench: beside:", b.failure)
	}
	if len(b.spans) == 0 {
		return b.probe, nil
	}
	parts := []openPart{{name: fmt.Sprintf("while one of %d checkpoints is stored", len(b.spans))},
		{name: "within 2 s of that"}, {name: "otherwise"}}
	for _, a := range each {
		due := begun.Add(a.Due)
		at := 2
		for _, s := range b.spans {
			switch {
			case due.Before(s.done) && due.Add(a.Took).After(s.begun):
				at = 0
			case at > 1 && due.Before(s.done.Add(2*time.Second)) && due.Add(a.Took).After(s.begun.Add(-2*time.Second)):
				at = 1
			}
		}
		parts[at].took = append(parts[at].took, a.Took)
	}
	return b.probe, parts
}

// writeAndSync appends 4 KiB and makes them durable, each 5 ms. What became due during a stall waits for its turn and
// counts from when it was due, as requests of an open loop do.
func (b *beside) writeAndSync(ctx context.Context, dir string) error {
	f, err := os.CreateTemp(dir, "beside-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4<<10)
	for due := time.Now(); ctx.Err() == nil; due = due.Add(probePeriod) {
		begun := due
		if pause := time.Until(due); pause > 0 {
			wait(ctx, pause)
			begun = time.Now() // a late timer is no stall
		}
		if _, err := f.Write(page); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		b.probe = append(b.probe, time.Since(begun))
	}
	return nil
}

// diskWriter runs a program that writes as fast as it can.
func diskWriter(syncEach int) func(o *openBench, t *turn, _ openCell, _ servers, b *beside) error {
	return func(o *openBench, t *turn, _ openCell, _ servers, b *beside) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		file := filepath.Join(o.dir, "written")
		c := exec.Command(self, "-be", "writer", "-log", file, "-n", fmt.Sprint(syncEach))
		if err := c.Start(); err != nil {
			return err
		}
		b.pid = c.Process.Pid
		t.later(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			_ = os.Remove(file)
		})
		return nil
	}
}

// writeForever writes blocks of 64 KiB over and over into the same gigabyte of a file, and makes each so many of them
// durable, none if 0.
func writeForever(name string, syncEach int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for i := 1; ; i++ {
		if _, err := f.WriteAt(block, int64(i)%16_384*int64(len(block))); err != nil {
			return err
		}
		if syncEach > 0 && i%syncEach == 0 {
			if err := f.Sync(); err != nil {
				return err
			}
		}
	}
}

// moveLeader hands the leadership around.
func (o *openBench) moveLeader(t *turn, cell openCell, of servers, b *beside) error {
	for _, m := range o.movers() {
		if m.name == of[0].product.name {
			b.goes(func() error {
				for wait(t, movePeriod) {
					from, err := of.leader(t)
					if err == nil {
						err = m.move(t, of, from, (from+1)%clusterSize)
					}
					if err != nil && t.Err() == nil {
						return err
					}
				}
				return nil
			})
			return nil
		}
	}
	return fmt.Errorf("the leader of %s cannot be moved", cell.product)
}

// follower returns a server that does not lead.
func (s servers) follower(ctx context.Context) (*process, error) {
	leader, err := s.leader(ctx)
	return s[(leader+1)%len(s)], err
}

// stopFollower stops one follower half of the time.
func (o *openBench) stopFollower(t *turn, _ openCell, of servers, b *beside) error {
	slow, err := of.follower(t)
	if err != nil {
		return err
	}
	b.goes(func() error {
		defer func() { _ = unix.Kill(slow.running.PID(), unix.SIGCONT) }()
		for signal := unix.SIGSTOP; wait(t, stopPeriod); signal = unix.SIGSTOP + unix.SIGCONT - signal {
			if err := unix.Kill(slow.running.PID(), signal); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// restartFollower kills one follower, and starts it again, so that it catches up.
func (o *openBench) restartFollower(t *turn, _ openCell, of servers, b *beside) error {
	again, err := of.follower(t)
	if err != nil {
		return err
	}
	b.goes(func() error {
		for wait(t, restartPeriod) {
			used, err := machine.CPU(again.running.PID())
			if err != nil {
				return err
			}
			b.ended += used
			again.kill()
			time.Sleep(restartPeriod / 10)
			if err := again.start(context.WithoutCancel(t)); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// changeData changes the data of rows, so that there is something for checkpoints to store, and notes when there is
// work on one.
func (o *openBench) changeData(t *turn, cell openCell, of servers, b *beside) error {
	sessions, err := rawSessions(t, of[0].address, busyClients)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		b.goes(func() error {
			for wait(t, time.Second*busyClients/changesRate) {
				err := s.Update(rowName(rand.IntN(cell.rows)), []byte(time.Now().String()))
				if err != nil && t.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	b.goes(func() error {
		for open := false; wait(t, checkpointPoll); {
			now := time.Now()
			is, err := checkpointing(t, of[0].metrics)
			if err != nil && t.Err() == nil {
				return err
			}
			if is && !open {
				b.spans = append(b.spans, span{begun: now.Add(-checkpointPoll)})
			}
			if open || is {
				b.spans[len(b.spans)-1].done = time.Now()
			}
			open = is
		}
		return nil
	})
	return nil
}
