package faults

import (
	"net"
	"sync"
)

// Listen is a listener whose connections can be lost.
func (s *Server) Listen(l net.Listener) net.Listener { return listener{l, s.set} }

type listener struct {
	net.Listener
	set *Set
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, set: l.set, closed: make(chan struct{})}
	l.set.mutex.Lock()
	l.set.conns[accepted.RemoteAddr().String()] = c
	l.set.mutex.Unlock()
	return c, nil
}

// conn is a client's connection.
type conn struct {
	net.Conn
	set     *Set
	closing sync.Once
	closed  chan struct{}

	mutex sync.Mutex
	hole  chan struct{} // closed when something passes again; nil while it does
}

// await returns when something passes.
func (c *conn) await() error {
	for {
		c.mutex.Lock()
		hole := c.hole
		c.mutex.Unlock()
		if hole == nil {
			return nil
		}
		select {
		case <-hole:
		case <-c.closed:
			return net.ErrClosed
		}
	}
}

// Read implements net.Conn. What came before the connection stopped to pass anything, and was not read yet,
// waits too.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if wait := c.await(); wait != nil {
		return 0, wait
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.set.mutex.Lock()
		defer c.set.mutex.Unlock()
		if address := c.RemoteAddr().String(); c.set.conns[address] == c {
			delete(c.set.conns, address)
		}
		delete(c.set.holes, c)
		delete(c.set.network.conns, c)
	})
	return c.Conn.Close()
}

// stopPassing has nothing pass.
func (c *conn) stopPassing() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.hole == nil {
		c.hole = make(chan struct{})
	}
}

// letPass ends what stopPassing has begun.
func (c *conn) letPass() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.hole != nil {
		close(c.hole)
		c.hole = nil
	}
}

func (s *Set) connOf(client string) *conn {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.conns[client]
}

// resetConn resets the connection of a client.
func (s *Set) resetConn(client string) {
	c := s.connOf(client)
	if c == nil {
		return
	}
	if tcp, is := c.Conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // so that the client gets a reset, not an end
	}
	_ = c.Close()
}

// swallow has nothing pass on the connection of a client.
func (s *Set) swallow(client string) {
	c := s.connOf(client)
	if c == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.conns[client] == c {
		c.stopPassing()
		s.holes[c] = struct{}{}
	}
}
