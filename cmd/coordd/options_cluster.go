package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/listen"
)

// clusterSettings makes `coordd serve` one of several servers. The zero value is a server alone.
type clusterSettings struct {
	name, listen, advertise string
	initial                 string // name=host:port, comma-separated
	join                    string // host:port, comma-separated
	token                   string
	certificate, key, ca    string // absolute paths, empty: none
	insecure                bool   // plain text between servers
}

// clusterOptions are the settings of a cluster.
var clusterOptions = []option{
	{"name", "NAME", "name of this server in its cluster", "", setMemberName},
	{"listen-peer", "HOST:PORT",
		"address to accept the other servers of the cluster on (default: none, a server alone)",
		"", setListenPeer},
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
		"", setFile(func(s *settings) *string { return &s.cluster.certificate })},
	{"peer-key", "FILE", "PEM file of the key of --peer-cert",
		"", setFile(func(s *settings) *string { return &s.cluster.key })},
	{"peer-ca", "FILE", "PEM file of the authority that all peers' certificates come from",
		"", setFile(func(s *settings) *string { return &s.cluster.ca })},
	{"insecure-peers", "bool",
		"allow plain text between the servers: whoever can reach them is an administrator",
		"false", setBool(func(s *settings) *bool { return &s.cluster.insecure })},
}

func setMemberName(s *settings, value string) error {
	s.cluster.name = value
	return server.ValidMemberName(value)
}

// peerAddress is an address that others can connect to.
func peerAddress(value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil || !portInRange(port, 1) || !hostUsable(host, false) {
		return errors.New("want HOST:PORT with a port from 1 to 65535, such as 10.0.0.1:2380")
	}
	return nil
}

func setListenPeer(s *settings, value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil || !portInRange(port, 1) || !hostUsable(host, true) {
		return errors.New("want HOST:PORT with a port from 1 to 65535, such as 10.0.0.1:2380; an empty host means " +
			"all addresses")
	}
	s.cluster.listen = value
	return nil
}

func setAdvertisePeer(s *settings, value string) error {
	s.cluster.advertise = value
	return peerAddress(value)
}

func setInitialCluster(s *settings, value string) error {
	_, err := parseInitialCluster(value)
	s.cluster.initial = value
	return err
}

func parseInitialCluster(value string) (map[string]string, error) {
	members := make(map[string]string)
	for _, part := range strings.Split(value, ",") {
		name, address, found := strings.Cut(part, "=")
		if !found || setMemberName(&settings{}, name) != nil || peerAddress(address) != nil {
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

func setJoin(s *settings, value string) error {
	for _, address := range strings.Split(value, ",") {
		if err := peerAddress(address); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
	}
	s.cluster.join = value
	return nil
}

func setClusterToken(s *settings, value string) error {
	if value == "" || len(value) > 1024 {
		return errors.New("want 1 to 1024 bytes")
	}
	s.cluster.token = value
	return nil
}

// configuration is what the store has to know. Errors name the flags that do not fit together.
func (c clusterSettings) configuration(logger *slog.Logger) (raftstore.Cluster, error) {
	config := raftstore.Cluster{Name: c.name, ListenPeer: c.listen, AdvertisePeer: c.advertise,
		Token: c.token}
	if c == (clusterSettings{}) {
		return config, nil
	}
	if c.name == "" || c.listen == "" {
		return config, errors.New("a server of a cluster needs --name and --listen-peer")
	}
	if c.initial != "" {
		config.Initial, _ = parseInitialCluster(c.initial)
		if config.Initial[c.name] == "" {
			return config, fmt.Errorf("--initial-cluster does not name this server, %q", c.name)
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
func (c clusterSettings) security(logger *slog.Logger) (*raftstore.PeerTLS, error) {
	if c.certificate == "" && c.key == "" && c.ca == "" {
		if !c.insecure {
			return nil, errors.New(
				"servers of a cluster need --peer-cert, --peer-key and --peer-ca, or --insecure-peers")
		}
		return nil, nil
	}
	if c.certificate == "" || c.key == "" || c.ca == "" || c.insecure {
		return nil, errors.New("--peer-cert, --peer-key and --peer-ca belong together, and not with --insecure-peers")
	}
	peers, err := listen.PeerFiles{Certificate: c.certificate, Key: c.key, CA: c.ca}.Load(logger)
	if err != nil {
		return nil, fmt.Errorf("--peer-cert, --peer-key, --peer-ca: %w", err)
	}
	return peers, nil
}
