package peers

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	grpcpeer "google.golang.org/grpc/peer"

	"github.com/coordd/coordd/internal/netguard"
)

// knock is a connection from an address. Its other end notices when it is closed.
type knock struct {
	net.Conn
	from  net.Addr
	other net.Conn
}

func (k *knock) RemoteAddr() net.Addr { return k.from }

func knockFrom(host string) *knock {
	near, far := net.Pipe()
	return &knock{near, &net.TCPAddr{IP: net.ParseIP(host), Port: 1}, far}
}

// closed reports whether the other side has closed the connection.
func (k *knock) closed() bool {
	_ = k.other.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := k.other.Read(make([]byte, 1))
	return !errors.Is(err, syscall.ETIMEDOUT) && !isTimeout(err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// on is the context of a call on a connection.
func (c *caller) on() context.Context {
	return grpcpeer.NewContext(context.Background(), &grpcpeer.Peer{Addr: c.RemoteAddr()})
}

// knocking is a listener that accepts one connection, or that has no descriptor for it.
type knocking struct {
	net.Listener
	next net.Conn // nil: nobody knocks
	err  error
}

func (l *knocking) Accept() (net.Conn, error) {
	conn := l.next
	if l.next = nil; conn == nil {
		return nil, l.err
	}
	return conn, nil
}

// testCallers are callers of a knocking listener, with the certificates of members.
type testCallers struct {
	*callers
	knocking *knocking
	members  map[*x509.Certificate]bool
	log      bytes.Buffer
}

func newTestCallers(most, strangers int) *testCallers {
	c := &testCallers{knocking: &knocking{err: io.EOF}, members: make(map[*x509.Certificate]bool)}
	c.callers = newCallers(c.knocking, netguard.Limits{Open: most, Unproven: strangers},
		func(certificate *x509.Certificate) bool { return c.members[certificate] }, nil,
		slog.New(slog.NewTextHandler(&c.log, nil)))
	return c
}

// enter returns the connection if it is accepted, nil otherwise.
func (c *testCallers) enter(k *knock) *caller {
	c.knocking.next = k
	conn, err := c.Accept()
	if err != nil {
		return nil
	}
	return conn.(*caller)
}

// TestStrangersMakeRoom has more strangers call than may: a flood from one place evicts its own connections, and a
// connection whose call shows a member's certificate stays.
func TestStrangersMakeRoom(t *testing.T) {
	c := newTestCallers(100, 4)
	certificate := new(x509.Certificate)
	c.members[certificate] = true
	member, lone := knockFrom("192.0.2.1"), knockFrom("192.0.2.2")
	proven := c.enter(member)
	c.prove(proven.on(), new(x509.Certificate)) // another's
	if proven.Proven() || c.guard.Usage().Unproven != 1 {
		t.Fatal("any certificate will do")
	}
	c.prove(proven.on(), certificate)
	c.enter(lone)
	var flood []*knock
	for range 20 {
		flood = append(flood, knockFrom("2001:db8::1"), knockFrom("2001:db8::2")) // one network
	}
	for _, k := range flood {
		c.enter(k)
		if now := c.guard.Usage(); now.Unproven > 4 || now.Open > 5 {
			t.Fatalf("%d strangers, %d connections", now.Unproven, now.Open)
		}
	}
	for i, k := range flood {
		if got, want := k.closed(), i < len(flood)-3; got != want {
			t.Errorf("connection %d of the flood: closed %v", i, got)
		}
	}
	if member.closed() || lone.closed() {
		t.Error("a flood from one place closes others' connections")
	}
	if c.guard.Evicted() != 37 || strings.Count(c.log.String(),
		"too many connections to the address for other servers") != 1 {
		t.Errorf("%d made room; the log is\n%s", c.guard.Evicted(), &c.log)
	}
	c.guard.CloseAll()
	if now := c.guard.Usage(); now.Open+now.Unproven != 0 {
		t.Errorf("left over: %d connections, %d strangers", now.Open, now.Unproven)
	}
}

// TestCallersInAll opens more connections of members than the limit: no stranger is admitted in their place, and
// a connection whose certificate has ceased to be a member's is evicted.
func TestCallersInAll(t *testing.T) {
	c := newTestCallers(5, 2)
	var all []*knock
	certificates := make([]*x509.Certificate, 5)
	for i := range certificates {
		certificates[i] = new(x509.Certificate)
		c.members[certificates[i]] = true
		all = append(all, knockFrom(fmt.Sprint("192.0.2.", i)))
		entered := c.enter(all[i])
		c.prove(entered.on(), certificates[i])
	}
	if late := knockFrom("192.0.2.9"); c.enter(late) != nil || c.guard.Refused() != 1 ||
		!strings.Contains(c.log.String(), "refused=1") {
		t.Errorf("one more is let in, or nothing said of it:\n%s", &c.log)
	}
	delete(c.members, certificates[3])
	late := c.enter(knockFrom("192.0.2.9"))
	if late == nil || c.guard.Usage().Open != 5 {
		t.Fatal("a former member's connection does not make room")
	}
	for i, k := range all {
		if k.closed() != (i == 3) {
			t.Errorf("connection %d: closed %v", i, k.closed())
		}
	}
	next := knockFrom("192.0.2.10")
	if c.enter(next) == nil || c.guard.Usage().Open != 5 || next.closed() {
		t.Error("a stranger does not make room")
	}
	c.guard.CloseAll()
	if c.enter(knockFrom("192.0.2.11")) != nil || !next.closed() || !all[0].closed() {
		t.Error("left open at the end")
	}
}

// TestStrangersGiveDescriptors has strangers make room for whatever the process has no descriptor for.
func TestStrangersGiveDescriptors(t *testing.T) {
	c := newTestCallers(5, 2)
	c.members[nil] = true
	member, stranger := knockFrom("192.0.2.1"), knockFrom("192.0.2.2")
	c.prove(c.enter(member).on(), nil)
	c.enter(stranger)
	c.knocking.err = syscall.EMFILE
	for range 3 {
		if _, err := c.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Fatal(err)
		}
	}
	if !stranger.closed() || member.closed() {
		t.Error("the wrong one makes room")
	}
	if got := strings.Count(c.log.String(), "too many connections"); got != 1 {
		t.Errorf("%d lines about too many:\n%s", got, &c.log)
	}
}

// TestStrangersSayLittle has a stranger and a member send: the stranger's connection ends after
// strangerBytesMax bytes.
func TestStrangersSayLittle(t *testing.T) {
	c := newTestCallers(100, 4)
	certificate := new(x509.Certificate)
	c.members[certificate] = true
	for _, isMember := range []bool{false, true} {
		k := knockFrom("192.0.2.1")
		entered := c.enter(k)
		if isMember {
			c.prove(entered.on(), certificate)
		}
		go func() {
			for piece := make([]byte, 32<<10); ; {
				if _, err := k.other.Write(piece); err != nil {
					return
				}
			}
		}()
		read := int64(0)
		var err error
		for piece := make([]byte, 64<<10); err == nil && read < 4*strangerBytesMax; {
			var n int
			n, err = entered.Read(piece)
			read += int64(n)
		}
		if isMember && err != nil || !isMember &&
			(!errors.Is(err, errTooMuchUnproven) || read > strangerBytesMax) {
			t.Errorf("a member: %v; after %d bytes: %v", isMember, read, err)
		}
		_ = entered.Close()
	}
}
