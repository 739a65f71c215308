//go:build linux

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
)

// TestClusterMoves moves the leader by plan, one time after the other, while many sessions live that wait for a lock
// with a timeout: 1,000 sessions and thirty moves in the long form. No session is lost and no wait ends early. It
// prints how late waits end.
func TestClusterMoves(t *testing.T) {
	besideOthers(t)
	sessions, moves := 100, 3
	if longForm {
		sessions, moves = 1000, 30
	}
	seed := seedOf(t)
	x := &exercise{t: t, random: rand.New(rand.NewPCG(seed, 0)), cluster: newCluster(t, false), ctx: t.Context()}
	if _, err := x.awaitLeader(x.ctx); err != nil {
		t.Fatal(err)
	}
	var conns []*grpc.ClientConn
	for i := range servers {
		conn, err := raw.Dial(x.listen[i], 1)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close(conn)
		conns = append(conns, conn...)
	}
	if err := raw.CreateNode(x.ctx, conns[0], nodePath); err != nil {
		t.Fatal(err)
	}
	holder, err := raw.Open(x.ctx, conns[0], &raw.Start{Path: nodePath, TimeoutMillis: 30_000})
	if err == nil {
		err = holder.Create("lock", 1)
	}
	if err == nil {
		err = holder.Acquire("lock", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = holder.Receive() }()

	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	var mutex sync.Mutex
	var late []time.Duration
	var problems []error
	var waiting sync.WaitGroup
	for i := range sessions {
		waiting.Go(func() {
			w := &waits{random: rand.New(rand.NewPCG(seed, uint64(i)))}
			err := w.run(ctx, conns[i%servers])
			mutex.Lock()
			defer mutex.Unlock()
			late = append(late, w.late...)
			if ctx.Err() == nil {
				problems = append(problems, fmt.Errorf("session %d: %w", i, err))
			}
		})
	}
	for range moves {
		if err := x.await("the leader moves", func() bool { // a new leader has to hear of the others first
			leader, err := x.awaitLeader(x.ctx)
			if err == nil {
				_, err = x.commandAt(leader, "cluster", "transfer-leader")
			}
			return err == nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(inLongForm(2*time.Second, 300*time.Millisecond)) // the pace of the moves, of which no result depends
	}
	time.Sleep(inLongForm(waitMost, 0))
	cancel()
	waiting.Wait()
	for _, err := range problems {
		t.Error(err)
	}
	if slices.Sort(late); len(late) > 0 {
		t.Logf("%d moves, %d sessions, %d waits ended: half of them %v late, all at most %v", moves, sessions, len(late),
			late[len(late)/2], late[len(late)-1])
	} else if longForm {
		t.Error("no wait ended")
	}
}

// waitMost is the longest timeout of a wait.
const waitMost = 8 * time.Second

// waits is a session of 5 s that waits for a lock that it never gets, again and again.
type waits struct {
	random *rand.Rand
	late   []time.Duration // of each wait
}

func (w *waits) run(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	send := func(request *Ydb_Coordination.SessionRequest) {
		err = stream.Send(request)
	}
	send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: nodePath, TimeoutMillis: 5000}}})
	var began time.Time
	var timeout time.Duration
	for number := uint64(1); err == nil; {
		var answer *Ydb_Coordination.SessionResponse
		if answer, err = stream.Recv(); err != nil {
			return err
		}
		switch arm := answer.GetResponse().(type) {
		case *Ydb_Coordination.SessionResponse_Ping:
			send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
				Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: arm.Ping.GetOpaque()}}})
			continue
		case *Ydb_Coordination.SessionResponse_Failure_:
			return fmt.Errorf("failure: %v", arm.Failure)
		case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
			continue
		case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
			took := time.Since(began)
			if arm.AcquireSemaphoreResult.GetAcquired() || took < timeout {
				return fmt.Errorf("a wait of %v ended after %v: %v", timeout, took, arm)
			}
			w.late = append(w.late, took-timeout)
		}
		number, timeout = number+1, waitMost-time.Duration(w.random.Int64N(int64(waitMost)/2))
		began = time.Now()
		send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: number, Name: "lock", Count: 1,
				TimeoutMillis: uint64(timeout.Milliseconds())}}})
	}
	return err
}
