package compat_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is a TCP relay between the SDK and the server that a test can cut.
type proxy struct {
	target   string
	listener net.Listener

	mu     sync.Mutex
	muted  bool
	closed bool
	conns  []net.Conn
	relays sync.WaitGroup
}

// startProxy relays to the target until the end of the test.
func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: listener}
	p.relays.Go(p.accept)
	t.Cleanup(func() {
		p.close()
		p.relays.Wait()
	})
	return p
}

// dsn is the connection string of the server with the address of the proxy in it. The SDK must not discover
// the server behind it: open it with balancers.SingleConn.
func (p *proxy) dsn() string {
	return "grpc://" + p.listener.Addr().String() + "/local"
}

// mute swallows all bytes from now on, in both directions and on new connections too, and closes nothing: the network
// between the two is gone and neither side is notified.
func (p *proxy) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = true
}

// reset breaks all connections; new ones are welcome.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// close breaks all connections and takes no new ones.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.reset()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.relays.Go(func() { p.relay(client, server) })
		p.relays.Go(func() { p.relay(server, client) })
	}
}

// keep remembers connections for close, or closes them at once if that has happened already.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

// relay copies from one side to the other; when one side ends, both do.
func (p *proxy) relay(from, to net.Conn) {
	_, err := io.Copy(mutable{p, to}, from)
	if err == nil && p.isMuted() {
		return // even the end of a connection is not passed on
	}
	_ = from.Close()
	_ = to.Close()
}

func (p *proxy) isMuted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.muted
}

// mutable is a connection that takes bytes and forgets them while the proxy is muted.
type mutable struct {
	*proxy
	to net.Conn
}

func (m mutable) Write(b []byte) (int, error) {
	if m.isMuted() {
		return len(b), nil
	}
	return m.to.Write(b)
}
