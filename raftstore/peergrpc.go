package raftstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// acceptedKey is in the header that answers a stream of messages.
const acceptedKey = "coordd-accepted"

// grpcNetwork is the network of a running server.
type grpcNetwork struct {
	listenAddress string
	tls           *PeerTLS
	services      func(grpc.ServiceRegistrar)
	dialer        func(ctx context.Context, address string) (net.Conn, error) // nil: over TCP
	listener      func(address string) (net.Listener, error)                  // nil: over TCP
	// is told of handshakes, nil: nobody is
	failed func(conn net.Conn, err error)
	logger *slog.Logger
	full   func() // is called when there are too many connections, nil: nobody is told
}

var _ network = (*grpcNetwork)(nil)

// listen implements network.
func (n *grpcNetwork) listen(in peerServer) (func(), error) {
	listener := n.listener
	if listener == nil {
		listener = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	l, err := listener(n.listenAddress)
	if err != nil {
		return nil, fmt.Errorf("listen for members: %w", err)
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(peerMessageMax),
		grpc.ConnectionTimeout(peerHandshakeMax),
		grpc.WaitForHandlers(true),              // the store's handler is not called once Stop has returned
		grpc.StaticStreamWindowSize(peerWindow), // without, gRPC answers every message with a ping
		grpc.StaticConnWindowSize(peerWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: peerKeepalive, Timeout: peerKeepalive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: peerKeepalive / 2,
			PermitWithoutStream: true}),
	}
	if n.tls != nil {
		options = append(options, grpc.Creds(watchedHandshakes{credentials.NewTLS(n.tls.serverSide()),
			n.failed}))
	}
	from := newCallers(l, peerLimits, func(certificate *x509.Certificate) bool {
		return n.tls == nil || certifies(in.admitted(), certificate)
	}, n.full, n.logger)
	options = append(options,
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			from.prove(ctx, certificateOf(ctx))
			return ctx, nil
		}))
	srv := grpc.NewServer(options...)
	peerpb.RegisterPeerServer(srv, peerService{in: in})
	if n.services != nil {
		n.services(guardedServices{srv, in})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(from) // it ends with an error only when the listener was closed
	}()
	return func() { from.guard.CloseAll(); srv.Stop(); <-done }, nil
}

// dial makes a connection of its own, so that closing it drops everything that waits in it.
func (n *grpcNetwork) dial(address string) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if n.tls != nil {
		creds = credentials.NewTLS(n.tls.clientSide())
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(peerMessageMax),
			grpc.MaxCallRecvMsgSize(peerMessageMax)), grpc.WithStaticStreamWindowSize(peerWindow),
		grpc.WithStaticConnWindowSize(peerWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: peerKeepalive, Timeout: peerKeepalive}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: reconnectPauseMin, Multiplier: 2,
				MaxDelay: reconnectPauseMax},
			// As long as the other side waits. A handshake takes the processors of both, which on a busy
			// machine they may not get for a while; who gives up too early does so every time.
			MinConnectTimeout: peerHandshakeMax,
		}),
	}
	if n.dialer != nil {
		options = append(options, grpc.WithContextDialer(n.dialer))
	}
	return grpc.NewClient("passthrough:///"+address, options...)
}

// hello implements network.
func (n *grpcNetwork) hello(ctx context.Context, address string,
	req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	conn, err := n.dial(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := peerpb.NewPeerClient(conn).Hello(ctx, req)
	return answer, fromStatus(err)
}

// messages implements network.
func (n *grpcNetwork) messages(ctx context.Context, address string, header *peerpb.Header) (frameStream, error) {
	conn, err := n.dial(address)
	if err != nil {
		return nil, err
	}
	client := peerpb.NewPeerClient(conn)
	s, err := client.Messages(ctx)
	if err == nil {
		err = sendOn(s, &peerpb.Frame{Header: header})
	}
	if err != nil {
		conn.Close()
		return nil, fromStatus(err)
	}
	f := &grpcFrames{conn: conn, client: client, s: s, welcome: make(chan struct{}),
		over: make(chan struct{}), probed: make(chan struct{})}
	go f.await()
	go f.probe(header.GetUrgent())
	return f, nil
}

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

// await finds out that the stream has ended; gRPC tells only who receives.
func (f *grpcFrames) await() {
	defer close(f.over)
	if header, err := f.s.Header(); err == nil && len(header.Get(acceptedKey)) > 0 {
		close(f.welcome)
	}
	if f.why = fromStatus(f.s.RecvMsg(&peerpb.Received{})); f.why == nil {
		f.why = errStreamEnded
	}
	if f.dead.Load() {
		f.why = errDeadConnection
	}
}

func (f *grpcFrames) send(frame *peerpb.Frame) error {
	err := f.s.Send(frame)
	if err == nil {
		f.sent.Add(1)
	}
	if errors.Is(err, io.EOF) {
		<-f.over
		return f.why
	}
	return fromStatus(err)
}

func (f *grpcFrames) ended() <-chan struct{} { return f.over }

func (f *grpcFrames) accepted() <-chan struct{} { return f.welcome }

func (f *grpcFrames) close() {
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

// snapshot implements network.
func (n *grpcNetwork) snapshot(ctx context.Context, address string, next func() (*peerpb.Chunk, error)) error {
	conn, err := n.dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := peerpb.NewPeerClient(conn).Snapshot(ctx)
	if err != nil {
		return fromStatus(err)
	}
	for {
		c, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := sendOn(s, c); err != nil {
			return fromStatus(err)
		}
	}
	_, err = s.CloseAndRecv()
	return fromStatus(err)
}

// close implements network. Every connection is closed by who opened it.
func (n *grpcNetwork) close() {}

// refusals are the errors that keep their meaning across the network.
var refusals = map[codes.Code]error{
	codes.PermissionDenied:   ErrRemoved,
	codes.DataLoss:           ErrEmptied,
	codes.FailedPrecondition: ErrOtherCluster,
}

func fromStatus(err error) error {
	if kind, ok := refusals[status.Code(err)]; ok {
		return refuse(kind, "%s", status.Convert(err).Message())
	}
	return err
}

func toStatus(err error) error {
	for code, refusal := range refusals {
		if errors.Is(err, refusal) {
			return status.Error(code, err.Error())
		}
	}
	return err
}

// peerService serves what the other members call.
type peerService struct {
	peerpb.UnimplementedPeerServer
	in peerServer
}

// Hello implements peerpb.PeerServer.
func (p peerService) Hello(ctx context.Context, req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	answer, err := p.in.answerHello(req, certificateOf(ctx))
	return answer, toStatus(err)
}

// Messages implements peerpb.PeerServer.
func (p peerService) Messages(s grpc.ClientStreamingServer[peerpb.Frame, peerpb.Received]) error {
	f, err := s.Recv()
	if err != nil {
		return err
	}
	h := f.GetHeader()
	if err := p.in.accept(h, certificateOf(s.Context())); err != nil {
		return toStatus(err)
	}
	defer p.in.lost(h)
	if err := s.SendHeader(metadata.Pairs(acceptedKey, "1")); err != nil {
		return err
	}
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		if err := p.in.receive(h, f); err != nil {
			return toStatus(err)
		}
	}
}

// Snapshot implements peerpb.PeerServer.
func (p peerService) Snapshot(s grpc.ClientStreamingServer[peerpb.Chunk, peerpb.Received]) error {
	if err := p.in.receiveSnapshot(certificateOf(s.Context()), s.Recv); err != nil {
		return toStatus(err)
	}
	return s.SendAndClose(&peerpb.Received{})
}

// DialPeer makes a connection to another member for the server's own services, see Cluster.Services.
func (s *Store) DialPeer(address string) (*grpc.ClientConn, error) {
	return (&grpcNetwork{tls: s.cfg.Cluster.TLS, dialer: s.cfg.Cluster.Dial}).dial(address)
}
