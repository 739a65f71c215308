package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// refusal is an error of one kind that says what exactly does not fit.
type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

func refuse(kind error, format string, args ...any) error {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// otherCluster says how the server that has answered differs from this one, which belongs to cluster and has
// members.
func otherCluster(answer *peerpb.HelloResponse, theirs membership.Conf, cluster uint64, members membership.Conf) error {
	switch {
	case !answer.GetFresh():
		return refuse(ErrOtherCluster, "it belongs to cluster %s already, with the members %s; this server is of "+
			"cluster %s, with the members %s",
			IDText(answer.GetCluster()), theirs.List(), IDText(cluster), members.List())
	case theirs.List() == members.List():
		return refuse(ErrOtherCluster,
			"it was given the same first members, and another token of the cluster")
	}
	return refuse(ErrOtherCluster, "it was given other first members: %s there, %s here", theirs.List(),
		members.List())
}

// callerOfOtherCluster says how this server differs from one that has called it, to both.
func (s *Store) callerOfOtherCluster(h *peerpb.Header) error {
	theirs, ours := "", ""
	if text := h.GetMembers(); text != "" { // older programs do not tell
		theirs = ", with the members " + lograte.Printable(text, membersTextMax)
		ours = ", with the members " + lograte.Printable(s.view.Load().conf.List(), membersTextMax)
	}
	return refuse(ErrOtherCluster,
		"the server that was called belongs to cluster %s%s, the caller to cluster %s%s",
		IDText(s.identity.Cluster), ours, IDText(h.GetCluster()), theirs)
}

// refused tells of callers that were refused, each kind of refusal by itself.
type refused struct{ kinds lograte.ByKey }

func (r *refused) tell(log *slog.Logger, now time.Time, server, address string, err error) {
	why := cause(err)
	level := slog.LevelWarn
	if errors.Is(err, errUnknownHere) { // so it is with every server that was just added
		level = slog.LevelInfo
	}
	if ok, hidden := r.kinds.Allow(server+"\x00"+why, now); ok {
		log.Log(context.Background(), level, "refused a server", "server", server, "address",
			lograte.Cut(address), "why", why, lograte.Suppressed, hidden)
	}
}
