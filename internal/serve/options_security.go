package serve

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordd/coordd/server/auth"
)

// TLSSettings are the settings of the TLS listener of `coordd serve`.
type TLSSettings struct {
	Listen, Advertise          string // as for the plain listener; empty: none, derived
	Certificate, Key, ClientCA string // absolute paths, empty: none
	clientRequired             bool   // a client needs a certificate of ClientCA
}

// AuthSettings are the settings of authentication and permissions.
type AuthSettings struct {
	Mode              string // server.AuthOff or server.AuthRequired
	TokenFile         string // absolute path, empty: none
	Admin             string // Name, empty: none
	AdminPasswordFile string // absolute path, empty: none
	LoginLifetime     time.Duration
	loopbackAdmin     bool
	inspect           string // one of server.Inspect..., empty: by the other settings
}

func setTLSClientAuth(s *Settings, value string) error {
	if value != "optional" && value != "required" {
		return errors.New("want optional or required")
	}
	s.TLS.clientRequired = value == "required"
	return nil
}

// setAdvertiseTLS stores an address for clients of the TLS listener.
func setAdvertiseTLS(s *Settings, value string) error {
	if strings.Contains(value, "://") {
		return errors.New("want HOST or HOST:PORT without a scheme: all clients of --listen-tls use TLS")
	}
	s.TLS.Advertise = value
	return checkAdvertised(value)
}

// setFile stores the path of a file, which need not exist yet: whoever opens it says what is wrong.
func setFile(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		path, err := filepath.Abs(value)
		if value == "" || strings.ContainsRune(value, 0) || err != nil {
			return errors.New("want the path of a file")
		}
		*field(s) = path
		return nil
	}
}

func setInitialAdmin(s *Settings, value string) error {
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("want a name of printable ASCII characters without spaces")
	}
	s.Auth.Admin = value
	return nil
}

func setLoginLifetime(s *Settings, value string) error {
	lifetime, err := time.ParseDuration(value)
	if err != nil || lifetime < auth.MinLoginLifetime || lifetime > auth.MaxLoginLifetime {
		return fmt.Errorf("want a time from %s to %s, such as 90m or 12h",
			DurationText(auth.MinLoginLifetime), DurationText(auth.MaxLoginLifetime))
	}
	s.Auth.LoginLifetime = lifetime
	return nil
}

// DurationText writes a duration without the zeros that Go's own form ends with.
func DurationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
