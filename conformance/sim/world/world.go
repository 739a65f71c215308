// Package world is the world of the simulation: whole servers and real clients in one process, on a simulated network
// and simulated disks, with the faults of a plan, and checks from inside while they go on.
//
// Its own code runs as node 0 (rt.World) and holds its lock only over what waits for nothing.
package world

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/client"
	"github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/network"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/result"
	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/conformance/sim/trace"
	"github.com/coordd/coordd/internal/testserver"
)

// World runs one plan.
type World struct {
	plan    plan.Plan
	dir     string
	trace   *trace.Trace
	net     *network.Network
	history *check.History
	logs    *logs
	servers []*server
	clients []*client.Client
	shared  map[int]*grpc.ClientConn // of clients, by server
	over    context.Context          // ends with the clients' work
	stops   []context.CancelFunc     // of the clients

	program    string                // of each server; "": they are simulated
	began      time.Duration         // by process.Monotonic
	sdk        *sdk                  // nil without
	neighbours []*testserver.Process // that take processors

	mutex      sync.Mutex
	chance     *rand.Rand
	nodes      rt.Node // used so far
	healed     bool    // no fault begins or ends any more
	healedAt   time.Duration
	disturbed  time.Duration
	inside     inside
	violations []string
	counts     map[string]int64
	granted    map[int]uint64 // units, by node
}

// Options are the settings of a run besides its plan.
type Options struct {
	Dir   string    // for the servers' files; it is the caller's to remove
	Trace io.Writer // nil: none
	// Program is conformance/sim/process/simserver, for servers that are processes, in real time; "": simulated ones.
	Program string
	SDK     string // the program conformance/bench/sdkload, to run beside such servers
}

// Outcome is the result of a run, with the material to explain it.
type Outcome struct {
	result.Result
	Events []check.Event
	Logs   []byte // the last ones, of all servers
}

// Run runs a plan to its end. It has to run in a bubble (rt.Run), and leaves goroutines behind. With servers that are
// processes it needs no bubble, and the plan is one of plan.ForProcesses.
func Run(p plan.Plan, o Options) (*Outcome, error) {
	w := newWorld(p, o)
	if o.Program == "" {
		rt.HookDisk(w.hookDisk)
	} else if err := w.startProcesses(); err != nil {
		return nil, err
	}
	w.start()
	if o.SDK != "" && p.Limits.StateBytes == 0 { // the program does not expect to be refused
		if err := w.startSDK(o.SDK); err != nil {
			return nil, err
		}
	}
	end := time.Now().Add(p.Virtual.Std())
	for _, e := range p.Events {
		if at := e.At.Std(); at < p.Virtual.Std() {
			time.Sleep(at - w.trace.Now())
			w.happen(e)
		}
	}
	time.Sleep(time.Until(end))
	w.heal()
	w.awaitLife()
	w.finish()
	events := w.history.Events()
	if o.Program != "" {
		events = w.endProcesses()
	}
	w.compareEnds()
	w.end()
	w.counts["segments"], w.counts["switches"] = int64(w.net.Segments), int64(rt.Switches())
	w.judge(events)
	w.trace.Stop() // of processes, goroutines go on
	verdict := result.OK
	if len(w.violations) > 0 {
		verdict = result.Broken
	}
	return &Outcome{Events: events, Logs: w.logs.text(), Result: result.Result{Seed: p.Seed, Profile: p.Profile,
		Verdict: verdict, Violations: w.violations, Hash: fmt.Sprintf("%016x", w.trace.Hash()), Counts: w.counts,
		Marks: w.logs.counts, Virtual: plan.Duration(w.trace.Now())}}, nil
}

// The time after which an answer on a living stream is late when there are no faults.
const (
	overdue            = 3 * time.Second
	overdueOfProcesses = 6 * time.Second // the machine may be busy
)

// panicked is logged by a server that goes on after a panic, such as that of a timer without progress.
const panicked = "recovered from a panic"

// judge adds the violations that the logs and the history show.
func (w *World) judge(events []check.Event) {
	if n := w.logs.counts[panicked]; n > 0 {
		w.violation("servers have %s %d times", panicked, n)
	}
	patience := overdue
	if w.program != "" {
		patience = overdueOfProcesses
	}
	found, extent := check.Judge(events, check.Options{Healed: w.healedAt, Patience: patience, Drift: 0.06,
		WithoutModel: w.plan.Limits.StateBytes != 0, Foreign: sdkNode})
	for _, v := range found {
		w.violation("%v", v)
	}
	w.counts["requests"], w.counts["answers compared"] = int64(extent.Requests), int64(extent.Compared)
	w.counts["requests not found in the log for certain"] = int64(extent.Doubtful)
}

func newWorld(p plan.Plan, o Options) *World {
	t := trace.New(o.Trace, o.Dir)
	w := &World{plan: p, dir: o.Dir, trace: t, history: new(check.History), logs: newLogs(), chance: p.Chance("world"),
		counts: map[string]int64{}, shared: map[int]*grpc.ClientConn{}, granted: map[int]uint64{},
		program:   o.Program,
		disturbed: -time.Hour,
		net: network.New(t, p.Chance("network"), network.Delays{Min: p.Links.Min.Std(), Max: p.Links.Max.Std(),
			Tail: p.Links.Tail.Std(), TailShare: p.Links.TailShare})}
	w.inside = newInside(w)
	for i, of := range p.Servers {
		s := &server{world: w, index: i, name: of.Name, host: fmt.Sprintf("10.0.0.%d", i+1), plan: of,
			version: of.Version, first: of.Member, clockPPM: of.ClockPPM}
		if s.disk = disk.New(s.nextDir(), p.Chance("disk "+of.Name)); o.Program != "" {
			s.disk = &orders{dir: s.disk.Dir(), chance: p.Chance("disk " + of.Name)}
		}
		w.servers = append(w.servers, s)
	}
	return w
}

// start starts the first members and the clients.
func (w *World) start() {
	w.do(func() {
		for _, s := range w.servers {
			if s.plan.Member {
				s.member = present
				w.boot(s)
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.over = ctx
	if w.inside.stop = cancel; w.program == "" {
		go w.watch()
	}
	for i, of := range w.plan.Clients {
		c := client.New(i, of, w.nodeOf(of), w.plan.Chance(fmt.Sprint("client ", i)), environment{w})
		w.clients = append(w.clients, c)
		// A context with more than eight others below it would end these in an order that depends on their addresses.
		own, stop := context.WithCancel(context.Background())
		w.stops = append(w.stops, stop)
		go c.Run(own)
	}
}

// nodeOf returns the coordination node of a client.
func (w *World) nodeOf(c plan.Client) plan.Node {
	if c.Node < len(w.plan.Nodes) {
		return w.plan.Nodes[c.Node]
	}
	return plan.Node{}
}

// environment is the world as clients see it.
type environment struct{ *World }

// Servers implements client.World.
func (e environment) Servers() int { return len(e.servers) }

// Bounded implements client.World.
func (e environment) Bounded() bool { return e.plan.Limits.StateBytes != 0 }

// History implements client.World.
func (e environment) History() *check.History { return e.history }

// Trace implements client.World.
func (e environment) Trace() *trace.Trace { return e.trace }

// Violation implements client.World.
func (e environment) Violation(format string, args ...any) {
	e.do(func() { e.violation(format, args...) })
}

// Granted implements client.World.
func (e environment) Granted(node int, units uint64) { e.do(func() { e.granted[node] += units }) }

// Dial implements client.World.
func (e environment) Dial(ctx context.Context, from string, server int) (net.Conn, error) {
	return e.net.Dial(ctx, from, e.servers[server].clientAddress())
}

// sharedHost is where the connections come from that clients share.
const sharedHost = "10.0.2.2"

// Shared implements client.World.
func (e environment) Shared(server int) (conn *grpc.ClientConn, err error) {
	e.do(func() {
		if conn = e.shared[server]; conn == nil {
			conn, err = client.Connect(e, sharedHost, server)
			e.shared[server] = conn
		}
	})
	return conn, err
}

// do runs f as the world, with its lock held.
func (w *World) do(f func()) {
	rt.As(rt.World, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		f()
	})
}

// later runs f after a while, unless the world has been healed by then: that ends everything.
func (w *World) later(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		w.do(func() {
			if !w.healed {
				f()
			}
		})
	})
}

// violation records that something happened that must not. The lock is held.
func (w *World) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.Note("VIOLATION %s", text)
	if len(w.violations) < 20 && !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

// note adds a line to the trace and the history.
func (w *World) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.Note("%s", text)
	w.history.Add(w.trace.Now(), &check.Note{Text: text})
}

// hookDisk hands an operation on a file to the disk that the file lies on.
func (w *World) hookDisk(op rt.Op, name, to string, offset int64, data []byte) (int, error) {
	if !strings.HasPrefix(name, w.dir) {
		return 0, nil
	}
	for _, s := range w.servers {
		if relative, within := below(s.disk.Dir(), name); within {
			relativeTo, _ := below(s.disk.Dir(), to)
			return s.disk.(*disk.Disk).Hook(op, relative, relativeTo, offset, data)
		}
	}
	return 0, nil
}

// below returns a path relative to a directory that it lies in.
func below(dir, path string) (relative string, within bool) {
	if path == dir {
		return ".", true
	}
	relative, within = strings.CutPrefix(path, dir+string(filepath.Separator))
	return relative, within
}
