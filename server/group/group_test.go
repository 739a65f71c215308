package group

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/group/streams"
)

// waitMax bounds every wait of a test for a state; only a failing test uses it up.
const waitMax = 2 * time.Minute

// eventually waits for a state that nobody announces. It looks the more rarely the longer it waits: under the
// race detector, looking takes the tests beside it a twentieth of a processor if it is done every
// millisecond.
func eventually(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for begun := time.Now(); !reached(); time.Sleep(min(max(time.Since(begun)/16, time.Millisecond),
		20*time.Millisecond)) {
		if time.Since(begun) > waitMax {
			t.Fatal("waited in vain for ", what)
		}
	}
}

// testNode is the node of the tests' sessions.
var testNode = scheme.Path{"local", "node"}

func testConfig(t testing.TB) Config {
	return Config{
		Log: raftstore.Config{Logger: testlog.New(t)}, Database: "/local",
		Limits: coordination.DefaultLimits(), Clock: clock.New(nil),
		OutboundBytes: 128_000_000, Linger: time.Hour, CallPatience: waitMax,
		Failed: func(err error) { t.Log(err) },
	}
}

// openTest opens a group in memory, alone, which ends with the test. It leads.
func openTest(t testing.TB, change func(*Config)) *Group {
	t.Helper()
	config := testConfig(t)
	config.Log.InMemory = true
	if change != nil {
		change(&config)
	}
	g := startTest(t, config)
	t.Cleanup(func() { stopTest(t, g) })
	return g
}

// startTest opens a group and waits until there is a leader.
func startTest(t testing.TB, config Config) *Group {
	t.Helper()
	g, err := Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Ready():
	case <-time.After(waitMax):
		t.Fatal("no leader")
	}
	return g
}

// stopTest stops a group unless it is stopped already.
func stopTest(t testing.TB, g *Group) {
	t.Helper()
	select {
	case <-g.stop:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// createNode adds a coordination node, or finds it there.
func createNode(t testing.TB, g *Group, path scheme.Path) {
	t.Helper()
	answer, err := g.Execute(context.Background(), func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: path, Owner: scheme.RootOwner}
	})
	if err != nil || !answer.OK() {
		t.Fatal(answer, err)
	}
}

// testCluster is groups of one cluster in this process, talking over loopback.
type testCluster struct {
	t       *testing.T
	groups  []*Group
	configs []Config
}

func openCluster(t *testing.T, n int) *testCluster {
	t.Helper()
	return openClusterWith(t, n, func(int, *Config) {})
}

// openClusterWith is openCluster with a change of each server's configuration.
func openClusterWith(t *testing.T, n int, change func(i int, config *Config)) *testCluster {
	t.Helper()
	t.Parallel()
	addresses := testserver.Addresses(t, n)
	initial := make(map[string]string)
	for i, address := range addresses {
		initial[fmt.Sprint("server-", i)] = address
	}
	c := &testCluster{t: t, groups: make([]*Group, n), configs: make([]Config, n)}
	dir := t.TempDir()
	for i := range c.groups {
		name := fmt.Sprint("server-", i)
		config := testConfig(t)
		config.Log.Dir = filepath.Join(dir, name)
		config.Log.Cluster = raftstore.Cluster{Name: name, ListenPeer: addresses[i],
			Initial: maps.Clone(initial)}
		change(i, &config)
		c.configs[i] = config
		c.open(i)
		t.Cleanup(func() { stopTest(t, c.groups[i]) })
	}
	for _, g := range c.groups {
		eventually(t, "a leader", g.Led)
	}
	return c
}

// open starts a server on what it has stored.
func (c *testCluster) open(i int) {
	c.t.Helper()
	g, err := Open(c.t.Context(), c.configs[i])
	if err != nil {
		c.t.Fatal(err)
	}
	c.groups[i] = g
	if err := g.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// leader is the group that leads, and one that does not.
func (c *testCluster) leader() (leads, follows int) {
	c.t.Helper()
	eventually(c.t, "a leader", func() bool {
		leads, follows = -1, -1
		for i, g := range c.groups {
			switch {
			case g.Leads():
				leads = i
			case g.Led():
				follows = i
			}
		}
		return leads >= 0 && follows >= 0
	})
	return leads, follows
}

// nobody is a client to whom nothing is done.

// nobody is a client that does nothing.
type nobody struct{}

func (nobody) Wake()               {}
func (nobody) CutOff()             {}
func (nobody) Panicked(reason any) { panic(reason) }

// testClient is the client of a stream, who answers pings while somebody waits for the next reply.
type testClient struct {
	nobody
	stream *streams.Stream
	woken  chan struct{}
	taken  []coordination.Reply
}

// Wake implements Client.
func (c *testClient) Wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

func openStream(t testing.TB, g *Group) *testClient {
	t.Helper()
	return openStreamOf(t, g, streams.Caller{})
}

func openStreamOf(t testing.TB, g *Group, caller streams.Caller) *testClient {
	t.Helper()
	c := &testClient{woken: make(chan struct{}, 1)}
	policy := &coordination.PingPolicy{Opaque: streams.Nonce, FirstMessageMillis: uint64(waitMax.Milliseconds())}
	c.stream = g.NewStream(c, caller, policy)
	if err := c.stream.Enter(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stream.Close()
		c.stream.Leave()
	})
	c.stream.Open()
	return c
}

// openSession opens a session on testNode.
func openSession(t testing.TB, g *Group, timeoutMillis uint64) *testClient {
	t.Helper()
	c := openStream(t, g)
	c.start(testNode.String(), timeoutMillis)
	if r := c.next(t); r.Kind != coordination.ReplyStarted {
		t.Fatalf("got %+v", r)
	}
	return c
}

func (c *testClient) start(path string, timeoutMillis uint64) {
	c.say(coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{Path: path, TimeoutMillis: timeoutMillis}})
}

func (c *testClient) say(m coordination.ClientMessage) { c.stream.Receive(&m) }

// ask sends a request about a semaphore.
func (c *testClient) ask(number uint64, r *coordination.Request) {
	c.say(coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: number, Request: r})
}

// attend answers the pings that have come so far, and keeps the other replies for next. It reports how the
// stream ends behind them. Like the server it takes until there is nothing: only then is it woken again.
func (c *testClient) attend() coordination.Ending {
	for {
		replies, ending := c.stream.Take(nil)
		if len(replies) == 0 {
			return ending
		}
		for _, r := range replies {
			switch r.Kind {
			case coordination.ReplyNone:
			case coordination.ReplyPing:
				c.say(coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: r.Opaque})
			default:
				c.taken = append(c.taken, r)
			}
		}
	}
}

// next is the next reply that is not a ping. A ping behind it is answered as well: who calls next may not do
// so again before the time for an answer is over.
func (c *testClient) next(t testing.TB) coordination.Reply {
	t.Helper()
	for {
		ending := c.attend()
		if len(c.taken) > 0 {
			r := c.taken[0]
			c.taken = c.taken[1:]
			return r
		}
		if ending != coordination.EndingNone {
			t.Fatalf("the stream ended with %d", ending)
		}
		select {
		case <-c.woken:
		case <-time.After(waitMax):
			t.Fatal("no reply")
		}
	}
}

// take is a request for a lock.
func take(name string) *coordination.Request {
	return &coordination.Request{Kind: coordination.RequestAcquire, Name: name, Count: coordination.Infinite,
		TimeoutMillis: coordination.Infinite, Ephemeral: true}
}

// TestThreeGroups has three groups side by side, each with a peer address and a directory of its own: what
// happens in one the others know nothing of, and the end of one is none of theirs.
func TestThreeGroups(t *testing.T) {
	const count = 3
	addresses := testserver.Addresses(t, count)
	groups, clients := make([]*Group, count), make([]*testClient, count)
	for i := range groups {
		groups[i] = openTest(t, func(config *Config) {
			config.Log.InMemory, config.Log.Dir = false, t.TempDir()
			config.Log.Cluster = raftstore.Cluster{Name: fmt.Sprint("server-", i), ListenPeer: addresses[i]}
		})
	}
	own := func(i int) scheme.Path { return scheme.Path{"local", fmt.Sprint("own-", i)} }
	for i, g := range groups {
		createNode(t, g, testNode)
		createNode(t, g, own(i))
		clients[i] = openSession(t, g, 10_000)
		clients[i].ask(1, take("lock")) // which everybody gets, each in a group of its own
		if r := clients[i].next(t); r.Kind != coordination.ReplyResult || !r.Done {
			t.Fatalf("group %d: got %+v", i, r)
		}
	}
	for i, g := range groups {
		for other := range groups {
			found, _, err := g.Describe(t.Context(), coordination.Caller{}, own(other),
				func(m *coordination.Machine) (d Described) {
					d.Lineage, d.Outcome = m.Tree().EntryToDescribe(own(other))
					return d
				})
			if err != nil || (found.Lineage != nil) != (other == i) {
				t.Errorf("group %d: the node of group %d: %v, %v", i, other, found.Lineage, err)
			}
		}
		if n := len(g.Clients()); n != 1 || g.Log().Cluster() == groups[(i+1)%count].Log().Cluster() {
			t.Errorf("group %d: %d clients, cluster %x", i, n, g.Log().Cluster())
		}
	}
	clients[0].stream.Close()
	clients[0].stream.Leave()
	stopTest(t, groups[0])
	for i, g := range groups[1:] {
		createNode(t, g, scheme.Path{"local", "later"})
		clients[1+i].ask(2, &coordination.Request{Kind: coordination.RequestRelease, Name: "lock"})
		if r := clients[1+i].next(t); r.Kind != coordination.ReplyResult || !r.Done {
			t.Fatalf("group %d: got %+v", 1+i, r)
		}
	}
}

// TestLeaderThatComesBack has a leader lose the leadership and get it back without the others noticing.
// Streams on them go on.
func TestLeaderThatComesBack(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[follower], testNode)
	client := openSession(t, c.groups[follower], 600_000)
	client.ask(1, take("lock"))
	if r := client.next(t); r.Kind != coordination.ReplyResult || !r.Done {
		t.Fatalf("got %+v", r)
	}
	g := c.groups[leader]
	g.hold(g.turn.Lock())
	term := uint64(g.core.replica.Term())
	g.queue.putStore(storeEvent{following: true, term: term})
	g.queue.putStore(storeEvent{leading: term})
	g.core.work()
	// its own entry, before which it does not serve
	first := &coordination.MakeDirectory{Path: scheme.Path{"local", "first"}}
	g.store.Propose(term, [][]byte{codec.AppendCommand(nil, first)})
	g.turn.Unlock()
	client.ask(2, &coordination.Request{Kind: coordination.RequestRelease, Name: "lock"})
	if r := client.next(t); r.Kind != coordination.ReplyResult || !r.Done {
		t.Fatalf("got %+v", r)
	}
}
