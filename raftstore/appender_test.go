package raftstore

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/memory"
	"github.com/coordd/coordd/raftstore/raftlog"
	"github.com/coordd/coordd/raftstore/wal"
)

// countingRows counts what is written into checkpoints.
type countingRows struct {
	memory.Rows
	puts int
}

// Put counts.
func (r *countingRows) Put([]Row) { r.puts++ }

// What is queued of a checkpoint that will not be finished does not hold up the end.
func TestKeeperGivesUpWhatIsQueued(t *testing.T) {
	rows := &countingRows{}
	k := newKeeper(&Store{device: memory.Log{}, rowStore: rows})
	mark := checkpointMark{index: 1}
	if !k.begin(&mark, true) {
		t.Fatal("void")
	}
	for range 100 {
		k.offer(keeperJob{of: &mark, rows: []Row{row("k", "v")}, bytes: 1})
	}
	close(k.stop)
	k.run()
	if rows.puts != 0 {
		t.Errorf("%d batches were written", rows.puts)
	}
}

// flusher is a handler that works where it is flushed.
type flusher struct {
	*recorder
	flush func()
}

func (f flusher) Flush(busy bool) {
	if !busy {
		f.flush()
	}
}

// What the handler does on the goroutine that has just written the log does not count as writing.
func TestTheHandlersWorkIsNoWrite(t *testing.T) {
	s := open(t, Config{InMemory: true, Logger: noLog})
	r := newRecorder(s)
	var flushed, writing atomic.Int32
	err := s.Start(flusher{r, func() { // alone in its cluster, a member flushes like this behind a write only
		if flushed.Add(1); s.appender.stuck(0) {
			writing.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	term := r.lead(t)
	for n := 0; n < 1000 && flushed.Load() < 20; n++ {
		propose(t, r, term, numbered("c", n, n+1)...)
	}
	if flushed.Load() == 0 || writing.Load() != 0 {
		t.Errorf("flushed %d times, %d of them during a write", flushed.Load(), writing.Load())
	}
}

// ask runs f in a turn of the member and waits for it.
func (m *machine) ask(f func(l *loop)) {
	asked := make(chan struct{})
	m.store.inbox.put(func(mail *mail) {
		mail.tasks = append(mail.tasks, func(l *loop) { f(l); close(asked) })
	})
	<-asked
}

// A leader whose handler is slow does not take that for a slow disk and give the leadership away.
func TestASlowHandlerIsNoSlowDisk(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 7)
	logs := map[string]*testlog.Buffer{}
	for _, name := range c.names {
		logs[name] = &testlog.Buffer{}
		c.configure(name, func(cfg *Config) { cfg.Logger = newTextLogger(logs[name]) })
	}
	var armed atomic.Bool
	meanwhile := make(chan string, 1) // what the leader logged while its handler was slow
	c.onFlush = func(m *machine) {
		if !armed.Load() {
			return
		}
		stack := make([]byte, 8<<10)
		if !strings.Contains(string(stack[:runtime.Stack(stack, false)]), "(*appender).finished") {
			return
		}
		var term uint64
		if m.note(func() { term = m.term }); term == 0 || !armed.CompareAndSwap(true, false) {
			return
		}
		before := len(logs[m.name].String())
		var begun, now int // ticks are at least this far apart
		m.ask(func(l *loop) { begun = l.ticks })
		for deadline := time.Now().Add(patience); now < begun+2*int(slowWriteMax/tickInterval) &&
			time.Now().Before(deadline); {
			m.ask(func(l *loop) { now = l.ticks })
		}
		meanwhile <- logs[m.name].String()[before:]
	}
	c.startAll()
	c.put("before")
	armed.Store(true)
	stopLoad := c.load("x")
	select {
	case log := <-meanwhile:
		if strings.Contains(log, "the disk is slow") {
			t.Errorf("the disk had nothing to do:\n%s", log)
		}
	case <-time.After(patience):
		t.Error("the handler was never flushed behind a write")
	}
	stopLoad()
	armed.Store(false)
	c.settle()
}

// stoppedLog is a log whose writes and syncs take their time.
type stoppedLog struct {
	raftlog.Device
	times       *datadir.LogTimes
	write, sync time.Duration
}

func (d *stoppedLog) Append(*wal.HardState, []*pb.Entry) error {
	begun := time.Now()
	time.Sleep(d.write)
	d.times.Measure(&d.times.Writes, &d.times.Writing, begun)
	begun = time.Now()
	time.Sleep(d.sync)
	d.times.Measure(&d.times.Syncs, &d.times.Syncing, begun)
	return nil
}

// An append that takes long is logged with its parts, whichever of them stops.
func TestSlowAppendIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Buffer
		s := &Store{disk: &datadir.Disk{}, log: &raftlog.Log{}, receiver: &receiver{}}
		s.cfg.Logger = newTextLogger(&log)
		a := newAppender(s)
		for _, d := range []stoppedLog{{sync: slowWriteMax}, {write: 8 * time.Second}, {sync: 2 * slowWriteMax}} {
			d.times = a.times
			a.device = &d
			if err := a.write([]*writeJob{{hard: &wal.HardState{Term: 1}}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // of the limit
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "took=8s writing=8s syncing=0s") ||
			!strings.Contains(lines[1], "took=1s writing=0s syncing=1s") {
			t.Errorf("logged:\n%s", log.String())
		}
		if r := s.meters.appends.Read(); r.Count != 3 {
			t.Errorf("%d appends were measured", r.Count)
		}
	})
}
