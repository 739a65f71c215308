package peers

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
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// acceptedKey is in the header that answers a stream of messages.
const acceptedKey = "coordd-accepted"

// GRPC is the network of a running server.
type GRPC struct {
	Address string // to listen on
	TLS     *TLS   // nil: plain text
	// Services registers further services for current members; nil: none.
	Services func(grpc.ServiceRegistrar)
	Dialer   func(ctx context.Context, address string) (net.Conn, error) // nil: over TCP
	Listener func(address string) (net.Listener, error)                  // nil: over TCP
	Logger   *slog.Logger

	crowded  atomic.Int64  // when there were last too many connections, nanoseconds since 1970
	failures lograte.ByKey // handshakes that failed, by host
}

var _ Network = (*GRPC)(nil)

// Listen implements Network.
func (n *GRPC) Listen(in Server) (func(), error) {
	listener := n.Listener
	if listener == nil {
		listener = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	l, err := listener(n.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for members: %w", err)
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MessageMax),
		grpc.ConnectionTimeout(peerHandshakeMax),
		grpc.WaitForHandlers(true),              // the store's handler is not called once Stop has returned
		grpc.StaticStreamWindowSize(peerWindow), // without, gRPC answers every message with a ping
		grpc.StaticConnWindowSize(peerWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: peerKeepalive, Timeout: peerKeepalive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: peerKeepalive / 2,
			PermitWithoutStream: true}),
	}
	if n.TLS != nil {
		options = append(options, grpc.Creds(watchedHandshakes{credentials.NewTLS(n.TLS.serverSide()),
			n.noteHandshake}))
	}
	from := newCallers(l, peerLimits, func(certificate *x509.Certificate) bool {
		return n.TLS == nil || in.Certifies(certificate)
	}, func() { n.crowded.Store(time.Now().UnixNano()) }, n.Logger)
	options = append(options,
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			from.prove(ctx, CertificateOf(ctx))
			return ctx, nil
		}))
	srv := grpc.NewServer(options...)
	peerpb.RegisterPeerServer(srv, peerService{in: in})
	if n.Services != nil {
		n.Services(guardedServices{srv, in})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(from) // it ends with an error only when the listener was closed
	}()
	return func() { from.guard.CloseAll(); srv.Stop(); <-done }, nil
}

// Dial makes a connection of its own, so that closing it drops everything that waits in it.
func (n *GRPC) Dial(address string) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if n.TLS != nil {
		creds = credentials.NewTLS(n.TLS.ClientSide())
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(MessageMax),
			grpc.MaxCallRecvMsgSize(MessageMax)), grpc.WithStaticStreamWindowSize(peerWindow),
		grpc.WithStaticConnWindowSize(peerWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: peerKeepalive, Timeout: peerKeepalive}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: reconnectPauseMin, Multiplier: 2,
				MaxDelay: ReconnectPauseMax},
			// As long as the other side waits. A handshake takes the processors of both, which on a busy
			// machine they may not get for a while; who gives up too early does so every time.
			MinConnectTimeout: peerHandshakeMax,
		}),
	}
	if n.Dialer != nil {
		options = append(options, grpc.WithContextDialer(n.Dialer))
	}
	return grpc.NewClient("passthrough:///"+address, options...)
}

// Hello implements Network.
func (n *GRPC) Hello(ctx context.Context, address string,
	req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	conn, err := n.Dial(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := peerpb.NewPeerClient(conn).Hello(ctx, req)
	return answer, FromStatus(err)
}

// Messages implements Network.
func (n *GRPC) Messages(ctx context.Context, address string, header *peerpb.Header) (Stream, error) {
	conn, err := n.Dial(address)
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
		return nil, FromStatus(err)
	}
	f := &grpcFrames{conn: conn, client: client, s: s, welcome: make(chan struct{}),
		over: make(chan struct{}), probed: make(chan struct{})}
	go f.await()
	go f.probe(header.GetUrgent())
	return f, nil
}

// Snapshot implements Network.
func (n *GRPC) Snapshot(ctx context.Context, address string, next func() (*peerpb.Chunk, error)) error {
	conn, err := n.Dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := peerpb.NewPeerClient(conn).Snapshot(ctx)
	if err != nil {
		return FromStatus(err)
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
			return FromStatus(err)
		}
	}
	_, err = s.CloseAndRecv()
	return FromStatus(err)
}

// peerService serves what the other members call.
type peerService struct {
	peerpb.UnimplementedPeerServer
	in Server
}

// Hello implements peerpb.PeerServer.
func (p peerService) Hello(ctx context.Context, req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	answer, err := p.in.Hello(req, CertificateOf(ctx))
	return answer, ToStatus(err)
}

// Messages implements peerpb.PeerServer.
func (p peerService) Messages(s grpc.ClientStreamingServer[peerpb.Frame, peerpb.Received]) error {
	f, err := s.Recv()
	if err != nil {
		return err
	}
	h := f.GetHeader()
	if err := p.in.Accept(h, CertificateOf(s.Context())); err != nil {
		return ToStatus(err)
	}
	defer p.in.Lost(h)
	if err := s.SendHeader(metadata.Pairs(acceptedKey, "1")); err != nil {
		return err
	}
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		if err := p.in.Receive(h, f); err != nil {
			return ToStatus(err)
		}
	}
}

// Snapshot implements peerpb.PeerServer.
func (p peerService) Snapshot(s grpc.ClientStreamingServer[peerpb.Chunk, peerpb.Received]) error {
	if err := p.in.ReceiveSnapshot(CertificateOf(s.Context()), s.Recv); err != nil {
		return ToStatus(err)
	}
	return s.SendAndClose(&peerpb.Received{})
}

// Crowded returns the last time at which there were too many connections, the zero time if there never were.
func (n *GRPC) Crowded() time.Time {
	if at := n.crowded.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
