package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/wire"
)

// TestStalledWriters has clients hold up their writers for ever. A stream whose client has room does not wait
// at all for them, and one whose client may have none waits for little.
func TestStalledWriters(t *testing.T) {
	const stalled = 500
	synctest.Test(t, func(t *testing.T) {
		var w writers
		var holding sync.WaitGroup
		holding.Add(stalled)
		release := make(chan struct{})
		served := make(chan *session, 1)
		good, busy := &session{}, &session{}
		send := func(s *session, _ []coordination.Reply) ([]coordination.Reply, bool) {
			if s == good || s == busy {
				served <- s
			} else {
				holding.Done()
				<-release
			}
			return nil, false
		}
		w.prompt.open(send, false)
		w.slow.open(send, true)
		busy.progress.sent.Store(sendRoom)
		for range stalled {
			s := &session{}
			s.progress.sent.Store(sendRoom)
			w.schedule(s)
		}
		begun := time.Now()
		w.schedule(good)
		if <-served; time.Since(begun) > 0 {
			t.Errorf("a client with room waits for %v", time.Since(begun))
		}
		w.schedule(busy)
		if <-served; time.Since(begun) > (stalled/writersPerStall+2)*stallPatience {
			t.Errorf("a client that may have no room waits for %v", time.Since(begun))
		}
		holding.Wait()
		close(release)
		w.close()
	})
}

// TestProgress shows what proves that a client has read.
func TestProgress(t *testing.T) {
	var p progress
	result := &coordination.Reply{Kind: coordination.ReplyResult, Request: coordination.RequestRelease}
	say := func(r *coordination.Reply) { p.sending(r, sizeOf(r)) }
	ping := func(opaque uint64) { say(&coordination.Reply{Kind: coordination.ReplyPing, Opaque: opaque}) }
	expect := func(what string, want int64) {
		t.Helper()
		if n := p.unread(); n != want {
			t.Errorf("%s: %d bytes are unread, want %d", what, n, want)
		}
	}
	say(result)
	ping(7)
	say(result)
	expect("nothing is read", 3*replyFrameBytes)
	p.heard(&coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: 8})
	p.heard(&coordination.ClientMessage{Kind: coordination.ClientPong})
	p.heard(&coordination.ClientMessage{Kind: coordination.ClientSemaphore})
	expect("nothing proves anything", 3*replyFrameBytes)
	p.heard(&coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: 7})
	expect("the ping is answered", replyFrameBytes)
	say(result)
	p.heard(&coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: 7})
	expect("it is answered twice", 2*replyFrameBytes)
	ping(9)
	p.heard(&coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: 9})
	expect("it is answered as the Python SDK does", 0)
}

// TestReplyBytes compares what a reply counts with what is sent.
func TestReplyBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 12))
	number := func() uint64 { return math.MaxUint64 >> random.IntN(64) }
	for kind := coordination.ReplyStarted; kind <= coordination.ReplyFailure+10; kind++ {
		for range 200 {
			r := coordination.Reply{Kind: kind, ReqID: number(), Opaque: number(),
				Session: coordination.SessionID(number()), Done: true, DataChanged: true, OwnersChanged: true,
				WatchAdded: true, Request: coordination.RequestKind(1 + random.IntN(6))}
			if random.IntN(2) == 0 {
				r.Refusal = &coordination.Refusal{Status: outcome.Unavailable,
					Text: string(make([]byte, random.IntN(300)))}
			}
			if r.Request == coordination.RequestDescribe {
				link := coordination.LinkDescription{Order: math.MaxUint64, Session: math.MaxUint64,
					TimeoutMillis: math.MaxUint64, Count: math.MaxUint64,
					Data: make([]byte, random.IntN(1000))}
				links := make([]coordination.LinkDescription, random.IntN(5))
				for i := range links {
					links[i] = link
				}
				r.Description = &coordination.SemaphoreDescription{Name: string(make([]byte,
					random.IntN(1000))), Data: make([]byte, random.IntN(1000)), Count: number(),
					Limit: number(), Ephemeral: true, Owners: coordination.LinksOf(links),
					Waiters: coordination.LinksOf(links)}
			}
			if n := 5 + proto.Size(wire.ToClient(&r)); int64(n) > sizeOf(&r) {
				t.Fatalf("%+v has %d bytes, and counts %d", r, n, sizeOf(&r))
			}
		}
	}
}

// TestSendRoom shows that the linked gRPC takes sendRoom of a client that reads nothing without waiting.
func TestSendRoom(t *testing.T) {
	s, conn := startTest(t, nil)
	stream := openTest(t, t.Context(), conn, start(1_800_000))
	next(t, stream)
	rpc := s.group.Clients()[0].(*session).rpc
	small := &Ydb_Coordination.SessionResponse{Response: &Ydb_Coordination.SessionResponse_Pong{Pong: &Ydb_Coordination.SessionResponse_PingPong{Opaque: 1}}}
	done := make(chan error, 1)
	go func() {
		var err error
		for range sendRoom / replyFrameBytes {
			if err == nil {
				err = rpc.Send(small)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

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
	heldUp := func() int {
		s.writers.slow.mutex.Lock()
		defer s.writers.slow.mutex.Unlock()
		return s.writers.slow.running - s.writers.slow.idle
	}
	eventually(t, fmt.Sprint("all ", stalled, " clients to hold up a writer"),
		func() bool { return heldUp() >= stalled })
	for range 4 { // the others are not failed as long as that
		for range 10 {
			handOver(round)
			round++
		}
		clock.turn(time.Second)
	}
	s.writers.prompt.mutex.Lock()
	defer s.writers.prompt.mutex.Unlock()
	if n := s.writers.prompt.running; n != s.writers.prompt.usual() {
		t.Errorf("%d writers serve the clients that read", n)
	}
}
