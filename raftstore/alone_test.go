package raftstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/coordd/coordd/raftstore/datadir"
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
