package standin

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// limiter calls for units of resources of the node.
type limiter struct {
	t      *testing.T
	s      *Server
	client Ydb_RateLimiter_V1.RateLimiterServiceClient
}

func (l *limiter) create(path string, rate float64) {
	l.t.Helper()
	// a cluster has to know it of all of them
	eventually(l.t, "the servers to know rate limiters", func() bool {
		answer, err := l.client.CreateResource(l.t.Context(),
			&Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: node,
				Resource: &Ydb_RateLimiter.Resource{ResourcePath: path,
					Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
						HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: rate}}}})
		return err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS
	})
}

func (l *limiter) use(path string, amount uint64) {
	l.t.Helper()
	answer, err := l.client.AcquireResource(l.t.Context(),
		&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: node, ResourcePath: path,
			Units: &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: amount}})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		l.t.Fatal(answer, err)
	}
}

// acquire waits for units until the stand-in's time comes to an end, and returns how it ends, once the call
// waits.
func (l *limiter) acquire(path string, amount uint64, limit time.Duration) <-chan Ydb.StatusIds_StatusCode {
	l.t.Helper()
	waiting := l.waiting()
	ended := make(chan Ydb.StatusIds_StatusCode, 1)
	go func() {
		answer, err := l.client.AcquireResource(l.t.Context(),
			&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: node, ResourcePath: path,
				OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(limit)},
				Units:           &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: amount}})
		if err != nil {
			l.t.Error(err)
		}
		ended <- answer.GetOperation().GetStatus()
	}()
	eventually(l.t, "the call to wait", func() bool { return l.waiting() > waiting })
	return ended
}

// waiting counts the calls that wait for units.
func (l *limiter) waiting() (waiting int) {
	for _, g := range l.s.groups() {
		waiting += g.Limiter().Figures().Waiters
	}
	return waiting
}

func newLimiter(t *testing.T, s *Server, conn *grpc.ClientConn) *limiter {
	return &limiter{t, s, Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn)}
}

// TestAdvanceFillsBuckets with what the rate allows, and ends the waits that are too long, each at its
// moment.
func TestAdvanceFillsBuckets(t *testing.T) {
	for name, options := range map[string][]Option{"alone": nil, "cluster": {Servers(3)}} {
		t.Run(name, func(t *testing.T) {
			s, _ := began(t, append(options, FakeTime())...)
			l := newLimiter(t, s, connect(t, s, len(s.members)-1))
			l.create("r", 10)
			l.use("r", 102) // of the 2 that a full bucket has
			patient, impatient := l.acquire("r", 1, time.Hour), l.acquire("r", 1, 5*time.Second)
			s.Advance(5*time.Second - time.Millisecond)
			if l.waiting() != 2 {
				t.Error("a wait has ended too early")
			}
			s.Advance(time.Millisecond)
			if got := <-impatient; got != Ydb.StatusIds_TIMEOUT || l.waiting() != 1 {
				t.Errorf("behind its time a call is answered %s, and %d wait", got, l.waiting())
			}
			s.Advance(4900 * time.Millisecond)
			if l.waiting() != 1 {
				t.Error("granted while there is a debt")
			}
			s.Advance(400 * time.Millisecond)
			if got := <-patient; got != Ydb.StatusIds_SUCCESS {
				t.Errorf("the debt is repaid, and a call is answered %s", got)
			}
		})
	}
}

// TestAdvanceOverTenMinutesOfQuota: in each ten seconds as much flows as the rate allows, in order of arrival. Its
// duration by the real clock is only logged.
func TestAdvanceOverTenMinutesOfQuota(t *testing.T) {
	s, conn := began(t, FakeTime())
	l := newLimiter(t, s, conn)
	l.create("r", 10)
	l.create("r/child", 1000) // no faster than what is above it
	l.use("r/child", 2)       // of what a full bucket has
	const parts = 60
	var mutex sync.Mutex
	var order []int
	var calls sync.WaitGroup
	for i := range parts {
		ended := l.acquire("r/child", 100, time.Hour)
		calls.Go(func() {
			if got := <-ended; got != Ydb.StatusIds_SUCCESS {
				t.Errorf("call %d: %s", i, got)
			}
			mutex.Lock()
			defer mutex.Unlock()
			order = append(order, i)
		})
	}
	begun := time.Now()
	for part := range parts {
		s.Advance(10 * time.Second)
		if waiting, want := l.waiting(), parts-1-part; waiting < want-1 || waiting > want+1 {
			t.Errorf("after %v %d wait, want about %d", s.Elapsed(), waiting, want)
		}
		eventually(t, "the answers", func() bool {
			mutex.Lock()
			defer mutex.Unlock()
			return len(order)+l.waiting() == parts
		})
		if last := slices.Max(append([]int{-1}, order...)); last != len(order)-1 {
			t.Errorf("after %v call %d is granted, and %d in all", s.Elapsed(), last, len(order))
		}
	}
	s.Advance(20 * time.Second)
	calls.Wait()
	t.Logf("%v took %v", s.Elapsed(), time.Since(begun))
}
