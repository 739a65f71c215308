package raftstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
)

// findOrigin decides who a member without data is.
func findOrigin(ctx context.Context, c Cluster, net peers.Network, log *slog.Logger) (datadir.Origin, error) {
	switch {
	case len(c.Initial) > 0:
		return staticOrigin(ctx, c, net)
	case len(c.Join) > 0:
		return joinedOrigin(ctx, c, net, log)
	}
	id := datadir.NewIdentity()
	return datadir.Origin{ID: id, First: datadir.FirstMeta(id)}, nil
}

// staticOrigin makes the ids of a first start, the same on every member. The membership is as of entry 1,
// which no log contains, so that a member added later cannot get the log from its beginning without it.
//
// It is refused when a server that can be reached now belongs to this cluster and knows that this member has
// had a data directory before, or that it was removed. Servers that cannot be reached are not waited for;
// they refuse this member later, by its incarnation.
func staticOrigin(ctx context.Context, c Cluster, net peers.Network) (datadir.Origin, error) {
	names := slices.Sorted(maps.Keys(c.Initial))
	cluster := firstClusterID(c)
	conf := membership.Conf{Index: 1}
	for _, name := range names {
		m := membership.Record{ID: firstMemberID(cluster, name), Name: name, Peer: c.Initial[name]}
		conf.Members = append(conf.Members, m)
		conf.Voters = append(conf.Voters, m.ID)
	}
	conf.Sort()
	id := datadir.Identity{Cluster: cluster, Member: firstMemberID(cluster, c.Name), Incarnation: datadir.RandomID()}
	for _, name := range names {
		if name == c.Name {
			continue
		}
		if err := mayStart(ctx, net, c.Initial[name], id, conf); err != nil {
			return datadir.Origin{}, fmt.Errorf("first start of %q: %s at %s: %w", c.Name, name, c.Initial[name], err)
		}
	}
	return datadir.Origin{ID: id, First: datadir.Meta{
		Format: datadir.MetaFormat, Cluster: cluster, Member: id.Member,
		Index: 1, Term: 1, Restored: 1, Conf: conf,
	}}, nil
}

// firstClusterID is the id of a cluster that starts for the first time. Two clusters with the same names differ if
// their servers have other addresses.
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
func mayStart(ctx context.Context, net peers.Network, address string, id datadir.Identity,
	first membership.Conf) error {
	ctx, cancel := context.WithTimeout(ctx, roster.HelloTimeout)
	defer cancel()
	answer, err := net.Hello(ctx, address, &peerpb.HelloRequest{Cluster: id.Cluster, Member: id.Member})
	switch {
	case errors.Is(err, ErrRemoved):
		return err
	case status.Code(err) == codes.Unauthenticated: // it is no member there, or has a wrong certificate
		return peers.Refuse(ErrOtherCluster,
			"it does not take this server for a member: %s; the first members are %s here",
			status.Convert(err).Message(), first.List())
	case err != nil:
		return nil // it cannot be reached
	}
	conf, err := membership.Decode(answer.GetMembership())
	if err != nil {
		return err
	}
	if answer.GetCluster() != id.Cluster {
		return roster.OtherCluster(answer, conf, id.Cluster, first)
	}
	switch m := conf.Member(id.Member); {
	case m == nil && answer.GetFresh():
		return nil // it has nothing to lose
	case m == nil:
		return ErrRemoved
	case m.Incarnation != 0:
		return ErrEmptied
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

// joinedOrigin waits until the cluster lists this member, by name and address, as one that has never started. A server
// that lags may still list a predecessor with this name. So a refusal counts only if no later list is known, of the
// servers that were named or of the members that these list, and only once that has been so for joinPatience.
func joinedOrigin(ctx context.Context, c Cluster, net peers.Network, log *slog.Logger) (datadir.Origin, error) {
	pause := time.NewTicker(joinPause)
	defer pause.Stop()
	logged := map[string]string{} // by address
	addresses := slices.Clone(c.Join)
	var refusedAt time.Time
	for {
		var latest membership.Conf
		verdict := error(errNotYet)
		for _, address := range addresses {
			o, conf, err := askToJoin(ctx, c, net, address)
			if err == nil {
				return o, nil
			}
			if why := peers.Cause(err); why != logged[address] {
				logged[address] = why
				log.Info("waiting to be added to the cluster", "as", c.Name, "at", c.address(), "asked",
					address, "why", why)
			}
			if conf.Index >= latest.Index && len(conf.Members) > 0 {
				latest, verdict = conf, err
			}
		}
		switch {
		case errors.Is(verdict, errNotYet):
			refusedAt = time.Time{}
		case refusedAt.IsZero():
			refusedAt = time.Now()
		case time.Since(refusedAt) > joinPatience:
			return datadir.Origin{}, verdict
		}
		addresses = slices.Clone(c.Join)
		for _, m := range latest.Members {
			if m.Peer != c.address() && !slices.Contains(addresses, m.Peer) {
				addresses = append(addresses, m.Peer)
			}
		}
		select {
		case <-ctx.Done():
			return datadir.Origin{}, fmt.Errorf("wait to be added to the cluster as %q at %s: %w", c.Name,
				c.address(), ctx.Err())
		case <-pause.C:
		}
	}
}

// errNotYet is returned while the cluster is not reached or does not list this member yet.
var errNotYet = errors.New("not a member yet")

// askToJoin asks one server. The list of members is empty if it has not answered.
func askToJoin(ctx context.Context, c Cluster, net peers.Network,
	address string) (datadir.Origin, membership.Conf, error) {
	ctx, cancel := context.WithTimeout(ctx, roster.HelloTimeout)
	defer cancel()
	answer, err := net.Hello(ctx, address, &peerpb.HelloRequest{})
	switch {
	case status.Code(err) == codes.Unauthenticated:
		return datadir.Origin{}, membership.Conf{}, peers.Refuse(errNotYet,
			"it does not know a server with this one's certificate yet")
	case err != nil:
		return datadir.Origin{}, membership.Conf{}, peers.Refuse(errNotYet, "%s", status.Convert(err).Message())
	case answer.GetCluster() == 0:
		return datadir.Origin{}, membership.Conf{}, errNotYet
	}
	conf, err := membership.Decode(answer.GetMembership())
	if err != nil {
		return datadir.Origin{}, membership.Conf{}, peers.Refuse(errNotYet, "%v", err)
	}
	o, err := c.joins(answer, conf)
	return o, conf, err
}

// joins judges an answer.
func (c *Cluster) joins(answer *peerpb.HelloResponse, conf membership.Conf) (datadir.Origin, error) {
	at := slices.IndexFunc(conf.Members, func(m membership.Record) bool {
		return m.Name == c.Name && m.Peer == c.address()
	})
	if at < 0 {
		return datadir.Origin{}, peers.Refuse(errNotYet, "the members are %s", conf.List())
	}
	m := conf.Members[at]
	switch {
	case m.Incarnation != 0:
		return datadir.Origin{}, fmt.Errorf("join as %q: %w", c.Name, ErrEmptied)
	case !slices.Contains(conf.Learners, m.ID):
		return datadir.Origin{}, fmt.Errorf("join as %q: the cluster lists it as a voter", c.Name)
	case answer.GetVersion() > c.Version:
		return datadir.Origin{}, fmt.Errorf("join as %q: %w", c.Name, &VersionError{answer.GetVersion(), c.Version})
	}
	first := datadir.Meta{Format: datadir.MetaFormat, Cluster: answer.GetCluster(), Member: m.ID}
	if len(answer.GetOrigin()) > 0 {
		var err error
		first.Forced, first.Lineage = answer.GetForced(), answer.GetLineage()
		if first.Conf, err = membership.Decode(answer.GetOrigin()); err != nil {
			return datadir.Origin{}, peers.Refuse(errNotYet, "%v", err)
		}
	}
	conf.Index = max(conf.Index, 1) // older programs do not send it
	id := datadir.Identity{Cluster: answer.GetCluster(), Member: m.ID, Incarnation: datadir.RandomID()}
	return datadir.Origin{ID: id, First: first, Learnt: datadir.Learnt{Lineage: answer.GetLineage(), Conf: conf}}, nil
}
