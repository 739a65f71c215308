package serve

import (
	"log/slog"
	"time"
)

// Settings are the configuration of `coordd serve`. A field with a name is a setting: the flag, the variable, the key
// of the config file, and a row of docs/configuration.md. Its type checks the value; value stands for it in help texts,
// default is its value where it is not given, words are all that are allowed, and off is one for no listener.
type Settings struct {
	Listen    Listener   `name:"listen" value:"HOST:PORT" default:"127.0.0.1:2136" off:"off"`
	Advertise Advertised `name:"advertise" value:"HOST[:PORT]"` // a name or address for clients; empty: derived
	DataDir   Directory  `name:"data-dir" value:"DIR"`          // empty if and only if InMemory is set
	InMemory  bool       `name:"in-memory" default:"false"`
	Database  Database   `name:"database" value:"PATH" default:"/local"`
	TLS       TLSSettings
	Auth      AuthSettings
	Reserve   Size `name:"disk-reserve" value:"SIZE" default:"128MiB"`
	// StateLimit is the state limit of a new cluster, 0 if not given.
	StateLimit StateLimit `name:"state-limit" value:"SIZE"`
	// How many of each a client or the process may have open at once; 0: as many as fit.
	StreamsPerConnection  int `name:"streams-per-connection" value:"NUMBER" default:"100000"`
	Streams               int `name:"streams" value:"NUMBER"`
	ConnectionsPerAddress int `name:"connections-per-address" value:"NUMBER"`

	LogLevel  slog.Level `name:"log-level" value:"LEVEL" default:"info" words:"debug,info,warn,error"`
	LogFormat string     `name:"log-format" value:"FORMAT" default:"text" words:"text,json"`
	LocalYDB  bool       `name:"local-ydb" default:"false"`

	Cluster ClusterSettings
	HTTP    HTTPSettings
}

// TLSSettings are the settings of the TLS listener of `coordd serve`.
type TLSSettings struct {
	Listen         Listener      `name:"listen-tls" value:"HOST:PORT" example:"127.0.0.1:2135"`
	Advertise      AdvertisedTLS `name:"advertise-tls" value:"HOST[:PORT]"`
	Certificate    File          `name:"tls-cert" value:"FILE"`
	Key            File          `name:"tls-key" value:"FILE"`
	ClientCA       File          `name:"tls-client-ca" value:"FILE"`
	ClientRequired Required      `name:"tls-client-auth" default:"optional" words:"optional,required"`
}

// AuthSettings are the settings of authentication and permissions.
type AuthSettings struct {
	Mode              string        `name:"auth" default:"off" words:"off,required"`
	TokenFile         File          `name:"token-file" value:"FILE"`
	LoginLifetime     time.Duration `name:"login-lifetime" value:"DURATION" default:"12h"`
	Admin             UserName      `name:"initial-admin" value:"NAME"`
	AdminPasswordFile File          `name:"initial-admin-password-file" value:"FILE"`
	LoopbackAdmin     bool          `name:"loopback-admin" default:"false"`
	Socket            Socket        `name:"admin-socket" value:"PATH"`
	Inspect           string        `name:"inspect" words:"off,local,on"` // empty: by the other settings
}

// ClusterSettings makes `coordd serve` one of several servers. The zero value is a server alone.
type ClusterSettings struct {
	Name        MemberName   `name:"name" value:"NAME"`
	Listen      Listener     `name:"listen-peer" value:"HOST:PORT" lowest:"1" example:"10.0.0.1:2380"`
	Advertise   PeerAddress  `name:"advertise-peer" value:"HOST:PORT"`
	Initial     InitialPeers `name:"initial-cluster" value:"NAME=HOST:PORT,..."`
	Join        Peers        `name:"join" value:"HOST:PORT,..."`
	Token       ClusterToken `name:"cluster-token" value:"TEXT"`
	Certificate File         `name:"peer-cert" value:"FILE"`
	Key         File         `name:"peer-key" value:"FILE"`
	CA          File         `name:"peer-ca" value:"FILE"`
	Insecure    bool         `name:"insecure-peers" default:"false"`
}

// HTTPSettings are the settings of the listener for browsers and monitoring programs.
type HTTPSettings struct {
	Listen    Listener     `name:"listen-http" value:"HOST:PORT" default:"127.0.0.1:8765" off:"off,"`
	TLS       bool         `name:"http-tls" default:"false"`
	Hosts     HostNames    `name:"http-hosts" value:"NAME,..."`
	Console   string       `name:"console" default:"read" words:"off,read,write"`
	Resources Resources    `name:"metrics-resource" value:"NODE=RESOURCE,..."`
	Locks     Semaphores   `name:"metrics-semaphore" value:"NODE=SEMAPHORE,..."`
	Debug     LocalAddress `name:"debug-http" value:"PATH|IP:PORT"`
}

// The names of settings that others refer to.
const (
	ConfigName     = "config" // of the config file
	DataDirName    = "data-dir"
	InMemoryName   = "in-memory"
	ListenName     = "listen"
	ListenHTTPName = "listen-http"
	DatabaseName   = "database"
)

// usages explain the settings, by their names. "(default: …)" explains a default that has no value.
var usages = map[string]string{
	"listen": "address to accept clients on, plain text; port 0 takes a free one, an empty host means all " +
		"addresses; off: only --listen-tls",
	"advertise": "address for clients to connect to (default: derived from --listen); grpcs://HOST:PORT: of a proxy " +
		"that terminates TLS and connects to --listen",
	"data-dir":  "directory of the data (default: " + dataDirDefaultText + ")",
	"in-memory": "keep everything in memory and write nothing to disk, for tests",
	"database":  "path of the database that clients name",

	"listen-tls":      "address to accept clients on, TLS, 2135 by convention (default: none)",
	"advertise-tls":   "address for clients of --listen-tls (default: derived from --advertise and --listen-tls)",
	"tls-cert":        "PEM file of the server's certificate chain; reread when it changes",
	"tls-key":         "PEM file of the key of --tls-cert",
	"tls-client-ca":   "PEM file of the CAs whose client certificates prove an identity",
	"tls-client-auth": "whether clients of --listen-tls must have a certificate of --tls-client-ca",

	"auth":                        "whether anonymous callers are refused and permissions enforced",
	"token-file":                  "file of access tokens, in each line a token and a user; reread when it changes",
	"login-lifetime":              "lifetime of login tokens, 1m to 720h",
	"initial-admin":               "administrator to add if there are no users",
	"initial-admin-password-file": "file with the password of --initial-admin",
	"loopback-admin": "let every caller on this machine administer the server, as the socket in the data directory " +
		"does; will be removed in the next release",
	"admin-socket": "additional socket for administrators, which this process's group may open; commands find it at " +
		GroupSocket,
	"inspect": "callers that may use the inspection service; local: those on this machine (default: on, but local " +
		"if other machines can connect and --auth is off)",

	"disk-reserve": "free space of the data directory's disk below which the state may not grow; 0: none",
	"state-limit": "limit on all data of a new cluster; 'coordd cluster limits' changes it " +
		"(default: 384MiB)",
	"streams-per-connection": "calls, mainly sessions, that one connection may have open at once",
	"streams": "session streams that may be open at once in all (default: 100000, or as many as half of the memory " +
		"holds)",
	"connections-per-address": "connections that one IP address may have open at once (default: 20000, or three " +
		"quarters of all that fit)",
	"log-level":  "least severe message to log: debug, info, warn or error",
	"log-format": "format of the log on stderr: text or json",
	"local-ydb": "take ports, certificates and storage from the variables of the local-ydb image where nothing else " +
		"sets them",

	"name":            "name of this server in its cluster",
	"listen-peer":     "address to accept the other servers of the cluster on (default: none, a server alone)",
	"advertise-peer":  "address that the other servers connect to (default: from --initial-cluster, or --listen-peer)",
	"initial-cluster": "all servers of a cluster at its first start, the same list on each",
	"join":            "servers of a running cluster to join; 'coordd cluster add' comes first",
	"cluster-token":   "text that goes into the ids of a first start, so that two clusters cannot be confused",
	"peer-cert":       "PEM file of the certificate that this server shows to its peers",
	"peer-key":        "PEM file of the key of --peer-cert",
	"peer-ca":         "PEM file of the CA that has signed all peers' certificates",
	"insecure-peers":  "allow plain text between the servers: every caller that can reach them is an administrator",

	"listen-http": "address for browsers and monitoring programs, HTTP: the console, /healthz, " +
		"/readyz and /metrics; off: none",
	"console": "what the console on --listen-http may do, with its user's permissions; write: also end sessions, " +
		"delete semaphores and hand over the leadership",
	"http-tls": "use TLS on --listen-http, with --tls-cert and --tls-key; browsers and probes then need " +
		"https",
	"http-hosts": "additional host names under which /metrics is served, besides IP addresses, localhost and the " +
		"names that the server listens on and advertises",
	"metrics-resource": "rate limiter resources that have their own metrics, up to 200, if the counters of the node " +
		"are detailed",
	"metrics-semaphore": "semaphores that have their own metrics, up to 200; names must not contain commas",
	"debug-http": "address of profiles for developers, below /debug/pprof: a Unix socket or a local address " +
		"(default: nowhere)",
}
