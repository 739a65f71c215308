package netguard

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
)

// Conn is a connection of a Guard. Close may be called by the Guard, at any time.
type Conn struct {
	net.Conn
	// OnClose is called once, when the connection is closed. It is set before the connection is accepted, if at
	// all.
	OnClose func()
	// Owner is for the owner of the Guard, who may set it before the connection is accepted.
	Owner any

	guard   *Guard
	network string
	local   bool
	greeted atomic.Bool
	proven  atomic.Bool
	closed  sync.Once

	// The Guard's mutex protects the following fields.
	calls int
	in    *list.List // the list that holds the connection, nil: none
	place *list.Element
}

// newConn returns a connection that is not counted yet.
func (g *Guard) newConn(conn net.Conn) *Conn {
	_, local := conn.RemoteAddr().(*net.UnixAddr)
	return &Conn{Conn: conn, guard: g, network: Network(conn.RemoteAddr()), local: local}
}

// Network returns the network that the connection counts under.
func (c *Conn) Network() string { return c.network }

// Local reports whether the connection came by a Unix socket. Its client has passed the permissions of a file, so it
// is accepted beyond Limits.Open and never counts as unproven.
func (c *Conn) Local() bool { return c.local }

// Proven reports whether Prove was called.
func (c *Conn) Proven() bool { return c.proven.Load() }

// Prove marks the connection as that of an authenticated client.
func (c *Conn) Prove() {
	if c.proven.Swap(true) {
		return
	}
	c.guard.mutex.Lock()
	defer c.guard.mutex.Unlock()
	c.guard.sort(c)
}

// Greeted reports whether Greet was called.
func (c *Conn) Greeted() bool { return c.greeted.Load() }

// Greet notes that the client speaks the protocol, see CloseSilent.
func (c *Conn) Greet() { c.greeted.Store(true) }

// Count adds to the calls under way on the connection. A proven connection without one is idle.
func (c *Conn) Count(calls int) {
	c.guard.mutex.Lock()
	defer c.guard.mutex.Unlock()
	before := c.calls
	c.calls += calls
	if (before == 0) != (c.calls == 0) {
		c.guard.sort(c)
	}
}

// Gone reports whether the connection is no longer counted: it is closed, or is being evicted.
func (c *Conn) Gone() bool {
	c.guard.mutex.Lock()
	defer c.guard.mutex.Unlock()
	_, counted := c.guard.all[c]
	return !counted
}

// Close closes the connection and uncounts it.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		c.guard.mutex.Lock()
		c.guard.remove(c)
		c.guard.mutex.Unlock()
		if c.OnClose != nil {
			c.OnClose()
		}
	})
	return c.Conn.Close()
}
