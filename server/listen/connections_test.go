package listen

import (
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/server/share"
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

func testConnections(limits Limits) *Connections {
	if limits.ConnectionsPerAddress == 0 {
		limits.ConnectionsPerAddress = 100
	}
	return NewConnections(limits, slog.New(slog.DiscardHandler))
}

func (c *Connections) enterFrom(from string) (*connection, *placeConn) {
	place := &placeConn{from: from}
	conn := &connection{Conn: place, set: c, address: share.Address(place.RemoteAddr())}
	if !c.enter(conn) {
		return nil, place
	}
	return conn, place
}

// TestOwnerIsLetIn comes by the administrator's socket to a server that has no room for anybody else.
func TestOwnerIsLetIn(t *testing.T) {
	c := testConnections(Limits{Connections: 1, Strangers: 1})
	other, place := c.enterFrom("192.0.2.1:1")
	c.prove(other)
	c.count(other, 1)
	if refused, _ := c.enterFrom("192.0.2.2:1"); refused != nil {
		t.Fatal("there is room")
	}
	owner := &connection{Conn: &placeConn{}, set: c, owner: true}
	if !c.enter(owner) || place.closed {
		t.Errorf("the owner is not let in, or somebody else had to go: %v", place.closed)
	}
	c.leave(owner)
	if c.Open() != 1 {
		t.Errorf("%d connections are open", c.Open())
	}
}

// TestWhoMakesRoom fills a set with connections of all kinds and has more come: strangers go first, the
// oldest before the others, then those without a call, and nobody who has one.
func TestWhoMakesRoom(t *testing.T) {
	c := testConnections(Limits{Connections: 6, Strangers: 3})
	var all []*connection
	var places []*placeConn
	enter := func() *connection {
		conn, place := c.enterFrom("192.0.2.1:1")
		all, places = append(all, conn), append(places, place)
		return conn
	}
	closed := func() (which []int) {
		for i, p := range places {
			if p.closed {
				which = append(which, i)
			}
		}
		return which
	}
	for i := range 3 { // 0 and 1 are known, 0 has a call; 2 had one, and is idle since after 1
		c.prove(enter())
		c.count(all[i], 1)
	}
	c.count(all[1], -1)
	c.count(all[2], -1)
	for range 3 {
		enter()
	}
	for _, step := range []struct {
		before func()
		want   []int
	}{
		{nil, []int{3}},    // too many in all, and too many strangers
		{nil, []int{3, 4}}, // the oldest stranger
		// no stranger left: idle for longest
		{func() { c.prove(all[5]); c.prove(all[6]); c.prove(all[7]) }, []int{1, 3, 4}},
		{func() { c.prove(all[8]) }, []int{1, 2, 3, 4}},
		{func() { c.prove(all[9]); c.count(all[5], 1) }, []int{1, 2, 3, 4, 6}},
	} {
		if step.before != nil {
			step.before()
		}
		if enter() == nil {
			t.Fatal("a newcomer is refused")
		}
		if got := closed(); !slices.Equal(got, step.want) {
			t.Fatalf("%v made room, want %v", got, step.want)
		}
	}
	for _, conn := range all {
		if _, in := c.all[conn]; in {
			c.prove(conn)
			if conn.calls == 0 {
				c.count(conn, 1)
			}
		}
	}
	if enter() != nil || c.Refused() != 0 { // the listener counts these
		t.Error("there is room although everybody has a call")
	}
	for _, conn := range all {
		if conn != nil {
			_ = conn.Close()
			_ = conn.Close()
		}
	}
	if len(c.all) != 0 || len(c.open) != 0 || c.idle.Len() != 0 || c.strangers.Len() != 0 {
		t.Errorf("something is left: %v", c)
	}
}

// TestStrangersAtOnce has one stranger more than there may be, where there is room for many connections.
func TestStrangersAtOnce(t *testing.T) {
	c := testConnections(Limits{Connections: 100, Strangers: 2})
	var places []*placeConn
	for range 3 {
		_, place := c.enterFrom("192.0.2.1:1")
		places = append(places, place)
	}
	if !places[0].closed || places[1].closed || places[2].closed || c.Evicted() != 1 {
		t.Error("want the oldest stranger, and nobody else, to make room")
	}
}

// TestAddressesOfANetwork counts connections by what one client can have.
func TestAddressesOfANetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1::/48",
		"[2001:db8:1:2::1]:7":      "2001:db8:1::/48", "[2001:db8:2::1]:7": "2001:db8:2::/48",
		"[fe80::1%eth0]:7": "fe80::/48",
	} {
		at := &placeConn{from: address}
		if got := share.Address(at.RemoteAddr()); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
	c := testConnections(Limits{Connections: 100, Strangers: 100, ConnectionsPerAddress: 2})
	for i, from := range []string{"[2001:db8::1]:1", "[2001:db8:0:1::2]:1", "[2001:db8::3]:1",
		"[2001:db8:1::1]:1"} {
		if conn, _ := c.enterFrom(from); (conn != nil) != (i != 2) {
			t.Errorf("%s: let in %v", from, conn != nil)
		}
	}
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
	_, place := c.enterFrom("192.0.2.1:1")
	_, err := c.Count(emptyListener{}).Accept()
	if temporary, is := err.(interface{ Temporary() bool }); !is || !temporary.Temporary() {
		t.Errorf("got %v", err)
	}
	if !place.closed {
		t.Error("nobody makes room")
	}
}

// TestStrained reaches each limit once: it is told of for a minute.
func TestStrained(t *testing.T) {
	now := time.Now()
	c := NewConnections(Limits{ReceivedBytes: 1}, slog.New(slog.DiscardHandler))
	c.now = func() time.Time { return now }
	if got := c.Strained(); len(got) != 0 {
		t.Errorf("before anything: %v", got)
	}
	c.makeRoom(nil)
	if _, err := c.begin(t.Context(), Brief, 0); err == nil {
		t.Error("a call is let in")
	}
	now = now.Add(time.Second)
	c.makeRoom(nil) // which is not said again so soon
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
