package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/coordd/coordd/raftstore/peers"
)

// PeerFiles names the PEM files with which the servers of a cluster prove to each other who they are. They
// are read again when they change; connections that are open stay as they are.
type PeerFiles struct {
	// Certificate and Key are this server's chain and private key. The certificate must be made for the host
	// of its peer address, for servers and for clients.
	Certificate, Key string
	// CA holds the authorities from which the certificates of all members come.
	CA string
}

// Load reads the files for the first time. Errors: *FileError. A later change that cannot be used is logged,
// and the former certificates go on. logger may be nil.
func (f PeerFiles) Load(logger *slog.Logger) (*peers.TLS, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if f.CA == "" {
		return nil, &FileError{errors.New("TLS between servers: the authorities are missing")}
	}
	r := &tlsReloader{files: TLSFiles{Certificate: f.Certificate, Key: f.Key, ClientCA: f.CA}, read: f.read,
		logger: logger}
	if err := r.load(); err != nil {
		return nil, &FileError{err}
	}
	p := &peers.TLS{Current: func() (server, client *tls.Config) {
		config := r.configuration()
		return config, config
	}}
	p.Server, p.Client = p.Current()
	return p, nil
}

// read makes a configuration that serves both sides.
func (f PeerFiles) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s and key %s of this server among its peers: %w",
			f.Certificate, f.Key, err)
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("TLS authorities of the peers: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS authorities of the peers %s: no certificate in it", f.CA)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{certificate}, RootCAs: authorities, ClientCAs: authorities,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
		SessionTicketsDisabled: true,
	}, nil
}
