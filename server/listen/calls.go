package listen

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/coordd/coordd/server/share"
)

// Kind classifies calls by how long they may last. Each kind has a pool of places (package share).
type Kind int

// The kinds of calls.
const (
	// Brief calls have one request, and an answer within a bounded time.
	Brief Kind = iota
	// Standing calls last as long as their client likes.
	Standing
	// Session is a Session stream.
	Session
	// Probe calls are health checks: they wait for nothing but their request, and their callers are unknown.
	Probe
	kinds
)

// probePart divides the places of brief calls: probes have the quotient.
const probePart = 4

// Call is a call from its headers on, until it is over, its handler has returned, and its end has left.
type Call struct {
	set     *Connections
	conn    *meteredConn // nil in tests
	stream  uint32
	kind    Kind
	most    int // bytes of a message, decompressed or not
	ctx     context.Context
	refused bool

	// Of the calls' mutex:
	subject share.Subject
	counted bool
	unlist  func() // removes the call from the lists of those that make room; nil if it is in none
	number  uint64 // in the order in which they began to wait
	evict   func() // ends the call, or its connection, to make room for another one

	// Of the handler's goroutine:
	awaited bool  // its request, as far as the handler knows
	into    any   // what it receives a message into, while it does
	last    int   // bytes of the last message, decompressed
	working int64 // bytes of kept that are being worked on

	mutex    sync.Mutex // of those without a connection; the connection's guards the others
	messages messages
	kept     int64 // bytes of messages that are received and not taken, or that are being worked on
	// tooLarge is called when a message is announced that is too large; nil before there is a handler.
	tooLarge func(size, most int)
	served   bool // a handler has begun, and not returned
	over     bool
	lingers  bool // it is over, and its end has not been written
	endGone  bool // that has been, or the client wants none
	left     bool

	unread int64     // bytes of what it was answered, to be kept while it lingers
	ended  time.Time // since when it lingers
	moved  time.Time // when something of it was written last, while it lingers
	gone   func()    // is called when it leaves
}

// ErrTooManyCalls refuses a call beyond the limits.
var ErrTooManyCalls = status.Error(codes.ResourceExhausted, "Too many requests")

type callKey struct{}

// CallOf is the call of a context, nil where the context is of none.
func CallOf(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

// Options make a gRPC server count against the limits and put a Call into each call's context, where CallOf finds it.
// They run on the goroutine that reads a connection, so they neither compute nor wait. kind and most return a method's
// kind and its longest message. refused is called for calls that no interceptor sees.
func (c *Connections) Options(kind func(method string) Kind, most func(method string) int,
	refused func(method string, err error)) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			ctx, err := c.begin(ctx, kind(info.FullMethodName), most(info.FullMethodName))
			if err != nil {
				refused(info.FullMethodName, err)
			}
			return ctx, err
		}),
		Codec(),
		ReceiveBuffers(),
	}
}

// begin counts a call in, and out again when its context is done and its handler has returned.
func (c *Connections) begin(ctx context.Context, kind Kind, most int) (context.Context, error) {
	call := &Call{set: c, kind: kind, most: most}
	if p, known := peer.FromContext(ctx); known {
		if info, is := p.AuthInfo.(callerInfo); is {
			call.conn, call.stream = info.conn, info.conn.header
		}
	}
	if call.refused = !c.arrive(call); call.refused {
		c.tellOfCalls(kind)
		// gRPC would not stop the timer of a refused call's deadline, so such a call is refused by Begin.
		if _, bounded := ctx.Deadline(); !bounded {
			return ctx, ErrTooManyCalls
		}
		return context.WithValue(ctx, callKey{}, call), nil
	}
	call.attach()
	ctx = context.WithValue(ctx, callKey{}, call)
	context.AfterFunc(ctx, call.end)
	return ctx, nil
}

func (c *Call) address() string {
	if c.conn == nil || c.conn.under == nil {
		return ""
	}
	return c.conn.under.Network()
}

func (c *Call) lock() *sync.Mutex {
	if c.conn != nil {
		return &c.conn.mutex
	}
	return &c.mutex
}

// attach has the bytes on the call's stream counted.
func (c *Call) attach() {
	if c.conn == nil {
		return
	}
	c.conn.mutex.Lock()
	c.conn.open[c.stream] = c
	c.conn.mutex.Unlock()
	if c.conn.under != nil {
		c.conn.under.Count(1)
	}
}

// Begin marks the begin of the call's handler, with its context; it fails if the call is refused. End marks its return.
func (c *Call) Begin(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if c.refused {
		return ErrTooManyCalls
	}
	mutex := c.lock()
	mutex.Lock()
	defer mutex.Unlock()
	c.served, c.ctx = true, ctx
	return nil
}

// EndIfTooLarge has end called, which ends the call, once a message of more than the most bytes is announced:
// its bytes are not waited for.
func (c *Call) EndIfTooLarge(end func(size, most int)) {
	if c == nil {
		return
	}
	mutex := c.lock()
	mutex.Lock()
	c.tooLarge = end
	ends := c.announced()
	mutex.Unlock()
	if ends != nil {
		ends()
	}
}

// announced returns the end of the call if a message was announced that is too large, once. The mutex is held.
func (c *Call) announced() (end func()) {
	size, tooLarge := c.messages.longest, c.tooLarge
	if tooLarge == nil || size <= c.most {
		return nil
	}
	c.tooLarge = nil
	return func() { tooLarge(size, c.most) }
}

// End marks the return of the call's handler.
func (c *Call) End() {
	if c == nil || c.refused {
		return
	}
	mutex := c.lock()
	mutex.Lock()
	c.served = false
	over := c.over
	mutex.Unlock()
	if over {
		c.leave()
	}
}

// end is called when the context is done.
func (c *Call) end() {
	mutex := c.lock()
	mutex.Lock()
	c.over = true
	served := c.served
	mutex.Unlock()
	if !served {
		c.leave()
	}
}

// leave counts the call out, and gives back what it keeps, once its end has left.
func (c *Call) leave() {
	mutex := c.lock()
	mutex.Lock()
	if !c.left && c.linger() {
		mutex.Unlock()
		c.set.calls.lingers(c)
		c.set.bytes.enforce(c.set)
		return
	}
	left := c.left
	c.left = true
	kept := c.kept
	c.kept = 0
	if c.conn != nil && !left {
		c.conn.forget(c)
		c.conn.keep(-kept)
	}
	mutex.Unlock()
	if left {
		return
	}
	if c.gone != nil {
		c.gone()
	}
	c.set.calls.leave(c)
	if c.conn != nil && c.conn.under != nil {
		c.conn.under.Count(-1)
	}
}

// Identify counts the call under the user's name from now on, "" for a caller who is not known. Errors:
// ErrTooManyCalls. Until the request of an unknown caller has come, evict may be called, once, to end the call.
func (c *Call) Identify(user string, evict func()) error {
	if c == nil {
		return nil
	}
	subject := c.set.identified(c, user)
	if c.conn != nil && user != "" && c.set.limits.ProofWanted {
		if under := c.conn.under; under != nil {
			under.Prove()
		}
		if owner, _ := c.conn.keeps(); owner != subject {
			c.conn.belongs(subject)
		}
	}
	entered, other := c.set.calls.identify(c, subject, evict)
	if other != nil || !entered {
		c.set.tellOfCalls(c.kind)
	}
	if other != nil {
		other()
	}
	if !entered {
		return ErrTooManyCalls
	}
	c.awaited = subject.Class == share.Unknown
	return nil
}

// Receive calls gRPC's receive for the next message, which goes into m; the handler is then done with the last one. The
// handler's goroutine calls it.
func (c *Call) Receive(receive func(any) error, m any) error {
	err := receive(c.Expect(m))
	c.Expected()
	return err
}

// Expect is the first half of Receive, for streams, on which whole stacks of calls wait: what it returns is
// to be received into. Expected is the other half.
func (c *Call) Expect(m any) any {
	if c == nil {
		return m
	}
	c.next()
	c.into = m
	return (*receiving)(c)
}

// Expected is called when a message has come, or none does.
func (c *Call) Expected() {
	if c == nil {
		return
	}
	c.into = nil
	if c.awaited {
		c.awaited = false
		c.set.calls.came(c)
	}
}

// LastBytes is the decompressed size of the last message. The handler's goroutine calls it.
func (c *Call) LastBytes() int {
	if c == nil {
		return 0
	}
	return c.last
}

// next gives back what the last message has kept.
func (c *Call) next() {
	if c.conn == nil || c.working == 0 {
		return
	}
	c.conn.mutex.Lock()
	c.keep(-c.working)
	c.conn.mutex.Unlock()
	c.working = 0
}

// take notes that the handler is given a message of so many bytes, decompressed. What came as it is, as good
// as everything, counts on as it did, without a lock.
func (c *Call) take(length int) {
	c.last = length
	if c.conn == nil {
		return
	}
	c.working += int64(prefixBytes + length)
	if c.messages.skip() {
		return
	}
	c.conn.mutex.Lock()
	c.keep(int64(prefixBytes + length - c.messages.take(length)))
	c.conn.mutex.Unlock()
	c.set.bytes.enforce(c.set)
}

// keep counts bytes. The connection's mutex is held.
func (c *Call) keep(n int64) {
	if !c.left {
		c.kept += n
		c.conn.keep(n)
	}
}

// receiving is a call whose handler waits for a message.
type receiving Call
