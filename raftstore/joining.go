package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
)

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

// errNotYet says that the cluster was not reached or does not list this member yet.
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
	conf.Index = max(conf.Index, 1) // older programs do not tell
	id := datadir.Identity{Cluster: answer.GetCluster(), Member: m.ID, Incarnation: datadir.RandomID()}
	return datadir.Origin{ID: id, First: first, Learnt: datadir.Learnt{Lineage: answer.GetLineage(), Conf: conf}}, nil
}
