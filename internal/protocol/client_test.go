package protocol

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	node    = "/local/app"
	waitMax = time.Minute // of what a test that passes does not wait for
)

// proxy is a way to a server that can be cut, or fall silent.
type proxy struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	silent *sync.Cond // broadcast when it is no longer
	mute   bool
	conns  []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, to: to}
	p.silent = sync.NewCond(&p.mu)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", p.to)
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, from, there)
			p.mu.Unlock()
			go p.copy(from, there)
			go p.copy(there, from)
		}
	}()
	t.Cleanup(func() { listener.Close(); p.setMute(false); p.cut() })
	return p
}

func (p *proxy) copy(from, to net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		for p.mute {
			p.silent.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				from.Close()
			}
			return
		}
	}
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// setMute lets nothing pass, either way, until it is called again.
func (p *proxy) setMute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
	p.silent.Broadcast()
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond,
			MaxDelay: 50 * time.Millisecond, Multiplier: 2}, MinConnectTimeout: time.Second}))
}

// start starts a server with a node, and makes a client of it.
func start(t *testing.T) (*Client, string) {
	t.Helper()
	s, err := server.Start(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local",
		InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitMax)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c := connect(t, s.Addr().String())
	if err := c.Call(t.Context(), Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName,
		&Ydb_Coordination.CreateNodeRequest{Path: node}, nil); err != nil {
		t.Fatal(err)
	}
	return c, s.Addr().String()
}

func connect(t *testing.T, address string) *Client {
	c := New(Config{Dial: dial, Address: address, Database: "/local"})
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, c *Client, timeout time.Duration) *Session {
	t.Helper()
	s, err := c.Open(t.Context(), SessionConfig{Node: node, Timeout: timeout, Description: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Abandon)
	return s
}

func wantStatus(t *testing.T, err error, want Ydb.StatusIds_StatusCode) {
	t.Helper()
	if StatusOf(err) != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for begun := time.Now(); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > waitMax {
			t.Fatal("waited in vain for ", what)
		}
	}
}

// Every request, its success and the refusals that commands distinguish.
func TestRequests(t *testing.T) {
	c, _ := start(t)
	ctx := t.Context()
	s := open(t, c, 10*time.Second)
	if err := errors.Join(s.Create(ctx, "door", 3, []byte("a\x00b")),
		s.Update(ctx, "door", []byte("new"))); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s.Create(ctx, "door", 3, nil), Ydb.StatusIds_ALREADY_EXISTS)
	wantStatus(t, s.Update(ctx, "none", nil), Ydb.StatusIds_NOT_FOUND)
	if got, err := s.Acquire(ctx, Acquisition{Name: "door", Count: 2, Data: []byte("me")}); !got ||
		err != nil {
		t.Fatal(got, err)
	}
	other := open(t, c, 10*time.Second)
	if got, err := other.Acquire(ctx, Acquisition{Name: "door", Count: 2}); got || err != nil {
		t.Fatal(got, err)
	}
	waits, acquired := make(chan struct{}), make(chan error, 1)
	go func() {
		got, err := other.Acquire(ctx, Acquisition{Name: "door", Count: 3, Wait: Forever,
			Waiting: func() { close(waits) }})
		if !got && err == nil {
			err = errors.New("not acquired")
		}
		acquired <- err
	}()
	<-waits
	d, _, err := s.Describe(ctx, "door", Wanted{Owners: true, Waiters: true})
	if err != nil || string(d.GetData()) != "new" || d.GetOwners()[0].GetSessionId() != s.ID() ||
		string(d.GetOwners()[0].GetData()) != "me" || d.GetWaiters()[0].GetSessionId() != other.ID() {
		t.Fatal(d, err)
	}
	wantStatus(t, s.Delete(ctx, "door", false), Ydb.StatusIds_PRECONDITION_FAILED)
	if released, err := s.Release(ctx, "door"); !released || err != nil {
		t.Fatal(released, err)
	}
	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "door", true); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Describe(ctx, "door", Wanted{})
	wantStatus(t, err, Ydb.StatusIds_NOT_FOUND)
	for _, s := range []*Session{s, other} {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Release(ctx, "door"); !errors.Is(err, ErrLost) {
		t.Errorf("a closed session answers %v", err)
	}
	_, err = c.Open(ctx, SessionConfig{Node: "/local/none", Timeout: time.Second})
	wantStatus(t, err, Ydb.StatusIds_NOT_FOUND)
	_, err = c.Open(ctx, SessionConfig{Node: node, Timeout: time.Hour})
	wantStatus(t, err, Ydb.StatusIds_BAD_REQUEST)
	if _, err := connect(t, "127.0.0.1:1").Open(ctx,
		SessionConfig{Node: node, Timeout: time.Second}); err == nil || ctx.Err() != nil {
		t.Error("a session of nobody's:", err)
	}
}

// A session survives a broken connection: it keeps its id and its lock, and an acquire that waits goes on
// waiting.
func TestSessionComesBack(t *testing.T) {
	c, address := start(t)
	p := newProxy(t, address)
	ctx := t.Context()
	holder := open(t, c, 20*time.Second)
	if got, err := holder.Acquire(ctx, Acquisition{Name: "lock", Count: 1 << 63, Ephemeral: true}); !got ||
		err != nil {
		t.Fatal(got, err)
	}
	cut := open(t, connect(t, p.listener.Addr().String()), 20*time.Second)
	if got, err := cut.Acquire(ctx, Acquisition{Name: "own", Count: 1, Ephemeral: true}); !got || err != nil {
		t.Fatal(got, err)
	}
	waits, acquired := make(chan struct{}, 10), make(chan bool, 1)
	go func() {
		got, _ := cut.Acquire(ctx, Acquisition{Name: "lock", Count: 1 << 63, Ephemeral: true, Wait: Forever,
			Waiting: func() { waits <- struct{}{} }})
		acquired <- got
	}()
	<-waits
	order := queue(t, holder)
	_, changed, err := cut.Describe(ctx, "own", Wanted{WatchOwners: true})
	if err != nil {
		t.Fatal(err)
	}
	p.cut()
	<-changed // no server can notify of changes any more
	<-waits   // again, by the new stream
	if again := queue(t, holder); !slices.Equal(again, order) {
		t.Errorf("the queue was %v and is %v", order, again)
	}
	if got, err := cut.Acquire(ctx, Acquisition{Name: "own", Count: 1, Ephemeral: true}); !got || err != nil {
		t.Error("its lock is gone:", got, err)
	}
	if _, err := holder.Release(ctx, "lock"); err != nil {
		t.Fatal(err)
	}
	if !<-acquired {
		t.Error("not acquired")
	}
	if err := cut.Close(ctx); err != nil {
		t.Error(err)
	}
}

// queue is the order ids of those who wait for the lock.
func queue(t *testing.T, s *Session) (ids []uint64) {
	t.Helper()
	d, _, err := s.Describe(t.Context(), "lock", Wanted{Waiters: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, waiter := range d.GetWaiters() {
		ids = append(ids, waiter.GetOrderId())
	}
	return ids
}

// Left grows with answers and not with messages that the server sends by itself, and runs out before the
// session can have ended at the server; a silent server is given up.
func TestLeft(t *testing.T) {
	c, address := start(t)
	p := newProxy(t, address)
	s := open(t, connect(t, p.listener.Addr().String()), 3*time.Second)
	ctx := t.Context()
	if got, err := s.Acquire(ctx, Acquisition{Name: "lock", Count: 1, Ephemeral: true}); !got || err != nil {
		t.Fatal(got, err)
	}
	alive := func() time.Duration {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.alive
	}
	first := alive()
	waitFor(t, "an answer to a later ping",
		func() bool { return alive() >= first+s.config.Timeout/pingsPerTimeout })
	p.setMute(true)
	watcher := open(t, c, 10*time.Second)
	for {
		d, _, err := watcher.Describe(ctx, "lock", Wanted{Owners: true})
		if StatusOf(err) == Ydb.StatusIds_NOT_FOUND || err == nil && len(d.GetOwners()) == 0 {
			if left := s.Left(); left > 0 {
				t.Errorf("the lock is gone, and the session believes that it has %v left", left)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	p.setMute(false)
	select {
	case <-s.Lost():
	case <-time.After(waitMax):
		t.Fatal("the session does not notice that it has expired")
	}
	wantStatus(t, s.Err(), Ydb.StatusIds_SESSION_EXPIRED)
}

// A session that somebody ends is lost at once, and so is one whose node is dropped.
func TestLost(t *testing.T) {
	c, _ := start(t)
	ctx := t.Context()
	s := open(t, c, time.Minute)
	if err := c.Invoke(ctx, adminpb.Inspect_EndSession_FullMethodName,
		&adminpb.EndSessionRequest{Path: node, Session: s.ID()},
		new(adminpb.EndSessionResponse)); err != nil {
		t.Fatal(err)
	}
	<-s.Lost()
	wantStatus(t, s.Err(), Ydb.StatusIds_SESSION_EXPIRED)
	if s.Left() > 0 {
		t.Error("time left: ", s.Left())
	}
	s = open(t, c, time.Minute)
	if err := c.Call(ctx, Ydb_Coordination_V1.CoordinationService_DropNode_FullMethodName,
		&Ydb_Coordination.DropNodeRequest{Path: node}, nil); err != nil {
		t.Fatal(err)
	}
	<-s.Lost()
	wantStatus(t, s.Err(), Ydb.StatusIds_NOT_FOUND)
}

// What must not be repeated ends with an error of its own when the stream breaks; what is repeated does not.
func TestInterrupted(t *testing.T) {
	_, address := start(t)
	p := newProxy(t, address)
	s := open(t, connect(t, p.listener.Addr().String()), time.Minute)
	p.setMute(true)
	created := make(chan error, 1)
	go func() { created <- s.Create(t.Context(), "door", 1, nil) }()
	waitFor(t, "the request to be under way", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls) == 1
	})
	p.cut()
	p.setMute(false)
	if err := <-created; !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Release(t.Context(), "door"); err != nil {
		t.Error(err)
	}
}

// Watch reports the initial state, each real difference, the end and the beginning, and no change that is only
// apparent.
func TestWatch(t *testing.T) {
	c, address := start(t)
	p := newProxy(t, address)
	ctx := t.Context()
	writer := open(t, c, time.Minute)
	if err := writer.Create(ctx, "config", 1, []byte("1")); err != nil {
		t.Fatal(err)
	}
	watcher, config := connect(t, p.listener.Addr().String()), SessionConfig{Node: node, Timeout: time.Minute}
	told, over := make(chan string), make(chan error, 1)
	watching, stop := context.WithCancel(ctx)
	go func() {
		over <- watcher.Watch(watching, config, "config", Wanted{WatchData: true}, func(d *Description) error {
			if d == nil {
				told <- "gone"
			} else {
				told <- string(d.GetData())
			}
			return nil
		})
	}()
	want := func(data string) {
		t.Helper()
		select {
		case got := <-told:
			if got != data {
				t.Fatalf("told %q, want %q", got, data)
			}
		case <-time.After(waitMax):
			t.Fatalf("not told %q", data)
		}
	}
	want("1")
	p.cut() // a change of nothing
	if got, err := writer.Acquire(ctx, Acquisition{Name: "config", Count: 1}); !got || err != nil {
		t.Fatal(got, err)
	}
	if err := writer.Update(ctx, "config", []byte("2")); err != nil {
		t.Fatal(err)
	}
	want("2")
	if err := writer.Delete(ctx, "config", true); err != nil {
		t.Fatal(err)
	}
	want("gone")
	if err := writer.Create(ctx, "config", 1, []byte("3")); err != nil {
		t.Fatal(err)
	}
	want("3")
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A session has a bounded number of requests that wait, and refuses the next at once.
func TestCallsAtOnce(t *testing.T) {
	c, address := start(t)
	holder := open(t, c, time.Minute)
	if got, err := holder.Acquire(t.Context(),
		Acquisition{Name: "lock", Count: 1 << 63, Ephemeral: true}); !got || err != nil {
		t.Fatal(got, err)
	}
	p := newProxy(t, address)
	s := open(t, connect(t, p.listener.Addr().String()), time.Minute)
	p.setMute(true)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range callsMost {
		waiting.Go(func() { _, _ = s.Release(ctx, "lock") })
	}
	waitFor(t, "all of them to be under way", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls) == callsMost
	})
	if _, err := s.Release(ctx, "lock"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
	cancel()
	waiting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 0 {
		t.Errorf("%d are left", len(s.calls))
	}
}

// A stream whose server does not read is given up when too much waits to be sent.
func TestServerThatDoesNotRead(t *testing.T) {
	ctx, cut := context.WithCancelCause(t.Context())
	a := &attachment{outbox: make(chan *toServer, outboxMost), cut: cut}
	for range outboxMost {
		a.send(stopRequest)
	}
	if ctx.Err() != nil {
		t.Error("it is given up too early")
	}
	a.send(stopRequest)
	if !errors.Is(context.Cause(ctx), ErrSilent) {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}

// manyServers answers discovery with more servers than a client has a use for, some of the other kind, and
// itself twice.
type manyServers struct {
	Ydb_Discovery_V1.UnimplementedDiscoveryServiceServer
}

func (manyServers) ListEndpoints(context.Context,
	*Ydb_Discovery.ListEndpointsRequest) (*Ydb_Discovery.ListEndpointsResponse, error) {
	list := &Ydb_Discovery.ListEndpointsResult{}
	for i := range uint32(2 * serversMax) {
		list.Endpoints = append(list.Endpoints,
			&Ydb_Discovery.EndpointInfo{Address: "server", Port: 1 + i/2, Ssl: i%8 == 0})
	}
	result, err := anypb.New(list)
	return &Ydb_Discovery.ListEndpointsResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_SUCCESS, Result: result}}, err
}

// Of the servers that discovery names a bounded number is learnt, each once and of the right kind, and all
// are tried in turn.
func TestServersLearnt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	Ydb_Discovery_V1.RegisterDiscoveryServiceServer(s, manyServers{})
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	c := connect(t, listener.Addr().String())
	conn, err := c.Conn()
	if err != nil {
		t.Fatal(err)
	}
	c.discover(t.Context(), conn)
	if c.servers() != serversMax {
		t.Errorf("%d servers are known, want %d", c.servers(), serversMax)
	}
	tried := map[string]bool{}
	address := c.config.Address
	for range c.servers() {
		tried[address] = true
		address = c.following(address)
	}
	if len(tried) != serversMax || address != c.config.Address {
		t.Errorf("%d are tried, then %s", len(tried), address)
	}
}

// A session is proved alive as of the sending of a request that was answered, not as of the arrival of the answer or of
// messages that the server sends by itself.
func TestWhatProvesLife(t *testing.T) {
	s := &Session{watches: map[uint64]chan struct{}{}, alive: time.Second}
	a := &attachment{outbox: make(chan *toServer, outboxMost), cut: func(error) { t.Error("cut") },
		pings: []ping{{id: 7, sent: 2 * time.Second}, {id: 8, sent: 5 * time.Second}}}
	s.calls = []*call{{id: 20, sent: 3 * time.Second, reply: make(chan reply, 1)},
		{id: 21, sent: 6 * time.Second, reply: make(chan reply, 1)}}
	pong := func(id uint64) *fromServer {
		return &fromServer{Response: &Ydb_Coordination.SessionResponse_Pong{
			Pong: &Ydb_Coordination.SessionResponse_PingPong{Opaque: id}}}
	}
	for _, step := range []struct {
		what string
		m    *fromServer
		want time.Duration
	}{
		{"a ping of the server's",
			&fromServer{Response: &Ydb_Coordination.SessionResponse_Ping{
				Ping: &Ydb_Coordination.SessionResponse_PingPong{Opaque: 7}}}, time.Second},
		{"a pong to nothing", pong(6), time.Second},
		{"a change",
			&fromServer{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_{
				DescribeSemaphoreChanged: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged{ReqId: 20}}},
			time.Second},
		{"a pong", pong(7), 2 * time.Second},
		{"a pending",
			&fromServer{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending_{
				AcquireSemaphorePending: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending{ReqId: 20}}},
			3 * time.Second},
		{"a later pong", pong(8), 5 * time.Second},
		{"a result of before",
			&fromServer{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_{
				AcquireSemaphoreResult: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult{ReqId: 20}}},
			5 * time.Second},
		{"a result", &fromServer{Response: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_{
			ReleaseSemaphoreResult: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult{ReqId: 21}}},
			6 * time.Second},
		{"a pong again", pong(8), 6 * time.Second},
	} {
		if err := s.handle(a, step.m); err != nil || s.alive != step.want {
			t.Errorf("after %s it was alive at %v, want %v (%v)", step.what, s.alive, step.want, err)
		}
	}
}

// A session that its client leaves lives on, and another client with its key can continue it. Without the key it
// cannot.
func TestKept(t *testing.T) {
	c, _ := start(t)
	ctx := t.Context()
	s := open(t, c, time.Minute)
	if got, err := s.Acquire(ctx, Acquisition{Name: "lock", Count: 1 << 63, Ephemeral: true}); !got ||
		err != nil {
		t.Fatal(got, err)
	}
	s.Abandon()
	kept := SessionConfig{Node: node, Timeout: time.Minute, ID: s.ID(), Key: s.Key()}
	for range 2 { // each takes it from the one before
		again, err := c.Open(ctx, kept)
		if err != nil {
			t.Fatal(err)
		}
		if again.ID() != s.ID() {
			t.Errorf("session %d, want %d", again.ID(), s.ID())
		}
		again.Abandon()
	}
	for _, wrong := range []struct {
		config SessionConfig
		want   Ydb.StatusIds_StatusCode
	}{
		{SessionConfig{Node: node, Timeout: time.Minute, ID: s.ID(), Key: []byte("another")},
			Ydb.StatusIds_BAD_SESSION},
		{SessionConfig{Node: node, Timeout: time.Minute, ID: s.ID() + 1, Key: s.Key()},
			Ydb.StatusIds_SESSION_EXPIRED},
	} {
		_, err := c.Open(ctx, wrong.config)
		wantStatus(t, err, wrong.want)
	}
	again, err := c.Open(ctx, kept)
	if err != nil {
		t.Fatal(err)
	}
	if released, err := again.Release(ctx, "lock"); !released || err != nil {
		t.Error(released, err)
	}
	if err := again.Close(ctx); err != nil {
		t.Error(err)
	}
	_, err = c.Open(ctx, kept)
	wantStatus(t, err, Ydb.StatusIds_SESSION_EXPIRED)
}
