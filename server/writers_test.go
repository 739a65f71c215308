package server

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
)

// TestClientsThatDoNotRead opens 500 streams whose clients ask for more than they read, beside good clients:
// their pings are answered, their own answers count, and they hand a lock from one to the other.
func TestClientsThatDoNotRead(t *testing.T) {
	var clock handClock // so that nobody has to answer a ping while the others come
	s, conn := startTest(t, func(c *Config) { c.hooks.Rings = &clock })
	maker := openTest(t, t.Context(), conn, start(1_800_000))
	next(t, maker)
	send(t, maker,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "large",
				Limit: 1, Data: make([]byte, 100_000)}}})
	next(t, maker)
	var good [2]sessionClient
	for i := range good {
		good[i] = openTest(t, t.Context(), conn, start(3_000))
		next(t, good[i])
	}
	handOver := func(round uint64) {
		from, to := good[round%2], good[(round+1)%2]
		if round == 0 {
			send(t, from, wait(round, "lock"))
			if r := next(t, from); !r.GetAcquireSemaphoreResult().GetAcquired() {
				t.Fatalf("got %v", r)
			}
		}
		send(t, to, wait(round, "lock"))
		if r := next(t, to); r.GetAcquireSemaphorePending() == nil {
			t.Fatalf("got %v", r)
		}
		send(t, from, release(round, "lock"))
		if r := next(t, from); !r.GetReleaseSemaphoreResult().GetReleased() {
			t.Fatalf("got %v", r)
		}
		if r := next(t, to); !r.GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatalf("got %v", r)
		}
	}
	const stalled, perConnection, asked = 500, 50, 4
	var other *grpc.ClientConn
	for i := range stalled {
		if i%perConnection == 0 {
			other = connectNarrow(t, s)
		}
		stream := openTest(t, t.Context(), other, start(1_800_000))
		for j := range uint64(asked) {
			send(t, stream,
				&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
					DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: j,
						Name: "large"}}})
		}
	}
	round := uint64(0)
	eventually(t, fmt.Sprint("all ", stalled, " clients to hold up a writer"),
		func() bool { return s.sessions.Figures().HeldUp >= stalled })
	for range 4 { // the others are not failed as long as that
		for range 10 {
			handOver(round)
			round++
		}
		clock.turn(time.Second)
	}
	if n := s.sessions.Figures().Prompt; n != max(2, runtime.GOMAXPROCS(0)) {
		t.Errorf("%d writers serve the clients that read", n)
	}
}
