package raftstore

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordd/coordd/raftstore/peerpb"
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

func newTestCallers(t *testing.T, most, strangers int) (*callers, map[*x509.Certificate]bool, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	members := make(map[*x509.Certificate]bool)
	c := newCallers(nil, func(certificate *x509.Certificate) bool { return members[certificate] },
		slog.New(slog.NewTextHandler(&log, nil)))
	c.most, c.strangersMost = most, strangers
	return c, members, &log
}

// TestStrangersMakeRoom has more strangers call than may: the oldest one of the address that has most of them
// goes, so that a flood from one place closes nobody else's connection; whose call shows a member's
// certificate stays.
func TestStrangersMakeRoom(t *testing.T) {
	c, members, log := newTestCallers(t, 100, 4)
	certificate := new(x509.Certificate)
	members[certificate] = true
	member, lone := knockFrom("192.0.2.1"), knockFrom("192.0.2.2")
	proven := c.enter(member)
	c.prove(proven.on(), new(x509.Certificate)) // another's
	if proven.proven.Load() || c.strangers != 1 {
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
		if c.strangers > 4 || len(c.all) > 5 {
			t.Fatalf("%d strangers, %d connections", c.strangers, len(c.all))
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
	if c.evicted.Load() != 37 || strings.Count(log.String(),
		"too many connections to the address for other servers") != 1 {
		t.Errorf("%d made room; the log is\n%s", c.evicted.Load(), log)
	}
	for conn := range c.all {
		_ = conn.Close()
		_ = conn.Close()
	}
	if len(c.all)+len(c.strange)+c.strangers != 0 {
		t.Errorf("left over: %d connections, %d addresses, %d strangers", len(c.all), len(c.strange),
			c.strangers)
	}
}

// TestCallersInAll has members open more connections than may be: no stranger is let in in their place, and
// whose certificate is a member's no more makes room.
func TestCallersInAll(t *testing.T) {
	c, members, log := newTestCallers(t, 5, 2)
	var all []*knock
	certificates := make([]*x509.Certificate, 5)
	for i := range certificates {
		certificates[i] = new(x509.Certificate)
		members[certificates[i]] = true
		all = append(all, knockFrom(fmt.Sprint("192.0.2.", i)))
		entered := c.enter(all[i])
		c.prove(entered.on(), certificates[i])
	}
	if late := knockFrom("192.0.2.9"); c.enter(late) != nil || c.refused.Load() != 1 ||
		!strings.Contains(log.String(), "refused=1") {
		t.Errorf("one more is let in, or nothing said of it:\n%s", log)
	}
	delete(members, certificates[3])
	late := c.enter(knockFrom("192.0.2.9"))
	if late == nil || len(c.all) != 5 {
		t.Fatal("a former member's connection does not make room")
	}
	for i, k := range all {
		if k.closed() != (i == 3) {
			t.Errorf("connection %d: closed %v", i, k.closed())
		}
	}
	next := knockFrom("192.0.2.10")
	if c.enter(next) == nil || len(c.all) != 5 || next.closed() {
		t.Error("a stranger does not make room")
	}
	c.closeAll()
	if c.enter(knockFrom("192.0.2.11")) != nil || !next.closed() || !all[0].closed() {
		t.Error("left open at the end")
	}
}

// exhausted is a listener for which the process has no descriptor left.
type exhausted struct{ net.Listener }

func (exhausted) Accept() (net.Conn, error) { return nil, syscall.EMFILE }

// TestStrangersGiveDescriptors has strangers make room for whatever the process has no descriptor for.
func TestStrangersGiveDescriptors(t *testing.T) {
	c, members, _ := newTestCallers(t, 5, 2)
	members[nil] = true
	c.Listener = exhausted{}
	member, stranger := knockFrom("192.0.2.1"), knockFrom("192.0.2.2")
	c.prove(c.enter(member).on(), nil)
	c.enter(stranger)
	for range 3 {
		if _, err := c.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Fatal(err)
		}
	}
	if !stranger.closed() || member.closed() {
		t.Error("the wrong one makes room")
	}
}

// TestStrangersSayLittle has a stranger and a member send: the stranger's connection ends after
// strangerBytesMax bytes.
func TestStrangersSayLittle(t *testing.T) {
	c, members, _ := newTestCallers(t, 100, 4)
	certificate := new(x509.Certificate)
	members[certificate] = true
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

// TestLargeMessageOfAStranger has somebody with a certificate of the authority, which is no member's, send a
// message of 32 MiB: he gets no answer, the member keeps less than that of it, and members go on.
func TestLargeMessageOfAStranger(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	c.put("before")
	c.settle()
	address := c.leader().store.cfg.Cluster.address()
	stranger := &grpcNetwork{tls: own.forStranger(t)}
	large := new(peerpb.HelloRequest)
	large.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 100, protowire.BytesType),
		make([]byte, 32<<20)))
	if _, err := stranger.hello(testContext(t), address, large); err == nil ||
		!strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("a large message of a stranger: %v", err)
	}
	if _, err := stranger.hello(testContext(t), address, &peerpb.HelloRequest{}); err == nil ||
		strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("a small message of a stranger: %v", err)
	}
	c.put("after")
	c.settle()
}

// TestPeerPortIsCrowded has strangers connect to a member's port all the time, more than there is room for:
// another member comes back beside them, and the store knows that there are too many.
func TestPeerPortIsCrowded(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	c.put("before")
	c.settle()
	m := c.leader()
	address := m.store.cfg.Cluster.address()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	crowded := make(chan struct{})
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(ctx,
				"tcp", address)
			if err != nil {
				continue
			}
			defer conn.Close()
			if i == 4*strangersMax {
				close(crowded)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	<-crowded
	c.wait("the member to notice", func() bool { return !m.store.Crowded().IsZero() })
	name := others(c.names, m.name)[0]
	c.kill(name)
	c.put("meanwhile")
	c.start(name)
	c.put("after")
	c.settle()
	if _, err := (&grpcNetwork{tls: own}).hello(testContext(t), address, &peerpb.HelloRequest{}); err != nil {
		t.Errorf("a member's question beside a crowd: %v", err)
	}
}
