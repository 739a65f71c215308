package peers

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore/peerpb"
)

type grpcFrames struct {
	conn    *grpc.ClientConn
	client  peerpb.PeerClient // over conn
	s       grpc.ClientStreamingClient[peerpb.Frame, peerpb.Received]
	welcome chan struct{} // closed when the header was accepted
	over    chan struct{}
	why     error         // set before over is closed
	probed  chan struct{} // closed when there are no more probes
	sent    atomic.Uint64 // frames
	dead    atomic.Bool   // a probe was not answered
}

// probe asks the other side from time to time who it is, on the same connection, and gives the connection up
// if nothing comes back. The stream goes one way only, and a connection that carries nothing any more, or
// nothing back, would otherwise be noticed by gRPC's keepalive alone, whose shortest interval is 10 s. Bulk
// data may hold up the question: as long as frames are sent the answer may take longer.
func (f *grpcFrames) probe(urgent bool) {
	defer close(f.probed)
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-f.over:
			return
		case <-tick.C:
		}
		for missed := time.Duration(0); ; {
			sent := f.sent.Load()
			ctx, cancel := context.WithTimeout(f.s.Context(), probePatience)
			_, err := f.client.Hello(ctx, &peerpb.HelloRequest{})
			cancel()
			if status.Code(err) != codes.DeadlineExceeded {
				break
			}
			missed += probePatience
			if urgent || f.sent.Load() == sent || missed >= peerKeepalive {
				f.dead.Store(true)
				f.conn.Close()
				return
			}
		}
	}
}

// await notices the end of the stream; gRPC reports it only to a receiver.
func (f *grpcFrames) await() {
	defer close(f.over)
	if header, err := f.s.Header(); err == nil && len(header.Get(acceptedKey)) > 0 {
		close(f.welcome)
	}
	if f.why = FromStatus(f.s.RecvMsg(&peerpb.Received{})); f.why == nil {
		f.why = errStreamEnded
	}
	if f.dead.Load() {
		f.why = errDeadConnection
	}
}

func (f *grpcFrames) Send(frame *peerpb.Frame) error {
	err := f.s.Send(frame)
	if err == nil {
		f.sent.Add(1)
	}
	if errors.Is(err, io.EOF) {
		<-f.over
		return f.why
	}
	return FromStatus(err)
}

func (f *grpcFrames) Conn() *grpc.ClientConn { return f.conn }

func (f *grpcFrames) Ended() <-chan struct{} { return f.over }

func (f *grpcFrames) Accepted() <-chan struct{} { return f.welcome }

func (f *grpcFrames) Close() {
	f.conn.Close()
	<-f.over
	<-f.probed
}

var (
	errStreamEnded    = errors.New("the stream was ended")
	errDeadConnection = errors.New("nothing comes through the connection")
)

// sendOn sends one message; when the other side has ended the stream, its reason is fetched.
func sendOn[Message any](s grpc.ClientStreamingClient[Message, peerpb.Received], m *Message) error {
	err := s.Send(m)
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.RecvMsg(&peerpb.Received{}); err != nil {
		return err
	}
	return errStreamEnded
}
