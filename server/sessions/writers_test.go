package sessions

import (
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/services"
	"github.com/coordd/coordd/server/wire"
)

// TestStalledWriters makes clients hold up their writers for ever. A stream whose client has room does not wait at all
// for them, and one whose client may be out of room waits for little.
func TestStalledWriters(t *testing.T) {
	const stalled = 500
	synctest.Test(t, func(t *testing.T) {
		var w writers
		var holding sync.WaitGroup
		holding.Add(stalled)
		release := make(chan struct{})
		served := make(chan *Session, 1)
		good, busy := &Session{}, &Session{}
		send := func(s *Session, _ []coordination.Reply) ([]coordination.Reply, bool) {
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
			s := &Session{}
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
	small := &Ydb_Coordination.SessionResponse{Response: &Ydb_Coordination.SessionResponse_Pong{
		Pong: &Ydb_Coordination.SessionResponse_PingPong{Opaque: 1}}}
	sent := make(chan error, 1)
	server := grpc.NewServer(listen.Codec())
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(server, services.Coordination{
		Sessions: func(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) (err error) {
			for range sendRoom / replyFrameBytes {
				if err == nil {
					err = rpc.Send(small)
				}
			}
			sent <- err
			<-rpc.Context().Done()
			return err
		}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() { server.Stop(); <-ended }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
