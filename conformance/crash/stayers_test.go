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
	"sync/atomic"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/sim/process"
)

const (
	// stayTimeout is the middle of the stayers' session timeouts, which lie up to staySpread around it:
	// whenever a cut of about that length heals, some sessions have just ended, some are just being ended,
	// and some are still to be taken over. Both are stretched where the machine is too busy for that.
	stayTimeout = 2 * time.Second
	staySpread  = 500 * time.Millisecond
	// stayStretch is the largest stretch.
	stayStretch = 8
	// stayGrace limits the streams' wait for a leader: longer than any cut.
	stayGrace = 30 * time.Second
	// stayNode is the coordination node of the stayers.
	stayNode = "/local/stayers"
	// deliveryMargin bounds the time by which a client notes a message later than it came, on a busy machine. It is far
	// below a lease.
	deliveryMargin = 200 * time.Millisecond
	// stayLeave is the time for which a server that was cut off may still speak; its sessions' time begins to run after
	// it.
	stayLeave = 400 * time.Millisecond
)

// stayer is a client that stays on its stream however long that is silent, and believes whatever it hears: it
// has no timer of its own. Others show that no client acts on a session that is over; it shows that no server confirms
// such a session.
type stayer struct {
	timeout time.Duration
	crowd   string // the semaphore of which it holds a token, which shows others whether its session lives
	stream  Ydb_Coordination_V1.CoordinationService_SessionClient

	holds   atomic.Bool  // the token
	heard   atomic.Int64 // when it last had a sign of life
	ended   chan struct{}
	failure Ydb.StatusIds_StatusCode // once ended: of the Failure, 0 if the stream ended otherwise
	silence time.Duration            // before that Failure
}

// open attaches a new session and asks for a token.
func (s *stayer) open(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	start := &raw.Start{Path: stayNode, TimeoutMillis: uint64(s.timeout.Milliseconds())}
	if err := stream.Send(&raw.Request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start}}); err != nil {
		return err
	}
	s.stream, s.ended, s.failure = stream, make(chan struct{}), 0
	go s.listen()
	return nil
}

// listen answers pings until the stream ends.
func (s *stayer) listen() {
	defer close(s.ended)
	for {
		answer, err := s.stream.Recv()
		if err != nil {
			return
		}
		if failure := answer.GetFailure(); failure != nil {
			s.failure, s.silence = failure.GetStatus(), process.Monotonic()-time.Duration(s.heard.Load())
			return
		}
		s.heard.Store(int64(process.Monotonic()))
		var request raw.Request
		switch arm := answer.GetResponse().(type) {
		case *Ydb_Coordination.SessionResponse_SessionStarted_:
			request.Request = &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
				AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: 1, Name: s.crowd,
					Count: 1, TimeoutMillis: 1<<64 - 1}}
		case *Ydb_Coordination.SessionResponse_Ping:
			request.Request = &Ydb_Coordination.SessionRequest_Pong{Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: arm.Ping.GetOpaque()}}
		case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
			continue // behind one that lost its stream, and holds its token for a while yet
		case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
			s.holds.Store(arm.AcquireSemaphoreResult.GetAcquired())
			continue
		}
		if s.stream.Send(&request) != nil {
			return
		}
	}
}

// over reports whether the stream has ended.
func (s *stayer) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// TestClusterStayers cuts a server off for about the timeout of the sessions on it, whose clients stay on
// their silent streams. A session that has ended must not have had a sign of life within its timeout before:
// it would have been confirmed when it was over, or when its end was on its way. CLUSTER_STAYERS is the number of
// clients, CLUSTER_ROUNDS that of cuts of each kind.
func TestClusterStayers(t *testing.T) {
	seed := seedOf(t)
	x := &exercise{t: t, ctx: t.Context(), random: rand.New(rand.NewPCG(seed, 0)),
		cluster: newCluster(t, true), stretch: 1}
	if _, err := x.awaitLeader(x.ctx); err != nil {
		t.Fatal(err)
	}
	makeStayNode(t, x.listen[0])
	clients, rounds := stayersOf(t), roundsOf(t)
	follower, leader := x.follower, func() int { return x.leader }
	kinds := []stay{
		{"a follower, until sessions end", follower, healingMode, untilSomeEnd},
		{"a follower, for the timeout", follower, anyMode, forTheTimeout},
		{"the leader, for the timeout", leader, anyMode, forTheTimeout},
	}
	if rounds == 0 {
		kinds, rounds = kinds[:1], 1
	}
	expired, resumed := 0, 0
	for round, planned := 0, rounds*len(kinds); round < planned || expired == 0 || resumed == 0; round++ {
		if round >= planned {
			if x.stretch == stayStretch {
				t.Fatalf("%d sessions ran out and %d went on: the cuts show nothing", expired, resumed)
			}
			x.stretch *= 2
		}
		var err error
		if x.leader, err = x.awaitLeader(x.ctx); err != nil {
			t.Fatal(err)
		}
		kind := kinds[round%len(kinds)]
		gone, stayed, err := x.stay(&kind, round, clients)
		t.Logf("%d cut off %s: %s: %d sessions ran out, %d went on", round, kind.name, x.notes, gone, stayed)
		if err != nil {
			t.Fatalf("CRASH_SEED=%d: %v", seed, err)
		}
		expired, resumed = expired+gone, resumed+stayed
	}
}

// anyTimeout is one of the stayers' timeouts.
func (x *exercise) anyTimeout() time.Duration {
	return x.stretch * (stayTimeout - staySpread + time.Duration(x.random.Int64N(2*staySpread.Nanoseconds())))
}

func makeStayNode(t *testing.T, address string) {
	t.Helper()
	conns, err := raw.Dial(address, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conns[0]).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{
			Path:   stayNode,
			Config: &Ydb_Coordination.Config{SessionGracePeriodMillis: uint32(stayGrace.Milliseconds())}})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatal(answer, err)
	}
}

func stayersOf(t *testing.T) int {
	text := os.Getenv("CLUSTER_STAYERS")
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("CLUSTER_STAYERS=%q: want a number from 1", text)
	}
	return n
}

func anyMode(r *rand.Rand) cutMode { return []cutMode{hold, swallow, reset}[r.IntN(3)] }

// healingMode leaves no dead connections behind, so that servers speak to each other the moment a cut is
// over.
func healingMode(r *rand.Rand) cutMode { return []cutMode{hold, reset}[r.IntN(2)] }

// stay is one kind of cut. It is over when lasts returns.
type stay struct {
	name   string
	victim func() int
	mode   func(*rand.Rand) cutMode
	lasts  func(x *exercise, crowd *crowd) error
}

// forTheTimeout lets a cut last for about as long as the sessions' timeouts.
func forTheTimeout(x *exercise, _ *crowd) error {
	length := stayLeave + x.anyTimeout()
	x.note("%s, for %v", x.notes, length.Round(time.Millisecond))
	time.Sleep(length) // the fault itself
	return nil
}

// untilSomeEnd lets a cut last until some share of the sessions has ended.
func untilSomeEnd(x *exercise, c *crowd) error {
	most := x.random.IntN(len(c.stayers)*9/10) + len(c.stayers)/20
	x.note("%s, until no more than %d are left", x.notes, most)
	var failed error
	return errors.Join(x.await("sessions end", func() bool {
		d, err := c.witness.Describe(c.name, false)
		failed = err
		return err != nil || len(d.GetOwners()) <= most
	}), failed)
}

// crowd is many clients on one server, each with a token of one semaphore, and a session on another server
// that sees them.
type crowd struct {
	name    string
	stayers []*stayer
	witness *raw.Session
	leave   func()
}

// stay cuts a server with many clients off for as long as the kind says. It returns how many sessions ended
// and how many went on.
func (x *exercise) stay(kind *stay, round, clients int) (expired, resumed int, _ error) {
	victim := kind.victim()
	a, b := others(victim)
	c := &crowd{name: fmt.Sprintf("crowd-%d", round)}
	if err := c.moveIn(x, victim, a, clients); err != nil {
		return 0, 0, err
	}
	defer c.leave()
	mode := kind.mode(x.random)
	x.note("server %d, %s", victim, mode)
	x.network.cut(mode, append(between(victim, a), between(victim, b)...)...)
	err := kind.lasts(x, c)
	healed := int64(process.Monotonic())
	x.network.heal()
	if err != nil {
		return 0, 0, err
	}
	if err := x.await("every client knows what became of its session",
		func() bool { return c.allHeardSince(healed) }); err != nil {
		return 0, 0, err
	}
	// A session that was confirmed while its end was on its way has ended before it is pinged again.
	if err := x.await("every session that goes on is pinged again",
		func() bool { return c.allHeardSince(healed + int64(x.stretch)*staySettles) }); err != nil {
		return 0, 0, err
	}
	expired, resumed, err = c.judge()
	return expired, resumed, errors.Join(err,
		x.await("the servers open other connections", x.network.replaced))
}

// staySettles is longer than the interval of any stayer's pings, where nothing is stretched.
const staySettles = int64(time.Second)

// allHeardSince reports whether every client has had a message since then, or lost its stream.
func (c *crowd) allHeardSince(at int64) bool {
	for _, s := range c.stayers {
		if !s.over() && s.heard.Load() < at {
			return false
		}
	}
	return true
}

// judge counts the sessions that ended and those that went on, and finds those that were confirmed when they were over.
func (c *crowd) judge() (expired, resumed int, _ error) {
	var wrong []error
	for i, s := range c.stayers {
		switch {
		case !s.over():
			resumed++
		case s.failure == Ydb.StatusIds_SESSION_EXPIRED:
			expired++
			if s.silence < s.timeout-deliveryMargin {
				wrong = append(wrong,
					fmt.Errorf("client %d: session with a timeout of %v ended %v after a sign of life", i,
						s.timeout, s.silence))
			}
		}
	}
	if len(wrong) == 0 {
		return expired, resumed, nil
	}
	return expired, resumed, fmt.Errorf("%d of %d sessions were said to live when they were over: %w",
		len(wrong), expired, errors.Join(wrong[:min(3, len(wrong))]...))
}

// moveIn opens a session that sees the clients, and the clients' streams, and waits until each has its token.
func (c *crowd) moveIn(x *exercise, server, witness, clients int) error {
	const streamsEach = 100
	session, closeSession, err := openAt(x.ctx, x.listen[witness], stayNode)
	if err != nil {
		return err
	}
	c.witness = session
	ctx, cancel := context.WithCancel(x.ctx)
	conns, err := raw.Dial(x.listen[server], (clients+streamsEach-1)/streamsEach)
	c.leave = func() { cancel(); raw.Close(conns); closeSession() }
	if err := errors.Join(err, session.Create(c.name, uint64(clients))); err != nil {
		c.leave()
		return err
	}
	for range clients {
		c.stayers = append(c.stayers, &stayer{timeout: x.anyTimeout(), crowd: c.name})
	}
	errs := make([]error, len(conns))
	var opening sync.WaitGroup
	for at, mine := range slices.Collect(slices.Chunk(c.stayers, streamsEach)) {
		opening.Go(func() {
			for i := 0; i < len(mine) && errs[at] == nil; i++ {
				errs[at] = mine[i].open(ctx, conns[at])
			}
		})
	}
	opening.Wait()
	err = errors.Join(errs...)
	if err == nil {
		var failed error
		err = errors.Join(x.await("every client has its token", func() bool {
			missing := 0
			for i, s := range c.stayers {
				if s.holds.Load() {
					continue
				}
				missing++
				if s.over() { // a machine that is busy lets pings be answered too late
					failed = errors.Join(failed, s.open(ctx, conns[i/streamsEach]))
				}
			}
			return missing == 0 || failed != nil
		}), failed)
	}
	if err != nil {
		c.leave()
	}
	return err
}
