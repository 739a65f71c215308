package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/discovery"
	"github.com/coordd/coordd/server/group/streams"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/readiness"
	"github.com/coordd/coordd/server/statelimit"
	"github.com/coordd/coordd/server/users"
)

// The values of Config.Auth.
const (
	// AuthOff lets callers without a token do everything, as a local YDB does. The rights of a caller with a token
	// count nevertheless, and an unknown or expired token is refused.
	AuthOff = "off"
	// AuthRequired refuses anonymous callers, and everything that permissions do not allow.
	AuthRequired = "required"
)

// The values of Config.Inspect: the callers that the inspection service serves.
const (
	// InspectOff is nobody.
	InspectOff = "off"
	// InspectLocal admits callers on the administrator's socket or by way of the loopback addresses.
	InspectLocal = "local"
	// InspectOn admits all callers that the listeners let in; where authentication is required rights count.
	InspectOn = "on"
)

// Config configures a server.
type Config struct {
	// Listen is the plaintext address, host:port; port 0 takes a free one. Empty: none, which needs ListenTLS.
	Listen string
	// Advertise is the host or host:port for clients to connect to. Empty: that of Listen. grpcs://host:port is that
	// of a proxy that ends TLS and connects to Listen.
	Advertise string
	// Database is the absolute path under which everything lives.
	Database string
	// Version is that of the program, for people.
	Version string
	// DataDir holds the log and the checkpoints.
	DataDir string
	// AdminSocket is the path of a second administrator's socket, which the process's group may open, unlike the one in
	// DataDir. Empty: none.
	AdminSocket string
	// Listening is called once, when clients can connect. There need not be a leader yet. Nil: nothing is called.
	Listening func(Working)
	// Cluster makes it one of several servers. Its zero value is a single server.
	Cluster raftstore.Cluster
	// InMemory keeps nothing on disk; DataDir must be empty then.
	InMemory bool
	// Logger receives the server's own events. Nil: none.
	Logger *slog.Logger
	// Limits are the limits of a new cluster, if this server is the first to set them; from then on those of the
	// cluster count. Zero: those of the protocol, and coordination.DefaultStateBytes. Tests lower the others.
	Limits coordination.Limits
	// ListenTLS is the address for TLS, host:port; empty: none. It needs TLS.
	ListenTLS string
	// AdvertiseTLS is like Advertise, for ListenTLS. Empty: the host of Advertise and the port of ListenTLS.
	AdvertiseTLS string
	// TLS names the certificate files.
	TLS listen.TLSFiles
	// Auth says whether anonymous callers are refused and rights count: AuthOff (or empty) or AuthRequired.
	Auth string
	// TokenFile names a file of access tokens, a line each: token, space, user. Empty: none. It is read again
	// when it changes.
	TokenFile string
	// LoginLifetime is the lifetime of a login token; 0: auth.DefaultLoginLifetime. Each server of a cluster applies
	// its own, whichever signed a token.
	LoginLifetime time.Duration
	// InitialAdmin is a user to add, as an administrator, if there are no users. InitialAdminPassword goes
	// with it.
	InitialAdmin, InitialAdminPassword string
	// LoopbackAdmin lets everybody on the server's machine do what otherwise needs the administrator's
	// socket: add the first user, and, while authentication is not required, manage users and the cluster. It
	// was so before there was the socket.
	LoopbackAdmin bool
	// HoldStartFailureMillis delays the Failure of a start that was refused; nil: 100 ms.
	HoldStartFailureMillis *uint64
	// Inspect selects the callers of the inspection service: InspectOff, InspectLocal or InspectOn. Empty:
	// InspectLocal where authentication is off and a listener is not on a loopback address, InspectOn otherwise.
	Inspect string
	// DiskReserve is the free space, in bytes, that the data directory's file system keeps for the work that must go
	// on when it is nearly full; 0: no reserve. See docs/dev/limits.md.
	DiskReserve uint64
	// Hardening holds limits of this server alone; a zero field takes its default.
	Hardening Hardening
	// HTTP configures the service for monitoring programs; the zero value serves nothing.
	HTTP HTTP
	// Resources are the process's limits; some defaults of Hardening are smaller where that is little.
	Resources Resources

	hooks hooks.Hooks // see StartWith

	replaced replaced // in tests
}

// Working is a server that clients can connect to.
type Working interface {
	// Progress reports whether the server works: before ctx ends its log and its group each finish a turn, or else the
	// log waits for the disk.
	Progress(ctx context.Context) bool
	// Drained is closed when no client is served any more.
	Drained() <-chan struct{}
}

// replaced takes the place of constants and of findings; a zero field of none.
type replaced struct {
	memory    statelimit.Memory
	passwords *auth.Hasher // for tests whose subject is not the cost of guessing
	readiness readiness.Replaced

	backupStall, listPatience, keepalive time.Duration
	stopPatience                         time.Duration // handOverPatience, leavingPatience and drainPatience
}

const defaultHoldStartFailureMillis = 100

// pingPolicy returns how clients are pinged.
func (c Config) pingPolicy() coordination.PingPolicy {
	policy := coordination.PingPolicy{HoldStartFailureMillis: defaultHoldStartFailureMillis, Opaque: streams.Nonce,
		FirstMessageMillis: uint64(c.Hardening.FirstMessage.Milliseconds())}
	if c.HoldStartFailureMillis != nil {
		policy.HoldStartFailureMillis = *c.HoldStartFailureMillis
	}
	return policy
}

// Validate reports the first field that cannot be used, by its name.
func (c Config) Validate() error {
	if c.Listen == "" {
		if c.ListenTLS == "" {
			return errors.New("listen: want host:port, or an address to listen on with TLS")
		}
	} else if _, port, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen %q: want host:port: %w", c.Listen, err)
	} else if err := listen.ValidPort(port, 0); err != nil {
		return fmt.Errorf("listen %q: %w", c.Listen, err)
	}
	if _, _, proxied, err := c.names().Proxy(); err != nil {
		return fmt.Errorf("advertise %q: %w", c.Advertise, err)
	} else if proxied && c.Listen == "" {
		return fmt.Errorf("advertise %q: a proxy that ends TLS needs an address to listen on without TLS", c.Advertise)
	}
	if _, err := scheme.New(c.Database); err != nil {
		return fmt.Errorf("database %q: %w", c.Database, err)
	}
	if c.Database[0] != '/' {
		return fmt.Errorf("database %q: want an absolute path such as /local", c.Database)
	}
	if err := c.Hardening.validate(); err != nil {
		return err
	}
	if c.InMemory == (c.DataDir != "") {
		return errors.New("data directory: want a directory, or in-memory, and not both")
	}
	return errors.Join(c.validateTLS(), c.validateAuth(), c.validateInspect(), c.HTTP.validate())
}

func (c Config) validateTLS() error {
	switch {
	case c.HTTP.TLS && c.ListenTLS == "":
		return errors.New("http-tls: want an address to listen on with TLS, whose certificate it takes")
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

func (c Config) validateAuth() error {
	switch {
	case c.Auth != "" && c.Auth != AuthOff && c.Auth != AuthRequired:
		return fmt.Errorf("auth %q: want %s or %s", c.Auth, AuthOff, AuthRequired)
	case c.LoginLifetime != 0 && (c.LoginLifetime < auth.MinLoginLifetime ||
		c.LoginLifetime > auth.MaxLoginLifetime):
		return fmt.Errorf("lifetime of login tokens %s: want %s to %s", c.LoginLifetime,
			auth.MinLoginLifetime, auth.MaxLoginLifetime)
	case (c.InitialAdmin == "") != (c.InitialAdminPassword == ""):
		return errors.New("initial administrator: want a name and a password, or neither")
	case c.InitialAdmin != "" && users.ValidName(c.InitialAdmin) != nil:
		return fmt.Errorf("initial administrator %q: %w", c.InitialAdmin, users.ValidName(c.InitialAdmin))
	}
	return nil
}

func (c Config) validateInspect() error {
	switch c.Inspect {
	case "", InspectOff, InspectLocal, InspectOn:
		return nil
	}
	return fmt.Errorf("inspect %q: want %s, %s or %s", c.Inspect, InspectOff, InspectLocal, InspectOn)
}

// inspectMode is Config.Inspect, or what stands for it: strangers are shown nothing where nobody's rights
// count.
func (c Config) inspectMode() string {
	switch {
	case c.Inspect != "":
		return c.Inspect
	case c.Auth == AuthRequired, (c.Listen == "" || onLoopback(c.Listen)) && (c.ListenTLS == "" || onLoopback(c.ListenTLS)):
		return InspectOn
	}
	return InspectLocal
}

// onLoopback reports whether only callers on the same machine reach a listener.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c Config) names() discovery.Names {
	return discovery.Names{Listen: c.Listen, Advertise: c.Advertise, ListenTLS: c.ListenTLS,
		AdvertiseTLS: c.AdvertiseTLS}
}

// ConfigError is about something that the configuration names and that cannot be used, such as a certificate
// file.
type ConfigError struct{ Err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ConfigError) Unwrap() error { return e.Err }
