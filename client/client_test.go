package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	node    = "/local/app"
	waitMax = time.Minute // of what a test that passes does not wait for
	// sessionTimeout is that of sessions that a test waits for: a busy machine loses none of them earlier.
	sessionTimeout = 3 * time.Second
)

// serveVariable makes the test's program a server, which a test can pause.
const serveVariable = "COORDD_CLIENT_TEST_SERVES"

// No test leaves a goroutine behind, so no session does after its end.
func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	s, err := server.Start(context.Background(), server.Config{Listen: "127.0.0.1:0", Database: "/local",
		InMemory: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("grpc://%s/local\n", s.Addr())
	<-s.Done() // or until it is killed
}

// start starts a server with a node.
func start(t *testing.T) (c *Client, address string, stop func()) {
	t.Helper()
	s, err := server.Start(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitMax)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	c = connect(t, s.Addr().String())
	if err := c.CreateNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return c, s.Addr().String(), stop
}

func connect(t *testing.T, address string) *Client {
	t.Helper()
	c, err := New(Config{Endpoint: "grpc://" + address + "/local"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, c *Client, timeout time.Duration) *Session {
	t.Helper()
	s, err := c.Open(t.Context(), node, SessionConfig{Timeout: timeout, Description: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Close(ctx)
	})
	return s
}

// granted returns the lease of a call that has to succeed.
func granted(t *testing.T) func(*Lease, error) *Lease {
	return func(l *Lease, err error) *Lease {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(waitMax):
		t.Fatal("waited in vain")
	}
}

func wantIs(t *testing.T, err error, wanted ...error) {
	t.Helper()
	for _, want := range wanted {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// queued waits until the queue of a lock has a length.
func queued(t *testing.T, s *Session, name string, length int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		d, _, err := s.protocol.Describe(t.Context(), name, protocol.Wanted{Waiters: true})
		if err != nil || time.Since(begun) > waitMax {
			t.Fatalf("%v, %v", d, err)
		}
		if len(d.GetWaiters()) == length {
			return
		}
	}
}

// link is a way to a server that can be interrupted silently.
type link struct {
	listener net.Listener
	open     sync.RWMutex // locked while it lets nothing pass
	conns    sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener}
	l.conns.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			l.conns.Go(func() { l.relay(from, there) })
			l.conns.Go(func() { l.relay(there, from) })
		}
	})
	t.Cleanup(func() { listener.Close(); l.conns.Wait() })
	return l
}

func (l *link) relay(from, to net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		l.open.RLock()
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		l.open.RUnlock()
		if err != nil {
			return
		}
	}
}

// plainly connects a client that does not learn from its server that there is another way to it.
func plainly(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, protocol.Reconnecting,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// A lease ends with its session, whose end has a status, and another client can have the lock.
func TestSessionExpired(t *testing.T) {
	c, _, _ := start(t)
	s := open(t, c, time.Minute)
	lease := granted(t)(s.Lock(t.Context(), "lock", Data([]byte("me"))))
	if lease.Err() != nil || lease.Left() <= 0 || lease.Token() == 0 {
		t.Fatal(lease.Err(), lease.Left(), lease.Token())
	}
	if err := c.protocol.Invoke(t.Context(), adminpb.Inspect_EndSession_FullMethodName,
		&adminpb.EndSessionRequest{Path: node, Session: s.ID()}, new(adminpb.EndSessionResponse)); err != nil {
		t.Fatal(err)
	}
	await(t, lease.Done())
	await(t, s.Done())
	wantIs(t, lease.Err(), ErrLost, ErrSessionExpired)
	wantIs(t, lease.Release(t.Context()), ErrLost)
	wantIs(t, s.Close(t.Context()), ErrLost)
	if lease.Left() > 0 {
		t.Error("time left: ", lease.Left())
	}
	_, err := s.Lock(t.Context(), "another")
	wantIs(t, err, ErrSessionExpired)
	granted(t)(open(t, c, time.Minute).Lock(t.Context(), "lock"))
}

// A lease ends when its server has gone, by this machine's clock.
func TestServerGone(t *testing.T) {
	t.Parallel()
	c, _, stop := start(t)
	s := open(t, c, sessionTimeout)
	lease := granted(t)(s.Lock(t.Context(), "lock"))
	stop()
	await(t, lease.Done())
	wantIs(t, lease.Err(), ErrLost, ErrUnanswered)
	wantIs(t, s.Err(), ErrUnanswered)
}

// In a partition that lasts longer than the timeout a lease ends before another client is granted the lock.
func TestPartition(t *testing.T) {
	t.Parallel()
	direct, address, _ := start(t)
	l := newLink(t, address)
	c := connect(t, l.listener.Addr().String())
	c.protocol.Close()
	c.protocol = protocol.New(protocol.Config{Address: l.listener.Addr().String(), Database: "/local", Dial: plainly})
	cut := open(t, c, sessionTimeout)
	lease := granted(t)(cut.Lock(t.Context(), "lock"))
	l.open.Lock()
	next, err := open(t, direct, time.Minute).Lock(t.Context(), "lock")
	left := lease.Left()
	l.open.Unlock()
	if granted(t)(next, err); left > 0 {
		t.Errorf("another client has the lock, and the lease is believed for another %v", left)
	}
	await(t, lease.Done())
	wantIs(t, lease.Err(), ErrLost)
	if next.Token() <= lease.Token() {
		t.Errorf("token %d after %d", next.Token(), lease.Token())
	}
}

// A server is paused for longer than the timeout of one session, for less than that of another one, and for about that
// of a third one. The first lease ends while the server is paused, so before another client is granted its lock, with a
// larger token. The second goes on. Nor is the third believed when another client has its lock, however it ends.
func TestServerPaused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	process := testserver.Launch(t, testserver.Config{Program: os.Args[0],
		Env: append(os.Environ(), serveVariable+"=1")})
	address, err := process.Ready()
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, address)
	if err := c.CreateNode(ctx, node); err != nil {
		t.Fatal(err)
	}
	next := open(t, connect(t, address), time.Minute)
	type succession struct {
		before, after *Lease
		left          time.Duration // of before when after was granted
	}
	take := func(name string, timeout time.Duration) (*Lease, chan succession) {
		before := granted(t)(open(t, c, timeout).Lock(ctx, name))
		taken := make(chan succession, 1)
		go func() {
			after, err := next.Lock(ctx, name)
			left := before.Left()
			if err != nil {
				t.Error(name, err)
			}
			taken <- succession{before, after, left}
		}()
		queued(t, before.session, name, 1)
		return before, taken
	}
	long, longTaken := take("long", sessionTimeout*4/3)
	edge, edgeTaken := take("edge", sessionTimeout/2+lookPause)
	short, shortTaken := take("short", sessionTimeout/2)
	if err := process.Pause(); err != nil {
		t.Fatal(err)
	}
	await(t, short.Done())
	wantIs(t, short.Err(), ErrLost, ErrUnanswered)
	if len(shortTaken)+len(longTaken)+len(edgeTaken) > 0 {
		t.Fatal("a server that is paused has granted a lock")
	}
	if err := process.Resume(); err != nil {
		t.Fatal(err)
	}
	got := <-shortTaken
	if long.Err() != nil || len(longTaken) > 0 {
		t.Errorf("the lease of a session that outlives the pause: %v", long.Err())
	}
	wantIs(t, short.Release(ctx), ErrLost)
	if err := long.Release(ctx); err != nil {
		t.Error(err)
	}
	_ = edge.Release(ctx) // it may be lost
	for _, s := range []succession{got, <-longTaken, <-edgeTaken} {
		if s.after != nil && (s.left > 0 || s.after.Token() <= s.before.Token()) {
			t.Errorf("%s: the next client has token %d after %d, and the lease before it was believed for another %v",
				s.before.name, s.after.Token(), s.before.Token(), s.left)
		}
	}
}

// Refusals keep their status and text, and bad settings name the field.
func TestRefusals(t *testing.T) {
	c, _, _ := start(t)
	ctx := t.Context()
	_, err := c.Open(ctx, "/local/none", SessionConfig{})
	wantIs(t, err, ErrNotFound)
	_, err = c.Open(ctx, node, SessionConfig{Timeout: time.Hour})
	wantIs(t, err, ErrBadRequest)
	s := open(t, c, time.Minute)
	_, err = s.Lock(ctx, "lock", Data(make([]byte, 2<<20)))
	if refusal := new(Refusal); !errors.As(err, &refusal) || refusal.Status != Ydb.StatusIds_BAD_REQUEST ||
		refusal.Text == "" || !strings.Contains(err.Error(), refusal.Text) ||
		!errors.Is(err, &Refusal{Status: refusal.Status, Text: refusal.Text}) ||
		errors.Is(err, &Refusal{Status: refusal.Status, Text: "another"}) || errors.Is(err, ErrNotFound) {
		t.Errorf("got %#v", err)
	}
	if _, err := s.Pool(ctx, "pool", 2); err != nil {
		t.Fatal(err)
	}
	_, err = s.Lock(ctx, "pool")
	wantIs(t, err, ErrPrecondition)
	_, err = s.Lock(ctx, "pool") // a refusal leaves nothing claimed
	wantIs(t, err, ErrPrecondition)
	for wrong, config := range map[string]Config{"Endpoint": {Endpoint: "http://127.0.0.1:2136/local"},
		"no database": {Endpoint: "grpc://127.0.0.1:2136"},
		"User and Token": {Endpoint: "grpcs://127.0.0.1:2136/local", TLS: &tls.Config{}, User: "root",
			Token: func(context.Context) (string, error) { return "", nil }}} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("got %v, want something about %q", err, wrong)
		}
	}
	if got := ErrNotFound.Error(); got != "NOT_FOUND" {
		t.Error(got)
	}
}

// A session has one claim of a name, tokens grow, and each end of a lease has its error.
func TestLease(t *testing.T) {
	c, _, _ := start(t)
	ctx := t.Context()
	sessions := []*Session{open(t, c, time.Minute), open(t, c, time.Minute)}
	var tokens []uint64
	for i := range 6 {
		lease := granted(t)(sessions[i%2].Lock(ctx, "lock"))
		tokens = append(tokens, lease.Token())
		_, err := sessions[i%2].Lock(ctx, "lock")
		wantIs(t, err, ErrHeld)
		_, err = sessions[1-i%2].Lock(ctx, "lock", Wait(0))
		wantIs(t, err, ErrTaken)
		if err := errors.Join(lease.Release(ctx), lease.Release(ctx)); err != nil {
			t.Fatal(err)
		}
		await(t, lease.Done())
		wantIs(t, lease.Err(), ErrReleased)
	}
	if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
		t.Errorf("the tokens are %v", tokens)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	lease := granted(t)(sessions[0].Lock(ctx, "lock"))
	if err := lease.Release(over); err != nil { // confirmed, or under way
		wantIs(t, err, context.Canceled)
	}
	granted(t)(sessions[1].Lock(ctx, "lock"))
	lease = granted(t)(sessions[0].Lock(ctx, "another"))
	if err := sessions[0].Close(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, lease.Done())
	wantIs(t, lease.Err(), ErrClosed)
	wantIs(t, sessions[0].Err(), ErrClosed)
	_, err := sessions[0].Lock(ctx, "lock")
	wantIs(t, err, ErrClosed)
}

// A context that ends removes the wait from the queue, and the session can wait anew.
func TestContextEndsWait(t *testing.T) {
	c, _, _ := start(t)
	holder, waiter := open(t, c, time.Minute), open(t, c, time.Minute)
	lease := granted(t)(holder.Lock(t.Context(), "lock"))
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := waiter.Lock(ctx, "lock")
			result <- err
		}()
		queued(t, holder, "lock", 1)
		cancel()
		wantIs(t, <-result, context.Canceled)
		queued(t, holder, "lock", 0)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	granted(t)(waiter.Lock(t.Context(), "lock"))
}

// A lease ends when its semaphore is deleted by force, and its session goes on.
func TestTakenAway(t *testing.T) {
	c, _, _ := start(t)
	ctx := t.Context()
	s := open(t, c, time.Minute)
	for range 2 { // the name is free again
		pool, err := s.Pool(ctx, "pool", 3)
		if err != nil {
			t.Fatal(err)
		}
		lease := granted(t)(pool.Take(ctx, 2))
		if err := s.protocol.Delete(ctx, "pool", true); err != nil {
			t.Fatal(err)
		}
		await(t, lease.Done())
		wantIs(t, lease.Err(), ErrTakenAway)
		wantIs(t, lease.Release(ctx), ErrTakenAway)
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

// Readers share a lock, and a writer that waits comes before later readers.
func TestRWLock(t *testing.T) {
	c, _, _ := start(t)
	ctx := t.Context()
	locks, sessions := make([]RWLock, 4), make([]*Session, 4)
	for i := range locks {
		sessions[i] = open(t, c, time.Minute)
		locks[i] = sessions[i].RWLock("lock")
	}
	readers := []*Lease{granted(t)(locks[0].RLock(ctx)), granted(t)(locks[1].RLock(ctx))}
	written := make(chan *Lease, 1)
	go func() {
		lease, err := locks[2].Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		written <- lease
	}()
	queued(t, sessions[0], "lock", 1)
	_, err := locks[3].RLock(ctx, Wait(0))
	wantIs(t, err, ErrTaken)
	for _, reader := range readers {
		if err := reader.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	writer := <-written
	_, err = locks[3].RLock(ctx, Wait(0))
	wantIs(t, err, ErrTaken)
	if err := writer.Release(ctx); err != nil {
		t.Fatal(err)
	}
	granted(t)(locks[3].RLock(ctx))
}

// A pool has its size, for all sessions.
func TestPool(t *testing.T) {
	c, _, _ := start(t)
	ctx := t.Context()
	var pools []*Pool
	for range 3 {
		pool, err := open(t, c, time.Minute).Pool(ctx, "pool", 3)
		if err != nil {
			t.Fatal(err)
		}
		pools = append(pools, pool)
	}
	first := granted(t)(pools[0].Take(ctx, 2))
	granted(t)(pools[1].Take(ctx, 1))
	_, err := pools[2].Take(ctx, 1, Wait(0))
	wantIs(t, err, ErrTaken)
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	granted(t)(pools[2].Take(ctx, 2))
	for _, places := range []uint64{0, 4} {
		if _, err := pools[0].Take(ctx, places); err == nil || !strings.Contains(err.Error(), "from 1 to 3") {
			t.Errorf("%d places: %v", places, err)
		}
	}
	if _, err := open(t, c, time.Minute).Pool(ctx, "pool", 4); err == nil ||
		!strings.Contains(err.Error(), "has 3 places, not 4") {
		t.Error(err)
	}
}

// One candidate leads at a time, and an observer sees each.
func TestElection(t *testing.T) {
	c, _, _ := start(t)
	ctx := t.Context()
	candidates := []Election{open(t, c, time.Minute).Election("office"), open(t, c, time.Minute).Election("office")}
	if leader, err := candidates[0].Leader(ctx); leader != nil || err != nil {
		t.Fatal(leader, err)
	}
	seen, enough := make(chan *Leader), errors.New("enough")
	observed := make(chan error, 1)
	go func() {
		observed <- candidates[0].Observe(ctx, func(l *Leader) error {
			seen <- l
			if l != nil && string(l.Data) == "second" {
				return enough
			}
			return nil
		})
	}()
	if l := <-seen; l != nil {
		t.Fatalf("%+v leads", l)
	}
	first := granted(t)(candidates[0].Campaign(ctx, []byte("first")))
	if l := <-seen; string(l.Data) != "first" || l.Token != first.Token() || l.Session != candidates[0].session.ID() {
		t.Fatalf("%+v leads", l)
	}
	_, err := candidates[1].Campaign(ctx, nil, Wait(0))
	wantIs(t, err, ErrTaken)
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	second := granted(t)(candidates[1].Campaign(ctx, []byte("second")))
	l := <-seen
	for l == nil { // between the two
		l = <-seen
	}
	if string(l.Data) != "second" || l.Token <= first.Token() {
		t.Errorf("%+v leads", l)
	}
	wantIs(t, <-observed, enough)
	if now, err := candidates[0].Leader(ctx); err != nil || now.Token != second.Token() {
		t.Error(now, err)
	}
}
