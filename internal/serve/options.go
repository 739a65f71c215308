package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/statelimit"
)

// Settings is the configuration of `coordd serve`, checked value by value.
type Settings struct {
	Listen    string // host:port, port 0 lets the system choose; an empty host means all addresses; empty: none
	Advertise string // host or host:port for clients, or grpcs://host:port of a proxy; empty: derived from listen
	Database  string // absolute path
	DataDir   string // absolute path; empty if and only if inMemory is set
	InMemory  bool   // nothing is written to disk
	LocalYDB  bool   // the variables of the local-ydb image count
	TLS       TLSSettings
	Auth      AuthSettings
	Cluster   ClusterSettings
	Reserve   uint64 // Bytes of the disk kept free, 0: none
	// StateLimit is the state limit of a new cluster in bytes, 0: not given.
	StateLimit uint64
	// How many of each a client or the process may have open at once.
	StreamsPerConnection, Streams, connectionsPerAddress int

	HTTP HTTPSettings

	LogLevel  slog.Level
	LogFormat string // "text" or "json"
}

// Option is one setting: how it is named, what it means and how it is read.
type Option struct {
	// Name is the flag without dashes and the key in the config file; the
	// environment variable is derived from it.
	Name        string
	placeholder string // stands for the value in help texts
	usage       string
	Fallback    string // the value where none is given; see defaultDataDir for --data-dir
	// Set checks a value and stores it. Its error says what is allowed.
	Set func(s *Settings, value string) error
}

const (
	// ConfigName names the flag of the config file; the others name settings.
	ConfigName   = "config"
	DataDirName  = "data-dir"
	InMemoryName = "in-memory"
	ListenName   = "listen"
	DatabaseName = "database"
)

// Options are the settings of `coordd serve`, in the order of its help.
var Options = slices.Concat([]Option{
	{ListenName, "HOST:PORT",
		"address to accept clients on, plain text; port 0 takes a free one; off: none, with --listen-tls",
		"127.0.0.1:2136",
		setListener(func(s *Settings) *string { return &s.Listen }, 0, "127.0.0.1:2136", nothing)},
	{"advertise", "HOST[:PORT]",
		"address for clients to connect to (default: derived from --listen); grpcs://HOST:PORT: of a proxy that ends " +
			"TLS and connects to --listen",
		"", setAdvertise},
	DataDirOption,
	{InMemoryName, "bool", "keep everything in memory and write nothing to disk, for tests",
		"false", setBool(func(s *Settings) *bool { return &s.InMemory })},
	{DatabaseName, "PATH", "path of the database that clients name", "/local", setDatabase},
	{"listen-tls", "HOST:PORT", "address to accept clients on, TLS, 2135 by convention (default: none)",
		"", setListener(func(s *Settings) *string { return &s.TLS.Listen }, 0, "127.0.0.1:2135")},
	{"advertise-tls", "HOST[:PORT]",
		"address for clients of --listen-tls (default: derived from --advertise and --listen-tls)",
		"", setAdvertiseTLS},
	{"tls-cert", "FILE", "PEM file of the server's certificate chain; read again when it changes",
		"", setFile(func(s *Settings) *string { return &s.TLS.Certificate })},
	{"tls-key", "FILE", "PEM file of the key of --tls-cert",
		"", setFile(func(s *Settings) *string { return &s.TLS.Key })},
	{"tls-client-ca", "FILE", "PEM file of the authorities whose client certificates prove an identity",
		"", setFile(func(s *Settings) *string { return &s.TLS.ClientCA })},
	{"tls-client-auth", "optional|required",
		"whether clients of --listen-tls must have a certificate of --tls-client-ca",
		"optional", setTLSClientAuth},
	{"auth", "off|required", "whether anonymous callers are refused and permissions count", "off",
		setWord(func(s *Settings) *string { return &s.Auth.Mode }, server.AuthOff, server.AuthRequired)},
	{"token-file", "FILE", "file of access tokens, in each line a token and a user; read again when it changes",
		"", setFile(func(s *Settings) *string { return &s.Auth.TokenFile })},
	{"login-lifetime", "DURATION", "lifetime of login tokens", "12h", setLoginLifetime},
	{"initial-admin", "NAME", "administrator to add if there are no users", "", setInitialAdmin},
	{"initial-admin-password-file", "FILE", "file with the password of --initial-admin",
		"", setFile(func(s *Settings) *string { return &s.Auth.AdminPasswordFile })},
	{"loopback-admin", "bool",
		"let everybody on this machine administer the server, as the socket in the data directory does; goes away " +
			"with the next release",
		"false", setBool(func(s *Settings) *bool { return &s.Auth.loopbackAdmin })},
	{"inspect", "off|local|on",
		"who may use the inspection service; local: callers on this machine (default: on, but local where strangers " +
			"can connect and --auth is off)",
		"", setWord(func(s *Settings) *string { return &s.Auth.inspect }, server.InspectOff, server.InspectLocal,
			server.InspectOn)},
	{"disk-reserve", "SIZE", "free space of the data directory's disk below which nothing new is written; 0: none",
		"128MiB", setDiskReserve},
	{"state-limit", "SIZE",
		"limit on all data of a new cluster; 'coordd cluster limits' changes it (default: 384MiB)",
		"", SetStateLimit},
	{"streams-per-connection", "NUMBER", "calls, sessions above all, that one connection may have open at once",
		"100000", setCount(func(s *Settings) *int { return &s.StreamsPerConnection })},
	{"streams", "NUMBER",
		"sessions' streams that may be open at once in all (default: 100000, or as many as half of the memory holds)",
		"", setCount(func(s *Settings) *int { return &s.Streams })},
	{"connections-per-address", "NUMBER",
		"connections that one IP address may have open at once (default: 20000, or three quarters of all that fit)",
		"", setCount(func(s *Settings) *int { return &s.connectionsPerAddress })},
	{"log-level", "LEVEL", "least severe message to log: " + levelNames, "info", setLogLevel},
	{"log-format", "FORMAT", "form of the log on stderr: text or json", "text",
		setWord(func(s *Settings) *string { return &s.LogFormat }, "text", "json")},
	localYDBOption,
}, ClusterOptions, httpOptions)

// DataDirOption is shared by the commands that work on a data directory.
var DataDirOption = Option{DataDirName, "DIR",
	"directory of the data (default: " + dataDirDefaultText + ")", "", setDataDir}

// OptionsNamed returns the settings of `coordd serve` with these names.
func OptionsNamed(names ...string) []Option {
	var found []Option
	for _, name := range names {
		for _, o := range Options {
			if o.Name == name {
				found = append(found, o)
			}
		}
	}
	return found
}

// setListener takes an address to listen on, with a port of at least lowest. The words of none stand for no address.
func setListener(field func(*Settings) *string, lowest uint64, example string,
	none ...string) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		host, port, err := net.SplitHostPort(value)
		switch {
		case slices.Contains(none, value):
			value = ""
		case err != nil || !PortInRange(port, lowest) || !hostUsable(host, true):
			or := ""
			if len(none) > 0 {
				or = ", or " + none[0]
			}
			return fmt.Errorf("want HOST:PORT with a port from %d to 65535, such as %s%s; an empty host means all "+
				"addresses", lowest, example, or)
		}
		*field(s) = value
		return nil
	}
}

// setWord takes one of two or more words.
func setWord(field func(*Settings) *string, words ...string) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		if last := len(words) - 1; !slices.Contains(words, value) {
			return fmt.Errorf("want %s or %s", strings.Join(words[:last], ", "), words[last])
		}
		*field(s) = value
		return nil
	}
}

// proxyScheme stands before the address of a proxy that ends TLS.
const proxyScheme = "grpcs://"

// setAdvertise stores an address for clients of the plain listener, or that of a proxy that ends TLS.
func setAdvertise(s *Settings, value string) error {
	address, proxied := strings.CutPrefix(value, proxyScheme)
	if strings.Contains(address, "://") {
		return errors.New("want HOST or HOST:PORT without a scheme, or grpcs://HOST:PORT of a proxy that ends TLS")
	}
	if _, port, err := net.SplitHostPort(address); proxied && (err != nil || port == "") {
		return errors.New("want grpcs://HOST:PORT of a proxy that ends TLS, such as grpcs://coordd.example.net:443")
	}
	if err := checkAdvertised(address); err != nil {
		return err
	}
	s.Advertise = value
	return nil
}

// checkAdvertised refuses the addresses that mean "all of mine": a client cannot
// connect to those.
func checkAdvertised(value string) error {
	allowed := errors.New("want HOST or HOST:PORT that clients can connect to, with a port from 1 to 65535, such as " +
		"coordd.example.net or [2001:db8::1]:2136")
	if _, err := netip.ParseAddr(value); err != nil && strings.Contains(value, ":") {
		host, port, err := net.SplitHostPort(value)
		if err != nil || !PortInRange(port, 1) || !hostUsable(host, false) {
			return allowed
		}
	} else if !hostUsable(value, false) {
		return allowed
	}
	return nil
}

// PortInRange reports whether a text is a port of at least lowest.
func PortInRange(port string, lowest uint64) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number >= lowest
}

// hostName accepts what a resolver may know: letters, digits, dots, dashes and
// underscores (container networks use them).
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?\.?$`)

// hostUsable says whether host is an IP address or a well-formed name. Only a
// listener may leave it empty or use an unspecified address.
func hostUsable(host string, listener bool) bool {
	if host == "" {
		return listener
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return listener || !address.IsUnspecified()
	}
	return hostName.MatchString(host)
}

// databaseBytesMax keeps the connection string, which holds the database, short
// enough for any client.
const databaseBytesMax = 1024

// setDatabase allows what the path tree allows, in its one plain spelling, since
// the connection string repeats it.
func setDatabase(s *Settings, value string) error {
	const allowed = "want an absolute path such as /local, of at most 1024 bytes"
	if !strings.HasPrefix(value, "/") || path.Clean(value) != value || len(value) > databaseBytesMax {
		return errors.New(allowed)
	}
	if _, err := scheme.New(value); err != nil {
		return fmt.Errorf("%s: %w", allowed, err)
	}
	s.Database = value
	return nil
}

func setDataDir(s *Settings, value string) error {
	directory, err := filepath.Abs(value)
	if value == "" || strings.ContainsRune(value, 0) || err != nil {
		return errors.New("want the path of a directory, which is made if it does not exist")
	}
	s.DataDir = directory
	return nil
}

func setBool(field func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		switch value {
		case "true", "1":
			*field(s) = true
		case "false", "0":
			*field(s) = false
		default:
			return errors.New("want true or false")
		}
		return nil
	}
}

// countMost is the largest number that may be set for a limit.
const countMost = 1 << 30

func setCount(field func(*Settings) *int) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		number, err := strconv.Atoi(value)
		if err != nil || number < 1 || number > countMost {
			return fmt.Errorf("want a number from 1 to %d", countMost)
		}
		*field(s) = number
		return nil
	}
}

// SizeUnits lists the endings of sizes, the longest first.
var SizeUnits = []struct {
	Ending string
	Bytes  uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

// setDiskReserve takes a number of bytes, with or without a unit.
func setDiskReserve(s *Settings, value string) error {
	size, ok := ParseSize(value)
	if s.Reserve = size; ok {
		return nil
	}
	return errors.New("want a number of bytes up to 1024TiB, such as 128MiB; the units are KiB, MiB, GiB and TiB")
}

// UnlimitedText disables the state limit.
const UnlimitedText = "unlimited"

// SetStateLimit takes a size or the word for none.
func SetStateLimit(s *Settings, value string) error {
	if value == UnlimitedText {
		s.StateLimit = statelimit.Unlimited
		return nil
	}
	size, ok := ParseSize(value)
	if !ok || size < statelimit.Min {
		return errors.New("want 1MiB to 1024TiB, such as 384MiB, or " + UnlimitedText +
			"; the units are KiB, MiB, GiB and TiB")
	}
	s.StateLimit = size
	return nil
}

// ParseSize reads a number of bytes up to 1024TiB, with or without a unit.
func ParseSize(value string) (bytes uint64, ok bool) {
	for _, unit := range SizeUnits {
		digits, found := strings.CutSuffix(value, unit.Ending)
		number, err := strconv.ParseUint(digits, 10, 64)
		if found && err == nil && number <= 1<<50/unit.Bytes {
			return number * unit.Bytes, true
		}
	}
	return 0, false
}

const levelNames = "debug, info, warn or error"

func setLogLevel(s *Settings, value string) error {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, known := levels[value]
	if !known {
		return errors.New("want " + levelNames)
	}
	s.LogLevel = level
	return nil
}

const (
	// RootDataDir is the data directory of root.
	RootDataDir        = "/var/lib/coordd"
	dataDirDefaultText = "$XDG_STATE_HOME/coordd or ~/.local/state/coordd; for root " + RootDataDir
)

// defaultDataDir is the data directory without a setting: the place of
// the system for root, the user's state directory for anybody else. A relative
// XDG_STATE_HOME is ignored, as its specification asks.
func defaultDataDir(env cmdline.Environment, uid int) (string, error) {
	if uid == 0 {
		return RootDataDir, nil
	}
	if state := env.Value("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "coordd"), nil
	}
	if home := env.Value("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "coordd"), nil
	}
	return "", fmt.Errorf("no data directory: neither XDG_STATE_HOME nor HOME holds an absolute path; give flag "+
		"--%s, variable %s or key %s in the config file", DataDirName, cmdline.Variable(DataDirName), DataDirName)
}

// beyondLoopback says whether other machines can reach the listener for plain text.
func (s *Settings) beyondLoopback() bool { return s.Listen != "" && Reachable(s.Listen) }

// Reachable says whether other machines can reach an address to listen on, as far as it tells.
func Reachable(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return !address.IsLoopback()
	}
	return host != "localhost"
}
