package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cuttable is the network between the servers of a test. One of them can be cut off: the others notice at
// once, the server itself only sees that nothing comes any more.
type cuttable struct {
	mutex sync.Mutex
	names map[string]string // of servers, by peer address
	off   string            // the server that is cut off
	conns map[*cuttableConn]bool
}

// cuttableConn is a connection of one server to another.
type cuttableConn struct {
	net.Conn
	network  *cuttable
	from, to string
	broken   chan struct{} // closed when it does not work any more
	known    chan struct{} // closed when the one who made the connection may notice
	once     sync.Once
}

var errCut = errors.New("cut off")

// dialer is raftstore.Cluster.Dial of one server.
func (c *cuttable) dialer(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		c.mutex.Lock()
		to := c.names[address]
		cut := c.off != "" && (from == c.off || to == c.off)
		c.mutex.Unlock()
		if cut {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		below, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		conn := &cuttableConn{Conn: below, network: c, from: from, to: to, broken: make(chan struct{}),
			known: make(chan struct{})}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.conns[conn] = true
		return conn, nil
	}
}

// cut cuts a server off.
func (c *cuttable) cut(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.off = name
	for conn := range c.conns {
		switch name {
		case conn.from: // the other end sees it closed
			close(conn.broken)
			_ = conn.Conn.Close()
		case conn.to: // the other end sees nothing
			close(conn.broken)
			conn.tell()
			_ = conn.SetDeadline(time.Now())
		}
	}
}

// heal lets the server reach the others again, over new connections.
func (c *cuttable) heal() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for conn := range c.conns {
		if conn.from == c.off || conn.to == c.off {
			conn.tell()
			_ = conn.Conn.Close()
			delete(c.conns, conn)
		}
	}
	c.off = ""
}

func (c *cuttableConn) tell() { c.once.Do(func() { close(c.known) }) }

// fate is the error of an operation: nobody notices before it is time that the connection is cut.
func (c *cuttableConn) fate(err error) error {
	select {
	case <-c.broken:
		<-c.known
		return errCut
	default:
		return err
	}
}

// Read implements net.Conn.
func (c *cuttableConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		n, err = 0, c.fate(err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *cuttableConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		n, err = 0, c.fate(err)
	}
	return n, err
}

// Close implements net.Conn. The other end of a cut connection does not hear of it before the cut is healed.
func (c *cuttableConn) Close() error {
	c.tell()
	select {
	case <-c.broken:
		return nil
	default:
	}
	c.network.mutex.Lock()
	delete(c.network.conns, c)
	c.network.mutex.Unlock()
	return c.Conn.Close()
}

func startCuttable(t *testing.T) (*testCluster, *cuttable) {
	t.Helper()
	return startCuttableWith(t, func(*Config) {})
}

func startCuttableWith(t *testing.T, change func(*Config)) (*testCluster, *cuttable) {
	t.Helper()
	network := &cuttable{names: make(map[string]string), conns: make(map[*cuttableConn]bool)}
	c := newCluster(t, 3, func(config *Config) {
		inRealTime(config)
		config.Cluster.Dial = network.dialer(config.Cluster.Name)
		change(config)
	})
	for name, address := range c.initial {
		network.names[address] = name
	}
	c.startAll()
	t.Cleanup(network.heal)
	return c, network
}

// diary records events in their order.
type diary struct {
	mutex sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if n := len(d.lines); n == 0 || d.lines[n-1] != line {
		d.lines = append(d.lines, line)
	}
}

// live is a client that answers pings and pings itself; it writes down every sign that its session lives.
func (d *diary) live(stream sessionClient) {
	for {
		m, err := stream.Recv()
		switch {
		case err != nil || m.GetFailure() != nil:
			d.write("the stream ends")
			return
		case m.GetPing() != nil:
			_ = stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
				Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
		case m.GetPong() != nil:
			_ = stream.Send(clientPing())
		}
		d.write("alive")
	}
}

func clientPing() *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 1}}}
}

// TestCutOffServerFallsSilent cuts a server off whose client holds a lock, the leader or another one. The
// client hears nothing any more once the lock has gone to another client: its session has ended, and its server fell
// silent because it could not know. When the server is back the client is notified.
func TestCutOffServerFallsSilent(t *testing.T) {
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprint("leads ", leads), func(t *testing.T) { cutOffServerFallsSilent(t, leads) })
	}
}

// contend makes a session ask for the lock, and returns its stream once enough accepts a result; start then names the
// session. On a busy machine the servers may have no leader for longer than the grace period; then the stream ends,
// and there is another one, of the same session if it is not over. Without a stream it begins with one.
func (c *testCluster) contend(i int, stream sessionClient, start *Ydb_Coordination.SessionRequest_SessionStart,
	enough func(*Ydb_Coordination.SessionResponse_AcquireSemaphoreResult, bool) bool) sessionClient {
	c.t.Helper()
	for {
		if stream == nil {
			stream = openTest(c.t, c.t.Context(), c.conns[i], start)
			send(c.t, stream, wait(1, "lock"))
		}
		m, err := stream.Recv()
		switch {
		case status.Code(err) == codes.Unavailable, errors.Is(err, io.EOF):
			stream = nil
		case err != nil:
			c.t.Fatal(err)
		case m.GetPing() != nil:
			_ = stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
				Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
		case m.GetSessionStarted() != nil:
			start.SessionId = m.GetSessionStarted().GetSessionId()
		case enough(m.GetAcquireSemaphoreResult(), m.GetAcquireSemaphorePending() != nil):
			return stream
		case m.GetFailure() != nil:
			switch m.GetFailure().GetStatus() {
			case Ydb.StatusIds_UNAVAILABLE:
			case Ydb.StatusIds_BAD_SESSION, Ydb.StatusIds_SESSION_EXPIRED:
				start.SessionId = 0
			default:
				c.t.Fatalf("got %v", m)
			}
		case m.GetAcquireSemaphorePending() == nil:
			c.t.Fatalf("got %v", m)
		}
	}
}

// Of the lock.
func granted(result *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult, _ bool) bool {
	return result.GetAcquired()
}

func pending(_ *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult, is bool) bool { return is }

func cutOffServerFallsSilent(t *testing.T, leads bool) {
	c, network := startCuttable(t)
	leader, follower := c.leader()
	off, other := follower, leader
	if leads {
		off, other = leader, follower
	}
	created, err := Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[other]).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{
			Path: testNode, Config: &Ydb_Coordination.Config{SelfCheckPeriodMillis: 500,
				SessionGracePeriodMillis: 1500}})
	if err != nil || created.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %v, %v", created, err)
	}
	holder := c.contend(off, nil, start(3_000), granted)
	waits := start(600_000)
	waiter := c.contend(other, nil, waits, pending)
	var events diary
	send(t, holder, clientPing())
	var client sync.WaitGroup
	client.Go(func() { events.live(holder) })
	network.cut(fmt.Sprint("server-", off))
	c.contend(other, waiter, waits, granted)
	events.write("the lock is somebody else's")
	network.heal()
	client.Wait()
	last := events.lines[len(events.lines)-1]
	for i, line := range events.lines {
		if line == "the lock is somebody else's" && i+1 < len(events.lines) && events.lines[i+1] == "alive" ||
			last == "alive" {
			t.Errorf("leads %v: %q", leads, events.lines)
		}
	}
}
