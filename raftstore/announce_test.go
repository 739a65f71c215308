package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// waitForClient waits until everybody knows a member by the address.
func (c *testCluster) waitForClient(name, address string) {
	c.t.Helper()
	c.poll(name+" to be known at "+address, func() bool {
		for _, n := range c.nodes {
			members := n.store.Members()
			at := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
			if at < 0 || members[at].ClientAddress != address {
				return false
			}
		}
		return true
	})
}

// A running member's announcement reaches all others over the open connections, whether or not the member leads.
func TestClientAddressIsAnnounced(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 500)
	m := c.leader()
	c.waitPublished(m)
	for _, name := range c.names {
		c.nodes[name].store.Peers.SetClientAddress(name + ":2136")
		c.waitForClient(name, name+":2136")
	}
	// All logs have it, too.
	other := others(c.names, c.leader().name)[0]
	logged := func(name, address string) {
		t.Helper()
		c.poll(fmt.Sprintf("%s to be logged at %q", name, address), func() bool {
			return !slices.ContainsFunc(slices.Collect(maps.Values(c.nodes)), func(n *machine) bool {
				r := n.store.view.Load().conf.Member(c.nodes[name].store.Member())
				return r == nil || r.Client != address
			})
		})
	}
	logged(other, other+":2136")
	c.nodes[other].store.Peers.SetClientAddress(strings.Repeat("x", clientTextMax+1)) // not passed on
	c.waitForClient(m.name, m.name+":2136")
	c.nodes[other].store.Peers.SetClientAddress(NoClients)
	c.nodes[m.name].store.Peers.SetClientAddress("elsewhere")
	c.waitForClient(m.name, "elsewhere")
	c.waitForClient(other, NoClients)
	logged(m.name, "elsewhere") // so NoClients would have been logged, too
	logged(other, other+":2136")

	// It stays known while the member is down, and after the others' restart by the log.
	c.kill(other)
	c.put("without it", others(c.names, other)...)
	for _, name := range others(c.names, other) {
		if got, _ := c.nodes[name].store.Members().Find(c.memberNamed(name, other)); got.ClientAddress != NoClients {
			t.Errorf("%s knows %q", name, got.ClientAddress)
		}
	}
	for _, name := range others(c.names, other) {
		c.kill(name)
		c.start(name).store.Peers.SetClientAddress(name + ":2136")
	}
	c.leader()
	c.waitForClient(other, other+":2136")
	c.start(other).store.Peers.SetClientAddress("moved")
	c.waitForClient(other, "moved")
	c.settle()
}

// memberNamed returns the id by which a member knows another one.
func (c *testCluster) memberNamed(at, name string) uint64 {
	members := c.nodes[at].store.Members()
	return members[slices.IndexFunc(members, func(m Member) bool { return m.Name == name })].ID
}

// A connection is announced on in the order in which it was written: neither a header that the bulk lane had
// prepared before, nor one on a stream that has been replaced, undoes a later one.
func TestLatestHeaderCounts(t *testing.T) {
	l := &loop{s: &Store{}}
	l.headers, l.streams = map[uint64]*peerpb.Header{}, map[uint64]openStream{}
	header := func(urgent bool, address string) *peerpb.Header {
		return &peerpb.Header{From: 2, Urgent: urgent, ClientAddress: address}
	}
	first, second := header(true, ""), header(true, "second:1")
	for _, step := range []struct {
		mail streamChange
		want string
	}{
		{streamChange{header: header(false, "bulk:1")}, "bulk:1"},
		{streamChange{header: first}, ""},
		{streamChange{header: first, again: header(true, "first:1")}, "first:1"},
		{streamChange{header: header(false, "")}, "first:1"},
		{streamChange{header: second}, "second:1"},
		{streamChange{header: first, again: header(true, NoClients)}, "second:1"},
		{streamChange{header: first, ended: true}, "second:1"},
		{streamChange{header: second, again: header(true, NoClients)}, NoClients},
	} {
		l.stale = false
		l.fromPeers(mail{streams: []streamChange{step.mail}})
		if got := l.headers[2].GetClientAddress(); got != step.want {
			t.Errorf("%v: the address is %q, want %q", step.mail, got, step.want)
		}
	}
}

// foundOut is a transport that has found out whether a member takes messages.
type foundOut struct {
	transport
	up, tried bool
}

func (f foundOut) Connected(uint64) (up, tried bool) { return f.up, f.tried }

// A member is awaited while the two are about to connect, and while it is there and has announced no address.
func TestAwaited(t *testing.T) {
	for name, test := range map[string]struct {
		tried, up, open, waits, want bool
		client                       string
	}{
		"not tried yet":            {waits: true, want: true},
		"cannot be reached":        {waits: true, tried: true},
		"its stream is to come":    {waits: true, tried: true, up: true, want: true},
		"its stream came first":    {waits: true, tried: true, open: true, client: "b:1", want: true},
		"is starting":              {waits: true, tried: true, up: true, open: true, want: true},
		"has announced":            {waits: true, tried: true, up: true, open: true, client: "b:1"},
		"is stopping":              {waits: true, tried: true, up: true, open: true, client: NoClients},
		"is starting for too long": {tried: true, up: true, open: true},
		"does not answer a call":   {},
		"is cut in one direction":  {tried: true, open: true, client: "b:1"},
	} {
		s := &Store{identity: datadir.Identity{Member: 1}}
		s.Peers.client.Store(new(string))
		s.Peers.out = foundOut{up: test.up, tried: test.tried}
		s.view.Store(&memberView{conf: membership.Conf{Voters: []uint64{1, 2}},
			clients: map[uint64]string{2: test.client},
			open:    map[uint64]bool{2: test.open}, waits: map[uint64]bool{1: true, 2: test.waits}})
		if m := s.Members(); m[1].Awaited != test.want || m[0].Awaited || m[1].Connected != test.up {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// A member is awaited for a moment after it has opened its stream, but not before there was a leader.
func TestAwaitedForAMoment(t *testing.T) {
	l := &loop{s: &Store{}}
	l.streams = map[uint64]openStream{2: {header: &peerpb.Header{}, since: 100}}
	for _, test := range []struct {
		ticks, ledFirst int
		of3, of2        bool
	}{
		{ticks: 5000, of3: true, of2: true},
		{ticks: 5000, ledFirst: 5000, of3: true, of2: true},
		{ticks: 5000 + awaitTicks, ledFirst: 5000},
		{ticks: 10 + awaitTicks, ledFirst: 10, of2: true},
		{ticks: 99 + awaitTicks, ledFirst: 10, of2: true},
		{ticks: 100 + awaitTicks, ledFirst: 10},
	} {
		l.ticks, l.ledFirst = test.ticks, test.ledFirst
		if l.awaits(2) != test.of2 || l.awaits(3) != test.of3 {
			t.Errorf("%+v: %v, %v", test, l.awaits(2), l.awaits(3))
		}
	}
}

// Who speaks on a stream cannot change on it.
func TestChangedSenderIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 510)
	m := c.leader()
	s, from := m.store, c.nodes[others(c.names, m.name)[0]].store
	h := endpointOf(from).Header(s.Member(), true)
	if err := acceptStream(s, h, nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(h *peerpb.Header){
		"sender":      func(h *peerpb.Header) { h.From++ },
		"cluster":     func(h *peerpb.Header) { h.Cluster++ },
		"receiver":    func(h *peerpb.Header) { h.To++ },
		"incarnation": func(h *peerpb.Header) { h.Incarnation++ },
		"format":      func(h *peerpb.Header) { h.Format++ },
	} {
		again := proto.CloneOf(h)
		change(again)
		if err := endpointOf(s).Receive(h, &peerpb.Frame{Header: again}); !errors.Is(err, ErrOtherCluster) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	endpointOf(s).Lost(h)
	c.settle()
}

// refusedCampaigns counts what raft says when it will not stand for election.
type refusedCampaigns struct {
	slog.Handler
	count *atomic.Int64
}

func (h refusedCampaigns) Enabled(context.Context, slog.Level) bool { return true }

func (h refusedCampaigns) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "cannot campaign") {
		h.count.Add(1)
	}
	return nil
}

// A leadership that is handed over right behind a change of the members is taken at once.
func TestTransferBehindAMembershipChange(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 520)
	var refused atomic.Int64
	for _, name := range c.names {
		c.configure(name, func(cfg *Config) { cfg.Logger = slog.New(refusedCampaigns{noLog.Handler(), &refused}) })
	}
	c.startAll()
	c.waitPublished(c.leader())
	for round := range 20 {
		m := c.leader()
		c.put(fmt.Sprint("round ", round))
		address := fmt.Sprint("address ", round)
		m.store.Peers.SetClientAddress(address)
		c.poll("the leader to know its own address", func() bool {
			return slices.ContainsFunc(m.store.Members(),
				func(o Member) bool { return o.ClientAddress == address })
		})
		if err := m.store.Changes.TransferLeader(testContext(t), 0); err != nil && !errors.Is(err, ErrNotLeader) {
			t.Fatal(err)
		}
	}
	c.settle()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d times a member refused to stand for election", n)
	}
}
