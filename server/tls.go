package server

import (
	"errors"
	"fmt"
	"net"

	"github.com/coordd/coordd/server/discovery"
	"github.com/coordd/coordd/server/listen"
)

func (c Config) validateTLS() error {
	switch {
	case c.ListenTLS == "" && (c.TLS != listen.TLSFiles{} || c.AdvertiseTLS != ""):
		return errors.New("TLS: certificate files and an advertised address need an address to listen on")
	case c.ListenTLS == "":
		return nil
	case c.TLS.Certificate == "" || c.TLS.Key == "":
		return errors.New("TLS: the listener needs a certificate and its key")
	case c.TLS.ClientRequired && c.TLS.ClientCA == "":
		return errors.New("TLS: certificates of clients need the authorities that they are of")
	}
	if _, port, err := net.SplitHostPort(c.ListenTLS); err != nil {
		return fmt.Errorf("TLS: listen %q: want host:port: %w", c.ListenTLS, err)
	} else if err := listen.ValidPort(port, 0); err != nil {
		return fmt.Errorf("TLS: listen %q: %w", c.ListenTLS, err)
	}
	if _, _, err := discovery.Split(c.AdvertiseTLS); err != nil {
		return fmt.Errorf("TLS: advertise %q: %w", c.AdvertiseTLS, err)
	}
	return nil
}

// listenTLS opens the TLS listener, nil if there is none to open.
func listenTLS(config Config) (*listen.TLSListener, error) {
	if config.ListenTLS == "" {
		return nil, nil
	}
	listener, err := listen.TLS(config.ListenTLS, config.hooks.Listen, config.TLS, config.Logger)
	if file := (*listen.FileError)(nil); errors.As(err, &file) {
		return nil, &ConfigError{err}
	}
	return listener, err
}

// closeTLS closes the TLS listener, if there is one.
func closeTLS(l *listen.TLSListener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// TLSConnectionString is what clients are to be given for the TLS listener, such as
// grpcs://localhost:2135/local; empty without one.
func (s *Server) TLSConnectionString() string {
	if s.tls == nil {
		return ""
	}
	return "grpcs://" + s.discovery.Advertised.TLS.String() + s.config.Database
}
