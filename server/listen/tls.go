package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/coordd/coordd/server/filestamp"
)

// TLSFiles names the PEM files of the TLS listener. They are read again when they change.
type TLSFiles struct {
	// Certificate and Key are the server's chain and private key.
	Certificate, Key string
	// ClientCA, if not empty, holds the authorities whose client certificates are accepted. A client need not
	// have one unless ClientRequired is set.
	ClientCA       string
	ClientRequired bool
}

// TLSListener accepts the connections that are to be encrypted, and marks them for Credentials.
type TLSListener struct {
	net.Listener
	files *tlsReloader
}

// tlsConn marks a connection of the TLS listener.
type tlsConn struct{ net.Conn }

// Accept implements net.Listener.
func (l *TLSListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tlsConn{conn}, nil
}

// TLS opens a listener on an address that proves who it is with the files, which it reads again when they
// change. Errors: of files that cannot be used, and of listening. A later change that cannot be used is
// logged, and the former certificates go on.
func TLS(address string, open func(address string) (net.Listener, error), files TLSFiles,
	logger *slog.Logger) (*TLSListener, error) {
	reloader := &tlsReloader{files: files, read: files.read, logger: logger}
	if err := reloader.load(); err != nil {
		return nil, &FileError{err}
	}
	listener, err := open(address)
	if err != nil {
		return nil, err
	}
	return &TLSListener{Listener: listener, files: reloader}, nil
}

// HTTP encrypts the connections of a listener for HTTP with the same certificate. Clients need none.
func (l *TLSListener) HTTP(inner net.Listener) net.Listener {
	return tls.NewListener(inner, &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config := l.files.configuration().Clone()
			config.NextProtos, config.ClientAuth = []string{"http/1.1"}, tls.NoClientCert
			return config, nil
		}})
}

// Covers reports whether the certificate is for a host.
func (l *TLSListener) Covers(host string) bool {
	leaf := l.files.configuration().Certificates[0].Leaf
	return leaf != nil && leaf.VerifyHostname(host) == nil
}

// FileError is about a certificate, key or authority that cannot be used.
type FileError struct{ Err error }

// Error implements error.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }

// tlsReloader holds the configuration that the files make, and makes it anew when they change.
type tlsReloader struct {
	files  TLSFiles
	read   func() (*tls.Config, error) // makes a configuration of the files
	logger *slog.Logger

	mutex   sync.Mutex
	current *tls.Config
	stamps  [3]filestamp.Stamp
	checked time.Time
}

// tlsCheckPeriod is the shortest time between two checks of handshakes for changed files.
const tlsCheckPeriod = time.Second

// configuration is the newest that the files make. A change that cannot be used is logged once, and the
// certificates from before go on.
func (r *tlsReloader) configuration() *tls.Config {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if time.Since(r.checked) < tlsCheckPeriod {
		return r.current
	}
	r.checked = time.Now()
	stamps, err := r.stampAll()
	if err != nil || stamps == r.stamps {
		return r.current
	}
	r.stamps = stamps
	switch config, err := r.read(); {
	case err != nil:
		r.logger.Error("the TLS files have changed and cannot be used, the former ones go on", "error", err)
	default:
		r.current = config
		r.logger.Info("TLS files read again", "certificate", r.files.Certificate)
	}
	return r.current
}

// load reads the files for the first time.
func (r *tlsReloader) load() error {
	stamps, err := r.stampAll()
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	r.stamps, r.checked = stamps, time.Now()
	r.current, err = r.read()
	return err
}

func (r *tlsReloader) stampAll() (stamps [3]filestamp.Stamp, err error) {
	for i, path := range [...]string{r.files.Certificate, r.files.Key, r.files.ClientCA} {
		if path == "" {
			continue
		}
		if stamps[i], err = filestamp.Of(path); err != nil {
			return stamps, err
		}
	}
	return stamps, nil
}

// read makes a configuration. Sessions are not resumed, so that each handshake is checked against the present
// client authorities.
func (f TLSFiles) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s and key %s: %w", f.Certificate, f.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"}, SessionTicketsDisabled: true,
	}
	if f.ClientCA != "" {
		pem, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("TLS client authorities: %w", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if f.ClientRequired {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("TLS client authorities %s: no certificate in it", f.ClientCA)
		}
	}
	return config, nil
}

// transportSecurity implements Connections.Credentials.
type transportSecurity struct {
	tls         *TLSListener // nil without TLS
	connections *Connections
}

// Credentials does the handshake of each listener's kind, so that one gRPC server serves both; the TLS
// listener may be nil.
func (c *Connections) Credentials(tls *TLSListener) credentials.TransportCredentials {
	return transportSecurity{tls, c}
}

// ServerHandshake implements credentials.TransportCredentials.
func (t transportSecurity) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	handshake := insecure.NewCredentials()
	if marked, encrypted := conn.(tlsConn); encrypted {
		handshake, conn = credentials.NewTLS(t.tls.files.configuration()), marked.Conn
	}
	secured, info, err := handshake.ServerHandshake(conn)
	if err != nil {
		t.connections.tellHandshake(conn, err)
		return nil, nil, err
	}
	metered := t.connections.meter(secured, conn)
	return metered.plain(), callerInfo{info, metered}, nil
}

// callerInfo is gRPC's record of a handshake, with its connection, which gRPC does not show otherwise.
type callerInfo struct {
	credentials.AuthInfo
	conn *meteredConn
}

// ClientHandshake implements credentials.TransportCredentials; a server has no use for it.
func (t transportSecurity) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo,
	error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info implements credentials.TransportCredentials.
func (t transportSecurity) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (t transportSecurity) Clone() credentials.TransportCredentials { return t }

// OverrideServerName implements credentials.TransportCredentials.
func (t transportSecurity) OverrideServerName(string) error { return nil }

// TLSState is the TLS state of the connection that a call came on, false if it came without.
func TLSState(ctx context.Context) (tls.ConnectionState, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return tls.ConnectionState{}, false
	}
	info := p.AuthInfo
	if caller, is := info.(callerInfo); is {
		info = caller.AuthInfo
	}
	secured, ok := info.(credentials.TLSInfo)
	return secured.State, ok
}
