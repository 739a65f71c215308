package world

import (
	"bufio"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordd/coordd/server/listen"
)

// Processes have real connections, which begin and end in this process. Between these ends lies the same network as in
// a simulation, with the same faults.

// openGateways makes the listeners to which servers dial.
func (w *World) openGateways() error {
	for _, s := range w.servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.processes = processes{gateway: l.Addr().String(), turn: make(chan struct{}, 1)}
		go accept(l, func(c net.Conn) { s.leadOut(c) })
	}
	return nil
}

// accept calls take for each connection, on a goroutine of its own.
func accept(l net.Listener, take func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go take(c)
	}
}

// dialPatience bounds the time to connect through the network. gRPC gives up after 20 s by itself.
const dialPatience = 20 * time.Second

// leadOut connects a server to the address that it asks for.
func (s *server) leadOut(near net.Conn) {
	defer near.Close()
	address, err := bufio.NewReader(near).ReadString('\n') // nothing follows before the answer
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	far, err := s.dial(ctx, strings.TrimSpace(address))
	if err != nil {
		return
	}
	if _, err = near.Write([]byte{1}); err != nil {
		_ = far.Close()
		return
	}
	join(near, far)
}

// listen leads to the listeners of a process: to the one of an address, and to the socket in its directory. The lock is
// held.
func (l *life) listen(address, real string) {
	w, socket := l.world, filepath.Join(l.disk.Dir(), listen.SocketName)
	for at, dial := range map[string]func(context.Context, net.Addr) (net.Conn, error){
		address: func(ctx context.Context, from net.Addr) (net.Conn, error) {
			d := net.Dialer{LocalAddr: loopback(from)}
			return d.DialContext(ctx, "tcp", real)
		},
		l.socketAddress(): func(ctx context.Context, _ net.Addr) (net.Conn, error) {
			return listen.DialSocket(ctx, socket)
		},
	} {
		listener, err := w.net.Listen(at)
		if err != nil {
			continue // the socket's, by the line before
		}
		go accept(listener, func(c net.Conn) {
			defer c.Close()
			ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
			defer cancel()
			if near, err := dial(ctx, c.RemoteAddr()); err == nil {
				join(near, c)
			}
		})
	}
}

// loopback returns this machine's address that stands for a host of the world, as servers have limits for each address.
func loopback(host net.Addr) net.Addr {
	ip := append(net.IP(nil), host.(*net.TCPAddr).IP.To4()...)
	ip[0] = 127
	return &net.TCPAddr{IP: ip}
}

// join carries bytes between a real connection and one of the world until both have ended.
func join(near, far net.Conn) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, err := io.Copy(near, far)
	if tcp, is := near.(*net.TCPConn); is && err != nil {
		_ = tcp.SetLinger(0) // a reset
	}
	_ = near.Close()
	<-over
}
