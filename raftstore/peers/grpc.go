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
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// GRPC is the network of a running server.
type GRPC struct {
	Address string // to listen on
	TLS     *TLS   // nil: plain text
	// Services serve the layers above the log; nil: no question is answered.
	Services *Services
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
	options = append(options, grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		certificate := CertificateOf(ctx)
		from.prove(ctx, certificate)
		return identify(ctx, in, certificate, call)
	}))
	var services Services
	if n.Services != nil {
		services = *n.Services
	}
	srv := grpc.NewServer(options...)
	peerpb.RegisterPeerServer(srv, peerService{in: in, services: services})
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(from) // it ends with an error only when the listener was closed
	}()
	return func() { from.guard.CloseAll(); srv.Stop(); <-done }, nil
}

// dial makes a connection of its own, so that closing it drops everything that waits in it. The header goes with every
// call on it; nil: with none.
func (n *GRPC) dial(address string, header *peerpb.Header) (*grpc.ClientConn, error) {
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
	if header != nil {
		encoded, err := proto.Marshal(header)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(handshake(encoded)))
	}
	return grpc.NewClient("passthrough:///"+address, options...)
}

// Hello implements Network.
func (n *GRPC) Hello(ctx context.Context, address string,
	req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	conn, err := n.dial(address, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := peerpb.NewPeerClient(conn).Hello(ctx, req)
	return answer, FromStatus(err)
}

// Messages implements Network.
func (n *GRPC) Messages(ctx context.Context, address string, header *peerpb.Header) (Stream, error) {
	conn, err := n.dial(address, header)
	if err != nil {
		return nil, err
	}
	client := peerpb.NewPeerClient(conn)
	s, err := client.Messages(ctx)
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
func (n *GRPC) Snapshot(ctx context.Context, address string, header *peerpb.Header,
	next func() (*peerpb.Chunk, error)) error {
	conn, err := n.dial(address, header)
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

// Crowded returns the last time at which there were too many connections, the zero time if there never were.
func (n *GRPC) Crowded() time.Time {
	if at := n.crowded.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
