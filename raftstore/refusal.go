package raftstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// otherCluster says how the server that has answered differs from this one, which belongs to cluster and has
// members.
func otherCluster(answer *peerpb.HelloResponse, theirs membership.Conf, cluster uint64, members membership.Conf) error {
	switch {
	case !answer.GetFresh():
		return peers.Refuse(ErrOtherCluster,
			"it belongs to cluster %s already, with the members %s; this server is of cluster %s, with the members %s",
			IDText(answer.GetCluster()), theirs.List(), IDText(cluster), members.List())
	case theirs.List() == members.List():
		return peers.Refuse(ErrOtherCluster,
			"it was given the same first members, and another token of the cluster")
	}
	return peers.Refuse(ErrOtherCluster, "it was given other first members: %s there, %s here", theirs.List(),
		members.List())
}

// refused tells of callers that were refused, each kind of refusal by itself.
type refused struct{ kinds lograte.ByKey }

func (r *refused) tell(log *slog.Logger, now time.Time, server, address string, err error) {
	why := peers.Cause(err)
	level := slog.LevelWarn
	if errors.Is(err, errUnknownHere) { // so it is with every server that was just added
		level = slog.LevelInfo
	}
	if ok, hidden := r.kinds.Allow(server+"\x00"+why, now); ok {
		log.Log(context.Background(), level, "refused a server", "server", server, "address",
			lograte.Cut(address), "why", why, lograte.Suppressed, hidden)
	}
}
