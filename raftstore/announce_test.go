package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

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

// What a member says of itself while it runs reaches all, whether it leads or not, and without a new
// connection.
func TestClientAddressIsAnnounced(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 500)
	m := c.leader()
	c.waitPublished(m)
	for _, name := range c.names {
		c.nodes[name].store.SetClientAddress(name + ":2136")
		c.waitForClient(name, name+":2136")
	}
	other := others(c.names, c.leader().name)[0]
	c.nodes[other].store.SetClientAddress(strings.Repeat("x", clientTextMax+1)) // not passed on
	c.nodes[other].store.SetClientAddress("")                                   // nothing to say
	c.nodes[m.name].store.SetClientAddress("elsewhere")
	c.waitForClient(m.name, "elsewhere")
	c.waitForClient(other, other+":2136")

	// It stays known while the member is down, and a leader change does not lose it.
	c.kill(other)
	c.put("without it", others(c.names, other)...)
	c.waitForClient(other, other+":2136")
	c.start(other).store.SetClientAddress("moved")
	c.waitForClient(other, "moved")
	c.settle()
}

// Who speaks on a stream cannot change on it.
func TestChangedSenderIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 510)
	m := c.leader()
	s, from := m.store, c.nodes[others(c.names, m.name)[0]].store
	h := from.header(s.Member(), true)
	if err := s.accept(h, nil); err != nil {
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
		if err := s.receive(h, &peerpb.Frame{Header: again}); !errors.Is(err, ErrOtherCluster) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	s.lost(h)
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
		m.store.SetClientAddress(address)
		c.poll("the leader to know its own address", func() bool {
			return slices.ContainsFunc(m.store.Members(),
				func(o Member) bool { return o.ClientAddress == address })
		})
		if err := m.store.TransferLeader(testContext(t), 0); err != nil && !errors.Is(err, ErrNotLeader) {
			t.Fatal(err)
		}
	}
	c.settle()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d times a member refused to stand for election", n)
	}
}
