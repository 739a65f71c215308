//go:build linux

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
)

// exercise is a cluster under load that things happen to.
type exercise struct {
	*cluster
	t          *testing.T
	ctx        context.Context
	random     *rand.Rand
	leader     int // before the fault
	fallible   serverSet
	violations violations
	gate       sync.RWMutex
	runners    []*runner
	loads      []*sdkLoad
	callers    []*caller
	lastOrder  uint64
	round      int
	notes      string
	lastGaps   []time.Duration // of the streams that the last fault spared
	stretch    time.Duration   // by which the times of stayers are multiplied

	pauseMost, dwellMost time.Duration
	stopRunners          func()
	launch               func(work func(context.Context)) // until stopRunners
	entry                func(*coordination.Entry)        // if set, gets the entries of a log that end reads
}

// TestClusterFaults loads three servers, each from two sessions that are seen through message by message, two
// of the unmodified Go SDK and one caller that makes and drops nodes, and has things go wrong one after the
// other. In the long form (CLUSTER_ROUNDS, which is how often each kind of fault comes) all kinds come in a
// random order; in the short one a few. After each: nothing acknowledged is lost, nobody held more than the
// limit or believed so, order ids only grew, no session ended while its client lived, and no stream broke on
// a server that was well. In the end all servers have come to the same state.
func TestClusterFaults(t *testing.T) {
	besideOthers(t)
	list := shortFaults()
	x := &exercise{t: t, pauseMost: time.Second, dwellMost: 200 * time.Millisecond}
	seed := seedOf(t)
	x.random = rand.New(rand.NewPCG(seed, 0))
	if rounds := roundsOf(t); rounds > 0 {
		list = slices.Repeat(chosenFaults(t), rounds)
		x.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		x.pauseMost, x.dwellMost = 29*time.Second, 3*time.Second
	}
	binary := buildLoad(t)
	x.cluster = newCluster(t, true)
	x.begin(seed, binary)
	for i, f := range list {
		if err := x.hit(f); err != nil {
			t.Fatalf("fault %d of CRASH_SEED=%d, %s (%s): %v", i, seed, f.name, x.notes, err)
		}
	}
	x.end(len(list))
}

// shortFaults are those that `make test` tries besides those of TestClusterFailOver.
func shortFaults() []fault {
	all := faults()
	return []fault{all[2], all[3], all[13], all[15]}
}

// chosenFaults are all kinds, or the one that CLUSTER_FAULT names.
func chosenFaults(t *testing.T) []fault {
	all := faults()
	name := os.Getenv("CLUSTER_FAULT")
	if name == "" {
		return all
	}
	at := slices.IndexFunc(all, func(f fault) bool { return f.name == name })
	if at < 0 {
		t.Fatalf("CLUSTER_FAULT=%q is no fault", name)
	}
	return all[at : at+1]
}

func roundsOf(t *testing.T) int {
	text := os.Getenv("CLUSTER_ROUNDS")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("CLUSTER_ROUNDS=%q: want a number from 1", text)
	}
	return n
}

// begin makes the semaphores and starts the load.
func (x *exercise) begin(seed uint64, load string) {
	x.t.Helper()
	x.ctx = x.t.Context()
	if _, err := x.awaitLeader(x.ctx); err != nil {
		x.t.Fatal(err)
	}
	prepare(x.t, x.listen[0])
	if load != "" {
		x.loads = make([]*sdkLoad, servers)
		var starting sync.WaitGroup
		for i := range servers {
			starting.Go(func() {
				x.loads[i] = startLoad(x.t, load, i, x.listen, seed, &x.violations, &x.fallible)
			})
		}
		starting.Wait()
	}
	ctx, cancel := context.WithCancel(x.ctx)
	var running sync.WaitGroup
	x.launch = func(work func(context.Context)) { running.Go(func() { work(ctx) }) }
	x.stopRunners = sync.OnceFunc(func() { cancel(); running.Wait() })
	x.t.Cleanup(x.stopRunners)
	for i := range clients {
		runner, err := newRunner(x.cluster, i, seed, &x.violations, &x.fallible, &x.gate)
		if err != nil {
			x.t.Fatal(err)
		}
		x.runners = append(x.runners, runner)
		x.launch(runner.run)
	}
	for i := range servers {
		caller, err := newCaller(x, i)
		if err != nil {
			x.t.Fatal(err)
		}
		x.callers = append(x.callers, caller)
		x.launch(caller.run)
	}
}

// hits says whose clients may lose their streams from now on.
func (x *exercise) hits(victims ...int) {
	x.fallible.set(victims...)
	for _, r := range x.runners {
		r.gaps.start()
	}
}

func (x *exercise) note(format string, args ...any) { x.notes = fmt.Sprintf(format, args...) }

// hit lets the load run, has the fault happen, waits until all is well again, and checks.
func (x *exercise) hit(f fault) error {
	x.round, x.notes = x.round+1, ""
	leader, err := x.awaitLeader(x.ctx)
	if err != nil {
		return err
	}
	x.leader = leader
	if err := x.progress(); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	before := x.operations()
	begin := time.Now()
	if err := f.run(x); err != nil {
		return errors.Join(err, x.violations.err())
	}
	if _, err := x.awaitLeader(x.ctx); err != nil {
		return errors.Join(err, x.violations.err())
	}
	if err := x.settle(); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	x.lastGaps = x.lastGaps[:0]
	gap := time.Duration(0)
	for _, r := range x.runners {
		if longest := r.gaps.result(); !x.fallible.has(r.home) {
			x.lastGaps = append(x.lastGaps, longest)
			gap = max(gap, longest)
		}
	}
	x.t.Logf("%2d %s, leader %d, %s: %v in all, %d operations, longest silence of a stream that went on %v",
		x.round, f.name, leader, x.notes, time.Since(begin).Round(time.Millisecond), x.operations()-before,
		gap.Round(time.Millisecond))
	return x.check()
}

func (x *exercise) operations() int64 {
	sum := int64(0)
	for _, r := range x.runners {
		sum += r.steps.Load()
	}
	for _, l := range x.loads {
		for i := range l.operations {
			sum += l.operations[i].Load()
		}
	}
	for _, c := range x.callers {
		sum += c.calls.Load()
	}
	return sum
}

func (x *exercise) expired() int64 {
	sum := int64(0)
	for _, r := range x.runners {
		sum += r.expired.Load()
	}
	for _, l := range x.loads {
		sum += l.expired.Load()
	}
	return sum
}

// progress waits until every client of the servers besides the victims has had some more answers.
func (x *exercise) progress(victims ...int) error {
	var spared serverSet
	spared.set(victims...)
	steps, operations := make([]int64, len(x.runners)), make([][sdkWorkers]int64, len(x.loads))
	for i, r := range x.runners {
		steps[i] = r.steps.Load() + 20
	}
	for i, l := range x.loads {
		for j := range l.operations {
			operations[i][j] = l.operations[j].Load() + 10
		}
	}
	calls := make([]int64, len(x.callers))
	for i, c := range x.callers {
		calls[i] = c.calls.Load() + 4
	}
	missing := ""
	err := x.await("every client goes on", func() bool {
		missing = ""
		for i, r := range x.runners {
			if !spared.has(r.home) && r.steps.Load() < steps[i] {
				missing += fmt.Sprintf(" client %d of server %d", i, r.home)
			}
		}
		for i, l := range x.loads {
			for j := range l.operations {
				if !spared.has(l.server) && l.operations[j].Load() < operations[i][j] {
					missing += fmt.Sprintf(" worker %d of the load program of server %d", j, l.server)
				}
			}
		}
		for i, c := range x.callers {
			if !spared.has(c.server) && c.calls.Load() < calls[i] {
				missing += fmt.Sprintf(" caller of server %d", i)
			}
		}
		return missing == ""
	})
	if err != nil {
		return fmt.Errorf("%w; not so%s", err, missing)
	}
	return nil
}

// settle waits until every client works, at home again, and from then on wants no stream to break.
func (x *exercise) settle() error {
	if err := x.progress(); err != nil {
		return err
	}
	x.gate.Lock()
	for _, r := range x.runners {
		r.goHome(x.ctx)
	}
	x.gate.Unlock()
	return x.progress()
}

// await waits for a state, unless something was found to be wrong.
func (x *exercise) await(what string, condition func() bool) error {
	for deadline := time.Now().Add(clusterPatience); !condition(); time.Sleep(5 * time.Millisecond) {
		if x.violations.seen.Load() {
			return x.violations.err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain: %s", what)
		}
	}
	return nil
}

// check has the raw clients rest, and compares.
func (x *exercise) check() error {
	x.gate.Lock()
	defer x.gate.Unlock()
	x.fallible.set()
	last := x.lastOrder
	for _, r := range x.runners {
		if !r.attached.Load() {
			return fmt.Errorf("client %d lost its stream", r.number)
		}
		if err := r.describeAll(); err != nil {
			return fmt.Errorf("client %d at server %d: %w", r.number, r.at, err)
		}
		for _, b := range append(r.shared, &r.own) {
			last = max(last, b.order)
		}
	}
	s, closeSession, err := openAt(x.ctx, x.listen[x.random.IntN(servers)], nodePath)
	if err != nil {
		return err
	}
	defer closeSession()
	order, err := freshOrder(s, fmt.Sprintf("order-%d", x.round), last)
	if err != nil {
		return err
	}
	x.lastOrder = order
	for _, l := range x.loads {
		if err := l.check(s); err != nil {
			return err
		}
	}
	if err := x.checkTenures(); err != nil {
		return err
	}
	return x.violations.err()
}

// openAt opens a new session at a coordination node.
func openAt(ctx context.Context, address, node string) (*raw.Session, func(), error) {
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	closeSession := func() { cancel(); raw.Close(conns) }
	s, err := raw.Open(ctx, conns[0], &raw.Start{Path: node,
		TimeoutMillis: uint64(sessionTimeout.Milliseconds())})
	if err != nil {
		closeSession()
	}
	return s, closeSession, err
}

// checkTenures looks at what all clients believed so far.
func (x *exercise) checkTenures() error {
	var all []check.Tenure
	for _, r := range x.runners {
		all = append(all, r.tenures...)
	}
	for _, l := range x.loads {
		l.mutex.Lock()
		all = append(all, l.tenures...)
		l.mutex.Unlock()
	}
	return check.Tenures(all, limitOf, deliveryMargin)
}

// end stops the load and the servers, and compares the servers' states.
func (x *exercise) end(faults int) {
	x.t.Helper()
	for _, l := range x.loads {
		if err := l.finish(); err != nil {
			x.t.Error(err)
		}
	}
	x.round++
	if err := x.check(); err != nil {
		x.t.Fatal(err)
	}
	x.stopRunners()
	writeOperations(x.t)
	if n := x.operations(); n < int64(200*faults) {
		x.t.Errorf("only %d operations during %d faults: too little load to prove anything", n, faults)
	}
	x.t.Logf("%d faults, %d operations, %d sessions ran out, last order id %d", faults, x.operations(),
		x.expired(), x.lastOrder)
	for i := range servers {
		if err := catchUp(x.ctx, x.listen[i]); err != nil {
			x.t.Fatal(err)
		}
	}
	var dirs []string
	for i := range servers {
		x.kill(i)
		dirs = append(dirs, x.dataDir(i))
	}
	if err := checkDigests(dirs, x.entry); err != nil {
		x.t.Fatal(err)
	}
}

// catchUp returns when a server has executed all that was committed so far.
func catchUp(ctx context.Context, address string) error {
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	defer cancel()
	return raw.DescribeNode(ctx, conns[0], nodePath)
}

// fill writes more than the log keeps for anybody, from several sessions on one server: that many bytes, and
// those between two checkpoints, behind which it is cut, and as many again. How many entries it takes depends
// on how many updates share one; in a program before entries were shared it takes 12,288, of which it keeps 5,000.
func (x *exercise) fill(server int) error {
	const (
		writers = 16
		bytes   = 16 << 10
		each    = (raftstore.DefaultLagBytesKept + 2*raftstore.DefaultCheckpointBytes) / bytes / writers
	)
	conns, err := raw.Dial(x.listen[server], 4)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	errs := make([]error, writers)
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			errs[i] = fillOne(x.ctx, conns[i%len(conns)], fmt.Sprintf("fill-%d", i), each,
				make([]byte, bytes))
		})
	}
	writing.Wait()
	return errors.Join(errs...)
}

func fillOne(ctx context.Context, conn *grpc.ClientConn, name string, times int, data []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := raw.Open(ctx, conn, &raw.Start{Path: nodePath,
		TimeoutMillis: uint64(sessionTimeout.Milliseconds())})
	if err != nil {
		return err
	}
	if err := s.Create(name, 1); err != nil {
		return err
	}
	for i := range times {
		data[0], data[1] = byte(i), byte(i>>8)
		if err := s.Update(name, data); err != nil {
			return err
		}
	}
	return nil
}
