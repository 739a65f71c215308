package raftstore

import (
	"container/list"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	grpcpeer "google.golang.org/grpc/peer"

	"github.com/coordd/coordd/internal/lograte"
)

// callers are the connections that others have opened to this member. Each is a stranger's until a call on it
// shows the certificate of a member; without certificates any call does. Nobody holds more of them than there
// is room for: beyond that a stranger's makes room, the oldest of the address that has most of theirs, so
// that whoever fills the port takes his own places, and a member that calls keeps its one until it has said
// who it is.
type callers struct {
	net.Listener
	logger *slog.Logger
	judge  func(certificate *x509.Certificate) bool // whether it is a member's
	full   func()                                   // is called when there are too many, nil: nobody is told
	most   int                                      // of all
	strangersMost,
	strangers int

	evicted, refused atomic.Uint64

	mu      sync.Mutex
	all     map[*caller]struct{}
	strange map[string]*list.List // of *caller, the oldest first, by address
	closing bool
	pace    lograte.Limiter
}

var errTooMuchUnproven = errors.New(
	"more bytes than anybody needs to say who he is came without a member's certificate")

// caller is one of them.
type caller struct {
	net.Conn
	set         *callers
	from        string // address
	closed      sync.Once
	proven      atomic.Bool
	received    int64             // bytes before that; whoever reads counts them
	certificate *x509.Certificate // that proved it; the lock of the set guards what follows
	place       *list.Element     // among strangers, nil if it is none
}

func newCallers(l net.Listener, judge func(*x509.Certificate) bool, logger *slog.Logger) *callers {
	return &callers{Listener: l, logger: logger, judge: judge, most: callersMax, strangersMost: strangersMax,
		all: make(map[*caller]struct{}), strange: make(map[string]*list.List)}
}

// Accept implements net.Listener. Whom there is no room for is closed without a word.
func (c *callers) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			c.makeRoom() // gRPC waits a while and tries again
		}
		if err != nil {
			return nil, err
		}
		if entered := c.enter(conn); entered != nil {
			return entered, nil
		}
		_ = conn.Close()
	}
}

// enter counts a connection in, or returns nil.
func (c *callers) enter(conn net.Conn) *caller {
	entered := &caller{Conn: conn, set: c, from: networkOf(conn.RemoteAddr())}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil
	}
	var victim *caller
	full := len(c.all) >= c.most
	if full || c.strangers >= c.strangersMost {
		victim = c.victim(full)
	}
	if full && victim == nil {
		c.refused.Add(1)
		c.tell()
		c.mu.Unlock()
		return nil
	}
	c.all[entered] = struct{}{}
	if c.strange[entered.from] == nil {
		c.strange[entered.from] = list.New()
	}
	entered.place = c.strange[entered.from].PushBack(entered)
	c.strangers++
	c.mu.Unlock()
	c.evict(victim)
	return entered
}

// victim counts out the connection that makes room for another one; nil: there is none. The lock is held.
func (c *callers) victim(alsoFormer bool) *caller {
	var longest *list.List
	for _, l := range c.strange {
		if longest == nil || l.Len() > longest.Len() {
			longest = l
		}
	}
	if longest != nil {
		found := longest.Front().Value.(*caller)
		c.forget(found)
		c.evicted.Add(1)
		c.tell()
		return found
	}
	if !alsoFormer {
		return nil
	}
	for found := range c.all {
		if found.certificate != nil && !c.judge(found.certificate) { // removed since
			c.forget(found)
			c.evicted.Add(1)
			c.tell()
			return found
		}
	}
	return nil
}

// makeRoom closes a stranger's connection because the process has no descriptor left.
func (c *callers) makeRoom() {
	c.mu.Lock()
	victim := c.victim(false)
	c.mu.Unlock()
	c.evict(victim)
}

func (*callers) evict(victim *caller) {
	if victim != nil {
		_ = victim.Conn.Close() // gRPC finds out, and closes the rest
	}
}

// tell logs, now and then, that there are too many. The lock is held.
func (c *callers) tell() {
	if c.full != nil {
		c.full()
	}
	if ok, hidden := c.pace.Allow(time.Now()); ok {
		c.logger.Warn("too many connections to the address for other servers: those that have not shown a member's "+
			"certificate make room for new ones",
			"open", len(c.all), "strangers", c.strangers, "made room", c.evicted.Load(), "refused",
			c.refused.Load(), lograte.Suppressed, hidden)
	}
}

// forget counts a connection out, once. The lock is held.
func (c *callers) forget(gone *caller) {
	if _, counted := c.all[gone]; !counted {
		return
	}
	delete(c.all, gone)
	c.settle(gone)
}

// settle takes a connection out of those of strangers. The lock is held.
func (c *callers) settle(known *caller) {
	if known.place == nil {
		return
	}
	from := c.strange[known.from]
	if from.Remove(known.place); from.Len() == 0 {
		delete(c.strange, known.from)
	}
	known.place = nil
	c.strangers--
}

// prove takes note of a call that came with a certificate, nil if the members have none.
func (c *callers) prove(ctx context.Context, certificate *x509.Certificate) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return
	}
	address, ok := p.Addr.(callerAddress)
	if !ok || address.conn.proven.Load() || !c.judge(certificate) {
		return
	}
	address.conn.proven.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	address.conn.certificate = certificate
	c.settle(address.conn)
}

// closeAll closes all of them, and those to come: gRPC waits, when it is stopped, for those that have said
// nothing.
func (c *callers) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	for conn := range c.all {
		_ = conn.Conn.Close()
	}
}

// callerAddress is where a connection comes from. By it, calls find the connection that they came on.
type callerAddress struct {
	net.Addr
	conn *caller
}

// RemoteAddr implements net.Conn.
func (c *caller) RemoteAddr() net.Addr { return callerAddress{c.Conn.RemoteAddr(), c} }

// Read implements net.Conn. A stranger who sends more than anybody needs to say who he is, one large message
// of which gRPC would keep all that has come, is cut off.
func (c *caller) Read(b []byte) (int, error) {
	if c.proven.Load() {
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b)
	if c.received += int64(n); c.received > strangerBytesMax && !c.proven.Load() {
		_ = c.Conn.Close()
		return 0, errTooMuchUnproven
	}
	return n, err
}

// Close implements net.Conn.
func (c *caller) Close() error {
	c.closed.Do(func() {
		c.set.mu.Lock()
		defer c.set.mu.Unlock()
		c.set.forget(c)
	})
	return c.Conn.Close()
}

// Crowded is when there were last too many connections to the address for other members, the zero time if
// never.
func (s *Store) Crowded() time.Time {
	if at := s.crowded.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// networkOf is what connections are told apart by: who has one IPv6 address usually has the others of its
// network as well.
func networkOf(address net.Addr) string {
	at, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return address.String()
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // it has that many bits
	return network.String()
}
