package netguard

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"
)

// place is a connection from an address that notes that it is closed.
type place struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (p *place) RemoteAddr() net.Addr { return p.from }
func (p *place) Close() error         { p.closed = true; return nil }

func tcp(from string) net.Addr {
	at, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		panic(err)
	}
	return at
}

// door is a Guard whose connections come one by one.
type door struct {
	*Guard
	next net.Conn // nil: nobody
	err  error    // of Accept without a next one
	net.Listener
}

func newDoor(limits Limits, hooks Hooks) *door { return &door{Guard: New(limits, hooks), err: io.EOF} }

func (d *door) Accept() (conn net.Conn, err error) {
	if conn, d.next = d.next, nil; conn == nil {
		return nil, d.err
	}
	return conn, nil
}

// come returns the connection if it is accepted, nil otherwise.
func (d *door) come(from net.Addr) (*Conn, *place) {
	p := &place{from: from}
	d.next = p
	conn, err := d.Listen(d, func(c *Conn) net.Conn { return c }).Accept()
	if err != nil {
		return nil, p
	}
	return conn.(*Conn), p
}

func (d *door) comeFrom(from string) (*Conn, *place) { return d.come(tcp(from)) }

// TestOwnerIsLetIn connects by a Unix socket to a server that has no room for anybody else.
func TestOwnerIsLetIn(t *testing.T) {
	d := newDoor(Limits{Open: 1, Unproven: 1}, Hooks{})
	other, otherPlace := d.comeFrom("192.0.2.1:1")
	other.Prove()
	other.Count(1)
	if refused, p := d.comeFrom("192.0.2.2:1"); refused != nil || !p.closed {
		t.Fatal("there is room")
	}
	owner, _ := d.come(&net.UnixAddr{Name: "@"})
	if owner == nil || otherPlace.closed || d.Usage().Unproven != 0 {
		t.Errorf("the owner is not let in, or somebody else had to go: %v", otherPlace.closed)
	}
	_ = owner.Close()
	if d.Usage().Open != 1 {
		t.Errorf("%d connections are open", d.Usage().Open)
	}
}

// TestWhoMakesRoom fills a guard with connections of all kinds and has more come: unproven ones go first, the
// oldest before the others, then those without a call, and none that has one.
func TestWhoMakesRoom(t *testing.T) {
	crowded := 0
	d := newDoor(Limits{Open: 6, Unproven: 3}, Hooks{Crowded: func(Usage, *Conn, error) { crowded++ }})
	var all []*Conn
	var places []*place
	enter := func() *Conn {
		conn, p := d.comeFrom("192.0.2.1:1")
		all, places = append(all, conn), append(places, p)
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
	for i := range 3 { // 0 and 1 are proven, 0 has a call; 2 had one, and is idle since after 1
		enter().Prove()
		all[i].Count(1)
	}
	all[1].Count(-1)
	all[2].Count(-1)
	for range 3 {
		enter()
	}
	for _, step := range []struct {
		before func()
		want   []int
	}{
		{nil, []int{3}},    // too many in all, and too many unproven ones
		{nil, []int{3, 4}}, // the oldest unproven one
		// all are proven: idle for longest
		{func() { all[5].Prove(); all[6].Prove(); all[7].Prove() }, []int{1, 3, 4}},
		{func() { all[8].Prove() }, []int{1, 2, 3, 4}},
		{func() { all[9].Prove(); all[5].Count(1) }, []int{1, 2, 3, 4, 6}},
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
		if conn != nil && !conn.Gone() {
			conn.Prove()
			if conn.calls == 0 {
				conn.Count(1)
			}
		}
	}
	if enter() != nil || d.Refused() != 1 || crowded != 6 {
		t.Errorf("there is room although everybody has a call, or the hook was called %d times", crowded)
	}
	for _, conn := range all {
		if conn != nil {
			_ = conn.Close()
			_ = conn.Close()
		}
	}
	if len(d.all) != 0 || len(d.open) != 0 || d.idle.Len() != 0 || d.unproven.length+len(d.unproven.lines) != 0 {
		t.Errorf("something is left: %v", d.Guard)
	}
}

// TestStrangersAtOnce has one unproven connection more than there may be, where there is room for many.
func TestStrangersAtOnce(t *testing.T) {
	d := newDoor(Limits{Open: 100, Unproven: 2}, Hooks{})
	var places []*place
	for range 3 {
		_, p := d.comeFrom("192.0.2.1:1")
		places = append(places, p)
	}
	if !places[0].closed || places[1].closed || places[2].closed || d.Evicted() != 1 {
		t.Error("want the oldest one, and no other, to make room")
	}
}

// TestFloodMakesRoomForItself has one network connect again and again, after a client elsewhere that has not
// authenticated yet: the client keeps its connection.
func TestFloodMakesRoomForItself(t *testing.T) {
	d := newDoor(Limits{Open: 100, Unproven: 4}, Hooks{})
	_, lone := d.comeFrom("192.0.2.2:1")
	_, local := d.come(&net.UnixAddr{Name: "@"})
	var flood []*place
	for i := range 40 {
		_, p := d.comeFrom(fmt.Sprintf("[2001:db8::%x]:1", i))
		flood = append(flood, p)
	}
	for i, p := range flood {
		if p.closed != (i < len(flood)-3) {
			t.Errorf("connection %d of the flood: closed %v", i, p.closed)
		}
	}
	if lone.closed || local.closed {
		t.Error("the flood closes others' connections")
	}
}

// TestForfeited has the guard full of connections in use: one that forfeits its proof makes room.
func TestForfeited(t *testing.T) {
	var former *Conn
	d := newDoor(Limits{Open: 2, Unproven: 2}, Hooks{Forfeits: func(c *Conn) bool { return c == former }})
	for i := range 2 {
		c, _ := d.comeFrom("192.0.2.1:1")
		c.Prove()
		if c.Count(1); i == 1 {
			former = c
		}
	}
	if c, _ := d.comeFrom("192.0.2.2:1"); c == nil || !former.Gone() {
		t.Error("the forfeited connection does not make room")
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
		if got := Network(tcp(address)); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
	var full []string
	d := newDoor(Limits{Open: 100, Unproven: 100, PerNetwork: 2},
		Hooks{NetworkFull: func(network string) { full = append(full, network) }})
	for i, from := range []string{"[2001:db8::1]:1", "[2001:db8:0:1::2]:1", "[2001:db8::3]:1",
		"[2001:db8:1::1]:1"} {
		if conn, _ := d.comeFrom(from); (conn != nil) != (i != 2) {
			t.Errorf("%s: let in %v", from, conn != nil)
		}
	}
	if !slices.Equal(full, []string{"2001:db8::/48"}) || d.Refused() != 1 {
		t.Errorf("full are %v, refused %d", full, d.Refused())
	}
}

// TestNoDescriptorForAConnection evicts a connection where the process has no descriptor left, whether it is
// unproven or idle, and reports other errors.
func TestNoDescriptorForAConnection(t *testing.T) {
	var reasons, failed []error
	d := newDoor(Limits{Open: 100, Unproven: 100}, Hooks{
		Crowded:      func(_ Usage, _ *Conn, err error) { reasons = append(reasons, err) },
		AcceptFailed: func(err error) { failed = append(failed, err) }})
	idle, idlePlace := d.comeFrom("192.0.2.1:1")
	idle.Prove()
	_, unproven := d.comeFrom("192.0.2.1:1")
	d.err = &net.OpError{Op: "accept", Err: syscall.EMFILE}
	for i, want := range []bool{false, true} {
		if _, err := d.Listen(d, nil).Accept(); err != d.err {
			t.Errorf("got %v", err)
		}
		if !unproven.closed || idlePlace.closed != want {
			t.Errorf("without descriptors, %d: closed %v and %v", i, unproven.closed, idlePlace.closed)
		}
	}
	d.err = net.ErrClosed
	_, _ = d.Listen(d, nil).Accept()
	if len(reasons) != 2 || reasons[0] == nil || !slices.Equal(failed, []error{net.ErrClosed}) {
		t.Errorf("crowded by %v, failed by %v", reasons, failed)
	}
}

// TestCloseSilent closes the connections that have not greeted, and refuses others from then on.
func TestCloseSilent(t *testing.T) {
	d := newDoor(Limits{Open: 9, Unproven: 9}, Hooks{})
	greeted, greetedPlace := d.comeFrom("192.0.2.1:1")
	greeted.Greet()
	silent, silentPlace := d.comeFrom("192.0.2.1:1")
	closed := 0
	silent.OnClose = func() { closed++ }
	d.CloseSilent()
	if !silentPlace.closed || greetedPlace.closed || closed != 1 {
		t.Error("the wrong connection is closed")
	}
	if late, p := d.comeFrom("192.0.2.1:1"); late != nil || !p.closed {
		t.Error("a connection is accepted")
	}
	if d.CloseAll(); !greetedPlace.closed || d.Usage().Open != 0 {
		t.Error("a connection is left")
	}
}

// TestFairQueue compares the queue with a naive one on random input: the first is the oldest connection of a network
// that has the most of them.
func TestFairQueue(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var q fairQueue
	var naive []*Conn
	for step := range 20_000 {
		if len(naive) == 0 || random.IntN(20+len(naive)) < 20 {
			c := &Conn{network: string(rune('a' + random.IntN(6)))}
			q.push(c)
			naive = append(naive, c)
		} else {
			at := random.IntN(len(naive))
			if random.IntN(2) == 0 {
				at = slices.Index(naive, q.first())
			}
			q.remove(naive[at])
			naive = slices.Delete(naive, at, at+1)
		}
		has, most := make(map[string]int), 0
		for _, c := range naive {
			has[c.network]++
			most = max(most, has[c.network])
		}
		first := q.first()
		if q.length != len(naive) || len(q.lines) != len(has) || (first == nil) != (len(naive) == 0) {
			t.Fatalf("seed %d, step %d: %d of %d connections, %d of %d networks", seed, step, q.length, len(naive),
				len(q.lines), len(has))
		}
		if first == nil {
			continue
		}
		oldest := naive[slices.IndexFunc(naive, func(c *Conn) bool { return c.network == first.network })]
		if has[first.network] != most || first != oldest {
			t.Fatalf("seed %d, step %d: the first is of a network with %d of at most %d", seed, step,
				has[first.network], most)
		}
	}
}
