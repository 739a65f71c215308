package main

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

	"github.com/coordd/coordd/scheme"
)

// settings is the configuration of `coordd serve`, checked value by value.
type settings struct {
	listen    string // host:port, port 0 lets the system choose; an empty host means all addresses; empty: none
	advertise string // host or host:port for clients, or grpcs://host:port of a proxy; empty: derived from listen
	database  string // absolute path
	dataDir   string // absolute path; empty if and only if inMemory is set
	inMemory  bool   // nothing is written to disk
	localYDB  bool   // the variables of the local-ydb image count
	tls       tlsSettings
	auth      authSettings
	cluster   clusterSettings
	reserve   uint64 // bytes of the disk kept free, 0: none
	// stateLimit is how many bytes the state may count in a cluster that has no limit yet, 0: not given.
	stateLimit uint64
	// How many of each a client or the process may have open at once.
	streamsPerConnection, streams, connectionsPerAddress int

	http httpSettings

	logLevel  slog.Level
	logFormat string // "text" or "json"
}

// option is one setting: how it is named, what it means and how it is read.
type option struct {
	// name is the flag without dashes and the key in the config file; the
	// environment variable is derived from it.
	name        string
	placeholder string // stands for the value in help texts
	usage       string
	fallback    string // the value where none is given; see defaultDataDir for --data-dir
	// set checks a value and stores it. Its error says what is allowed.
	set func(s *settings, value string) error
}

const (
	configName   = "config"
	dataDirName  = "data-dir"
	inMemoryName = "in-memory"
	listenName   = "listen"
	databaseName = "database"
)

// serveOptions are the settings of `coordd serve`, in the order of its help.
var serveOptions = slices.Concat([]option{
	{listenName, "HOST:PORT",
		"address to accept clients on, plain text; port 0 takes a free one; off: none, with --listen-tls",
		"127.0.0.1:2136", setListen},
	{"advertise", "HOST[:PORT]",
		"address for clients to connect to (default: derived from --listen); grpcs://HOST:PORT: of a proxy that ends " +
			"TLS and connects to --listen",
		"", setAdvertise},
	dataDirOption,
	{inMemoryName, "bool", "keep everything in memory and write nothing to disk, for tests",
		"false", setBool(func(s *settings) *bool { return &s.inMemory })},
	{databaseName, "PATH", "path of the database that clients name", "/local", setDatabase},
	{"listen-tls", "HOST:PORT", "address to accept clients on, TLS, 2135 by convention (default: none)",
		"", setListenTLS},
	{"advertise-tls", "HOST[:PORT]",
		"address for clients of --listen-tls (default: derived from --advertise and --listen-tls)",
		"", setAdvertiseTLS},
	{"tls-cert", "FILE", "PEM file of the server's certificate chain; read again when it changes",
		"", setFile(func(s *settings) *string { return &s.tls.certificate })},
	{"tls-key", "FILE", "PEM file of the key of --tls-cert",
		"", setFile(func(s *settings) *string { return &s.tls.key })},
	{"tls-client-ca", "FILE", "PEM file of the authorities whose client certificates prove an identity",
		"", setFile(func(s *settings) *string { return &s.tls.clientCA })},
	{"tls-client-auth", "optional|required",
		"whether clients of --listen-tls must have a certificate of --tls-client-ca",
		"optional", setTLSClientAuth},
	{"auth", "off|required", "whether anonymous callers are refused and permissions count", "off", setAuth},
	{"token-file", "FILE", "file of access tokens, in each line a token and a user; read again when it changes",
		"", setFile(func(s *settings) *string { return &s.auth.tokenFile })},
	{"login-lifetime", "DURATION", "how long a login token is good", "12h", setLoginLifetime},
	{"initial-admin", "NAME", "administrator to add if there are no users", "", setInitialAdmin},
	{"initial-admin-password-file", "FILE", "file with the password of --initial-admin",
		"", setFile(func(s *settings) *string { return &s.auth.adminPasswordFile })},
	{"loopback-admin", "bool",
		"let everybody on this machine do what the socket in the data directory is for; goes away with the next " +
			"release",
		"false", setBool(func(s *settings) *bool { return &s.auth.loopbackAdmin })},
	{"inspect", "off|local|on",
		"whom the inspection service shows locks and sessions; local: callers on this machine (default: on, but " +
			"local where strangers can connect and --auth is off)",
		"", setInspect},
	{"disk-reserve", "SIZE", "free space of the data directory's disk below which nothing new is written; 0: none",
		"128MiB", setDiskReserve},
	{"state-limit", "SIZE",
		"limit of all data that a cluster gets that has none yet; 'coordd cluster limits' changes it (default: 384MiB)",
		"", setStateLimit},
	{"streams-per-connection", "NUMBER", "calls, sessions above all, that one connection may have open at once",
		"100000", setCount(func(s *settings) *int { return &s.streamsPerConnection })},
	{"streams", "NUMBER",
		"sessions' streams that may be open at once in all (default: 100000, or what half of the memory is enough for)",
		"", setCount(func(s *settings) *int { return &s.streams })},
	{"connections-per-address", "NUMBER",
		"connections that one IP address may have open at once (default: 20000, or three quarters of all that there " +
			"is room for)",
		"", setCount(func(s *settings) *int { return &s.connectionsPerAddress })},
	{"log-level", "LEVEL", "least severe message to log: " + levelNames, "info", setLogLevel},
	{"log-format", "FORMAT", "form of the log on stderr: text or json", "text", setLogFormat},
	localYDBOption,
}, clusterOptions, httpOptions)

// dataDirOption is shared by the commands that work on a data directory.
var dataDirOption = option{dataDirName, "DIR",
	"directory of the data (default: " + dataDirDefaultText + ")", "", setDataDir}

// variable is the environment variable of an option.
func variable(name string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

const variablePrefix = "COORDD_"

func setListen(s *settings, value string) error {
	if value == nothing {
		s.listen = ""
		return nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil || !portInRange(port, 0) || !hostUsable(host, true) {
		return errors.New("want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:2136, or off; an empty " +
			"host means all addresses")
	}
	s.listen = value
	return nil
}

// proxyScheme stands before the address of a proxy that ends TLS.
const proxyScheme = "grpcs://"

// setAdvertise stores an address for clients of the plain listener, or that of a proxy that ends TLS.
func setAdvertise(s *settings, value string) error {
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
	s.advertise = value
	return nil
}

// checkAdvertised refuses the addresses that mean "all of mine": a client cannot
// connect to those.
func checkAdvertised(value string) error {
	allowed := errors.New("want HOST or HOST:PORT that clients can connect to, with a port from 1 to 65535, such as " +
		"coordd.example.net or [2001:db8::1]:2136")
	if _, err := netip.ParseAddr(value); err != nil && strings.Contains(value, ":") {
		host, port, err := net.SplitHostPort(value)
		if err != nil || !portInRange(port, 1) || !hostUsable(host, false) {
			return allowed
		}
	} else if !hostUsable(value, false) {
		return allowed
	}
	return nil
}

func portInRange(port string, lowest uint64) bool {
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
func setDatabase(s *settings, value string) error {
	const allowed = "want an absolute path such as /local, of at most 1024 bytes"
	if !strings.HasPrefix(value, "/") || path.Clean(value) != value || len(value) > databaseBytesMax {
		return errors.New(allowed)
	}
	if _, err := scheme.New(value); err != nil {
		return fmt.Errorf("%s: %w", allowed, err)
	}
	s.database = value
	return nil
}

func setDataDir(s *settings, value string) error {
	directory, err := filepath.Abs(value)
	if value == "" || strings.ContainsRune(value, 0) || err != nil {
		return errors.New("want the path of a directory, which is made if it does not exist")
	}
	s.dataDir = directory
	return nil
}

func setBool(field func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, value string) error {
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

func setCount(field func(*settings) *int) func(*settings, string) error {
	return func(s *settings, value string) error {
		number, err := strconv.Atoi(value)
		if err != nil || number < 1 || number > countMost {
			return fmt.Errorf("want a number from 1 to %d", countMost)
		}
		*field(s) = number
		return nil
	}
}

// sizeUnits are the endings of sizes, the longest first.
var sizeUnits = []struct {
	ending string
	bytes  uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

// setDiskReserve takes a number of bytes, with or without a unit.
func setDiskReserve(s *settings, value string) error {
	size, ok := parseSize(value)
	if s.reserve = size; ok {
		return nil
	}
	return errors.New("want a number of bytes up to 1024TiB, such as 128MiB; the units are KiB, MiB, GiB and TiB")
}

// parseSize reads a number of bytes up to 1024TiB, with or without a unit.
func parseSize(value string) (bytes uint64, ok bool) {
	for _, unit := range sizeUnits {
		digits, found := strings.CutSuffix(value, unit.ending)
		number, err := strconv.ParseUint(digits, 10, 64)
		if found && err == nil && number <= 1<<50/unit.bytes {
			return number * unit.bytes, true
		}
	}
	return 0, false
}

const levelNames = "debug, info, warn or error"

func setLogLevel(s *settings, value string) error {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, known := levels[value]
	if !known {
		return errors.New("want " + levelNames)
	}
	s.logLevel = level
	return nil
}

func setLogFormat(s *settings, value string) error {
	if value != "text" && value != "json" {
		return errors.New("want text or json")
	}
	s.logFormat = value
	return nil
}

const (
	rootDataDir        = "/var/lib/coordd"
	dataDirDefaultText = "$XDG_STATE_HOME/coordd or ~/.local/state/coordd; for root " + rootDataDir
)

// defaultDataDir is where the data goes when nobody says otherwise: the place of
// the system for root, the user's state directory for anybody else. A relative
// XDG_STATE_HOME is ignored, as its specification asks.
func defaultDataDir(env environment, uid int) (string, error) {
	if uid == 0 {
		return rootDataDir, nil
	}
	if state := env.value("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "coordd"), nil
	}
	if home := env.value("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "coordd"), nil
	}
	return "", fmt.Errorf("no data directory: neither XDG_STATE_HOME nor HOME holds an absolute path; give flag "+
		"--%s, variable %s or key %s in the config file", dataDirName, variable(dataDirName), dataDirName)
}

// beyondLoopback says whether other machines can reach the listener for plain text.
func (s *settings) beyondLoopback() bool { return s.listen != "" && reachable(s.listen) }

// reachable says whether other machines can reach an address to listen on, as far as it tells.
func reachable(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return !address.IsLoopback()
	}
	return host != "localhost"
}
