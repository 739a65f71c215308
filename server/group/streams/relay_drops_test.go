package streams

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/relaypb"
)

// droppingLeader wants permits dropped twice, and is gone.
type droppingLeader struct{}

func (droppingLeader) Open(s grpc.ServerStream) error {
	rpc := &grpc.GenericServerStream[relaypb.PermitRequest, relaypb.PermitGrant]{ServerStream: s}
	if _, err := rpc.Recv(); err != nil {
		return err
	}
	for range 2 { // by Hush, and for the next request
		if err := rpc.Send(&relaypb.PermitGrant{Drop: true}); err != nil {
			return err
		}
	}
	return ErrNotLeading
}

// TestPermitStreamEndsBehindDrops has the connection of the heartbeats break while a follower drops its permits. It
// asks over the next one.
func TestPermitStreamEndsBehindDrops(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		return droppingLeader{}.Open(s)
	}))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	hands := &turnedClock{now: coordination.Instant(time.Second)}
	r := &Relay{streams: New(Config{}), shell: clock.New(hands), asked: make(map[uint64]moment), bell: turn.NewBell()}
	for range 100 { // which hangs if the follower does
		if err := r.askOver(t.Context(), conn); err == nil {
			t.Fatal("a stream that is over has no error")
		}
	}
}
