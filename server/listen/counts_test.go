package listen

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"google.golang.org/grpc/peer"
)

// addressConn is a connection from an address without a port, or by the administrator's socket without one.
type addressConn struct {
	nopConn
	address string
}

func (c addressConn) RemoteAddr() net.Addr {
	if c.address == "" {
		return &net.UnixAddr{Name: "@"}
	}
	return addressText(c.address)
}

// addressText is an address that is its own text.
type addressText string

func (a addressText) Network() string { return "test" }
func (a addressText) String() string  { return string(a) }

// callFrom begins a call from an address, or by the administrator's socket without one, nil if it is refused.
func (c *Connections) callFrom(t *testing.T, kind Kind, address string) *Call {
	t.Helper()
	conn := c.meter(nopConn{}, c.accept(addressConn{address: address}))
	ctx, err := c.begin(peer.NewContext(t.Context(), &peer.Peer{AuthInfo: callerInfo{conn: conn}}), kind, 0)
	if err != nil {
		return nil
	}
	return CallOf(ctx)
}

// TestOwnerHasPlaces has known callers take all places that they can get: the administrator's socket has some.
func TestOwnerHasPlaces(t *testing.T) {
	const room = 32
	c := testConnections(Limits{Calls: room, ProofWanted: true, ReceivedBytes: 1})
	taken := 0
	for user := range 2 * room {
		if call := c.callFrom(t, Brief, fmt.Sprint(user)); call != nil {
			if err := call.Identify(fmt.Sprint(user), nil); err != nil {
				t.Fatal(err)
			}
			taken++
		}
	}
	if taken != room-room/16 {
		t.Errorf("others have %d places", taken)
	}
	for range room / 16 {
		if call := c.callFrom(t, Brief, ""); call == nil || call.Identify("", nil) != nil {
			t.Error("the owner is refused")
		}
	}
}

// TestWhoseCallMakesRoom has unknown callers hold calls whose requests do not come, as many as they may: the
// oldest of the caller's own makes room, else that of the caller who has the most, and none whose request has
// come.
func TestWhoseCallMakesRoom(t *testing.T) {
	const room = 64 // 16 of them for unknown callers, of which the first has eight, and so on
	c := testConnections(Limits{Calls: room, ProofWanted: true, ReceivedBytes: 1})
	var evicted []string
	begin := func(address, name string) *Call {
		t.Helper()
		call := c.callFrom(t, Brief, address)
		if call == nil {
			t.Fatalf("%s does not arrive", name)
		}
		if call.Identify("", func() { evicted = append(evicted, name) }) != nil {
			return nil
		}
		return call
	}
	var all []*Call
	for _, address := range []string{"a", "b", "c", "d", "e"} {
		for i := range []int{8, 4, 2, 1, 1}[address[0]-'a'] {
			all = append(all, begin(address, fmt.Sprint(address, i)))
		}
	}
	begin("b", "b4")
	begin("f", "f0")
	all[1].Expected() // the request of a1 has come
	begin("a", "a8")
	if want := []string{"b0", "a0", "a2"}; !slices.Equal(evicted, want) {
		t.Errorf("%v are evicted, want %v", evicted, want)
	}
	for _, call := range all {
		call.Expected()
	}
	if evicted = nil; begin("g", "g0") == nil || len(evicted) != 1 {
		t.Errorf("%v are evicted for g", evicted)
	}
	if got := c.CallsUnderWay(); got != room/4 {
		t.Errorf("%d calls are under way", got)
	}
}

// TestFloodMakesRoomForItself makes a connection begin call after call without a request: the call of another
// connection from the same address, which began first, is not evicted.
func TestFloodMakesRoomForItself(t *testing.T) {
	const room = 64
	c := testConnections(Limits{Calls: room, ProofWanted: true, ReceivedBytes: 1})
	evicted := make(map[string]int)
	begin := func(call *Call, name string) {
		t.Helper()
		if err := call.Identify("", func() { evicted[name]++ }); err != nil {
			t.Fatal(name, err)
		}
	}
	begin(c.callFrom(t, Brief, "192.0.2.1"), "login")
	first := c.callFrom(t, Brief, "192.0.2.1")
	begin(first, "flood")
	on := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: callerInfo{conn: first.conn}})
	for range 2 * room {
		ctx, err := c.begin(on, Brief, 0)
		if err != nil {
			t.Fatal(err)
		}
		begin(CallOf(ctx), "flood")
	}
	if evicted["login"] != 0 || evicted["flood"] == 0 {
		t.Errorf("evicted: %v", evicted)
	}
}

// TestFloodWhoseEndsAreNotWritten makes a connection begin as many calls as unknown callers may, without their ends
// being written: a call on another connection from the same address takes the place of one, and that connection is
// closed.
func TestFloodWhoseEndsAreNotWritten(t *testing.T) {
	const room = 64
	c := testConnections(Limits{Calls: room, ProofWanted: true, ReceivedBytes: 1})
	flood := c.meter(nopConn{}, c.accept(addressConn{address: "192.0.2.1"}))
	for i := range uint32(room / 4 / 2) {
		flood.header = 2*i + 1
		ctx, err := c.begin(peer.NewContext(t.Context(), &peer.Peer{AuthInfo: callerInfo{conn: flood}}), Brief, 0)
		if err != nil {
			t.Fatal(err)
		}
		call := CallOf(ctx)
		if err := call.Identify("", nil); err != nil {
			t.Fatal(err)
		}
		call.Expected()
		call.end()
	}
	if call := c.callFrom(t, Brief, "192.0.2.1"); call == nil || call.Identify("", nil) != nil {
		t.Error("a call on another connection is refused")
	}
	if got := c.Evicted(); got != 1 {
		t.Errorf("%d connections have made room", got)
	}
}

// TestArrivingCallsOfAFlood has a user flood a server from the address of everybody else: what arrives on
// the user's connection counts as the user's before it is authenticated, and what was refused does not count.
func TestArrivingCallsOfAFlood(t *testing.T) {
	const room = 64
	c := testConnections(Limits{Calls: room, ProofWanted: true, ReceivedBytes: 1})
	first := c.callFrom(t, Brief, "192.0.2.1")
	if err := first.Identify("bob", nil); err != nil {
		t.Fatal(err)
	}
	on := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: callerInfo{conn: first.conn}})
	for range room / 2 {
		_, _ = c.begin(on, Brief, 0)
	}
	for range room {
		if call := c.callFrom(t, Brief, "192.0.2.1"); call == nil {
			t.Fatal("a call does not arrive")
		} else if call.Identify("bob", nil) == nil {
			t.Fatal("bob has more than half")
		}
	}
	if call := c.callFrom(t, Brief, "192.0.2.1"); call == nil || call.Identify("alice", nil) != nil {
		t.Error("alice is refused")
	}
}

// TestConnectionsArriveAlike floods a server with calls that are not authenticated yet, on one connection: a call on
// another one from the same address arrives.
func TestConnectionsArriveAlike(t *testing.T) {
	const room = 64
	c := testConnections(Limits{Calls: room, ProofWanted: true, ReceivedBytes: 1})
	for i, calls := range []int{2 * room, 1} {
		conn := c.meter(nopConn{}, c.accept(&placeConn{from: fmt.Sprint("192.0.2.1:", 1+i)}))
		var err error
		for range calls {
			_, err = c.begin(peer.NewContext(t.Context(), &peer.Peer{AuthInfo: callerInfo{conn: conn}}), Brief, 0)
		}
		if (err != nil) != (i == 0) {
			t.Errorf("the last of %d calls on connection %d: %v", calls, i, err)
		}
	}
}

// TestWhoKeepsMost has users and a stranger keep bytes of messages, more than there is room for: of the subject
// that keeps the most a connection is closed, however little each keeps, and the stranger's first.
func TestWhoKeepsMost(t *testing.T) {
	const room = 400
	c := testConnections(Limits{ReceivedBytes: room, ProofWanted: true, Calls: 100})
	var open []*meteredConn
	var closed []string
	keep := func(user string, bytes int) {
		t.Helper()
		call := c.callFrom(t, Brief, "192.0.2.1")
		if err := call.Identify(user, func() {}); err != nil {
			t.Fatal(err)
		}
		conn := call.conn
		conn.receiveAlone(conn.header, envelope(false, bytes-prefixBytes))
		open = append(open, conn)
		open = slices.DeleteFunc(open, func(of *meteredConn) bool {
			if of.closed {
				closed = append(closed, of.subject.Name)
			}
			return of.closed
		})
	}
	keep("alice", 100)
	for range 7 {
		keep("bob", 40)
	}
	keep("", 90) // together too much
	keep("carol", 50)
	keep("", 90)
	keep("", 30) // too much of strangers
	if want := []string{"192.0.2.1", "bob", "192.0.2.1", "192.0.2.1"}; !slices.Equal(closed, want) {
		t.Errorf("connections of %v are closed, want %v", closed, want)
	}
}
