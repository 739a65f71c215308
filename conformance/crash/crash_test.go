//go:build unix

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/testserver"
)

const (
	clients  = 6
	nodePath = "/local/crash"

	// sdkSharedName is the shared semaphore of the load programs.
	sdkSharedName = "sdk-shared"
)

// TestCrashKill9 loads a server from several sessions, kills it with SIGKILL at a random moment, restarts it
// on the same data and compares, CRASH_ROUNDS times (default 4). Every acknowledged create, update, acquire
// and release must be there; order ids never go back; sessions can be attached again; nobody holds more than
// the limit.
func TestCrashKill9(t *testing.T) {
	besideOthers(t)
	rounds := 4
	if text := os.Getenv("CRASH_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("CRASH_ROUNDS=%q: want a number", text)
		}
		rounds = n
	}
	seed := seedOf(t)
	r := &rig{server: testserver.New(t, "--data-dir", filepath.Join(t.TempDir(), "data")),
		random: rand.New(rand.NewPCG(seed, 0))}
	for i := range clients {
		r.clients = append(r.clients, newClient(i, seed))
	}
	r.server.Start()
	prepare(t, r.server.Address)
	acked := 0
	for round := range rounds {
		acked += r.loadAndKill(t)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		r.server.Start()
		if err := r.compare(round); err != nil {
			t.Fatalf("after round %d: %v", round, err)
		}
	}
	t.Logf("%d rounds, %d acknowledged requests, last order id %d", rounds, acked, r.lastOrder)
	if acked < 20*rounds {
		t.Fatalf("only %d requests were acknowledged in %d rounds: too little load to prove anything", acked,
			rounds)
	}
	r.server.Kill()
}

// longForm is what the make targets of this package ask for, by the number of rounds.
var longForm = os.Getenv(
	"CRASH_ROUNDS")+os.Getenv("CLUSTER_ROUNDS")+os.Getenv("CLUSTER_SAMPLES")+os.Getenv("UPGRADE_TEST") != ""

// besideOthers lets the short forms run at once; the long ones measure.
func besideOthers(t *testing.T) {
	if !longForm {
		t.Parallel()
	}
}

// seedOf is what a test's choices follow: CRASH_SEED, or else another one for each run of the long form.
func seedOf(t *testing.T) uint64 {
	seed := uint64(1)
	if longForm {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("CRASH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CRASH_SEED=%q: want a number", text)
		}
		seed = n
	}
	t.Logf("CRASH_SEED=%d", seed)
	return seed
}

// rig is the server under test and its clients.
type rig struct {
	server    *testserver.Server
	random    *rand.Rand
	clients   []*client
	lastOrder uint64 // highest order id ever seen
}

func (r *rig) dial(n int) ([]*grpc.ClientConn, error) { return raw.Dial(r.server.Address, n) }

// prepare makes the node and the shared semaphores.
func prepare(t *testing.T, address string) {
	t.Helper()
	conns, err := raw.Dial(address, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := raw.CreateNode(ctx, conns[0], nodePath); err != nil {
		t.Fatal(err)
	}
	s, err := raw.Open(ctx, conns[0], &raw.Start{Path: nodePath, TimeoutMillis: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range sharedSemaphores {
		if err := s.Create(sharedName(i), sharedLimit); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Create(sdkSharedName, sharedLimit); err != nil {
		t.Fatal(err)
	}
}

// attach gives every client its session on a new stream.
func (r *rig) attach(ctx context.Context, conns []*grpc.ClientConn) error {
	for i, c := range r.clients {
		if err := c.attach(ctx, conns[i]); err != nil {
			return err
		}
	}
	return nil
}

// loadAndKill lets the clients work until the server is killed, and returns how many requests were
// acknowledged.
func (r *rig) loadAndKill(t *testing.T) int {
	t.Helper()
	conns, err := r.dial(clients)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	if err := r.attach(t.Context(), conns); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	var killed sync.Once
	dying := make(chan struct{})
	kill := func() { killed.Do(func() { close(dying); r.server.Kill() }) }
	for _, c := range r.clients {
		c.acked = 0
		wait.Go(func() {
			err := c.work()
			select {
			case <-dying:
			default:
				t.Errorf("client %d, session %d: %v", c.number, c.id, err)
				kill()
			}
		})
	}
	timer := time.AfterFunc(time.Duration(20+r.random.IntN(400))*time.Millisecond, kill)
	wait.Wait()
	timer.Stop()
	<-r.server.Ended()
	acked := 0
	for _, c := range r.clients {
		acked += c.acked
	}
	return acked
}

// compare attaches all sessions again and compares what the server says with what was acknowledged.
func (r *rig) compare(round int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conns, err := r.dial(clients)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	if err := r.attach(ctx, conns); err != nil {
		return err
	}
	last := r.lastOrder
	for i := range sharedSemaphores {
		d, err := r.clients[0].session.Describe(sharedName(i), false)
		if err != nil {
			return err
		}
		if d.GetCount() > sharedLimit || (len(d.GetWaiters()) > 0 && d.GetCount() < sharedLimit) {
			return fmt.Errorf("%s has %d tokens held and %d waiters", d.GetName(), d.GetCount(),
				len(d.GetWaiters()))
		}
		for _, link := range append(d.GetOwners(), d.GetWaiters()...) {
			last = max(last, link.GetOrderId())
		}
		for _, c := range r.clients {
			if err := c.compare(c.shared[i], d); err != nil {
				return err
			}
		}
	}
	for _, c := range r.clients {
		d, err := c.session.Describe(c.own.name, false)
		if err != nil {
			if !c.own.created {
				continue
			}
			return fmt.Errorf("acknowledged as created: %w", err)
		}
		c.own.created = true
		if err := c.compare(&c.own, d); err != nil {
			return err
		}
		if err := c.compareData(d); err != nil {
			return err
		}
		last = max(last, c.own.order)
	}
	r.lastOrder, err = freshOrder(r.clients[0].session, fmt.Sprintf("order-%d", round), last)
	return err
}

// freshOrder takes a new semaphore and checks that its order id is above all seen before.
func freshOrder(s *raw.Session, name string, last uint64) (uint64, error) {
	if err := s.Create(name, 1); err != nil {
		return 0, err
	}
	if err := s.Acquire(name, 1); err != nil {
		return 0, err
	}
	d, err := s.Describe(name, false)
	if err != nil {
		return 0, err
	}
	order := d.GetOwners()[0].GetOrderId()
	if order <= last {
		return 0, fmt.Errorf("order id %d was given after %d", order, last)
	}
	return order, nil
}
