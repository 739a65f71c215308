package coordination

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// Other tests rely on Check, so each of its findings is provoked here.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	cases := []struct {
		want  string
		spoil func(m *Machine, n *node)
	}{
		{"names coordination node 1, which is not there", func(m *Machine, _ *node) { delete(m.nodes, 1) }},
		{"is not below the next id 1", func(m *Machine, _ *node) { m.nextNode = 1 }},
		{"2 coordination nodes, 1 of them in the path tree",
			func(m *Machine, _ *node) { m.nodes[9] = newNode(9, NodeConfig{}, m.rows, m.room) }},
		{"scheme:", func(m *Machine, n *node) {
			create, _ := m.tree.CreateNode([]string{"local", "b"}, scheme.NewNode{ID: n.id})
			create()
		}},
		{"is used of the quota of /local", func(m *Machine, n *node) { n.quotas[0].Used.Bytes++ }},
		{"does not have the quotas of", func(m *Machine, n *node) { n.quotas = nil }},
		{`is filed under "other"`,
			func(_ *Machine, n *node) { n.semaphores["other"] = n.semaphores["door"] }},
		{`semaphore 0 "door" is filed`, func(_ *Machine, n *node) { n.semaphores["door"].id = 0 }},
		{"next id 1", func(_ *Machine, n *node) { n.nextSemaphore = 1 }},
		{"2 links in the semaphores' lists, 1 in the table",
			func(_ *Machine, n *node) { delete(n.links, n.semaphores["door"].owners.first.key()) }},
		{"is filed under 77", func(_ *Machine, n *node) { n.sessions[77] = n.sessions[1] }},
		{"next id 2", func(_ *Machine, n *node) { n.nextSession = 2 }},
		{"out of order or not its own",
			func(_ *Machine, n *node) { n.sessions[1].links.first.session = n.sessions[2] }},
		{"1 links in the sessions' lists, 2 in the table",
			func(_ *Machine, n *node) { n.sessions[1].links = sessionLinks{} }},
		{"in the wrong place", func(_ *Machine, n *node) { n.nextOrder = 1 }},
		{"in the wrong place", func(_ *Machine, n *node) { n.semaphores["door"].owners.first.owner = false }},
		{"with count 0", func(_ *Machine, n *node) { n.semaphores["door"].waiters.first.count = 0 }},
		{"with count 4, limit 3", func(_ *Machine, n *node) { n.semaphores["door"].waiters.first.count = 4 }},
		{"a list with 0 bytes of data that says 2",
			func(_ *Machine, n *node) { n.semaphores["door"].waiters.bytes = 2 }},
		{"a list of 1 links that says 2",
			func(_ *Machine, n *node) { n.semaphores["door"].waiters.length = 2 }},
		{"with 2 tokens, says 1, limit 3", func(_ *Machine, n *node) { n.semaphores["door"].held = 1 }},
		{"with 2 tokens, says 2, limit 1", func(_ *Machine, n *node) { n.semaphores["door"].limit = 1 }},
		{"bytes, it says 1", func(_ *Machine, n *node) { n.used = 1 }},
		{"the rows of the machine and its nodes count", func(m *Machine, _ *node) { m.room.used++ }},
		{"the rows of users and keys count 0 bytes, it says 1",
			func(m *Machine, _ *node) { m.accountBytes++ }},
		{"it says {Nodes:1 Sessions:2 Semaphores:1 Owners:1 Waiters:2}",
			func(_ *Machine, n *node) { n.counts.Waiters++ }},
		{"the machine says {Nodes:1 Sessions:3 Semaphores:1 Owners:1 Waiters:1}",
			func(m *Machine, _ *node) { m.room.counts.Sessions++ }},
		{"4 bytes are stored, it says 3", func(_ *Machine, n *node) { n.bytes-- }},
		{"although it fits", func(_ *Machine, n *node) { n.semaphores["door"].waiters.first.count = 1 }},
		{"has no owner", func(_ *Machine, n *node) {
			n.nextSemaphore++
			n.semaphores["e"] = &semaphore{id: n.nextSemaphore - 1, name: "e", limit: Infinite,
				ephemeral: true}
		}},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			r := newRig(t)
			r.createNode("/local/a", NodeConfig{})
			first, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
			second, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
			r.request(first, 1, Request{Kind: RequestCreate, Name: "door", Limit: 3})
			r.request(first, 2, Request{Kind: RequestAcquire, Name: "door", Count: 2})
			r.request(second, 1, Request{Kind: RequestAcquire, Name: "door", Count: 2,
				TimeoutMillis: Infinite})
			r.applyAll()
			r.run(&SetQuota{Path: pathOf("/local"), Quota: scheme.Quota{Entries: 10}})
			if err := r.machine.Check(); err != nil {
				t.Fatal(err)
			}
			c.spoil(r.machine, r.machine.nodes[1])
			if err := r.machine.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check says %v", err)
			}
		})
	}
}
