//go:build linux

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
)

// nodePath is the coordination node of the load.
const nodePath = "/local/n0"

// longForm is requested by the make targets of this package, with a number of rounds.
var longForm = os.Getenv("CLUSTER_ROUNDS")+os.Getenv("CLUSTER_SAMPLES")+os.Getenv("UPGRADE_TEST") != ""

func inLongForm(long, otherwise time.Duration) time.Duration {
	if longForm {
		return long
	}
	return otherwise
}

// besideOthers lets the short forms run at once; the long ones measure.
func besideOthers(t *testing.T) {
	if !longForm {
		t.Parallel()
	}
}

// seedOf returns the seed of a test's choices: CRASH_SEED, or else another one for each run of the long form.
func seedOf(t *testing.T) uint64 {
	seed := uint64(1)
	if longForm {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("CRASH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CRASH_SEED=%q: want a number", text)
		}
		seed = n
	}
	t.Logf("CRASH_SEED=%d", seed)
	return seed
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

// exercise is a cluster that things happen to, one after the other.
type exercise struct {
	*cluster
	t        *testing.T
	ctx      context.Context
	random   *rand.Rand
	load     *load     // nil without
	leader   int       // before the step
	fallible serverSet // servers whose clients may lose their streams in this step
	round    int
	notes    string
	gaps     []time.Duration           // of the streams that the last step spared
	stretch  time.Duration             // by which the times of stayers are multiplied
	entry    func(*coordination.Entry) // if set, gets the entries of a log that end reads
}

func (x *exercise) note(format string, args ...any) { x.notes = fmt.Sprintf(format, args...) }

func (x *exercise) follower() int {
	a, b := others(x.leader)
	return []int{a, b}[x.random.IntN(2)]
}

// begin starts the load.
func (x *exercise) begin(seed uint64) {
	x.t.Helper()
	x.ctx = x.t.Context()
	if _, err := x.awaitLeader(x.ctx); err != nil {
		x.t.Fatal(err)
	}
	x.load = startLoad(x.cluster, seed)
	x.t.Cleanup(x.load.stop)
	if err := x.progress(); err != nil {
		x.t.Fatal(err)
	}
	x.load.check(0, 0)
}

// step makes something happen to the cluster, waits until all is well again, and checks.
func (x *exercise) step(name string, run func(*exercise) error) {
	x.t.Helper()
	x.round, x.notes, x.fallible = x.round+1, "", 0
	leader, err := x.awaitLeader(x.ctx)
	if err == nil {
		x.leader = leader
		err = x.progress()
	}
	x.load.check(0, 0)
	before, from, begin := x.load.operations(), x.load.trace.Now(), time.Now()
	if err == nil {
		err = run(x)
	}
	if err == nil {
		_, err = x.awaitLeader(x.ctx)
	}
	if err == nil {
		err = x.progress()
	}
	x.gaps = x.load.check(x.fallible, from)
	x.t.Logf("%2d %s, leader %d, %s: %v in all, %d operations, silences of streams that went on %v", x.round, name,
		leader, x.notes, time.Since(begin).Round(time.Millisecond), x.load.operations()-before, x.gaps)
	if err = errors.Join(err, x.load.violations.err()); err != nil {
		x.t.Fatalf("%s (%s): %v", name, x.notes, err)
	}
}

// progress waits until every client of the servers besides the victims has had some more answers.
func (x *exercise) progress(victims ...int) error {
	spared := setOf(victims...)
	begun := x.load.steps(spared)
	var now []int
	err := x.await("every client goes on", func() bool {
		now = x.load.steps(spared)
		for i := range now {
			if now[i] < begun[i]+10 {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%w; steps were %v, and are %v", err, begun, now)
	}
	return nil
}

// await waits for a state, unless something was found to be wrong.
func (x *exercise) await(what string, condition func() bool) error {
	for deadline := time.Now().Add(clusterPatience); !condition(); time.Sleep(5 * time.Millisecond) {
		if x.load != nil && x.load.violations.seen.Load() {
			return x.load.violations.err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain: %s", what)
		}
	}
	return nil
}

func (x *exercise) killServer(i int) error {
	x.fallible = setOf(i)
	x.kill(i)
	return errors.Join(x.progress(i), x.start(i))
}

func (x *exercise) terminateServer(i int) error {
	x.fallible = setOf(i)
	if err := x.terminate(i); err != nil {
		return err
	}
	return errors.Join(x.progress(i), x.start(i))
}

// leaveServerBehind pauses a follower while more is written than the log keeps, so that it needs a checkpoint.
func (x *exercise) leaveServerBehind(f int) error {
	x.fallible = setOf(f)
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

// tookCheckpoint is the message of a server that has installed a checkpoint of another.
const tookCheckpoint = "took over a checkpoint"

// end stops the load and the servers, and compares the servers' states.
func (x *exercise) end() {
	x.t.Helper()
	x.load.stop()
	x.load.believed()
	if err := x.load.violations.err(); err != nil {
		x.t.Fatal(err)
	}
	if n := x.load.operations(); n < 100*x.round {
		x.t.Errorf("only %d operations during %d steps: too little load to prove anything", n, x.round)
	}
	x.t.Logf("%d steps, %d operations, %d sessions ran out", x.round, x.load.operations(), x.load.expired())
	var dirs []string
	for i := range servers {
		if err := catchUp(x.ctx, x.listen[i]); err != nil {
			x.t.Fatal(err)
		}
	}
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
