package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

func releases(n int) []coordination.Command {
	commands := make([]coordination.Command, n)
	for i := range commands {
		commands[i] = &coordination.ReleaseSemaphore{Name: fmt.Sprint("lock ", i)}
	}
	return commands
}

func update(bytes int) coordination.Command {
	return &coordination.UpdateSemaphore{Name: "s", Data: make([]byte, bytes)}
}

// TestEntries shows into which entries the commands of a turn go.
func TestEntries(t *testing.T) {
	g := openTest(t, nil)
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	stamp := g.core.replica.Stamp(g.clock.WallMillis())
	const mib = coordination.MaxEntryBytes
	lineage := &coordination.BeginLineage{Lineage: 7}
	half := update(mib / 2)
	// is left behind half
	rest := mib - codec.EndBytesMax - len(codec.AppendToEntry(codec.BeginEntry(nil, stamp), half))
	fill := rest - (len(codec.AppendToEntry(nil, update(mib/3))) - mib/3)
	for name, test := range map[string]struct {
		commands []coordination.Command
		want     []int
	}{
		"one": {releases(1), []int{1}},
		"as many as can be": {releases(coordination.MaxEntryCommands),
			[]int{coordination.MaxEntryCommands}},
		"one more": {releases(coordination.MaxEntryCommands + 1),
			[]int{coordination.MaxEntryCommands, 1}},
		"as large as can be": {[]coordination.Command{half, update(fill)}, []int{2}},
		"one byte more":      {[]coordination.Command{half, update(fill + 1)}, []int{1, 1}},
		"a larger one": {[]coordination.Command{update(1), update(2 * mib), update(1), update(1)},
			[]int{1, 1, 2}},
		"a lineage at first": {append([]coordination.Command{lineage}, releases(2)...),
			[]int{1, 2}},
		"a lineage in between":   {append(append(releases(2), lineage), releases(2)...), []int{2, 1, 2}},
		"a lineage and no more":  {[]coordination.Command{lineage}, []int{1}},
		"a lineage at the end":   {append(releases(1), lineage), []int{1, 1}},
		"two that must be alone": {[]coordination.Command{lineage, lineage}, []int{1, 1}},
	} {
		checkEntries(t, name, g.core.entries(test.commands), test.commands, test.want)
	}
	g.config.Formats.Version = codec.VersionEntries - 1
	checkEntries(t, "before all can read them", g.core.entries(releases(3)), releases(3), []int{1, 1, 1})
	for i, entry := range g.core.entries(releases(3)) {
		if !bytes.Equal(entry, codec.AppendCommand(nil, releases(3)[i])) {
			t.Errorf("not as an older program reads it: %x", entry)
		}
	}
	placed := []coordination.Command{&coordination.ExpireWaiter{WaitEpoch: coordination.Position{Index: 7,
		Place: 1}}, releases(1)[0]}
	checkEntries(t, "with a place in an earlier one", g.core.entries(placed), placed, []int{1, 1})
}

func checkEntries(t *testing.T, name string, entries [][]byte, commands []coordination.Command, want []int) {
	t.Helper()
	var got []int
	var all []byte
	for _, data := range entries {
		var e coordination.Entry
		if err := codec.DecodeEntry(data, &e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got = append(got, len(e.Commands))
		for _, c := range e.Commands {
			all = codec.AppendCommand(all, c)
		}
		if len(data) > coordination.MaxEntryBytes && len(e.Commands) > 1 {
			t.Errorf("%s: an entry of %d commands has %d bytes", name, len(e.Commands), len(data))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: entries of %v commands, want %v", name, got, want)
	}
	var wanted []byte
	for _, c := range commands {
		wanted = codec.AppendCommand(wanted, c)
	}
	if !bytes.Equal(all, wanted) {
		t.Errorf("%s: other commands, or in another order", name)
	}
}

// TestTurnIsOneEntry has the requests of a turn share an entry, and each get its answer.
func TestTurnIsOneEntry(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, testNode)
	clients := []*testClient{openSession(t, g, 600_000), openSession(t, g, 600_000),
		openSession(t, g, 600_000)}
	g.hold(g.turn.Lock())
	index := g.core.replica.Machine().Index()
	for i, c := range clients {
		c.ask(1, take(fmt.Sprint("lock ", i)))
		c.ask(2, take(fmt.Sprint("lock ", i)))
	}
	g.turn.Unlock()
	g.queue.bell.Ring()
	for _, c := range clients {
		for number := uint64(1); number <= 2; number++ {
			if r := c.next(t); r.Kind != coordination.ReplyResult || !r.Done || r.ReqID != number {
				t.Fatalf("got %+v", r)
			}
		}
	}
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	if now := g.core.replica.Machine().Index(); now != index+1 || g.core.inFlight != 0 {
		t.Errorf("%d entries for six requests, %d bytes are in flight", now-index, g.core.inFlight)
	}
}

// TestPanickingTurnSaysNothing panics behind an entry that was executed: nobody hears of what came of it.
func TestPanickingTurnSaysNothing(t *testing.T) {
	var failure error
	g := openTest(t, func(config *Config) { config.Failed = func(err error) { failure = err } })
	createNode(t, g, testNode)
	client := openSession(t, g, 600_000)
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	client.ask(1, take("lock"))
	added := &call{attempt: &attempt{command: &coordination.AddUser{CallID: coordination.CallID{Nonce: 5},
		Name: "root", PasswordHash: "h"}}, done: make(chan callAnswer, 1)}
	g.queue.put(event{call: added})
	before := g.core.replica.Machine().Index()
	g.core.work()
	eventually(t, "the entry to be durable", func() bool {
		g.queue.mutex.Lock()
		defer g.queue.mutex.Unlock()
		return len(g.queue.store) > 0
	})
	g.queue.put(event{call: &call{done: make(chan callAnswer, 1),
		read: func(*core) outcome.Outcome { panic("a test") }}})
	g.core.work()
	var invariant *InvariantError
	if !errors.As(failure, &invariant) || g.core.replica.Machine().Index() != before+1 {
		t.Fatalf("got %v, the machine has entry %d, before it had %d", failure, g.core.replica.Machine().Index(),
			before)
	}
	if replies, ending := client.stream.Take(nil); len(replies) > 0 || ending != coordination.EndingNone ||
		len(added.done) > 0 {
		t.Errorf("the client heard %+v, %v", replies, ending)
	}
}

// TestEntriesWaitForTheLastServer runs a rolling upgrade: as long as one server is an older program's, each
// command has an entry that it can read, and from then on a turn has one for all.
func TestEntriesWaitForTheLastServer(t *testing.T) {
	const old = 2
	c := openClusterWith(t, 3, func(i int, config *Config) {
		if i == old {
			config.Formats = coordination.Formats{Version: codec.VersionEntries - 1, Since: codec.Since}
		}
	})
	shared := func() bool {
		leader, _ := c.leader()
		g := c.groups[leader]
		g.hold(g.turn.Lock())
		defer g.turn.Unlock()
		return len(g.core.entries(releases(2))) == 1
	}
	createNode(t, c.groups[0], testNode)
	if shared() {
		t.Error("two commands share an entry that an older server cannot read")
	}
	stopTest(t, c.groups[old])
	if shared() {
		t.Error("two commands share an entry while an older server is down")
	}
	c.configs[old].Formats = coordination.Formats{}
	c.open(old)
	eventually(t, "the last server's version to be known", shared)
	createNode(t, c.groups[1], scheme.Path{"local", "later"})
	for _, g := range c.groups {
		eventually(t, "the entry everywhere", func() bool {
			found, err := capture(t.Context(), g, 1, func(m *coordination.Machine) bool {
				_, found := m.Tree().EntryToDescribe(scheme.Path{"local", "later"})
				return found.OK()
			})
			return err == nil && found
		})
	}
}

// TestStampsAreEverywhere has all servers know, by one clock, since when a session is there and owns what it
// does.
func TestStampsAreEverywhere(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	before := c.groups[leader].clock.WallMillis()
	eventually(t, "all versions to be known", func() bool {
		return c.groups[leader].store.ClusterVersion() == codec.Version
	})
	client := openSession(t, c.groups[follower], 600_000)
	client.ask(1, take("lock"))
	client.next(t)
	began := func(g *Group) (stamps [2]uint64) {
		found, err := capture(t.Context(), g, 1, func(m *coordination.Machine) (stamps [2]uint64) {
			for _, row := range m.AllRows() {
				switch row := row.(type) {
				case coordination.SessionRow:
					stamps[0] = row.BeganMillis
				case coordination.LinkRow:
					stamps[1] = row.BeganMillis
				}
			}
			return stamps
		})
		if err != nil {
			t.Error(err)
		}
		return found
	}
	var want [2]uint64
	eventually(t, "the server to know the lock", func() bool { // it may lead no more, and be behind
		want = began(c.groups[leader])
		return want[1] != 0
	})
	if after := c.groups[leader].clock.WallMillis(); want[0] < before || want[1] < want[0] ||
		want[1] > after {
		t.Errorf("between %d and %d the session and its lock began at %d", before, after, want)
	}
	for _, g := range c.groups {
		eventually(t, "the same stamps", func() bool { return began(g) == want })
	}
}

// TestDroppedEntryIsSettled has a leader propose an entry for many when it leads no more without knowing it:
// the log drops the whole. Whoever asked for something gets its one answer from the next leader.
func TestDroppedEntryIsSettled(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	g := c.groups[leader]
	createNode(t, g, testNode)
	var clients []*testClient
	for i := range 6 {
		clients = append(clients, openSession(t, c.groups[[]int{leader, follower}[i%2]], 600_000))
	}
	g.hold(g.turn.Lock())
	for i, client := range clients {
		client.ask(1, take(fmt.Sprint("lock ", i)))
		client.ask(2, &coordination.Request{Kind: coordination.RequestRelease, Name: fmt.Sprint("lock ", i)})
	}
	called := make(chan outcome.Outcome, 1)
	go func() {
		answer, err := g.Execute(t.Context(), func(call coordination.CallID) coordination.Command {
			return &coordination.CreateNode{CallID: call, Path: scheme.Path{"local", "late"},
				Owner: scheme.RootOwner}
		})
		if err != nil {
			t.Error(err)
		}
		called <- answer
	}()
	attend := func() { // all of them, lest a session ends while a busy machine takes its time
		for _, client := range clients {
			client.attend()
		}
	}
	eventually(t, "all to be asked", func() bool {
		attend()
		return g.queue.length() == 2*len(clients)+1
	})
	if err := g.store.Changes.TransferLeader(t.Context(), c.groups[follower].store.Member()); err != nil {
		t.Fatal(err)
	}
	g.core.handleRequests() // before it knows that another one leads
	g.core.carryOut()
	if g.core.inFlight == 0 {
		t.Error("nothing was proposed")
	}
	g.turn.Unlock()
	g.queue.bell.Ring()
	for i, client := range clients {
		for number := uint64(1); number <= 2; number++ {
			attend()
			if r := client.next(t); r.Kind != coordination.ReplyResult || !r.Done || r.ReqID != number {
				t.Fatalf("client %d: got %+v", i, r)
			}
		}
	}
	if answer := <-called; !answer.OK() {
		t.Errorf("the call: %v", answer)
	}
}

// TestCheckpointsCountCommands has a checkpoint come after so many commands, though they share few entries.
func TestCheckpointsCountCommands(t *testing.T) {
	g := openTest(t, func(config *Config) { config.Log.CheckpointCommands = 1000 })
	createNode(t, g, testNode)
	g.hold(g.turn.Lock())
	term, before := uint64(g.core.replica.Term()), uint64(g.core.replica.Machine().Index())
	g.turn.Unlock()
	for range 4 {
		entry := codec.BeginEntry(nil, 1)
		for _, c := range releases(300) {
			entry = codec.AppendToEntry(entry, c)
		}
		g.store.Propose(term, [][]byte{entry})
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	if err := g.store.Checkpoints.Await(ctx, before+1); err != nil {
		t.Error(err)
	}
}
