package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/admin"
	"github.com/coordd/coordd/server/listen"
)

// MemberName is the name of a server in its cluster.
type MemberName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *MemberName) UnmarshalText(text []byte) error {
	*n = MemberName(text)
	return admin.ValidMemberName(string(text))
}

// InitialPeers are the servers of a cluster that starts for the first time: NAME=HOST:PORT, with commas between them.
type InitialPeers string

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *InitialPeers) UnmarshalText(text []byte) error {
	*p = InitialPeers(text)
	_, err := p.addresses()
	return err
}

// addresses returns the address of each server by its name.
func (p InitialPeers) addresses() (map[string]string, error) {
	members := make(map[string]string)
	for _, part := range strings.Split(string(p), ",") {
		name, address, found := strings.Cut(part, "=")
		if !found || new(MemberName).UnmarshalText([]byte(name)) != nil ||
			new(PeerAddress).UnmarshalText([]byte(address)) != nil {
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

// Peers are addresses of servers with commas between them.
type Peers string

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Peers) UnmarshalText(text []byte) error {
	*p = Peers(text)
	for _, address := range strings.Split(string(text), ",") {
		if err := new(PeerAddress).UnmarshalText([]byte(address)); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
	}
	return nil
}

// ClusterToken goes into the ids of a first start.
type ClusterToken string

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *ClusterToken) UnmarshalText(text []byte) error {
	if *t = ClusterToken(text); *t == "" || len(*t) > 1024 {
		return errors.New("want 1 to 1024 bytes")
	}
	return nil
}

// configuration returns the configuration of the store. Errors name the flags that do not fit together.
func (c ClusterSettings) configuration(logger *slog.Logger) (raftstore.Cluster, error) {
	config := raftstore.Cluster{Name: string(c.Name), ListenPeer: string(c.Listen),
		AdvertisePeer: string(c.Advertise), Token: string(c.Token)}
	if c == (ClusterSettings{}) {
		return config, nil
	}
	if c.Name == "" || c.Listen == "" {
		return config, errors.New("a server of a cluster needs --name and --listen-peer")
	}
	if c.Initial != "" {
		config.Initial, _ = c.Initial.addresses()
		if config.Initial[config.Name] == "" {
			return config, fmt.Errorf("--initial-cluster does not name this server, %q", c.Name)
		}
	}
	if c.Join != "" {
		config.Join = strings.Split(string(c.Join), ",")
	}
	if c.Initial != "" && c.Join != "" {
		return config, errors.New(
			"--initial-cluster and --join exclude each other: a server starts a cluster or joins one")
	}
	var err error
	config.TLS, err = c.security(logger)
	return config, err
}

// security is mutual TLS between the servers, nil if plain text was asked for by name.
func (c ClusterSettings) security(logger *slog.Logger) (*peers.TLS, error) {
	if c.Certificate == "" && c.Key == "" && c.CA == "" {
		if !c.Insecure {
			return nil, errors.New(
				"servers of a cluster need --peer-cert, --peer-key and --peer-ca, or --insecure-peers")
		}
		return nil, nil
	}
	if c.Certificate == "" || c.Key == "" || c.CA == "" || c.Insecure {
		return nil, errors.New("--peer-cert, --peer-key and --peer-ca belong together, and not with --insecure-peers")
	}
	peers, err := listen.PeerFiles{Certificate: string(c.Certificate), Key: string(c.Key),
		CA: string(c.CA)}.Load(logger)
	if err != nil {
		return nil, fmt.Errorf("--peer-cert, --peer-key, --peer-ca: %w", err)
	}
	return peers, nil
}
