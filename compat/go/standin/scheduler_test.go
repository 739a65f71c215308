package standin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"

	"github.com/coordd/coordd/compat/go/examples/scheduler"
	"github.com/coordd/coordd/compat/go/examples/sessions"
)

const jobs = "/local/jobs" // the node of the schedulers

// run is a job that was begun.
type run struct {
	scheduler string
	token     uint64
}

// journal is the resource that the jobs of several schedulers work on. It refuses tokens that are too small.
type journal struct {
	t *testing.T

	mutex  sync.Mutex
	runs   []run
	newest uint64
}

// work is a job. It fails the test where it begins behind that of a later leader.
func (j *journal) work(name string) func(context.Context, uint64) error {
	return func(_ context.Context, token uint64) error {
		j.mutex.Lock()
		defer j.mutex.Unlock()
		j.runs = append(j.runs, run{name, token})
		if token < j.newest {
			j.t.Errorf("%s runs the job with token %d after somebody did with %d", name, token, j.newest)
			return errors.New("too late")
		}
		j.newest = token
		return nil
	}
}

func (j *journal) latest() (n int, last run) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if n = len(j.runs); n > 0 {
		last = j.runs[n-1]
	}
	return n, last
}

// crew is two schedulers in one.
type crew struct {
	*cast
	journal journal
	ticks   map[string]chan time.Time
	taken   int // ticks, as far as works sent them
	quit    map[string]context.CancelFunc
	ended   chan error // of Run, unless its context was done
}

func newCrew(t *testing.T, tr *trial) *crew {
	t.Helper()
	c := &crew{cast: onStage(t, tr.begin(t)), journal: journal{t: t}, ended: make(chan error, 2),
		ticks: make(map[string]chan time.Time), quit: make(map[string]context.CancelFunc)}
	for n, name := range []string{"first", "second"} {
		db := c.open()
		if err := db.Coordination().CreateNode(t.Context(), jobs, coordination.NodeConfig{}); err != nil {
			t.Fatal(err)
		}
		tick := make(chan time.Time)
		ctx, quit := context.WithCancel(c.scene)
		c.ticks[name], c.quit[name] = tick, quit
		work := scheduler.Job{Name: "clean up", Run: c.journal.work(name)}
		one := scheduler.Scheduler{Name: name, Tick: tick, Jobs: []scheduler.Job{work},
			Sessions: sessions.Keeper{DB: db, Node: jobs, Timeout: tr.timeout}}
		c.running.Go(func() {
			if err := one.Run(ctx); !errors.Is(err, context.Canceled) {
				c.ended <- fmt.Errorf("%s: %w", name, err)
			}
		})
		if n == 0 {
			c.s.AwaitOwners(jobs, "leader", 1) // so that it is the first that leads
		} else {
			c.s.AwaitWaiters(jobs, "leader", 1)
		}
	}
	return c
}

// works expects the job to be run when it is due, by the server's present leader or, without asking the server, by any
// process: a server that is cut off from the others does not answer.
func (c *crew) works(asking bool) run {
	c.t.Helper()
	before, _ := c.journal.latest()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		first, second := c.ticks["first"], c.ticks["second"]
		if asking {
			var leader string
			if owners := c.s.Owners(jobs, "leader"); len(owners) > 0 {
				leader = string(owners[0].Data)
			}
			first, second = c.ticks[leader], nil
		}
		select {
		case first <- time.Now():
			c.taken++
		case second <- time.Now():
			c.taken++
		case <-time.After(time.Millisecond):
		case err := <-c.ended:
			c.t.Fatal(err)
		}
		if n, last := c.journal.latest(); n > before {
			return last
		}
	}
	c.t.Fatal("nobody runs the job")
	return run{}
}

// idle waits until the leader has done what it took ticks for; a lead that was lost meanwhile takes ticks with it.
func (c *crew) idle() {
	c.t.Helper()
	leads := c.s.AwaitOwners(jobs, "leader", 1)[0].Session
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(time.Millisecond) {
		n, _ := c.journal.latest()
		if n == c.taken || c.s.AwaitOwners(jobs, "leader", 1)[0].Session != leads {
			return
		}
	}
	c.t.Fatal("a tick is lost")
}

// tick is for one that may lead no more: it comes when he takes it.
func (c *crew) tick(name string) {
	go func() {
		select {
		case c.ticks[name] <- time.Now():
		case <-c.t.Context().Done():
		}
	}()
}

// whole wants one to lead and the other to wait for that.
func (c *crew) whole() {
	c.t.Helper()
	c.s.AwaitOwners(jobs, "leader", 1)
	c.s.AwaitWaiters(jobs, "leader", 1)
}

// TestScheduler is a plain test, as one would begin with: somebody runs the jobs, and when he stops another
// one does.
func TestScheduler(t *testing.T) {
	t.Parallel()
	c := newCrew(t, &trial{})
	first := c.works(true)
	if again := c.works(true); again != first || first.scheduler != "first" {
		t.Errorf("%v ran the job, then %v", first, again)
	}
	c.quit["first"]()
	// As long as it has the lock it may still take a tick.
	for leads := "first"; leads == "first"; leads = string(c.s.AwaitOwners(jobs, "leader", 1)[0].Data) {
		time.Sleep(time.Millisecond)
	}
	if next := c.works(true); next.scheduler != "second" || next.token <= first.token {
		t.Errorf("%v runs the job after %v", next, first)
	}
}

// TestSchedulerThroughFaults: whatever happens, no job begins under a leader when it has run under a later
// one, and jobs go on. Where nobody lost anything the leader goes on leading.
func TestSchedulerThroughFaults(t *testing.T) {
	moves := map[string]bool{"expire-session": true, "drop-streams how=silence": true, "partition": true,
		"drop-streams how=black-hole": true, "fail-next describe": true, "full-disk": true, "fail-some": true}
	for _, tr := range trials {
		if strings.HasSuffix(tr.name(), " create") { // which it never asks for
			continue
		}
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, &tr)
			before := c.works(true)
			if tr.late != nil {
				c.idle() // or it may have confirmed its lead and run the job behind the next one's
				tr.late(c.s, jobs, c.s.AwaitOwners(jobs, "leader", 1)[0].Session)
			}
			// and with it the tokens: they end, so that people can see to it
			if tr.fault == "drop-node" || tr.fault == "restart empty=true" {
				for range 2 {
					if err := <-c.ended; !errors.Is(err, sessions.ErrNoNode) {
						t.Error(err)
					}
				}
				return
			}
			after := c.works(tr.fault != "partition")
			c.tick(before.scheduler) // who may not have noticed
			if !moves[tr.name()] && after != before {
				t.Errorf("%v ran the job, then %v", before, after)
			}
			if tr.fault == "expire-session" && after.scheduler == before.scheduler {
				t.Errorf("%v ran the job, then %v, though it was not to lead any more", before, after)
			}
			c.s.Reset()
			c.whole()
			c.works(true)
		})
	}
}
