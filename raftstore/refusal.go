package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

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

// otherCluster says how the server that has answered differs from this one, which belongs to cluster and has members.
func otherCluster(answer *peerpb.HelloResponse, theirs confRecord, cluster uint64, members confRecord) error {
	switch {
	case !answer.GetFresh():
		return refuse(ErrOtherCluster, "it belongs to cluster %s already, with the members %s; this server is of cluster %s, with the members %s",
			idText(answer.GetCluster()), theirs.list(), idText(cluster), members.list())
	case theirs.list() == members.list():
		return refuse(ErrOtherCluster, "it was given the same first members, and another token of the cluster")
	}
	return refuse(ErrOtherCluster, "it was given other first members: %s there, %s here", theirs.list(), members.list())
}

// list names the members as in Cluster.Initial.
func (c confRecord) list() string {
	var members []string
	for _, m := range c.Members {
		members = append(members, m.Name+"="+m.Peer)
	}
	slices.Sort(members)
	return strings.Join(members, ",")
}

// quietness has like events told ever more rarely while they go on.
type quietness struct {
	until  time.Time
	quiet  time.Duration
	hidden int // events that were not told
}

// tells decides whether to tell of an event, and how many before it were not told.
func (q *quietness) tells(now time.Time) (ok bool, hidden int) {
	if now.Before(q.until) {
		q.hidden++
		return false, 0
	}
	if now.Sub(q.until) > quietMax {
		q.quiet = 0
	}
	q.quiet = min(max(2*q.quiet, quietMin), quietMax)
	q.until = now.Add(q.quiet)
	hidden, q.hidden = q.hidden, 0
	return true, hidden
}

// refused tells of callers that were refused, each kind of refusal by itself.
type refused struct {
	mu   sync.Mutex
	told map[string]*quietness
}

func (r *refused) tell(log *slog.Logger, now time.Time, server, address string, err error) {
	why := cause(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := server + "\x00" + why
	if r.told == nil || len(r.told) >= refusedKindsMax && r.told[key] == nil {
		r.told = map[string]*quietness{}
	}
	q := r.told[key]
	if q == nil {
		q = &quietness{}
		r.told[key] = q
	}
	level := slog.LevelWarn
	if errors.Is(err, errUnknownHere) { // so it is with every server that was just added
		level = slog.LevelInfo
	}
	if ok, hidden := q.tells(now); ok {
		log.Log(context.Background(), level, "refused a server", "server", server, "address", address, "why", why, "not told before", hidden)
	}
}
