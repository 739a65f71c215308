package listen

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"
)

// plainConn is a connection that is not encrypted. It has the method that gRPC looks for where it wants to
// take a buffer only when there is something to read, so that idle connections hold none. gRPC does so by
// itself for connections that it knows, and this is none of those.
type plainConn struct {
	*meteredConn
	raw syscall.RawConn

	// ReadOnReady's. A function made for each read, with what it reads, would be four allocations.
	tryRead func(file uintptr) bool
	size    int
	pool    mem.BufferPool
	buffer  *[]byte // nil while nothing is read
	n       int
	err     error
}

// plain returns the connection with that method if it can have it: what is read from an encrypted
// connection's socket is not what the client says.
func (c *meteredConn) plain() net.Conn {
	conn, is := c.Conn.(*connection)
	if !is {
		return c
	}
	system, is := conn.Conn.(syscall.Conn)
	if !is || !socketsAreFiles {
		return c
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return c // it is closed already, which Read will say
	}
	p := &plainConn{meteredConn: c, raw: raw}
	p.tryRead = p.readSocket
	return p
}

// ReadOnReady waits until there is something to read, and reads it into a buffer of the given size in bytes,
// as Read does.
func (c *plainConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if len(c.rest) > 0 {
		buffer := pool.Get(size)
		n, err := c.Read(*buffer)
		if err == nil {
			return buffer, n, nil
		}
		pool.Put(buffer)
		return nil, 0, err
	}
	c.size, c.pool = size, pool
	waitErr := c.raw.Read(c.tryRead)
	buffer, n, err := c.buffer, c.n, c.err
	c.buffer, c.err = nil, nil
	switch {
	case err == nil && waitErr != nil:
		err = waitErr
	case err == nil && n == 0:
		err = io.EOF
	case err == nil:
		var taken int
		if taken, err = c.watch((*buffer)[:n]); taken < n {
			c.rest = bytes.Clone((*buffer)[taken:n])
			n = taken
		}
	}
	if err == nil {
		return buffer, n, nil
	}
	if buffer != nil {
		pool.Put(buffer)
	}
	return nil, 0, err
}

// readSocket reads what there is, and reports whether that was anything, or an error.
func (c *plainConn) readSocket(file uintptr) bool {
	c.buffer = c.pool.Get(c.size)
	if c.n, c.err = readSocket(file, *c.buffer); c.err != nil {
		c.pool.Put(c.buffer)
		c.buffer = nil
	}
	return !errors.Is(c.err, syscall.EAGAIN)
}
