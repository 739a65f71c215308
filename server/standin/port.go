package standin

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// port is an address that outlives the servers which listen on it one after another: while none does, clients wait.
type port struct{ tcp *net.TCPListener }

func openPort() (*port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &port{l.(*net.TCPListener)}, nil
}

func (p *port) address() string { return p.tcp.Addr().String() }

// listen hands the port to a server.
func (p *port) listen() (net.Listener, error) {
	return &turn{port: p}, p.tcp.SetDeadline(time.Time{})
}

// turn is a server's time with a port.
type turn struct {
	port      *port
	over      atomic.Bool
	accepting sync.Mutex
}

// Accept implements net.Listener.
func (l *turn) Accept() (net.Conn, error) {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	if l.over.Load() {
		return nil, net.ErrClosed
	}
	conn, err := l.port.tcp.Accept()
	if err != nil && l.over.Load() {
		err = net.ErrClosed
	}
	return conn, err
}

// Close implements net.Listener. It returns when nobody accepts any more, and leaves the port open.
func (l *turn) Close() error {
	if l.over.Swap(true) {
		return net.ErrClosed
	}
	err := l.port.tcp.SetDeadline(time.Unix(1, 0))
	l.accepting.Lock()
	defer l.accepting.Unlock()
	return err
}

// Addr implements net.Listener.
func (l *turn) Addr() net.Addr { return l.port.tcp.Addr() }
