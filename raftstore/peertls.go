package raftstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/membership"
)

// serverSide is the configuration of a listener.
func (p *PeerTLS) serverSide() *tls.Config {
	if p.Current == nil {
		return p.Server
	}
	return &tls.Config{MinVersion: p.Server.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			server, _ := p.Current()
			server = server.Clone()
			server.NextProtos = []string{"h2"} // of the configuration that this one replaces
			return server, nil
		}}
}

// clientSide is the configuration of one connection.
func (p *PeerTLS) clientSide() *tls.Config {
	if p.Current == nil {
		return p.Client
	}
	_, client := p.Current()
	return client
}

// watchedHandshakes calls failed for each handshake of a listener that fails.
type watchedHandshakes struct {
	credentials.TransportCredentials
	failed func(conn net.Conn, err error) // nil: nobody
}

// ServerHandshake implements credentials.TransportCredentials.
func (t watchedHandshakes) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := t.TransportCredentials.ServerHandshake(conn)
	if err != nil && t.failed != nil {
		t.failed(conn, err)
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (t watchedHandshakes) Clone() credentials.TransportCredentials {
	return watchedHandshakes{t.TransportCredentials.Clone(), t.failed}
}

// tellHandshake tells of somebody who called as a server and did not get through the handshake, now and then.
// That other side tells by itself why it trusts this one's certificate not.
func (s *Store) tellHandshake(conn net.Conn, err error) {
	host, _, splitErr := net.SplitHostPort(conn.RemoteAddr().String())
	if splitErr != nil {
		host = conn.RemoteAddr().String()
	}
	why := lograte.Printable(err.Error(), settingTextMax+100)
	if errors.Is(err, io.EOF) {
		why = "it closed the connection"
	}
	if ok, hidden := s.strangers.Allow(host, time.Now()); ok {
		s.cfg.Logger.Warn("a TLS handshake with another server has failed", "remote",
			conn.RemoteAddr().String(), "why", why, lograte.Suppressed, hidden)
	}
}

// errCertificate refuses a certificate that is good and belongs to somebody else.
var errCertificate = status.Error(codes.Unauthenticated,
	"the certificate is not that of a member of this cluster")

// certificateOf is the certificate that a caller has shown; nil without one.
func certificateOf(ctx context.Context) *x509.Certificate {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return info.State.PeerCertificates[0]
}

// madeFor reports whether a certificate names the host of an address.
func madeFor(certificate *x509.Certificate, address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && certificate.VerifyHostname(host) == nil
}

// warnOfCertificates warns of members that this one's certificate does not tell apart: it could speak for
// them, and they, where they are on its host, for it.
func (s *Store) warnOfCertificates() {
	if s.cfg.Cluster.TLS == nil {
		return
	}
	own := s.cfg.Cluster.TLS.clientSide().Certificates
	if len(own) == 0 || len(own[0].Certificate) == 0 {
		return
	}
	certificate, err := x509.ParseCertificate(own[0].Certificate[0])
	if err != nil {
		return // the handshake says so
	}
	for _, m := range s.admitted().Conf.Members {
		if m.ID != s.identity.Member && madeFor(certificate, m.Peer) {
			s.cfg.Logger.Warn("the certificate of this server is good for another one too: give each a host name of "+
				"its own", "server", m.Name, "address", m.Peer)
		}
	}
}

// mayCall implements peerServer.
func (s *Store) mayCall(certificate *x509.Certificate) error {
	switch {
	case s.cfg.Cluster.TLS == nil:
		return nil
	case !certifies(s.admitted(), certificate):
		return errCertificate
	case !s.admission.open.Load():
		return errNotAsked
	}
	return nil
}

// Identify refuses a caller of one of the server's own services (Cluster.Services) that says it is the member
// of an id and is not, as far as the members and the caller's certificate tell.
func (s *Store) Identify(ctx context.Context, id uint64) error {
	if s.admission == nil {
		return errUnknownHere
	}
	_, err := s.admission.identify(id, certificateOf(ctx))
	return err
}

// admitted implements peerServer.
func (s *Store) admitted() *membership.List { return s.admission.list.Load() }

// guardedServices registers services that only current members may call, see Cluster.Services.
type guardedServices struct {
	server *grpc.Server
	in     peerServer
}

// RegisterService implements grpc.ServiceRegistrar.
func (g guardedServices) RegisterService(service *grpc.ServiceDesc, implementation any) {
	guarded := *service
	guarded.Methods, guarded.Streams = slices.Clone(service.Methods), slices.Clone(service.Streams)
	for i := range guarded.Methods {
		handler := guarded.Methods[i].Handler
		guarded.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error,
			interceptor grpc.UnaryServerInterceptor) (any, error) {
			if err := g.in.mayCall(certificateOf(ctx)); err != nil {
				return nil, err
			}
			return handler(srv, ctx, decode, interceptor)
		}
	}
	for i := range guarded.Streams {
		handler := guarded.Streams[i].Handler
		guarded.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			if err := g.in.mayCall(certificateOf(stream.Context())); err != nil {
				return err
			}
			return handler(srv, &guardedStream{ServerStream: stream, in: g.in, judged: g.in.admitted()})
		}
	}
	g.server.RegisterService(&guarded, implementation)
}

// guardedStream ends when its caller ceases to be a member.
type guardedStream struct {
	grpc.ServerStream
	in     peerServer
	judged *membership.List // by which the caller is one
}

// RecvMsg implements grpc.ServerStream.
func (g *guardedStream) RecvMsg(m any) error {
	if err := g.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	now := g.in.admitted()
	if now == g.judged {
		return nil
	}
	if err := g.in.mayCall(certificateOf(g.Context())); err != nil {
		return err
	}
	g.judged = now
	return nil
}
