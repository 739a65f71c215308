package server

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/testmode"
)

// slowConn takes its time to read.
type slowConn struct {
	net.Conn
	bytesPerSecond float64
}

// Read implements net.Conn.
func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 64<<10)])
	time.Sleep(time.Duration(float64(n) / c.bytesPerSecond * float64(time.Second)))
	return n, err
}

// TestLargeAnswerOnASlowLink asks a follower for an answer that takes longer to come from the leader than a
// silent relay is kept. It comes, over the relay that there was, and the session of another client lives on.
func TestLargeAnswerOnASlowLink(t *testing.T) {
	testmode.Long(t)
	const rate, owners = 5 << 20, 12
	c := newCluster(t, 3, func(config *Config) {
		config.Cluster.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return nil, err
			}
			return &slowConn{conn, rate}, nil
		}
	})
	c.startAll()
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	holders := make([]sessionClient, owners)
	for i := range holders {
		holders[i] = openTest(t, t.Context(), c.conns[leader], start(1_800_000))
		next(t, holders[i])
		if i == 0 {
			send(t, holders[i],
				&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
					CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "large",
						Limit: owners}}})
			next(t, holders[i])
		}
		r := acquire(2, "large", make([]byte, 1<<20))
		r.GetAcquireSemaphore().Ephemeral = false
		send(t, holders[i], r)
		if r := next(t, holders[i]); !r.GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatalf("got %v", r)
		}
		go func() { // until the connection is closed
			for {
				m, err := holders[i].Recv()
				if err != nil {
					return
				}
				_ = holders[i].Send(
					&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
						Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
			}
		}()
	}
	large, err := grpc.NewClient(c.conns[follower].Target(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64_000_000)))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	asker, other := openTest(t, t.Context(), large, start(60_000)),
		openTest(t, t.Context(), c.conns[follower], start(60_000))
	next(t, asker)
	next(t, other)
	send(t, asker,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: 3, Name: "large",
				IncludeOwners: true}}})
	answered := make(chan string, 1)
	go func() {
		for {
			m, err := asker.Recv()
			switch {
			case err != nil:
				answered <- err.Error()
				return
			case m.GetPing() != nil:
				_ = asker.Send(
					&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
						Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
			default:
				answered <- fmt.Sprint(
					len(m.GetDescribeSemaphoreResult().GetSemaphoreDescription().GetOwners()), " owners")
				return
			}
		}
	}()
	small := 0
	for round := uint64(1); ; round++ { // small answers overtake the large one
		select {
		case got := <-answered:
			if got != fmt.Sprint(owners, " owners") {
				t.Fatalf("got %s", got)
			}
			if small < 3 {
				t.Errorf("%d small answers came meanwhile", small)
			}
			return
		default:
		}
		send(t, other, acquire(round, fmt.Sprint("small-", round), nil))
		if r := next(t, other); !r.GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatalf("got %v", r)
		}
		small++
	}
}
