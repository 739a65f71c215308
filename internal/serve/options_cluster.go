package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/admin"
	"github.com/coordd/coordd/server/listen"
)

// ClusterSettings makes `coordd serve` one of several servers. The zero value is a server alone.
type ClusterSettings struct {
	Name, Listen, Advertise string
	initial                 string // Name=host:port, comma-separated
	join                    string // host:port, comma-separated
	token                   string
	Certificate, Key, CA    string // absolute paths, empty: none
	insecure                bool   // plain text between servers
}

// ClusterOptions are the settings of a cluster.
var ClusterOptions = []Option{
	{"name", "NAME", "name of this server in its cluster", "", SetMemberName},
	{"listen-peer", "HOST:PORT",
		"address to accept the other servers of the cluster on (default: none, a server alone)",
		"", setListener(func(s *Settings) *string { return &s.Cluster.Listen }, 1, "10.0.0.1:2380")},
	{"advertise-peer", "HOST:PORT",
		"address that the other servers connect to (default: from --initial-cluster, or --listen-peer)",
		"", setAdvertisePeer},
	{"initial-cluster", "NAME=HOST:PORT,...",
		"all servers of a cluster that starts for the first time, the same on each",
		"", setInitialCluster},
	{"join", "HOST:PORT,...", "servers of a running cluster to join, that has been told of it", "", setJoin},
	{"cluster-token", "TEXT", "goes into the ids of a first start, so that two clusters cannot be mixed up",
		"", setClusterToken},
	{"peer-cert", "FILE", "PEM file of this server's certificate among its peers",
		"", setFile(func(s *Settings) *string { return &s.Cluster.Certificate })},
	{"peer-key", "FILE", "PEM file of the key of --peer-cert",
		"", setFile(func(s *Settings) *string { return &s.Cluster.Key })},
	{"peer-ca", "FILE", "PEM file of the authority that all peers' certificates come from",
		"", setFile(func(s *Settings) *string { return &s.Cluster.CA })},
	{"insecure-peers", "bool",
		"allow plain text between the servers: everybody who can reach them is an administrator",
		"false", setBool(func(s *Settings) *bool { return &s.Cluster.insecure })},
}

// SetMemberName stores the name of a server in its cluster.
func SetMemberName(s *Settings, value string) error {
	s.Cluster.Name = value
	return admin.ValidMemberName(value)
}

// PeerAddress refuses what is no address that other servers can connect to.
func PeerAddress(value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil || !PortInRange(port, 1) || !hostUsable(host, false) {
		return errors.New("want HOST:PORT with a port from 1 to 65535, such as 10.0.0.1:2380")
	}
	return nil
}

func setAdvertisePeer(s *Settings, value string) error {
	s.Cluster.Advertise = value
	return PeerAddress(value)
}

func setInitialCluster(s *Settings, value string) error {
	_, err := parseInitialCluster(value)
	s.Cluster.initial = value
	return err
}

func parseInitialCluster(value string) (map[string]string, error) {
	members := make(map[string]string)
	for _, part := range strings.Split(value, ",") {
		name, address, found := strings.Cut(part, "=")
		if !found || SetMemberName(&Settings{}, name) != nil || PeerAddress(address) != nil {
			return nil, fmt.Errorf("%q: want NAME=HOST:PORT, separated by commas", part)
		}
		if members[name] != "" {
			return nil, fmt.Errorf("%q is named twice", name)
		}
		for other, taken := range members {
			if taken == address {
				return nil, fmt.Errorf("%q and %q have the same address, %s", min(name, other),
					max(name, other), address)
			}
		}
		members[name] = address
	}
	return members, nil
}

func setJoin(s *Settings, value string) error {
	for _, address := range strings.Split(value, ",") {
		if err := PeerAddress(address); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
	}
	s.Cluster.join = value
	return nil
}

func setClusterToken(s *Settings, value string) error {
	if value == "" || len(value) > 1024 {
		return errors.New("want 1 to 1024 bytes")
	}
	s.Cluster.token = value
	return nil
}

// configuration returns the configuration of the store. Errors name the flags that do not fit together.
func (c ClusterSettings) configuration(logger *slog.Logger) (raftstore.Cluster, error) {
	config := raftstore.Cluster{Name: c.Name, ListenPeer: c.Listen, AdvertisePeer: c.Advertise,
		Token: c.token}
	if c == (ClusterSettings{}) {
		return config, nil
	}
	if c.Name == "" || c.Listen == "" {
		return config, errors.New("a server of a cluster needs --name and --listen-peer")
	}
	if c.initial != "" {
		config.Initial, _ = parseInitialCluster(c.initial)
		if config.Initial[c.Name] == "" {
			return config, fmt.Errorf("--initial-cluster does not name this server, %q", c.Name)
		}
	}
	if c.join != "" {
		config.Join = strings.Split(c.join, ",")
	}
	if c.initial != "" && c.join != "" {
		return config, errors.New(
			"--initial-cluster and --join exclude each other: a server starts a cluster or joins one")
	}
	var err error
	config.TLS, err = c.security(logger)
	return config, err
}

// security is mutual TLS between the servers, nil if plain text was asked for by name.
func (c ClusterSettings) security(logger *slog.Logger) (*raftstore.PeerTLS, error) {
	if c.Certificate == "" && c.Key == "" && c.CA == "" {
		if !c.insecure {
			return nil, errors.New(
				"servers of a cluster need --peer-cert, --peer-key and --peer-ca, or --insecure-peers")
		}
		return nil, nil
	}
	if c.Certificate == "" || c.Key == "" || c.CA == "" || c.insecure {
		return nil, errors.New("--peer-cert, --peer-key and --peer-ca belong together, and not with --insecure-peers")
	}
	peers, err := listen.PeerFiles{Certificate: c.Certificate, Key: c.Key, CA: c.CA}.Load(logger)
	if err != nil {
		return nil, fmt.Errorf("--peer-cert, --peer-key, --peer-ca: %w", err)
	}
	return peers, nil
}
