package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
)

func occurred(kind coordination.OccurrenceKind, index int, node coordination.NodeID, more coordination.OccurrenceMore,
) []coordination.Occurrence {
	return []coordination.Occurrence{{Kind: kind, Index: coordination.Index(index), Number: 1, Node: node,
		StampMillis: uint64(index), Session: coordination.SessionID(index), SemaphoreID: 1, Semaphore: "s",
		More: &more}}
}

// TestActBehindPasswords: a tenant sets his password, then an administrator resets another one. Both have node 0,
// so one bucket and one sum: the act is nothing but a number in the tenant's event.
func TestActBehindPasswords(t *testing.T) {
	r := New(1)
	for i := range burstEvents + 2 {
		r.Add(1, occurred(coordination.OccurAdministered, i+1, 0,
			coordination.OccurrenceMore{User: "tenant", Act: "set password", Target: "tenant"}), followerPlace{})
	}
	r.Add(1, occurred(coordination.OccurAdministered, 900, 0,
		coordination.OccurrenceMore{User: "root", Act: "set password", Target: "alice"}), followerPlace{})
	taken, _ := r.Take(true)
	for _, e := range taken {
		if e.More.User == "root" {
			return
		}
	}
	t.Errorf("of %d events none is the administrator's; the last stands for %d more of %q", len(taken),
		taken[len(taken)-1].Skipped, taken[len(taken)-1].Occurrence.More.Act)
}

// TestFreshNodes: a tenant makes and drops nodes: each has a bucket of its own, so there is no limit but the
// queue, and what an administrator does in that second has no place at all.
func TestFreshNodes(t *testing.T) {
	r := New(1)
	for i := range 2000 {
		r.Add(1, occurred(coordination.OccurNodeDropped, i+1, coordination.NodeID(i+1),
			coordination.OccurrenceMore{User: "tenant", Path: "/local/t/n"}), followerPlace{})
	}
	r.Add(1, occurred(coordination.OccurAdministered, 3000, 0,
		coordination.OccurrenceMore{User: "root", Act: "set password"}), followerPlace{})
	taken, lost := r.Take(true)
	act := false
	for _, e := range taken {
		act = act || e.Kind == coordination.OccurAdministered
	}
	// in each of the three seconds of the log there may be one more, and a sum
	if len(taken) > burstEvents+2*3+1 || !act || lost > 0 {
		t.Errorf("%d events of one tenant are kept, %d are lost, the act is there: %v", len(taken), lost, act)
	}
}

// TestMemoryOfEvents: the ring promises 112 bytes and a name of 128 each. Texts in More are kept whole: one
// ModifyPermissions of a megabyte is a megabyte for 10,000 events long.
func TestMemoryOfEvents(t *testing.T) {
	name := strings.Repeat("n", 1024)
	for what, more := range map[string]coordination.OccurrenceMore{
		"target":      {Target: strings.Repeat("t", 1<<20)},
		"names":       {Names: []string{name, name, name}},
		"description": {Description: name},
	} {
		r := New(1)
		r.Add(1, occurred(coordination.OccurAdministered, 1, 0, more), nil)
		kept := r.list[0].More
		size := len(kept.Target) + len(kept.Description)
		for _, n := range kept.Names {
			size += len(n)
		}
		if size > 4*maxEventTextBytes {
			t.Errorf("%s: an event keeps %d bytes, %d MiB in a full ring", what, size, size*maxEvents>>20)
		}
	}
}

// TestHolderBehindIdle: 502 sessions that held nothing expire, and then one that held a lock: it is only a number.
func TestHolderBehindIdle(t *testing.T) {
	r := New(1)
	for i := range burstEvents + 2 {
		r.Add(1, occurred(coordination.OccurSessionExpired, i+1, 1, coordination.OccurrenceMore{Path: "/local/x"}),
			followerPlace{})
	}
	r.Add(1, occurred(coordination.OccurSessionExpired, 900, 1,
		coordination.OccurrenceMore{Path: "/local/x", Held: 1, Names: []string{"prod"}}), followerPlace{})
	taken, _ := r.Take(true)
	for _, e := range taken {
		if e.More.Held > 0 {
			return
		}
	}
	t.Errorf("none of %d events is the end of the session that held %q", len(taken), "prod")
}

// TestLocksOfOneSession: one session with 100,000 locks is killed. Its locks take the tokens of its node, so that
// the ends of the next 100 sessions with locks are one event.
func TestLocksOfOneSession(t *testing.T) {
	r := New(1)
	list := make([]coordination.Occurrence, 0, 100_001)
	list = append(list, occurred(coordination.OccurSessionEnded, 1, 1, coordination.OccurrenceMore{Held: 100_000})...)
	for i := range 100_000 {
		list = append(list, coordination.Occurrence{Kind: coordination.OccurLockLost,
			Cause: coordination.OccurSessionEnded,
			Index: 1, Number: uint32(i + 2), Node: 1, Session: 1, SemaphoreID: coordination.SemaphoreID(i),
			Semaphore: fmt.Sprint("lock", i), StampMillis: 1, Before: 1})
	}
	r.Add(1, list, followerPlace{})
	r.Take(true)
	for i := range 100 {
		r.Add(1, occurred(coordination.OccurSessionExpired, 10+i, 1, coordination.OccurrenceMore{Held: 1}),
			followerPlace{})
	}
	if taken, _ := r.Take(true); len(taken) != 100 {
		t.Errorf("%d of 100 sessions with locks have an event", len(taken))
	}
}

// TestWrongAuthor: alice's session and then bob's change the same data within a second. The event names the
// session of the last with the user and the client of the first: nobody did that.
func TestWrongAuthor(t *testing.T) {
	r := New(1)
	for i, user := range []string{"alice", "bob"} {
		list := occurred(coordination.OccurDataChanged, i+1, 1, coordination.OccurrenceMore{User: user})
		list[0].Session = coordination.SessionID(101 + i)
		r.Add(1, list, followerPlace{})
	}
	taken, _ := r.Take(true)
	if len(taken) != 2 {
		t.Errorf("the changes of two users are %d events", len(taken))
	}
	if e := taken[0]; (e.Session == 101) != (e.More.User == "alice") {
		t.Errorf("the data was changed by session %d of %q; session 102 is bob's", e.Session, e.More.User)
	}
}

// TestNodesOfOneTenant: four nodes of a tenant lose 400 sessions each within a second, which their buckets permit.
// Then another tenant's session with a lock expires: it has an event, and nothing is lost.
func TestNodesOfOneTenant(t *testing.T) {
	r := New(1)
	for node := range coordination.NodeID(4) {
		for i := range 400 {
			r.Add(1, occurred(coordination.OccurSessionExpired, int(node)*400+i+1, node+1,
				coordination.OccurrenceMore{Path: "/local/t", Held: 1}), followerPlace{})
		}
	}
	r.Add(1, occurred(coordination.OccurSessionExpired, 5000, 9,
		coordination.OccurrenceMore{Path: "/local/other", Held: 1, Names: []string{"prod"}}), followerPlace{})
	taken, lost := r.Take(true)
	other, counted := false, uint64(0)
	for _, e := range taken {
		other = other || e.Node == 9
		counted += 1 + e.Skipped
	}
	if !other || lost > 0 || counted != 1601 {
		t.Errorf("%d of 1601 ends are counted by %d events, %d are lost; the other tenant's is there: %v", counted,
			len(taken), lost, other)
	}
}

// TestActBehindOwnActs: a user makes 500 directories, and gives a right away in the same second: to hide it among
// his own acts.
func TestActBehindOwnActs(t *testing.T) {
	r := New(1)
	for i := range burstEvents + 2 {
		r.Add(1, occurred(coordination.OccurAdministered, i+1, 0, coordination.OccurrenceMore{User: "mallory",
			Act: "make directory", Path: fmt.Sprint("/local/", i)}), followerPlace{})
	}
	r.Add(1, occurred(coordination.OccurAdministered, 900, 0, coordination.OccurrenceMore{User: "mallory",
		Act: "change permissions", Target: "grant eve ydb.generic.full"}), followerPlace{})
	taken, _ := r.Take(true)
	for _, e := range taken {
		if e.More.Act == "change permissions" {
			return
		}
	}
	t.Errorf("none of %d events is the change of permissions", len(taken))
}

// tenantsPlace is a server with so many nodes of a tenant each.
type tenantsPlace struct {
	followerPlace
	nodes coordination.NodeID
}

func (p tenantsPlace) TenantOf(id coordination.NodeID) string {
	return fmt.Sprint("tenant ", (id-1)/p.nodes)
}

// attack adds the ends of sessions with locks, so many in a second, for some seconds; nodeOf names the node of each.
// Each ten seconds the session of a calm tenant expires. It returns how many of the calm tenant's ends are kept.
func attack(t *testing.T, p tenantsPlace, seconds, each int, nodeOf func(i int) coordination.NodeID) (kept int) {
	t.Helper()
	const calm = 1 << 40
	r, i, counted := New(1), 0, uint64(0)
	for second := range seconds {
		for range each {
			i++
			list := occurred(coordination.OccurSessionExpired, i, nodeOf(i), coordination.OccurrenceMore{Held: 1})
			list[0].StampMillis = uint64(second) * 1000
			r.Add(1, list, p)
		}
		if second%10 == 9 {
			list := occurred(coordination.OccurSessionExpired, i, calm, coordination.OccurrenceMore{Held: 1})
			list[0].StampMillis, list[0].Number = uint64(second)*1000+999, 2
			r.Add(1, list, p)
		}
		taken, lost := r.Take(true)
		if lost > 0 {
			t.Fatalf("%d events are lost", lost)
		}
		for _, e := range taken {
			if counted += 1 + e.Skipped; e.Node == calm {
				kept++
			}
		}
	}
	if n := uint64(seconds*each + seconds/10); counted != n {
		t.Errorf("%d of %d events are counted", counted, n)
	}
	buckets := len(r.rare.buckets[ofNode]) + len(r.rare.buckets[ofTenant]) + len(r.rare.buckets[ofClass])
	if buckets > maxBuckets+maxTenants+4 {
		t.Errorf("%d buckets", buckets)
	}
	return kept
}

// TestAttacksOnShares: whatever a tenant does with his nodes, each end of another one's session is kept.
func TestAttacksOnShares(t *testing.T) {
	for what, a := range map[string]struct {
		seconds, each int
		nodeOf        func(i int) coordination.NodeID
	}{
		"one node":            {30, 2000, func(int) coordination.NodeID { return 1 }},
		"many nodes":          {40, 5000, func(i int) coordination.NodeID { return coordination.NodeID(1 + i%4096) }},
		"a node for each end": {40, 5000, func(i int) coordination.NodeID { return coordination.NodeID(i) }},
	} {
		if kept := attack(t, tenantsPlace{nodes: 1 << 30}, a.seconds, a.each, a.nodeOf); kept != a.seconds/10 {
			t.Errorf("%s: %d of %d ends of another tenant are kept", what, kept, a.seconds/10)
		}
	}
}

// TestManyTenants: forty tenants flood at once, more than the class has tokens for. A calm one still has its events.
func TestManyTenants(t *testing.T) {
	nodeOf := func(i int) coordination.NodeID { return coordination.NodeID(1 + i%4000) }
	if kept := attack(t, tenantsPlace{nodes: 100}, 60, 4000, nodeOf); kept != 6 {
		t.Errorf("%d of 6 ends of a calm tenant are kept", kept)
	}
}

// TestCalmNodeOfOneTenant: a node floods the tenant's share. Another node of the same tenant still has its events.
func TestCalmNodeOfOneTenant(t *testing.T) {
	nodeOf := func(int) coordination.NodeID { return 1 }
	if kept := attack(t, tenantsPlace{nodes: 1 << 41}, 3000, 20, nodeOf); kept != 300 {
		t.Errorf("%d of 300 ends on a calm node are kept", kept)
	}
}

// TestManyUsers: a hundred users make ten directories a second each. An act of an administrator is kept each minute.
func TestManyUsers(t *testing.T) {
	r, kept := New(1), 0
	const seconds = 300
	for i := range seconds * 1001 {
		more := coordination.OccurrenceMore{User: fmt.Sprint("user ", i%100), Act: "make directory"}
		if i%1001 == 1000 && i/1001%60 == 0 {
			more = coordination.OccurrenceMore{User: "root", Act: "change permissions"}
		}
		list := occurred(coordination.OccurAdministered, i+1, 0, more)
		list[0].StampMillis = uint64(i/1001) * 1000
		r.Add(1, list, followerPlace{})
		if i%1001 == 1000 {
			taken, lost := r.Take(true)
			for _, e := range taken {
				if e.More.User == "root" && !e.SumsKind {
					kept++
				}
			}
			if lost > 0 {
				t.Fatalf("%d events are lost", lost)
			}
		}
	}
	if kept != seconds/60 {
		t.Errorf("%d of %d acts of the administrator are kept", kept, seconds/60)
	}
}

// ledPlace is tenantsPlace on a server that may lead.
type ledPlace struct {
	tenantsPlace
	leads bool
}

func (p ledPlace) Leads() bool { return p.leads }

// TestSharesOverALeaderChangeAndASnapshot: a tenant floods three servers with ends and a user with acts, while the
// leader changes, and one of the servers gets the state of a part of the log instead of its entries. All servers keep
// what a calm tenant and an administrator do, as far as they have the log, and the two that have all of it keep the
// same events. The third one keeps its gap.
func TestSharesOverALeaderChangeAndASnapshot(t *testing.T) {
	const seconds, each, calm = 90, 1000, 1 << 40
	rings, kept, seen := []*Ring{New(1), New(2), New(3)}, make([][]string, 3), make([][2]int, 3)
	note := func(i int, taken []Rare, lost uint64) {
		t.Helper()
		if lost > 0 {
			t.Fatalf("server %d loses %d events", i, lost)
		}
		for _, e := range taken {
			kept[i] = append(kept[i], fmt.Sprintf("%d.%d +%d", e.Index, e.Number, e.Skipped))
			switch {
			case e.Node == calm && !e.SumsKind:
				seen[i][0]++
			case e.More.User == "root" && !e.SumsKind:
				seen[i][1]++
			case e.Kind == coordination.OccurSkipped && (e.Index != 30*each*2+1 || e.Before != 60*each*2 || i != 2):
				t.Errorf("server %d has a gap from %d to %d", i, e.Index, e.Before)
			case e.Kind == coordination.OccurSkipped:
				seen[i][0] += 100
			}
		}
	}
	for second := range seconds {
		var log [][]coordination.Occurrence
		add := func(kind coordination.OccurrenceKind, node coordination.NodeID, more coordination.OccurrenceMore) {
			list := occurred(kind, second*2*each+len(log)+1, node, more)
			list[0].StampMillis = uint64(second) * 1000
			log = append(log, list)
		}
		for i := range each - 1 {
			add(coordination.OccurSessionExpired, coordination.NodeID(1+i%512), coordination.OccurrenceMore{Held: 1})
			add(coordination.OccurAdministered, 0, coordination.OccurrenceMore{User: "flood", Act: "make directory"})
		}
		node, user := coordination.NodeID(1), "flood"
		if second%10 == 9 {
			node, user = calm, "root"
		}
		add(coordination.OccurSessionExpired, node, coordination.OccurrenceMore{Held: 1})
		add(coordination.OccurAdministered, 0, coordination.OccurrenceMore{User: user, Act: "change permissions"})
		for i, r := range rings {
			if i == 2 && second >= 30 && second < 60 {
				continue
			}
			place := ledPlace{tenantsPlace{nodes: 1 << 30}, i == second/45}
			if i == 2 && second == 60 {
				r.Add(uint64(second)*1000, []coordination.Occurrence{{Kind: coordination.OccurSkipped,
					Index: 30*each*2 + 1, Before: 60 * each * 2}}, place)
			}
			for _, list := range log {
				r.Add(1, list, place)
			}
			taken, lost := r.Take(false)
			note(i, taken, lost)
		}
	}
	for i, r := range rings {
		taken, lost := r.Take(true)
		note(i, taken, lost)
	}
	if seen[0] != [2]int{9, 9} || seen[1] != seen[0] || seen[2] != [2]int{106, 6} {
		t.Errorf("kept of the calm tenant and the administrator: %d", seen)
	}
	if !slices.Equal(kept[0], kept[1]) || len(kept[0]) > seconds*each/2 {
		t.Errorf("two servers with the same log keep %d and %d events", len(kept[0]), len(kept[1]))
	}
}

// BenchmarkMassExpiry is of a lost lock of a mass expiry, and its session.
func BenchmarkMassExpiry(b *testing.B) {
	r, p := New(1), followerPlace{}
	more := &coordination.OccurrenceMore{Held: 1}
	list := []coordination.Occurrence{{Kind: coordination.OccurSessionExpired, Node: 1, Number: 1, More: more},
		{Kind: coordination.OccurLockLost, Cause: coordination.OccurSessionExpired, Node: 1, Number: 2, SemaphoreID: 1,
			Semaphore: "s"}}
	b.ReportAllocs()
	for range b.N {
		r.Add(1, list, p)
	}
}
