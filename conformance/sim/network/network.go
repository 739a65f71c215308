// Package network is a network in memory, of hosts that dial and listen. Its connections behave like TCP: bytes in
// order, delayed, held up by a cut, throttled, reset, or dead without either end noticing. Everything that it does by
// itself it does as the world's node, so that no frozen process holds its lock or the bytes of others.
package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/conformance/sim/trace"
)

// Delays bounds the time that a segment takes: evenly between Min and Max, and a share of TailShare up to Tail.
type Delays struct {
	Min, Max, Tail time.Duration
	TailShare      float64
}

// Network connects hosts. Faults last until they are taken back; those of one kind add up.
type Network struct {
	trace  *trace.Trace
	delays Delays

	mutex     sync.Mutex
	chance    *rand.Rand
	listeners map[string]*listener // by address
	links     map[route]*link
	conns     []*Conn // the dialing ends of those that may still carry bytes
	ports     int
	Segments  int // sent so far
}

// route is a direction between two hosts.
type route struct{ from, to string }

// link holds the faults of a route.
type link struct {
	cuts      int
	extra     time.Duration
	perSecond int64     // bytes; 0: unlimited
	busy      time.Time // until when the bytes so far take that pace
}

// New returns a network without faults.
func New(t *trace.Trace, chance *rand.Rand, d Delays) *Network {
	if d.Max == 0 {
		d.Min, d.Max = 50*time.Microsecond, time.Millisecond
	}
	return &Network{trace: t, chance: chance, delays: d, listeners: map[string]*listener{}, links: map[route]*link{},
		ports: 40000}
}

// do runs f as the world, with the lock held.
func (n *Network) do(f func()) {
	rt.As(rt.World, func() {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		f()
	})
}

func (n *Network) link(from, to string) *link {
	l := n.links[route{from, to}]
	if l == nil {
		l = &link{}
		n.links[route{from, to}] = l
	}
	return l
}

func (n *Network) delay() time.Duration {
	d := n.delays.Min + time.Duration(n.chance.Int64N(int64(n.delays.Max-n.delays.Min)+1))
	if n.delays.TailShare > 0 && n.chance.Float64() < n.delays.TailShare {
		d += time.Duration(n.chance.Int64N(int64(n.delays.Tail) + 1))
	}
	return d
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // addresses are the simulation's own
	}
	return host
}

func tcpAddr(address string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", address) // a literal: nobody is asked
	if err != nil {
		panic(err)
	}
	return a
}

// listener accepts connections. As in a kernel, they are made while the process stands still.
type listener struct {
	network *Network
	address string
	accept  chan *Conn
	closed  chan struct{}
	once    sync.Once
}

// Listen listens on an address.
func (n *Network) Listen(address string) (net.Listener, error) {
	l := &listener{network: n, address: address, accept: make(chan *Conn, 256), closed: make(chan struct{})}
	var err error
	n.do(func() {
		if n.listeners[address] != nil {
			err = &net.OpError{Op: "listen", Net: "tcp", Addr: tcpAddr(address), Err: syscall.EADDRINUSE}
			return
		}
		n.listeners[address] = l
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.network.do(func() {
		if l.network.listeners[l.address] == l {
			delete(l.network.listeners, l.address)
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return tcpAddr(l.address) }

// again is the pause after which a connection request that got no answer is sent once more.
const again = 200 * time.Millisecond

var errReset = errors.New("connection reset by peer")

// Dial connects a host to an address.
func (n *Network) Dial(ctx context.Context, from, address string) (net.Conn, error) {
	pause := time.Duration(0)
	n.do(func() { pause = n.delay() + n.delay() })
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		pause = again
		var dialed *Conn
		refused := false
		n.do(func() { dialed, refused = n.connect(from, address) })
		if refused {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: tcpAddr(address), Err: syscall.ECONNREFUSED}
		}
		if dialed != nil {
			return dialed, nil
		}
	}
}

// connect makes a connection, unless there is a cut. The lock is held.
func (n *Network) connect(from, address string) (dialed *Conn, refused bool) {
	to := hostOf(address)
	if n.link(from, to).cuts+n.link(to, from).cuts > 0 {
		return nil, false
	}
	l := n.listeners[address]
	if l == nil {
		return nil, true
	}
	n.ports++
	local := fmt.Sprintf("%s:%d", from, n.ports)
	name := local + ">" + address
	dialed = newConn(n, name, from, to, local, address)
	accepted := newConn(n, name, to, from, address, local)
	dialed.peer, accepted.peer = accepted, dialed
	select {
	case l.accept <- accepted:
		n.conns = append(n.conns, dialed)
		n.trace.Note("connection %s", name)
		return dialed, false
	default: // the backlog is full
		return nil, false
	}
}

// Cut stops everything from one host to another, or lets it pass again with what was held up.
func (n *Network) Cut(from, to string, cut bool) {
	n.do(func() {
		l := n.link(from, to)
		if cut {
			l.cuts++
		} else if l.cuts = max(0, l.cuts-1); l.cuts == 0 {
			n.release(from, to)
		}
	})
}

// release sends what a cut has held up. The lock is held.
func (n *Network) release(from, to string) {
	n.eachEnd(func(c *Conn) {
		if c.from == from && c.to == to {
			held := c.held
			c.held = nil
			for _, s := range held {
				c.schedule(s)
			}
		}
	})
}

// Slow adds a delay to a route, and limits how many bytes it carries in a second, 0: not. Another call takes the place
// of this one.
func (n *Network) Slow(from, to string, extra time.Duration, perSecond int64) {
	n.do(func() { l := n.link(from, to); l.extra, l.perSecond = extra, perSecond })
}

// Heal takes all faults of routes back.
func (n *Network) Heal() {
	n.do(func() {
		for _, l := range n.links {
			*l = link{busy: l.busy}
		}
		n.eachEnd(func(c *Conn) {
			held := c.held
			c.held = nil
			for _, s := range held {
				c.schedule(s)
			}
		})
	})
}

// eachEnd calls f for both ends of each connection, in the order of their beginning. The lock is held.
func (n *Network) eachEnd(f func(*Conn)) {
	for _, c := range n.conns {
		f(c)
		f(c.peer)
	}
}

// of returns the connections of a host. The lock is held.
func (n *Network) of(host string) []*Conn {
	var own []*Conn
	for _, c := range n.conns {
		if c.from == host || c.to == host {
			own = append(own, c)
		}
	}
	return own
}

// Reset breaks all connections of a host at both ends, or the number-th of them if number is not negative.
func (n *Network) Reset(host string, number int) {
	n.do(func() {
		own := n.of(host)
		if number >= 0 && len(own) > 0 {
			own = own[number%len(own):][:1]
		}
		for _, c := range own {
			c.fail(errReset)
			c.peer.fail(errReset)
		}
		n.forget()
	})
}

// Silence makes all connections of a host carry nothing any more, without either end noticing.
func (n *Network) Silence(host string) {
	n.do(func() {
		for _, c := range n.of(host) {
			c.silent, c.peer.silent = true, true
			c.held, c.peer.held = nil, nil
		}
	})
}

// Crash makes a host's process vanish: nobody listens there, and its connections carry nothing any more. With reset
// the other ends learn it at once, as they do from a kernel that goes on. Otherwise they learn it when they send to the
// host after something listens there again.
func (n *Network) Crash(host string, reset bool) {
	n.do(func() {
		maps.DeleteFunc(n.listeners, func(address string, _ *listener) bool { return hostOf(address) == host })
		for _, c := range n.of(host) {
			other := c.peer
			if c.to == host {
				other = c
			}
			other.gone = true
			other.peer.fail(errReset)
			if reset {
				other.failLater()
			}
		}
	})
}

// up reports whether anything listens on a host. The lock is held.
func (n *Network) up(host string) bool {
	for address := range n.listeners {
		if hostOf(address) == host {
			return true
		}
	}
	return false
}

// forget drops connections that carry nothing any more. The lock is held.
func (n *Network) forget() {
	kept := n.conns[:0]
	for _, c := range n.conns {
		if !c.over() || !c.peer.over() {
			kept = append(kept, c)
		}
	}
	clear(n.conns[len(kept):])
	n.conns = kept
}
