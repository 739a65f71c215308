package raftstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
)

// A member that was made the only one of its cluster leads also when its log holds changes of the members
// that it knows to be committed: raft refuses to stand for election until they are applied.
func TestForcedSingleLeadsBehindMembershipChanges(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 330)
	c.waitPublished(c.leader())
	for n := range 50 {
		c.put(fmt.Sprint("command ", n))
	}
	c.settle()
	// A new term is written down with the commit index, which is behind the members' records.
	old := c.leader()
	c.onLeader("transfer", func(ctx context.Context, s *Store) error { return s.Changes.TransferLeader(ctx, 0) })
	c.poll("another leader", func() bool { return c.leader() != old })
	c.put("in the new term")
	c.settle()
	for _, name := range c.names {
		c.kill(name)
	}
	for _, name := range c.names {
		if err := datadir.ForceSingle(c.cfgs[name].Dir); err != nil {
			t.Fatal(err)
		}
		c.start(name)
		if m := c.leader(name); m.name != name {
			t.Errorf("%s leads", m.name)
		}
		c.kill(name)
	}
}

// A server that was started without a name and an address for others gets them when it is started with these, writes
// that into its log once, and others can be added.
func TestFromOneServerToTwo(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 1, 331)
	later := c.cfgs["a"].Cluster
	c.configure("a", func(cfg *Config) { cfg.Cluster = Cluster{} })
	c.start("a")
	c.put("before")
	c.kill("a")
	c.configure("a", func(cfg *Config) { cfg.Cluster = later })
	a := c.start("a")
	c.waitPublished(a)
	c.put("between")
	var missing *membership.Record
	if a.ask(func(l *loop) { missing = l.unpublished() }); missing != nil {
		t.Errorf("%v is still to be written", missing)
	}
	c.join("b")
	c.put("after")
	c.settle()
}

// A server alone writes its own record before the first member that is added to it, however early, and writes it again
// if it has another address since: that one finds it by its log.
func TestOwnRecordBeforeOthers(t *testing.T) {
	t.Parallel()
	for seed, former := range []string{"", "", "a:2"} {
		c := preparedTestCluster(t, 1, 332+uint64(seed))
		later := c.cfgs["a"].Cluster
		later.Initial = nil
		if former != "" {
			c.configure("a", func(cfg *Config) { cfg.Cluster.Initial, cfg.Cluster.AdvertisePeer = nil, former })
			c.waitPublished(c.start("a"))
			c.kill("a")
		}
		c.configure("a", func(cfg *Config) { cfg.Cluster = later })
		a := c.start("a")
		if own := a.store.Members()[0]; former == "" && (own.Name != "a" || own.PeerAddress != "a:1") {
			t.Errorf("seed %d: before its record is written, a lists itself as %+v", c.seed, own)
		}
		for ready := false; !ready; { // the record is written with the next tick, if not before
			a.ask(func(l *loop) { ready = l.leading && l.caughtUp })
		}
		if _, err := a.store.Changes.AddLearner(testContext(t), "b", "b:1"); err != nil {
			t.Fatal(err)
		}
		var own *membership.Record
		a.ask(func(l *loop) { own = l.conf.Member(a.store.Member()) })
		if own == nil || own.Peer != "a:1" {
			t.Errorf("seed %d: b is a member, and the log has %+v of a", c.seed, own)
		}
	}
}
