package raftstore

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// Cluster is the part of Config that concerns other members. Its zero value is a server alone that nobody can
// join.
type Cluster struct {
	// Name tells members apart for people. It is needed with any other field.
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
	TLS *PeerTLS
	// Dial connects to another member; nil: over TCP. Tests cut networks with it.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Listen listens for other members; nil: over TCP.
	Listen func(address string) (net.Listener, error)
	// Services, if set, adds the server's own services to those that members offer each other.
	Services func(grpc.ServiceRegistrar)
	// Settings, if set, are what should be the same on all members; members tell each other, and what differs
	// is logged, see Store.Unlike. Any goroutine may call it.
	Settings func() []Setting
	// Version is the highest version of commands this server can read, see Store.ClusterVersion.
	Version uint64

	network network // tests
	clock   clock   // tests
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
	case len(c.Initial) > membersMax:
		return fmt.Errorf("%d members: at most %d", len(c.Initial), membersMax)
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

// origin is what a data directory is made from.
type origin struct {
	id     identity
	first  checkpointMeta
	learnt learntText // who may speak to it, as far as first does not say
}

// findOrigin decides who a member without data is.
func findOrigin(ctx context.Context, c Cluster, net network, log *slog.Logger) (origin, error) {
	switch {
	case len(c.Initial) > 0:
		return staticOrigin(ctx, c, net)
	case len(c.Join) > 0:
		return joinedOrigin(ctx, c, net, log)
	}
	id := newIdentity()
	if !c.networked() {
		return origin{id: id, first: firstCheckpoint(id)}, nil
	}
	id.Incarnation = randomID()
	first := firstCheckpoint(id)
	first.Conf.Members = []memberRecord{{ID: id.Member, Name: c.Name, Peer: c.address(),
		Client: c.ClientAddress}}
	return origin{id: id, first: first}, nil
}

// staticOrigin makes the ids of a first start, the same on every member. The membership is as of entry 1,
// which no log contains, so that a member added later cannot get the log from its beginning without it.
//
// It is refused when a server that can be reached now belongs to this cluster and knows that this member has
// had a data directory before, or that it was removed. Servers that cannot be reached are not waited for;
// they refuse this member later, by its incarnation.
func staticOrigin(ctx context.Context, c Cluster, net network) (origin, error) {
	names := slices.Sorted(maps.Keys(c.Initial))
	cluster := firstClusterID(c)
	conf := confRecord{}
	for _, name := range names {
		m := memberRecord{ID: firstMemberID(cluster, name), Name: name, Peer: c.Initial[name]}
		conf.Members = append(conf.Members, m)
		conf.Voters = append(conf.Voters, m.ID)
	}
	conf.sort()
	id := identity{Cluster: cluster, Member: firstMemberID(cluster, c.Name), Incarnation: randomID()}
	for _, name := range names {
		if name == c.Name {
			continue
		}
		if err := mayStart(ctx, net, c.Initial[name], id, conf); err != nil {
			return origin{}, fmt.Errorf("first start of %q: %s at %s: %w", c.Name, name, c.Initial[name], err)
		}
	}
	return origin{id: id, first: checkpointMeta{
		Format: checkpointFormat, Cluster: cluster, Member: id.Member,
		Index: 1, Term: 1, Restored: 1, Conf: conf,
	}}, nil
}

// firstClusterID is the id of a cluster that starts for the first time. Two that were told the same names are
// different ones all the same if their servers are elsewhere.
func firstClusterID(c Cluster) uint64 {
	parts := []string{"cluster", c.Token}
	for _, name := range slices.Sorted(maps.Keys(c.Initial)) {
		parts = append(parts, name, c.Initial[name])
	}
	return hashID(parts...)
}

func firstMemberID(cluster uint64, name string) uint64 {
	return hashID("member", IDText(cluster), name)
}

// mayStart asks one server whether id, one of the given first members, may start without data.
func mayStart(ctx context.Context, net network, address string, id identity, first confRecord) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	answer, err := net.hello(ctx, address, &peerpb.HelloRequest{Cluster: id.Cluster, Member: id.Member})
	switch {
	case errors.Is(err, ErrRemoved):
		return err
	case status.Code(err) == codes.Unauthenticated: // it is no member there, or has a wrong certificate
		return refuse(ErrOtherCluster,
			"it does not take this server for a member: %s; the first members are %s here",
			status.Convert(err).Message(), first.list())
	case err != nil:
		return nil // it cannot be reached
	}
	conf, err := decodeConf(answer.GetMembership())
	if err != nil {
		return err
	}
	if answer.GetCluster() != id.Cluster {
		return otherCluster(answer, conf, id.Cluster, first)
	}
	switch m := conf.member(id.Member); {
	case m == nil && answer.GetFresh():
		return nil // it has nothing to lose
	case m == nil:
		return ErrRemoved
	case m.Incarnation != 0:
		return ErrEmptied
	}
	return nil
}

// joinedOrigin waits until the cluster lists this member, by name and address, as one that has never started.
func joinedOrigin(ctx context.Context, c Cluster, net network, log *slog.Logger) (origin, error) {
	pause := time.NewTicker(joinPause)
	defer pause.Stop()
	told := map[string]string{} // by address
	for {
		for _, address := range c.Join {
			o, err := askToJoin(ctx, c, net, address)
			if err == nil || !errors.Is(err, errNotYet) {
				return o, err
			}
			if why := cause(err); why != told[address] {
				told[address] = why
				log.Info("waiting to be added to the cluster", "as", c.Name, "at", c.address(), "asked",
					address, "why", why)
			}
		}
		select {
		case <-ctx.Done():
			return origin{}, fmt.Errorf("wait to be added to the cluster as %q at %s: %w", c.Name,
				c.address(), ctx.Err())
		case <-pause.C:
		}
	}
}

// errNotYet says that the cluster was not reached or does not list this member yet.
var errNotYet = errors.New("not a member yet")

func askToJoin(ctx context.Context, c Cluster, net network, address string) (origin, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	answer, err := net.hello(ctx, address, &peerpb.HelloRequest{})
	switch {
	case status.Code(err) == codes.Unauthenticated:
		return origin{}, refuse(errNotYet, "it does not know a server with this one's certificate yet")
	case err != nil:
		return origin{}, refuse(errNotYet, "%s", status.Convert(err).Message())
	case answer.GetCluster() == 0:
		return origin{}, errNotYet
	}
	conf, err := decodeConf(answer.GetMembership())
	if err != nil {
		return origin{}, err
	}
	at := slices.IndexFunc(conf.Members, func(m memberRecord) bool {
		return m.Name == c.Name && m.Peer == c.address()
	})
	if at < 0 {
		return origin{}, refuse(errNotYet, "the members are %s", conf.list())
	}
	m := conf.Members[at]
	switch {
	case m.Incarnation != 0:
		return origin{}, fmt.Errorf("join as %q: %w", c.Name, ErrEmptied)
	case !slices.Contains(conf.Learners, m.ID):
		return origin{}, fmt.Errorf("join as %q: the cluster lists it as a voter", c.Name)
	case answer.GetVersion() > c.Version:
		return origin{}, fmt.Errorf("join as %q: %w", c.Name, &VersionError{answer.GetVersion(), c.Version})
	}
	first := checkpointMeta{Format: checkpointFormat, Cluster: answer.GetCluster(), Member: m.ID}
	if len(answer.GetOrigin()) > 0 {
		first.Forced, first.Lineage = answer.GetForced(), answer.GetLineage()
		if first.Conf, err = decodeConf(answer.GetOrigin()); err != nil {
			return origin{}, err
		}
	}
	conf.Index = max(conf.Index, 1) // older programs do not tell
	id := identity{Cluster: answer.GetCluster(), Member: m.ID, Incarnation: randomID()}
	return origin{id, first, learntText{Lineage: answer.GetLineage(), Conf: conf}}, nil
}

// readable fails if a cluster with these members may use commands that this program cannot read.
func (c *Cluster) readable(conf confRecord) error {
	if v := conf.version(); v > c.Version && c.networked() {
		return &VersionError{v, c.Version}
	}
	return nil
}

// hashID makes an id that every member computes alike.
func hashID(parts ...string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x01")))
	id := binary.LittleEndian.Uint64(sum[:])
	if id == 0 || raft.IsLocalMsgTarget(id) {
		return hashID(append(parts, "again")...)
	}
	return id
}

// hasData reports whether a directory belongs to a member already.
func hasData(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
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

// Setting is something that should be the same on all members. Longer texts than 128 bytes are cut.
type Setting struct{ Name, Value string }

// PeerTLS has both sides of a connection between members. Both should ask for and check a certificate. On top
// of what they check, a certificate must be made for the host of its member's peer address.
type PeerTLS struct {
	Server, Client *tls.Config
	// Current, if set, gives the configurations that are to be used instead of these for a connection that is
	// just being made, so that certificates can be replaced without a restart.
	Current func() (server, client *tls.Config)
}
