package raftstore

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// listing is the list of a server, some time after the beginning.
type listing = func(since time.Duration) (membership.Conf, error)

// listsOf is a network on which the server at each address lists members. The key is the address, and what is listed
// changes with time.
type listsOf struct {
	*memEnd
	begun time.Time
	lists map[string]listing
}

func (n *listsOf) Hello(_ context.Context, address string, _ *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	list := n.lists[address]
	if list == nil {
		return nil, errNoRoute
	}
	conf, err := list(time.Since(n.begun))
	if err != nil {
		return nil, err
	}
	return &peerpb.HelloResponse{Cluster: 7, Membership: conf.Encode(), Version: 1}, nil
}

// A server that is added under the name of a former one is not refused because the first server that it asks still
// lists that one.
func TestJoinBesideALaggingServer(t *testing.T) {
	t.Parallel()
	ab := []membership.Record{{ID: 1, Name: "a", Peer: "a:1", Incarnation: 1},
		{ID: 2, Name: "b", Peer: "b:1", Incarnation: 1}}
	with := func(index uint64, voter bool, c ...membership.Record) listing {
		conf := membership.Conf{Index: index, Voters: []uint64{1, 2}, Members: append(ab[:2:2], c...)}
		for _, m := range c {
			if voter {
				conf.Voters = append(conf.Voters, m.ID)
			} else {
				conf.Learners = append(conf.Learners, m.ID)
			}
		}
		return func(time.Duration) (membership.Conf, error) { return conf, nil }
	}
	later := func(after time.Duration, before, then listing) listing {
		return func(since time.Duration) (membership.Conf, error) {
			if since < after {
				return before(since)
			}
			return then(since)
		}
	}
	former := membership.Record{ID: 3, Name: "c", Peer: "c:1", Incarnation: 9}
	silent := func(time.Duration) (membership.Conf, error) { return membership.Conf{}, errNoRoute }
	voter, emptied := with(5, true, membership.Record{ID: 3, Name: "c", Peer: "c:1"}), with(5, false, former)
	removed, added := with(6, false), with(7, false, membership.Record{ID: 4, Name: "c", Peer: "c:1"})
	lists := func(a, b listing) map[string]listing {
		return map[string]listing{"a:1": a, "b:1": b}
	}
	for name, tc := range map[string]struct {
		lists map[string]listing
		want  string // in the error; "": it joins
		after time.Duration
	}{
		"the first lists a voter":       {lists(voter, added), "", 0},
		"the first lists a directory":   {lists(emptied, added), "", 0},
		"the first lags for a while":    {lists(later(2*time.Second, voter, added), silent), "", 2 * time.Second},
		"a removal is known elsewhere":  {lists(voter, later(20*time.Second, removed, added)), "", 20 * time.Second},
		"the second comes back in time": {lists(voter, later(time.Second, silent, added)), "", time.Second},
		"everybody lists a voter":       {lists(voter, voter), "lists it as a voter", joinPatience},
		"everybody lists a directory":   {lists(emptied, emptied), ErrEmptied.Error(), joinPatience},
		"the later list refuses":        {lists(removed, with(8, true, former)), ErrEmptied.Error(), joinPatience},
		"it is added, refused, removed, added": {lists(later(2*time.Second, voter, later(4*time.Second, removed,
			later(6*time.Second, voter, added))), silent), "", 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := &listsOf{begun: time.Now(), lists: maps.Clone(tc.lists)}
				c := Cluster{Name: "c", Join: []string{"a:1"}, AdvertisePeer: "c:1", Version: 1}
				o, err := joinedOrigin(t.Context(), c, net, slog.New(slog.DiscardHandler))
				switch took := time.Since(net.begun); {
				case took < tc.after || took > tc.after+2*joinPause:
					t.Errorf("took %v, want about %v", took, tc.after)
				case tc.want == "" && (err != nil || o.ID.Member != 4):
					t.Errorf("joined as %d, %v", o.ID.Member, err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("ended with %v, want %q", err, tc.want)
				}
			})
		})
	}
}
