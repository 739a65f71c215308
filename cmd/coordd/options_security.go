package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/auth"
)

// tlsSettings is the TLS listener of `coordd serve`.
type tlsSettings struct {
	listen, advertise          string // as for the plain listener; empty: none, derived
	certificate, key, clientCA string // absolute paths, empty: none
	clientRequired             bool   // a client needs a certificate of clientCA
}

// authSettings says who may do what.
type authSettings struct {
	mode              string // server.AuthOff or server.AuthRequired
	tokenFile         string // absolute path, empty: none
	admin             string // name, empty: none
	adminPasswordFile string // absolute path, empty: none
	loginLifetime     time.Duration
	loopbackAdmin     bool
	inspect           string // one of server.Inspect..., empty: by the other settings
}

// setListenTLS allows what setListen does.
func setListenTLS(s *settings, value string) error {
	var plain settings
	if err := setListen(&plain, value); err != nil || plain.listen == "" {
		return errors.New("want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:2135; an empty host means " +
			"all addresses")
	}
	s.tls.listen = plain.listen
	return nil
}

func setTLSClientAuth(s *settings, value string) error {
	if value != "optional" && value != "required" {
		return errors.New("want optional or required")
	}
	s.tls.clientRequired = value == "required"
	return nil
}

// setAdvertiseTLS stores an address for clients of the TLS listener.
func setAdvertiseTLS(s *settings, value string) error {
	if strings.Contains(value, "://") {
		return errors.New("want HOST or HOST:PORT without a scheme: all clients of --listen-tls use TLS")
	}
	s.tls.advertise = value
	return checkAdvertised(value)
}

// setFile stores the path of a file, which need not exist yet: whoever opens it says what is wrong.
func setFile(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, value string) error {
		path, err := filepath.Abs(value)
		if value == "" || strings.ContainsRune(value, 0) || err != nil {
			return errors.New("want the path of a file")
		}
		*field(s) = path
		return nil
	}
}

func setAuth(s *settings, value string) error {
	if value != server.AuthOff && value != server.AuthRequired {
		return fmt.Errorf("want %s or %s", server.AuthOff, server.AuthRequired)
	}
	s.auth.mode = value
	return nil
}

func setInitialAdmin(s *settings, value string) error {
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("want a name of printable ASCII characters without spaces")
	}
	s.auth.admin = value
	return nil
}

func setLoginLifetime(s *settings, value string) error {
	lifetime, err := time.ParseDuration(value)
	if err != nil || lifetime < auth.MinLoginLifetime || lifetime > auth.MaxLoginLifetime {
		return fmt.Errorf("want a time from %s to %s, such as 90m or 12h",
			durationText(auth.MinLoginLifetime), durationText(auth.MaxLoginLifetime))
	}
	s.auth.loginLifetime = lifetime
	return nil
}

// durationText is a duration without the zeros that Go's own form ends with.
func durationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func setInspect(s *settings, value string) error {
	switch value {
	case server.InspectOff, server.InspectLocal, server.InspectOn:
		s.auth.inspect = value
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", server.InspectOff, server.InspectLocal, server.InspectOn)
}
