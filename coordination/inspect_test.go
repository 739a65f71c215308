package coordination

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// inspectAll goes through an inspection turn by turn. between is called between two turns.
func inspectAll(t *testing.T, m *Machine, q *Inspection, rows int, between func()) (all Inspected, turns int) {
	t.Helper()
	for !all.Done {
		found := m.Inspect(q, all.Next, rows)
		shown := len(found.Nodes) + len(found.Semaphores) + len(found.Sessions) + len(found.Resources)
		for i := range found.Semaphores {
			shown += len(found.Semaphores[i].Links)
		}
		for i := range found.Sessions {
			shown += len(found.Sessions[i].Links)
		}
		if turns++; max(found.Looked, shown) > max(rows, MinInspectedRows) {
			t.Fatalf("turn %d looked at %d rows and shows %d, %d are allowed", turns, found.Looked, shown,
				rows)
		}
		if !found.Done && found.Next == all.Next {
			t.Fatalf("turn %d comes no further than %+v", turns, all.Next)
		}
		all.Nodes = append(all.Nodes, found.Nodes...)
		all.Resources = append(all.Resources, found.Resources...)
		for _, s := range found.Semaphores {
			if last := len(all.Semaphores) - 1; s.Continued {
				all.Semaphores[last].Links = append(all.Semaphores[last].Links, s.Links...)
			} else {
				all.Semaphores = append(all.Semaphores, s)
			}
		}
		for _, s := range found.Sessions {
			if last := len(all.Sessions) - 1; s.Continued {
				all.Sessions[last].Links = append(all.Sessions[last].Links, s.Links...)
			} else {
				all.Sessions = append(all.Sessions, s)
			}
		}
		all.Next, all.Done, all.Missing = found.Next, found.Done, found.Missing
		between()
	}
	return all, turns
}

// busyNode is a machine with a node of so many semaphores and sessions: session i owns semaphore i and waits
// for "crowded", which session 1 owns.
func busyNode(t *testing.T, semaphores, sessions int) *Machine {
	t.Helper()
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	apply := func(c Command) { m.Apply(m.index+1, 1, c) }
	apply(&CreateNode{Path: pathOf("/local/dir/n")})
	origin := func(s int) Origin {
		return Origin{Node: 1, Session: SessionID(s), Address: Address{Epoch{1, uint64(s)}, 1}}
	}
	for i := range sessions {
		apply(&Attach{Node: 1, Epoch: Epoch{1, uint64(i + 1)}, TimeoutMillis: 5000,
			Description: fmt.Sprint("client ", i)})
	}
	for i := range semaphores {
		apply(&CreateSemaphore{Origin: origin(1), Name: fmt.Sprintf("lock/%06d", i), Limit: 1})
	}
	apply(&CreateSemaphore{Origin: origin(1), Name: "crowded", Limit: 1})
	for i := range sessions {
		apply(&AcquireSemaphore{Origin: origin(i + 1), Name: "crowded", Count: 1, TimeoutMillis: Infinite})
		apply(&AcquireSemaphore{Origin: origin(i + 1), Name: fmt.Sprintf("lock/%06d", i), Count: 1})
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	return m
}

// Every listing of a large node takes turns of 256 rows at most, and has everything once.
func TestInspectMany(t *testing.T) {
	const semaphores, sessions, rows = 100_000, 10_000, 256
	m := busyNode(t, semaphores, sessions)
	for _, q := range []Inspection{{Path: pathOf("/local/dir/n")}, {}, {Path: pathOf("/local")}} {
		q.Kind = InspectNodes
		if all, turns := inspectAll(t, m, &q, rows, func() {}); turns != 1 || len(all.Nodes) != 1 ||
			all.Nodes[0].Sessions != sessions ||
			all.Nodes[0].Semaphores != semaphores+1 || all.Nodes[0].Path.String() != "/local/dir/n" {
			t.Errorf("%v: %d turns, %+v", q.Path, turns, all.Nodes)
		}
		q.Kind = InspectSemaphores
		all, turns := inspectAll(t, m, &q, rows, func() {})
		if len(all.Semaphores) != semaphores+1 || turns > (semaphores+2*sessions)/rows+100 {
			t.Errorf("%v: %d semaphores in %d turns", q.Path, len(all.Semaphores), turns)
		}
		crowded := all.Semaphores[semaphores]
		if crowded.Owners != 1 || crowded.Waiters != sessions-1 || len(crowded.Links) != sessions {
			t.Errorf("crowded has %d owners, %d waiters, %d were listed", crowded.Owners, crowded.Waiters,
				len(crowded.Links))
		}
		for i, l := range crowded.Links {
			if l.Session != SessionID(i+1) || l.Owner != (i == 0) {
				t.Fatalf("link %d is %+v", i, l)
			}
		}
		q.Kind = InspectSessions
		all, turns = inspectAll(t, m, &q, rows, func() {})
		if len(all.Sessions) != sessions || turns > 4*sessions/rows+10 {
			t.Errorf("%v: %d sessions in %d turns", q.Path, len(all.Sessions), turns)
		}
		for i, s := range all.Sessions {
			if s.ID != SessionID(i+1) || len(s.Links) != 2 ||
				s.Links[1].Name != fmt.Sprintf("lock/%06d", i) || !s.Links[1].Owner {
				t.Fatalf("session %d is %+v", i, s)
			}
		}
	}
	one, turns := inspectAll(t, m, &Inspection{Kind: InspectSemaphores, Prefix: "lock/00777"}, rows,
		func() {})
	if len(one.Semaphores) != 10 || turns > (semaphores+1)/rows+100 {
		t.Errorf("prefix: %d semaphores in %d turns", len(one.Semaphores), turns)
	}
	one, turns = inspectAll(t, m, &Inspection{Kind: InspectSessions, Session: 7777,
		Path: pathOf("/local/dir/n")}, rows, func() {})
	if turns != 1 || len(one.Sessions) != 1 || one.Sessions[0].Description != "client 7776" {
		t.Errorf("one session: %+v in %d turns", one.Sessions, turns)
	}
	one, turns = inspectAll(t, m, &Inspection{Kind: InspectSemaphores, Semaphore: 777,
		Path: pathOf("/local/dir/n")}, rows, func() {})
	if turns != 1 || len(one.Semaphores) != 1 || one.Semaphores[0].Name != "lock/000776" {
		t.Errorf("one semaphore: %+v in %d turns", one.Semaphores, turns)
	}
}

// Whatever comes and goes between two turns, what is there all the time is listed, once.
func TestInspectWhileThingsChange(t *testing.T) {
	const sessions = 600
	for seed := range uint64(20) {
		m := busyNode(t, 300, sessions)
		random := rand.New(rand.NewPCG(seed, 0))
		stays := func(id SessionID) bool { return id%7 == 1 }
		disturb := func() {
			for range 5 {
				if id := SessionID(1 + random.IntN(sessions)); !stays(id) {
					m.Apply(m.index+1, 1, &StopSession{Origin: Origin{Node: 1, Session: id,
						Address: Address{Epoch: Epoch{1, uint64(id)}}}})
				}
				m.Apply(m.index+1, 1, &Attach{Node: 1, Epoch: Epoch{2, uint64(m.index)}, TimeoutMillis: 5000})
			}
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
		all, _ := inspectAll(t, m, &Inspection{Kind: InspectSessions}, 64, disturb)
		last, seen := SessionID(0), 0
		for _, s := range all.Sessions {
			if s.ID <= last {
				t.Fatalf("seed %d: session %d behind %d", seed, s.ID, last)
			}
			if last = s.ID; stays(s.ID) && s.ID <= sessions {
				seen++
			}
		}
		if want := (sessions + 6) / 7; seen != want {
			t.Errorf("seed %d: %d of the sessions that stay, want %d", seed, seen, want)
		}
		m = busyNode(t, 300, sessions)
		all, _ = inspectAll(t, m, &Inspection{Kind: InspectSemaphores, Prefix: "crowd"}, 64, disturb)
		var order OrderID
		waiting := make(map[SessionID]bool)
		for _, l := range all.Semaphores[0].Links {
			if l.Order <= order {
				t.Fatalf("seed %d: order %d behind %d", seed, l.Order, order)
			}
			order, waiting[l.Session] = l.Order, true
		}
		for id := SessionID(1); id <= sessions; id++ {
			if stays(id) && !waiting[id] {
				t.Errorf("seed %d: session %d, which stays, is not listed", seed, id)
			}
		}
	}
}

// One semaphore is found by its whole name, without a look at the others, and with all its links. One that takes its
// name meanwhile is listed as well.
func TestInspectOneName(t *testing.T) {
	m := busyNode(t, 1000, 300)
	for _, want := range []struct {
		name              string
		semaphores, turns int
	}{{"crowded", 1, 6}, {"lock/000999", 1, 1}, {"lock/", 0, 1}, {"", 0, 1}} {
		q := &Inspection{Kind: InspectSemaphores, Path: pathOf("/local/dir/n"), Prefix: want.name, Exact: true}
		all, turns := inspectAll(t, m, q, 64, func() {})
		if len(all.Semaphores) != want.semaphores || turns > want.turns {
			t.Errorf("%q: %d semaphores in %d turns", want.name, len(all.Semaphores), turns)
		}
		if want.name == "crowded" && len(all.Semaphores[0].Links) != 300 {
			t.Errorf("%d links of 300", len(all.Semaphores[0].Links))
		}
	}
	crowded := m.FindSemaphore(1, "crowded").ID
	q := &Inspection{Kind: InspectSemaphores, Path: pathOf("/local/dir/n"), Prefix: "crowded", Exact: true}
	all, turns := inspectAll(t, m, q, 64, func() {
		if m.FindSemaphore(1, "crowded").ID == crowded {
			m.Apply(m.index+1, 1, &RemoveSemaphore{Node: 1, Semaphore: crowded, Force: true})
			m.Apply(m.index+1, 1, &CreateSemaphore{Name: "crowded", Limit: 1,
				Origin: Origin{Node: 1, Session: 1, Address: Address{Epoch{1, 1}, 1}}})
		}
	})
	if len(all.Semaphores) != 2 || turns != 2 || len(all.Semaphores[1].Links) != 0 {
		t.Errorf("%d semaphores of the name in %d turns", len(all.Semaphores), turns)
	}
}

// Resources are listed with what counts for them, each behind what is above it; of a subtree those are listed
// that are in it, whatever comes and goes beside it.
func TestInspectResources(t *testing.T) {
	m := busyNode(t, 0, 0)
	path := pathOf("/local/dir/n")
	create := func(resource string, rate float64) {
		m.Apply(m.index+1, 1, &CreateResource{Path: path, Resource: resource,
			ResourceProperties: ResourceProperties{MaxUnitsPerSecond: RealOf(rate)}})
	}
	create("a", 10)
	create("ab", 20)
	for i := range 500 {
		create(fmt.Sprintf("ab/%03d", i), 0)
		create(fmt.Sprintf("a/%03d", i), 5)
	}
	for _, want := range []struct {
		resource string
		count    int
		rate     float64
	}{{"", 1002, 5}, {"a", 501, 5}, {"ab", 501, 20}, {"a/499", 1, 5}, {"none", 0, 0}} {
		all, turns := inspectAll(t, m, &Inspection{Kind: InspectResources, Path: path,
			Resource: want.resource}, 64, func() {})
		if len(all.Resources) != want.count || turns > 2+1002/64 {
			t.Errorf("%q: %d resources in %d turns", want.resource, len(all.Resources), turns)
		}
		for i, r := range all.Resources {
			if i > 0 && r.ID <= all.Resources[i-1].ID || r.Path.String() != "/local/dir/n" {
				t.Fatalf("%q: %+v behind %+v", want.resource, r, all.Resources[max(i-1, 0)])
			}
		}
		if n := len(all.Resources); n > 0 && all.Resources[n-1].Effective.Rate != want.rate {
			t.Errorf("%q: the last is %+v", want.resource, all.Resources[n-1])
		}
	}
	next := 0
	all, _ := inspectAll(t, m, &Inspection{Kind: InspectResources, Path: path, Resource: "a"}, 64, func() {
		m.Apply(m.index+1, 1, &DropResource{Path: path, Resource: fmt.Sprintf("ab/%03d", next)})
		m.Apply(m.index+1, 1, &DropResource{Path: path, Resource: fmt.Sprintf("a/%03d", 499-next)})
		next++
	})
	if want := 501 - (next - 1); len(all.Resources) != want {
		t.Errorf("%d resources, %d are there all the time", len(all.Resources), want)
	}
}

// Nobody is shown a node that he may not read, however he asks.
func TestInspectRights(t *testing.T) {
	u := newRig(t)
	u.call(&AddUser{Name: "root", PasswordHash: "h"})
	for _, user := range []string{"alice", "bob"} {
		u.call(&CreateNode{Path: pathOf("/local/" + user + "/n"), Owner: user})
	}
	u.call(&ModifyPermissions{Path: pathOf("/local/alice"), Change: scheme.PermissionsChange{
		Actions: []scheme.Action{{Kind: scheme.Grant, Subject: "carol",
			Names: []string{"ydb.granular.select_row"}}}}})
	u.applyAll()
	for subject, want := range map[string][]string{
		"": nil, "eve": nil, "alice": {"/local/alice/n"}, "bob": {"/local/bob/n"},
		"carol": {"/local/alice/n"},
		"root":  {"/local/alice/n", "/local/bob/n"},
	} {
		caller := Caller{Subject: subject, Enforced: true}
		all, _ := inspectAll(t, u.machine, &Inspection{Caller: caller}, 64, func() {})
		var seen []string
		for _, n := range all.Nodes {
			seen = append(seen, n.Path.String())
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%q sees %v, want %v", subject, seen, want)
		}
		for _, kind := range []InspectionKind{InspectNodes, InspectSemaphores, InspectSessions,
			InspectResources} {
			for _, user := range []string{"alice", "bob"} {
				path := "/local/" + user + "/n"
				found := u.machine.Inspect(&Inspection{Kind: kind, Path: pathOf(path), Caller: caller},
					InspectionPlace{}, 64)
				if found.Missing == slices.Contains(want, path) {
					t.Errorf("%q asks for %s, kind %d: missing is %v", subject, path, kind, found.Missing)
				}
				// a place that belongs to somebody else's listing shows nothing more
				entry, _ := u.machine.tree.Lookup(pathOf(path))
				from := InspectionPlace{Entry: entry.ID, Node: entry.Node}
				found = u.machine.Inspect(&Inspection{Kind: kind, Caller: caller}, from, 64)
				for _, n := range found.Nodes {
					if !slices.Contains(want, n.Path.String()) {
						t.Errorf("%q is shown %s", subject, n.Path)
					}
				}
			}
		}
	}
	if found := u.machine.Inspect(&Inspection{Path: pathOf("/local/none")}, InspectionPlace{},
		64); !found.Missing || !found.Done {
		t.Errorf("a path that is not there: %+v", found)
	}
}

// What a leader knows of a session: who has it, and how long it lives if nobody does.
func TestStanding(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.applyAll()
	want := func(what string, want Standing) {
		t.Helper()
		if got, known := r.replica.Standing(r.now, 1, 1); !known || got != want {
			t.Errorf("%s: %+v, known is %v, want %+v", what, got, known, want)
		}
	}
	want("attached", Standing{Attached: true, Stream: 1, Detached: Never})
	if sink, known := r.replica.SinkOf(1); !known || sink != 1 {
		t.Errorf("the sink is %v, known is %v", sink, known)
	}
	since := r.now
	r.replica.Forward(r.now, r.replica.Reign(), 1, 1, Forward{Detach: true})
	want("detached", Standing{Detached: since, LeftMillis: 5000})
	r.now = r.now.After(1000)
	want("later", Standing{Detached: since, LeftMillis: 4000})
	r.lead()
	grace := uint64(r.machine.nodes[1].config.EffectiveGraceMillis())
	want("before the takeover", Standing{Detached: Never, LeftMillis: 5000 + grace})
	r.replica.Tick(r.now)
	want("under the next leader", Standing{Detached: Never, LeftMillis: 5000 + grace})
	if _, known := r.replica.Standing(r.now, 1, 2); known {
		t.Error("a session that is not there is known")
	}
	r.replica.Following()
	if _, known := r.replica.Standing(r.now, 1, 1); known {
		t.Error("known without a leader")
	}
}

// Shelves are compared with plain lists.
func TestShelf(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		var s shelf[*session]
		var list []*session
		last := SessionID(0)
		for range 3000 {
			if grow := 4 + 3*int(seed%2); random.IntN(10) < grow || len(list) == 0 {
				last += SessionID(1 + random.IntN(3))
				e := &session{id: last}
				s.append(e)
				list = append(list, e)
			} else {
				at := random.IntN(len(list))
				s.remove(list[at])
				list = slices.Delete(list, at, at+1)
			}
			wanted := SessionID(random.Uint64N(uint64(last) + 2))
			at, found := slices.BinarySearchFunc(list, wanted,
				func(e *session, id SessionID) int { return int(e.id) - int(id) })
			if e, there := s.find(uint64(wanted)); there != found || found && e != list[at] {
				t.Fatalf("seed %d: find %d: %v", seed, wanted, there)
			}
			if found {
				at++
			}
			if e, there := s.after(uint64(wanted)); there != (at < len(list)) || there && e != list[at] {
				t.Fatalf("seed %d: after %d: %v", seed, wanted, there)
			}
		}
		checkShelf(&s, len(list), func(format string, args ...any) { t.Fatalf(format, args...) },
			func(*session) bool { return true })
	}
}

// A lock that is taken and given back over and over allocates nothing on its node's shelf.
func TestShelfDoesNotAllocate(t *testing.T) {
	for _, standing := range []int{0, 1, shelfBlock - 1, shelfBlock, shelfBlock + 1} {
		var s shelf[*session]
		for i := range standing {
			s.append(&session{id: SessionID(i + 1)})
		}
		e := &session{id: 1 << 20}
		s.append(e)
		s.remove(e)
		if allocated := testing.AllocsPerRun(100, func() { s.append(e); s.remove(e) }); allocated != 0 {
			t.Errorf("behind %d: %v allocations", standing, allocated)
		}
	}
}
