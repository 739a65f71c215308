package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/settings"
)

// Cluster is the part of Config that concerns other members. Its zero value is a server alone that nobody can
// join.
type Cluster struct {
	// Name is the member's name in logs and commands. Any other field requires it.
	Name string
	// Initial has the name and the peer address of every member of a cluster that starts for the first time,
	// this one included; all must be given the same. A directory that has data knows its members, and then
	// this is not looked at.
	Initial map[string]string
	// Token goes into the ids of a first start, so that two clusters with the same names are not taken for
	// one.
	Token string
	// Join has peer addresses of a cluster to which this member was or will be added. It does not matter once
	// there is data. With it Initial is empty.
	Join []string
	// ListenPeer is where to listen for other members; "" with neither Initial nor Join means not at all.
	ListenPeer string
	// AdvertisePeer is where others reach this member; "" is the address in Initial, or else ListenPeer.
	AdvertisePeer string
	// ClientAddress is where clients reach this member; "" says nothing. The store only passes it on, see
	// Member and SetClientAddress.
	ClientAddress string
	// TLS is for connections between members; nil is plain text.
	TLS *peers.TLS
	// Dial connects to another member; nil: over TCP. Tests cut networks with it.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Listen listens for other members; nil: over TCP.
	Listen func(address string) (net.Listener, error)
	// Services, if set, serve the layers above the log on other members.
	Services *peers.Services
	// Settings, if set, returns the settings that should be the same on all members. Members announce theirs to each
	// other, and a difference is logged, see Peers.Unlike. Any goroutine may call it.
	Settings func() []settings.Setting
	// Version is the highest version of commands this server can read, see Store.ClusterVersion.
	Version uint64

	network peers.Network // tests
	clock   clock         // tests
}

// networked reports whether there may ever be other members.
func (c *Cluster) networked() bool { return c.network != nil || c.ListenPeer != "" }

func (c *Cluster) check(inMemory bool) error {
	switch {
	case len(c.Initial) > 0 && len(c.Join) > 0:
		return errors.New("a member either starts a cluster or joins one: Initial and Join are both given")
	case (len(c.Initial) > 0 || len(c.Join) > 0 || c.ListenPeer != "") && c.Name == "":
		return errors.New("a member of a cluster needs a name")
	case (len(c.Initial) > 0 || len(c.Join) > 0) && !c.networked():
		return errors.New("a member of a cluster needs an address to listen on")
	case len(c.Initial) > 0 && c.Initial[c.Name] == "":
		return fmt.Errorf("%q is not among the first members of the cluster", c.Name)
	case c.networked() && inMemory:
		return errors.New("a member of a cluster needs a data directory")
	case len(c.Initial) > membership.MaxMembers:
		return fmt.Errorf("%d members: at most %d", len(c.Initial), membership.MaxMembers)
	}
	seen := map[string]string{}
	for name, address := range c.Initial {
		if other, ok := seen[address]; ok {
			return fmt.Errorf("%q and %q have the same address %s", min(name, other), max(name, other),
				address)
		}
		seen[address] = name
	}
	return nil
}

// address is where others reach this member.
func (c *Cluster) address() string {
	switch {
	case c.AdvertisePeer != "":
		return c.AdvertisePeer
	case c.Initial[c.Name] != "":
		return c.Initial[c.Name]
	}
	return c.ListenPeer
}

// VersionError reports that the cluster may use commands that this program cannot read. Open and Store.Start return it,
// and Handler.Failed gets it if the cluster has come so far while a new member joined.
type VersionError struct {
	Cluster uint64 // version that all members can read
	Own     uint64 // highest version this program reads
}

// Error names both versions and the way out.
func (e *VersionError) Error() string {
	return fmt.Sprintf(
		"the cluster uses commands of version %d, this program reads up to %d: use a later version of it",
		e.Cluster, e.Own)
}

// readable fails if a cluster with these members may use commands that this program cannot read.
func (c *Cluster) readable(conf membership.Conf) error {
	if v := conf.Version(); v > c.Version && c.networked() {
		return &VersionError{v, c.Version}
	}
	return nil
}

// clock is where time comes from; tests have clocks that go wrong.
type clock interface {
	// now has a monotonic reading.
	now() time.Time
	// ticker is time.NewTicker on this clock.
	ticker(d time.Duration) *time.Ticker
}

type realClock struct{}

func (realClock) now() time.Time                      { return time.Now() }
func (realClock) ticker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// settings are those of this member for the others.
func (c *Cluster) settings() []*peerpb.Setting {
	if c.Settings == nil {
		return nil
	}
	return settings.Wire(c.Settings())
}

// grpc returns the network of a running server.
func (c *Cluster) grpc(logger *slog.Logger) *peers.GRPC {
	return &peers.GRPC{Address: c.ListenPeer, TLS: c.TLS, Services: c.Services, Dialer: c.Dial, Listener: c.Listen,
		Logger: logger}
}
