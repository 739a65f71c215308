package server

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
)

// TLSFiles names the PEM files of the TLS listener. They are read again when they change.
type TLSFiles struct {
	// Certificate and Key are the server's chain and private key.
	Certificate, Key string
	// ClientCA, if not empty, holds the authorities whose client certificates are accepted. A client need not have one.
	ClientCA string
}

// ConfigError is about something that the configuration names and that cannot be used, such as a certificate file.
type ConfigError struct{ Err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

func (c Config) validateTLS() error {
	switch {
	case c.ListenTLS == "" && (c.TLS != TLSFiles{} || c.AdvertiseTLS != ""):
		return errors.New("TLS: certificate files and an advertised address need an address to listen on")
	case c.ListenTLS == "":
		return nil
	case c.TLS.Certificate == "" || c.TLS.Key == "":
		return errors.New("TLS: the listener needs a certificate and its key")
	}
	if _, port, err := net.SplitHostPort(c.ListenTLS); err != nil {
		return fmt.Errorf("TLS: listen %q: want host:port: %w", c.ListenTLS, err)
	} else if err := validPort(port, 0); err != nil {
		return fmt.Errorf("TLS: listen %q: %w", c.ListenTLS, err)
	}
	if _, _, err := splitAdvertise(c.AdvertiseTLS); err != nil {
		return fmt.Errorf("TLS: advertise %q: %w", c.AdvertiseTLS, err)
	}
	return nil
}

// tlsListener accepts the connections that are to be encrypted, and marks them.
type tlsListener struct {
	net.Listener
	files *tlsReloader
	host  string // advertised
	port  uint32 // advertised
}

// tlsConn marks a connection of the TLS listener.
type tlsConn struct{ net.Conn }

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tlsConn{conn}, nil
}

// listenTLS opens the TLS listener, nil if there is none to open.
func listenTLS(config Config) (*tlsListener, error) {
	if config.ListenTLS == "" {
		return nil, nil
	}
	files := &tlsReloader{files: config.TLS, read: config.TLS.read, logger: config.Logger}
	if err := files.load(); err != nil {
		return nil, &ConfigError{err}
	}
	listener, err := net.Listen("tcp", config.ListenTLS)
	if err != nil {
		return nil, err
	}
	l := &tlsListener{Listener: listener, files: files}
	l.host, l.port = config.advertisedTLS(listener.Addr().(*net.TCPAddr))
	return l, nil
}

// advertisedTLS is what discovery tells to clients that came by TLS.
func (c Config) advertisedTLS(bound *net.TCPAddr) (string, uint32) {
	host, port, _ := splitAdvertise(c.AdvertiseTLS)
	if host == "" {
		host, _, _ = splitAdvertise(c.Advertise)
	}
	if host == "" {
		if host, _, _ = net.SplitHostPort(c.ListenTLS); host == "" || bound.IP.IsUnspecified() {
			host = "localhost"
		}
	}
	if port == 0 {
		port = bound.Port
	}
	return host, uint32(port)
}

func (l *tlsListener) close() error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// tlsReloader holds the configuration that the files make, and makes it anew when they change.
type tlsReloader struct {
	files  TLSFiles
	read   func() (*tls.Config, error) // makes a configuration of the files
	logger *slog.Logger

	mutex   sync.Mutex
	current *tls.Config
	stamps  [3]fileStamp
	checked time.Time
}

// tlsCheckPeriod is how often handshakes look whether the files have changed.
const tlsCheckPeriod = time.Second

// configuration is the newest that the files make. A change that cannot be used is logged once, and the certificates
// from before go on.
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

func (r *tlsReloader) stampAll() (stamps [3]fileStamp, err error) {
	for i, path := range [...]string{r.files.Certificate, r.files.Key, r.files.ClientCA} {
		if path == "" {
			continue
		}
		if stamps[i], err = stampOf(path); err != nil {
			return stamps, err
		}
	}
	return stamps, nil
}

// read makes a configuration. Sessions are not resumed, so that each handshake is checked against the present client
// authorities.
func (f TLSFiles) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s and key %s: %w", f.Certificate, f.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, SessionTicketsDisabled: true,
	}
	if f.ClientCA != "" {
		pem, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("TLS client authorities: %w", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("TLS client authorities %s: no certificate in it", f.ClientCA)
		}
	}
	return config, nil
}

// transportSecurity does the handshake of each listener's kind, so that one gRPC server serves both.
type transportSecurity struct {
	tls         *tlsListener
	connections *connections
}

// ServerHandshake implements credentials.TransportCredentials.
func (t transportSecurity) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	handshake := insecure.NewCredentials()
	if marked, encrypted := conn.(tlsConn); encrypted {
		handshake, conn = credentials.NewTLS(t.tls.files.configuration()), marked.Conn
	}
	secured, info, err := handshake.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	return t.connections.meter(secured, conn), info, nil
}

// ClientHandshake implements credentials.TransportCredentials; a server has no use for it.
func (t transportSecurity) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
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

// tlsState is the TLS state of the connection that a call came on.
func tlsState(ctx context.Context) (tls.ConnectionState, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return tls.ConnectionState{}, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	return info.State, ok
}

// cameByTLS tells on which listener a call came.
func cameByTLS(ctx context.Context) bool {
	_, encrypted := tlsState(ctx)
	return encrypted
}

// certificateSuffix makes a certificate's name another than any user's without it, as in the reference.
const certificateSuffix = "@cert"

// certificateIdentity is the identity of a caller with a verified client certificate: its common name, or where there
// is none the whole subject. It is nil without one.
func certificateIdentity(ctx context.Context) *identity {
	state, _ := tlsState(ctx)
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	subject := state.PeerCertificates[0].Subject
	name := subject.CommonName
	if name == "" {
		name = subject.String()
	}
	if name == "" {
		return nil
	}
	return &identity{name: name + certificateSuffix, source: fromCertificate}
}

// TLSConnectionString is what clients are to be given for the TLS listener, such as grpcs://localhost:2135/local; empty
// without one.
func (s *Server) TLSConnectionString() string {
	if s.tls == nil {
		return ""
	}
	return "grpcs://" + net.JoinHostPort(s.tls.host, fmt.Sprint(s.tls.port)) + s.config.Database
}
