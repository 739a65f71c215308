package listen

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// failingListener accepts what it is given, and fails for the rest.
type failingListener struct {
	net.Listener
	conns []net.Conn
	err   error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, l.err
	}
	conn := l.conns[0]
	l.conns = l.conns[1:]
	return conn, nil
}

// from is a connection of an address.
type from struct {
	net.Conn
	address string
}

func (c from) RemoteAddr() net.Addr {
	address, err := net.ResolveTCPAddr("tcp", c.address)
	if err != nil {
		panic(err)
	}
	return address
}
func (from) Close() error { return nil }

// The causes that keep clients out are logged: nothing can be accepted, there are no descriptors, an address has too
// many connections; and ever more rarely while it goes on.
func TestWhatKeepsClientsOutIsTold(t *testing.T) {
	var log bytes.Buffer
	c := NewConnections(Limits{Connections: 9, ConnectionsPerAddress: 1, Strangers: 9, ResetBurst: 1,
		ResetsPerSecond: 1}, slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(1, 0)
	c.now = func() time.Time { return now }
	accept := func(err error, conns ...net.Conn) {
		t.Helper()
		l := &failingListener{conns: conns, err: err}
		for {
			if _, got := c.Count(l).Accept(); got != nil {
				if !errors.Is(got, err) {
					t.Fatalf("got %v, want %v", got, err)
				}
				return
			}
		}
	}
	told := func(n int, parts ...string) {
		t.Helper()
		for line := range strings.Lines(log.String()) {
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				n--
			}
		}
		if n != 0 {
			t.Errorf("%d lines too few have %q:\n%s", n, parts, log.String())
		}
	}
	accept(net.ErrClosed)
	if log.Len() > 0 {
		t.Errorf("the end of a listener is told: %s", log.String())
	}
	for range 100 {
		accept(syscall.ECONNABORTED)
	}
	told(1, "a connection could not be accepted", "software caused connection abort")
	now = now.Add(time.Minute)
	accept(syscall.ECONNABORTED)
	told(1, "a connection could not be accepted", `"not told before"=99`)
	for range 100 {
		accept(syscall.EMFILE)
	}
	told(1, "too many connections", "too many open files")
	var many []net.Conn
	for range 100 {
		many = append(many, from{address: "192.0.2.1:5"})
	}
	accept(net.ErrClosed, append(many, from{address: "192.0.2.2:5"})...)
	told(1, "an address has too many connections", "address=192.0.2.1", "limit=1", `"not told before"=0`)
	now = now.Add(time.Minute)
	accept(net.ErrClosed, from{address: "192.0.2.1:5"})
	told(1, "an address has too many connections", `"not told before"=98`)
	if c.Open() != 2 || c.Refused() != 100 {
		t.Errorf("%d are open, %d were refused", c.Open(), c.Refused())
	}
}
