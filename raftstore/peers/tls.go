package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/coordd/coordd/internal/lograte"
)

// TLS has both sides of a connection between members. Both should ask for and check a certificate. On top
// of what they check, a certificate must be made for the host of its member's peer address.
type TLS struct {
	Server, Client *tls.Config
	// Current, if set, gives the configurations that are to be used instead of these for a connection that is
	// just being made, so that certificates can be replaced without a restart.
	Current func() (server, client *tls.Config)
}

// serverSide is the configuration of a listener.
func (p *TLS) serverSide() *tls.Config {
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

// ClientSide is the configuration of one connection.
func (p *TLS) ClientSide() *tls.Config {
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

// noteHandshake logs a caller that did not get through the handshake, now and then. The other side itself logs why it
// does not trust this one's certificate.
func (n *GRPC) noteHandshake(conn net.Conn, err error) {
	host, _, splitErr := net.SplitHostPort(conn.RemoteAddr().String())
	if splitErr != nil {
		host = conn.RemoteAddr().String()
	}
	if errors.Is(err, io.EOF) { // a server that is being stopped, or a probe of the port
		n.Logger.Debug("another server ended a TLS handshake", "remote", conn.RemoteAddr().String())
		return
	}
	why := lograte.Printable(err.Error(), handshakeTextMax)
	if ok, hidden := n.failures.Allow(host, time.Now()); ok {
		n.Logger.Warn("a TLS handshake with another server has failed", "remote",
			conn.RemoteAddr().String(), "why", why, lograte.Suppressed, hidden)
	}
}

// CertificateOf is the certificate that a caller has shown; nil without one.
func CertificateOf(ctx context.Context) *x509.Certificate {
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

// MadeFor reports whether a certificate names the host of an address.
func MadeFor(certificate *x509.Certificate, address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && certificate.VerifyHostname(host) == nil
}
