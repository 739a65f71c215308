package netguard

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Limits bounds the connections of a Guard. Every field is inclusive and at least 1, unless it says otherwise.
type Limits struct {
	// Open limits how many connections are open at once.
	Open int
	// PerNetwork limits how many of them one network has, see Network; 0: no limit but Open.
	PerNetwork int
	// Unproven limits how many of them are unproven.
	Unproven int
}

// Hooks notify the owner of a Guard. A nil hook is not called. The Guard holds no lock when it calls one, except for
// Forfeits.
type Hooks struct {
	// Crowded is called when a limit is reached: evicted made room, nil if no connection could and the new one
	// was refused. err is the lack of descriptors, if that was the limit.
	Crowded func(now Usage, evicted *Conn, err error)
	// NetworkFull is called when a connection is refused because its network has too many.
	NetworkFull func(network string)
	// AcceptFailed is called when a connection could not be accepted for another reason than a lack of
	// descriptors.
	AcceptFailed func(err error)
	// Forfeits reports whether a proven connection may be evicted although it is in use. It is asked only if
	// there is no unproven and no idle connection. It must not call the Guard.
	Forfeits func(c *Conn) bool
}

// Usage counts connections: those that are open now, and those that were closed for the limits so far.
type Usage struct {
	Open, Unproven   int
	Evicted, Refused uint64
}

// Guard holds the open connections of its listeners. It is safe for concurrent use.
type Guard struct {
	limits Limits
	hooks  Hooks

	evicted, refused atomic.Uint64

	mutex    sync.Mutex
	all      map[*Conn]struct{}
	open     map[string]int // by network
	unproven fairQueue
	idle     list.List // of *Conn, the one that has been idle for longest first
	closing  bool      // no other connection is accepted
}

// New returns a Guard without connections.
func New(limits Limits, hooks Hooks) *Guard {
	return &Guard{limits: limits, hooks: hooks, all: make(map[*Conn]struct{}), open: make(map[string]int)}
}

// Usage returns the present counts.
func (g *Guard) Usage() Usage {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.usage()
}

// usage returns the present counts. The mutex is held.
func (g *Guard) usage() Usage {
	return Usage{Open: len(g.all), Unproven: g.unproven.length, Evicted: g.evicted.Load(),
		Refused: g.refused.Load()}
}

// Evicted counts the connections that were closed to make room for others.
func (g *Guard) Evicted() uint64 { return g.evicted.Load() }

// Refused counts the connections that were closed when they were accepted.
func (g *Guard) Refused() uint64 { return g.refused.Load() }

// Listen returns a listener whose connections are limited. Its Accept returns wrap's result for each.
func (g *Guard) Listen(l net.Listener, wrap func(*Conn) net.Conn) net.Listener {
	return listener{l, g, wrap}
}

type listener struct {
	net.Listener
	guard *Guard
	wrap  func(*Conn) net.Conn
}

// Accept waits for the next connection within the limits; a connection beyond them is closed immediately. The error
// for a lack of descriptors is temporary: gRPC waits a while and tries again.
func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.guard.MakeRoom(err)
		} else if err != nil && l.guard.hooks.AcceptFailed != nil {
			l.guard.hooks.AcceptFailed(err)
		}
		if err != nil {
			return nil, err
		}
		guarded := l.guard.newConn(conn)
		wrapped := l.wrap(guarded)
		if l.guard.enter(guarded) {
			return wrapped, nil
		}
		_ = conn.Close() // it has nothing to lose
	}
}

// MakeRoom evicts a connection because the process has no descriptor left.
func (g *Guard) MakeRoom(why error) {
	g.mutex.Lock()
	victim := g.expel(true)
	now := g.usage()
	g.mutex.Unlock()
	g.crowded(now, victim, why)
}

// crowded reports that a limit was reached and closes the evicted connection.
func (g *Guard) crowded(now Usage, evicted *Conn, err error) {
	if g.hooks.Crowded != nil {
		g.hooks.Crowded(now, evicted, err)
	}
	if evicted != nil {
		_ = evicted.Close()
	}
}

// enter adds a connection if the limits allow it, or if another one can be evicted.
func (g *Guard) enter(c *Conn) bool {
	g.mutex.Lock()
	if g.closing {
		g.refused.Add(1)
		g.mutex.Unlock()
		return false
	}
	if most := g.limits.PerNetwork; most > 0 && g.open[c.network] >= most {
		g.refused.Add(1)
		g.mutex.Unlock()
		if g.hooks.NetworkFull != nil {
			g.hooks.NetworkFull(c.network)
		}
		return false
	}
	full := !c.local && len(g.all) >= g.limits.Open
	crowded := full || !c.local && g.unproven.length >= g.limits.Unproven
	var victim *Conn
	if crowded {
		victim = g.expel(full)
	}
	entered := !full || victim != nil
	if entered {
		g.add(c)
	} else {
		g.refused.Add(1)
	}
	now := g.usage()
	g.mutex.Unlock()
	if crowded {
		g.crowded(now, victim, nil)
	}
	return entered
}

// add counts a connection. The mutex is held.
func (g *Guard) add(c *Conn) {
	g.open[c.network]++
	g.all[c] = struct{}{}
	if !c.local {
		g.unproven.push(c)
	}
}

// expel removes the connection to evict, an unproven one unless proven ones may be evicted too. It returns nil if
// there is no such connection. The mutex is held.
func (g *Guard) expel(proven bool) *Conn {
	victim := g.unproven.first()
	if victim == nil && proven {
		victim = g.expendable()
	}
	if victim != nil {
		g.remove(victim)
		g.evicted.Add(1)
	}
	return victim
}

// expendable returns a proven connection that may be evicted. The mutex is held.
func (g *Guard) expendable() *Conn {
	if idle := g.idle.Front(); idle != nil {
		return idle.Value.(*Conn)
	}
	if g.hooks.Forfeits == nil {
		return nil
	}
	for c := range g.all {
		if c.proven.Load() && g.hooks.Forfeits(c) {
			return c
		}
	}
	return nil
}

// remove uncounts a connection, once. The mutex is held.
func (g *Guard) remove(c *Conn) {
	if _, counted := g.all[c]; !counted {
		return
	}
	delete(g.all, c)
	if g.open[c.network]--; g.open[c.network] == 0 {
		delete(g.open, c.network)
	}
	g.unlist(c)
}

// unlist takes a connection out of the queue or the list that it is in. The mutex is held.
func (g *Guard) unlist(c *Conn) {
	switch c.in {
	case nil:
	case &g.idle:
		g.idle.Remove(c.place)
		c.in, c.place = nil, nil
	default:
		g.unproven.remove(c)
	}
}

// sort puts a proven connection among the idle ones if it has no call. The mutex is held.
func (g *Guard) sort(c *Conn) {
	if _, counted := g.all[c]; !counted || !c.proven.Load() {
		return
	}
	g.unlist(c)
	if c.calls == 0 {
		c.in, c.place = &g.idle, g.idle.PushBack(c)
	}
}

// CloseSilent closes the connections whose client has not begun to speak the protocol, and refuses new ones.
func (g *Guard) CloseSilent() { g.close(func(c *Conn) bool { return !c.greeted.Load() }) }

// CloseAll closes every connection, and refuses new ones.
func (g *Guard) CloseAll() { g.close(func(*Conn) bool { return true }) }

func (g *Guard) close(which func(*Conn) bool) {
	var closed []*Conn
	g.mutex.Lock()
	g.closing = true
	for c := range g.all {
		if which(c) {
			closed = append(closed, c)
		}
	}
	g.mutex.Unlock()
	for _, c := range closed {
		_ = c.Close()
	}
}
