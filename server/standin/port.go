package standin

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// port is an address that outlives the servers which listen on it one after another: while none does, clients
// wait.
type port struct {
	host string // as it was asked for
	tcp  *net.TCPListener
}

func openPort(address string) (*port, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	return &port{host, l.(*net.TCPListener)}, err
}

// address is the requested host, with the port that the system has chosen.
func (p *port) address() string {
	return net.JoinHostPort(p.host, strconv.Itoa(p.tcp.Addr().(*net.TCPAddr).Port))
}

// listen hands the port to a server.
func (p *port) listen() (net.Listener, error) {
	return &portListener{port: p}, p.tcp.SetDeadline(time.Time{})
}

// portListener is a server's time with a port, as a listener.
type portListener struct {
	port      *port
	over      atomic.Bool
	accepting sync.Mutex
}

// Accept implements net.Listener.
func (l *portListener) Accept() (net.Conn, error) {
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
func (l *portListener) Close() error {
	if l.over.Swap(true) {
		return net.ErrClosed
	}
	err := l.port.tcp.SetDeadline(time.Unix(1, 0))
	l.accepting.Lock()
	defer l.accepting.Unlock()
	return err
}

// Addr implements net.Listener.
func (l *portListener) Addr() net.Addr { return l.port.tcp.Addr() }
