package peers

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	grpcpeer "google.golang.org/grpc/peer"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/internal/netguard"
)

// callers is the listener for other members. Each connection is unproven until a call on it shows the certificate of
// a member; without certificates any call does. Package netguard limits them; the connection of a member that was
// removed since forfeits its proof.
type callers struct {
	net.Listener // of the guard
	guard        *netguard.Guard
	logger       *slog.Logger
	judge        func(certificate *x509.Certificate) bool // reports whether it is a member's
	full         func()                                   // called when there are too many; may be nil

	mu    sync.Mutex
	limit lograte.Limiter // of the line about too many; mu guards it
}

// peerLimits limits the connections to the address for other members.
var peerLimits = netguard.Limits{Open: callersMax, Unproven: strangersMax}

var errTooMuchUnproven = errors.New(
	"more bytes than anybody needs to say who he is came without a member's certificate")

// caller is one connection that another server has opened.
type caller struct {
	*netguard.Conn
	received    int64                            // bytes before the proof; the reader counts them
	certificate atomic.Pointer[x509.Certificate] // the proof; nil before, and without certificates
}

func newCallers(l net.Listener, limits netguard.Limits, judge func(*x509.Certificate) bool, full func(),
	logger *slog.Logger) *callers {
	c := &callers{logger: logger, judge: judge, full: full}
	c.guard = netguard.New(limits, netguard.Hooks{Crowded: c.tell, Forfeits: c.forfeits})
	c.Listener = c.guard.Listen(l, func(conn *netguard.Conn) net.Conn {
		accepted := &caller{Conn: conn}
		conn.Owner = accepted
		return accepted
	})
	return c
}

// It logs, at a limited rate, that there are too many.
func (c *callers) tell(now netguard.Usage, evicted *netguard.Conn, err error) {
	if err != nil && evicted == nil {
		return // the descriptors went elsewhere
	}
	if c.full != nil {
		c.full()
	}
	c.mu.Lock()
	ok, hidden := c.limit.Allow(time.Now())
	c.mu.Unlock()
	if ok {
		c.logger.Warn("too many connections to the address for other servers: those that have not shown a member's "+
			"certificate make room for new ones",
			"open", now.Open, "strangers", now.Unproven, "made room", now.Evicted, "refused", now.Refused,
			lograte.Suppressed, hidden)
	}
}

// forfeits reports whether a connection is that of a member that was removed since.
func (c *callers) forfeits(conn *netguard.Conn) bool {
	certificate := conn.Owner.(*caller).certificate.Load()
	return certificate != nil && !c.judge(certificate)
}

// prove records a call that came with a certificate, or with nil if the members use no certificates.
func (c *callers) prove(ctx context.Context, certificate *x509.Certificate) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return
	}
	address, ok := p.Addr.(callerAddress)
	if !ok || address.conn.Proven() || !c.judge(certificate) {
		return
	}
	address.conn.certificate.Store(certificate)
	address.conn.Count(1) // a member's connection is in use until it is closed
	address.conn.Prove()
}

// callerAddress is where a connection comes from. By it, calls find the connection that they came on.
type callerAddress struct {
	net.Addr
	conn *caller
}

// RemoteAddr implements net.Conn.
func (c *caller) RemoteAddr() net.Addr { return callerAddress{c.Conn.RemoteAddr(), c} }

// Read implements net.Conn. An unproven connection that sends more than a client needs to authenticate, such as one
// large message of which gRPC would keep all that has come, is closed.
func (c *caller) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.Proven() {
		return n, err
	}
	if c.received += int64(n); c.received > strangerBytesMax && !c.Proven() {
		_ = c.Close()
		return 0, errTooMuchUnproven
	}
	return n, err
}
