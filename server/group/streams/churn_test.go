package streams

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/testmode"
)

// census counts what is in the maps that can be reached from some values, by the types and fields that hold
// them. It finds maps by itself: one that is new is counted, too.
type census struct {
	seen  map[any]bool
	sizes map[string]int
}

func takeCensus(roots ...any) map[string]int {
	c := &census{seen: make(map[any]bool), sizes: make(map[string]int)}
	for _, root := range roots {
		c.visit(reflect.ValueOf(root), "")
	}
	return c.sizes
}

// ours reports whether a type belongs to what is counted: the rings, and the server but for its simulation.
func ours(t reflect.Type) bool {
	path, ours := strings.CutPrefix(t.PkgPath(), "github.com/coordd/coordd/")
	return ours && (path == "server/group/streams" || path == "coordination" || path == "scheme") &&
		!strings.HasPrefix(t.Name(), "silen")
}

func (c *census) visit(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || !ours(v.Type().Elem()) || c.seen[v.UnsafePointer()] {
			return
		}
		c.seen[v.UnsafePointer()] = true
		c.visit(v.Elem(), name)
	case reflect.Interface:
		if !v.IsNil() {
			c.visit(v.Elem(), name)
		}
	case reflect.Struct:
		if v.Type().Name() != "" && !ours(v.Type()) {
			return
		}
		for i := range v.NumField() {
			c.visit(v.Field(i), v.Type().String()+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			c.visit(v.Index(i), name)
		}
	case reflect.Map:
		c.sizes[name] += v.Len()
		for each := v.MapRange(); each.Next(); {
			c.visit(each.Key(), name)
			c.visit(each.Value(), name)
		}
	}
}

// churn is a cluster whose clients come and go.
type churn struct {
	*silenceRun
	random *rand.Rand
	leader *silentServer
}

// census is taken of all servers, and of both ends of the relay, when no question about a permit is under
// way.
func (c *churn) census() map[string]int {
	for len(c.relay.relay.asked) > 0 {
		c.run(c.now + time.Millisecond)
	}
	var roots []any
	for _, s := range c.servers {
		roots = append(roots, s.replica, s.streams, s.peers, &s.unsaid)
	}
	return takeCensus(append(roots, c.relay.relay, c.relay.peer)...)
}

// ask has a client use what the leader keeps for it: a lock, a place in a queue, a watch.
func (c *churn) ask(client *silenceClient) {
	for i, request := range []*coordination.Request{
		{Kind: coordination.RequestAcquire, Name: "lock", Count: 1, TimeoutMillis: 50, Ephemeral: true},
		{Kind: coordination.RequestAcquire, Name: fmt.Sprint("own-", client.session), Count: 1,
			Ephemeral: true},
		{Kind: coordination.RequestDescribe, Name: fmt.Sprint("own-", client.session),
			WatchData: true, WatchOwners: true},
		{Kind: coordination.RequestAcquire, Name: "lock", Count: coordination.Infinite,
			TimeoutMillis: coordination.Infinite, Ephemeral: true},
	} {
		client.say(coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: uint64(i + 1),
			Request: request})
	}
}

// breakRelay breaks the relay and opens another one later.
func (c *churn) breakRelay(down time.Duration) {
	c.relay.breakAtLeader()
	c.relay.breakAtFollower()
	c.run(c.now + down)
	c.connect(c.leader)
	c.run(c.now + 50*time.Millisecond)
}

// change has another server lead.
func (c *churn) change() {
	old, next := c.leader, c.b
	if old == c.b {
		next = c.a
	}
	old.leaseUntil, old.confirms, c.leads = 0, false, nil
	c.run(c.now + 20*time.Millisecond)
	next.confirms = true
	c.elect(next)
	c.confirmRounds(next)
	old.depose()
	c.f.follow()
	c.relay.breakAtLeader()
	c.relay.breakAtFollower()
	c.leader = next
	c.connect(next)
	c.run(c.now + 50*time.Millisecond)
}

// ends are the ways in which a stream and its session can end.
var ends = map[string]func(c *churn, client *silenceClient){
	"stopped": func(_ *churn, client *silenceClient) {
		client.say(coordination.ClientMessage{Kind: coordination.ClientStop})
	},
	"abandoned": func(_ *churn, client *silenceClient) { client.leave() },
	"failed":    func(_ *churn, client *silenceClient) { client.start(&coordination.AttachRequest{}) },
	"stolen": func(c *churn, client *silenceClient) {
		thief := c.openStream([]*silentServer{c.leader, c.f}[c.random.IntN(2)])
		thief.start(&coordination.AttachRequest{Path: "/local/n", Session: client.session, TimeoutMillis: 100,
			SeqNo: 1})
		c.run(c.now + 50*time.Millisecond)
		thief.leave()
	},
	"stopped and abandoned": func(_ *churn, client *silenceClient) {
		client.say(coordination.ClientMessage{Kind: coordination.ClientStop})
		client.leave()
	},
	"start refused": func(c *churn, client *silenceClient) {
		c.openStream(client.at).start(&coordination.AttachRequest{Path: "/local/nothing", TimeoutMillis: 100})
		c.openStream(client.at).start(&coordination.AttachRequest{Path: "/local/n", Session: 1 << 40,
			TimeoutMillis: 100})
		client.leave()
	},
	"start abandoned": func(c *churn, client *silenceClient) {
		other := c.openStream(client.at)
		other.start(&coordination.AttachRequest{Path: "/local/n", TimeoutMillis: 100,
			Nonce: c.random.Uint64()})
		c.run(c.now + time.Duration(c.random.IntN(40))*time.Millisecond)
		other.leave()
		client.leave()
	},
	"relay broken": func(c *churn, client *silenceClient) {
		c.breakRelay(50 * time.Millisecond)
		client.leave()
	},
	"relay broken behind the stop": func(c *churn, client *silenceClient) {
		client.say(coordination.ClientMessage{Kind: coordination.ClientStop})
		c.run(c.now + time.Duration(c.random.IntN(30))*time.Millisecond)
		c.breakRelay(0)
	},
	"expired behind a broken relay": func(c *churn, client *silenceClient) {
		c.breakRelay(relayLease + time.Duration(80+c.random.IntN(60))*time.Millisecond)
		client.leave()
	},
	"leader changed": func(c *churn, client *silenceClient) {
		c.change()
		client.leave()
	},
}

// leave has the client close its side.
func (c *silenceClient) leave() {
	if s := c.stream; s != nil {
		s.mutex.Lock()
		s.settle(s.front.Close())
		s.mutex.Unlock()
	}
}

// TestNothingIsKept has sessions come and go, through the leader and through another server, in every way in
// which a stream can end. Afterwards all maps of all servers are as large as they were.
func TestNothingIsKept(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	c := &churn{silenceRun: newSilenceRunOf(&choices{random: rand.New(rand.NewPCG(1, 5))}, true, 5000,
		[3]float64{1, 1, 1}), random: rand.New(rand.NewPCG(1, 6))}
	c.leader = c.a
	c.latency = func() time.Duration { return time.Duration(c.random.IntN(20)) * time.Millisecond }
	c.run(time.Second)
	c.change()
	c.change()
	c.run(c.now + 5*time.Second)
	before := c.census()
	if before["coordination.Leader.streams"] != 1 || before["streams.Set.open"] != 1 ||
		before["streams.Peer.streams"] != 1 {
		t.Fatalf("the census does not find what there is: %v", before)
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		end := ends[name]
		for i := range 10 {
			at := c.f
			if i%2 == 0 {
				at = c.leader
			}
			client := c.openClient(at, 100, 50*time.Millisecond)
			c.run(c.now + 60*time.Millisecond)
			c.ask(client)
			c.run(c.now + 30*time.Millisecond)
			if client.session == 0 {
				t.Fatalf("%s: the client has no session", name)
			}
			end(c, client)
			c.run(c.now + 20*time.Millisecond)
		}
		if c.leader != c.a {
			c.change()
		}
		c.run(c.now + 10*time.Second)
		after := c.census()
		for what, n := range after {
			if n != before[what] {
				t.Errorf("%s: %s had %d, now %d", name, what, before[what], n)
			}
		}
	}
}
