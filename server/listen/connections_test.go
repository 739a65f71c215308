package listen

import (
	"cmp"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// placeConn is a connection from an address that notes that it is closed.
type placeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *placeConn) RemoteAddr() net.Addr {
	at, _ := net.ResolveTCPAddr("tcp", c.from)
	return at
}

func (c *placeConn) Close() error { c.closed = true; return nil }

// testConnections have no limits of connections but those that are given.
func testConnections(limits Limits) *Connections {
	limits.Connections = cmp.Or(limits.Connections, 1000)
	limits.Strangers = cmp.Or(limits.Strangers, 1000)
	limits.ConnectionsPerAddress = cmp.Or(limits.ConnectionsPerAddress, 1000)
	return NewConnections(limits, slog.New(slog.DiscardHandler))
}

// onlyListener accepts one connection.
type onlyListener struct {
	net.Listener
	conn net.Conn // nil: no other one
}

func (l *onlyListener) Accept() (conn net.Conn, err error) {
	if conn, l.conn = l.conn, nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

// accept returns the connection if it is accepted, nil otherwise.
func (c *Connections) accept(conn net.Conn) *connection {
	accepted, err := c.Count(&onlyListener{conn: conn}).Accept()
	if err != nil {
		return nil
	}
	return accepted.(*connection)
}

// emptyListener has no descriptor for anybody.
type emptyListener struct{ net.Listener }

func (emptyListener) Accept() (net.Conn, error) {
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

// TestNoDescriptorForAConnection shows that somebody makes room where the process has no descriptor left, and
// that gRPC, which asks for it, takes the error for a temporary one.
func TestNoDescriptorForAConnection(t *testing.T) {
	c := testConnections(Limits{Connections: 100, Strangers: 100})
	place := &placeConn{from: "192.0.2.1:1"}
	c.accept(place)
	_, err := c.Count(emptyListener{}).Accept()
	if temporary, is := err.(interface{ Temporary() bool }); !is || !temporary.Temporary() {
		t.Errorf("got %v", err)
	}
	if !place.closed {
		t.Error("nobody makes room")
	}
}

// TestStrained reaches each limit once: it is reported for a minute.
func TestStrained(t *testing.T) {
	now := time.Now()
	c := NewConnections(Limits{ReceivedBytes: 1}, slog.New(slog.DiscardHandler))
	c.now = func() time.Time { return now }
	if got := c.Strained(); len(got) != 0 {
		t.Errorf("before anything: %v", got)
	}
	c.guard.MakeRoom(nil)
	if _, err := c.begin(t.Context(), Brief, 0); err == nil {
		t.Error("a call is let in")
	}
	now = now.Add(time.Second)
	c.guard.MakeRoom(nil) // which is not said again so soon
	now = now.Add(StrainedFor - time.Second)
	if got := c.Strained(); len(got) != 1 || !strings.Contains(got[0], "connections") {
		t.Errorf("after a minute: %v", got)
	}
	conn := c.meter(nopConn{}, nil)
	call := &Call{set: c, conn: conn, stream: 1}
	call.attach()
	conn.receiveAlone(1, make([]byte, 9))
	if got := c.Strained(); len(got) != 2 {
		t.Errorf("when too much is received: %v", got)
	}
	now = now.Add(StrainedFor)
	if got := c.Strained(); len(got) != 0 {
		t.Errorf("in the end: %v", got)
	}
}

// nopConn is a connection that can be closed.
type nopConn struct{ net.Conn }

func (nopConn) Close() error         { return nil }
func (nopConn) RemoteAddr() net.Addr { return new(net.TCPAddr) }

// TestFiguresOfHeldConnections reads what monitoring wants to know while every connection is held.
func TestFiguresOfHeldConnections(t *testing.T) {
	c := NewConnections(Limits{ReceivedBytes: 1 << 20, Calls: 9},
		slog.New(slog.DiscardHandler))
	for range 3 {
		conn := c.meter(nopConn{}, nil)
		if _, err := c.begin(t.Context(), Brief, 0); err != nil {
			t.Fatal(err)
		}
		(&Call{set: c, conn: conn, stream: 1}).attach()
		conn.receiveAlone(1, envelope(false, 3))
		conn.mutex.Lock()
		defer conn.mutex.Unlock()
	}
	if c.CallsUnderWay() != 3 || c.Received() != 3*(prefixBytes+3) ||
		c.Open()+int(c.Refused()+c.Evicted()+c.Cut()+c.CutForReceiving()+c.RefusedCalls()) != 0 {
		t.Errorf("%d calls, %d bytes", c.CallsUnderWay(), c.Received())
	}
}
