//go:build unix

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/sim/check"
)

// relation is what a session is to a semaphore.
type relation string

const (
	none    relation = "none"
	waiting relation = "waiting"
	owner   relation = "owner"
)

// belief is what a client may conclude about itself and one semaphore from the answers it has had. A request
// whose answer has not come may have been executed or not.
type belief struct {
	name     string
	possible []relation
	count    []uint64      // possible counts while owner or waiting
	order    uint64        // order id, once seen, as long as the link cannot have been given up
	created  bool          // creation was acknowledged
	data     []uint64      // possible values of the data's counter (own semaphores only)
	request  uint64        // id of the last acquire
	held     *check.Tenure // while the client knows that it is an owner
}

// client is one session that works on a semaphore of its own and on shared ones. Only its goroutine touches
// it.
type client struct {
	number  int
	id      uint64 // session id
	seqNo   uint64
	random  *rand.Rand
	session *raw.Session
	own     belief
	shared  []*belief
	acked   int // acknowledged requests in this round
	pulse   pulse
	tenures []check.Tenure // that have ended
	// keeps has the client take its own semaphore and queue for others, once, and then see that it stays so.
	keeps bool
}

const (
	sharedSemaphores = 3
	sharedLimit      = 2
	ownLimit         = 8
)

func newClient(number int, seed uint64) *client {
	c := &client{number: number, random: rand.New(rand.NewPCG(seed, uint64(number))),
		pulse: pulse{timeout: 60 * time.Second}}
	c.own = belief{name: ownName(number), possible: []relation{none}, data: []uint64{0}}
	for i := range sharedSemaphores {
		c.shared = append(c.shared, &belief{name: fmt.Sprintf("shared-%d", i), possible: []relation{none}})
	}
	return c
}

func ownName(number int) string { return fmt.Sprintf("own-%d", number) }

func sharedName(i int) string { return fmt.Sprintf("shared-%d", i) }

// work makes requests until the server is gone.
func (c *client) work() error {
	for {
		if err := c.step(); err != nil {
			return err
		}
	}
}

// step makes one request, or a few that belong together.
func (c *client) step() error {
	if c.keeps {
		return c.keep()
	}
	switch c.random.IntN(4) {
	case 0:
		return c.update()
	case 1:
		return c.changeOwn()
	default:
		return c.changeShared(c.shared[c.random.IntN(sharedSemaphores)])
	}
}

// keep takes what is missing, which nobody may take away again, of semaphores that are there.
func (c *client) keep() error {
	if c.own.possible[0] == none {
		if err := c.acquire(&c.own, ownLimit); err != nil {
			return err
		}
	}
	for _, b := range c.shared {
		if b.possible[0] == none {
			if err := c.acquire(b, 1); err != nil {
				return err
			}
		}
	}
	// Of a session that only reads, a leader that was started since does not know whether an unanswered
	// description was overtaken, and ends its stream.
	if err := c.update(); err != nil {
		return err
	}
	return c.describeAll()
}

func (c *client) update() error {
	if !c.own.created {
		if err := c.session.Create(c.own.name, ownLimit); err != nil {
			return err
		}
		c.own.created = true
		c.acked++
	}
	next := slices.Max(c.own.data) + 1
	c.own.data = append(c.own.data, next)
	if err := c.session.Update(c.own.name, fmt.Append(nil, next)); err != nil {
		return err
	}
	c.own.data = []uint64{next}
	c.acked++
	return nil
}

// changeOwn takes, lowers or gives back the client's own semaphore, which nobody else wants.
func (c *client) changeOwn() error {
	b := &c.own
	if !b.created {
		return nil
	}
	if b.possible[0] == owner && (b.count[0] == 1 || c.random.IntN(3) == 0) {
		return c.release(b)
	}
	count := uint64(ownLimit)
	if b.possible[0] == owner {
		count = 1 + c.random.Uint64N(b.count[0])
	}
	return c.acquire(b, count)
}

// changeShared joins the queue of a shared semaphore, or leaves it or its owners.
func (c *client) changeShared(b *belief) error {
	if b.possible[0] != none {
		return c.release(b)
	}
	return c.acquire(b, 1)
}

func (c *client) acquire(b *belief, count uint64) error {
	if b.possible[0] == none {
		b.possible, b.count = []relation{none, waiting, owner}, []uint64{count}
	} else {
		b.count = append(b.count, count)
	}
	c.endTenure(b, monotonic()) // of more tokens, if it was an owner already
	b.request = c.session.LastRequest() + 1
	answer, err := c.session.StartAcquire(b.name, count)
	for err == nil {
		switch {
		case answer.GetAcquireSemaphorePending() != nil:
			b.possible, b.count = []relation{waiting, owner}, []uint64{count}
			c.acked++
			return nil
		case answer.GetAcquireSemaphoreResult().GetAcquired():
			if answer.GetAcquireSemaphoreResult().GetReqId() == c.session.LastRequest() {
				b.possible, b.count = []relation{owner}, []uint64{count}
				c.beginTenure(b)
				c.acked++
				return nil
			}
			c.late(answer)
		case answer.GetAcquireSemaphoreResult() != nil:
			return fmt.Errorf("acquire %s count %d: %v", b.name, count, answer)
		}
		answer, err = c.session.Receive() // the grant of an older wait came in between
	}
	return err
}

func (c *client) release(b *belief) error {
	b.possible, b.order = append(b.possible, none), 0
	c.endTenure(b, monotonic())
	b.request = 0
	released, err := c.session.TryRelease(b.name)
	if err != nil {
		return err
	}
	if !released {
		return fmt.Errorf("release %s, acknowledged as taken: not released", b.name)
	}
	b.possible, b.count = []relation{none}, nil
	c.acked++
	return nil
}

// compare checks what the server says about this client against its belief, and takes what it says as the new
// truth.
func (c *client) compare(b *belief, d *Ydb_Coordination.SemaphoreDescription) error {
	now, link := none, (*Ydb_Coordination.SemaphoreSession)(nil)
	for _, candidate := range d.GetOwners() {
		if candidate.GetSessionId() == c.id {
			now, link = owner, candidate
		}
	}
	for _, candidate := range d.GetWaiters() {
		if candidate.GetSessionId() == c.id {
			if link != nil {
				return fmt.Errorf("session %d is owner and waiter of %s", c.id, b.name)
			}
			now, link = waiting, candidate
		}
	}
	switch {
	case !slices.Contains(b.possible, now):
		return fmt.Errorf("session %d is %s of %s, acknowledged was one of %v", c.id, now, b.name, b.possible)
	case link != nil && !slices.Contains(b.count, link.GetCount()):
		return fmt.Errorf("session %d has count %d of %s, acknowledged was one of %v", c.id, link.GetCount(),
			b.name, b.count)
	case link != nil && b.order != 0 && link.GetOrderId() != b.order:
		return fmt.Errorf("session %d has order id %d at %s, was %d", c.id, link.GetOrderId(), b.name,
			b.order)
	}
	b.possible, b.count, b.order = []relation{now}, nil, 0
	if now == waiting {
		b.possible = append(b.possible, owner) // it may be let in at any time
	}
	if link != nil {
		b.count, b.order = []uint64{link.GetCount()}, link.GetOrderId()
	}
	if now == owner {
		c.beginTenure(b)
	}
	return nil
}

// late takes a grant that came while the answer to another request was waited for.
func (c *client) late(answer *raw.Response) {
	result := answer.GetAcquireSemaphoreResult()
	for _, b := range c.shared {
		if result.GetAcquired() && b.request == result.GetReqId() && slices.Contains(b.possible, waiting) {
			b.possible = []relation{owner}
			c.beginTenure(b)
		}
	}
}

// beginTenure notes that the client knows from now on that it is an owner.
func (c *client) beginTenure(b *belief) {
	if b.held == nil {
		b.held = &check.Tenure{Name: b.name, Session: c.id, Count: b.count[0], From: time.Duration(monotonic())}
	}
	b.held.Order = b.order
}

// endTenure notes that the client does not take itself for an owner any more.
func (c *client) endTenure(b *belief, at int64) {
	if b.held != nil {
		b.held.Until = time.Duration(min(at, c.pulse.until()))
		c.tenures = append(c.tenures, *b.held)
		b.held = nil
	}
}

// hear takes the time of a message. After a silence as long as its session's timeout a client has stopped
// believing.
func (c *client) hear() {
	if !c.pulse.expired() {
		c.pulse.beat()
		return
	}
	c.endTenures()
	c.pulse.beat()
}

func (c *client) endTenures() {
	for _, b := range append(c.shared, &c.own) {
		c.endTenure(b, monotonic())
	}
}

func (c *client) compareData(d *Ydb_Coordination.SemaphoreDescription) error {
	var value uint64
	if len(d.GetData()) > 0 {
		if _, err := fmt.Sscan(string(d.GetData()), &value); err != nil {
			return err
		}
	}
	if !slices.Contains(c.own.data, value) {
		return fmt.Errorf("%s holds %d, acknowledged was one of %v", c.own.name, value, c.own.data)
	}
	c.own.data = []uint64{value}
	return nil
}

func limitOf(name string) uint64 {
	for i := range sharedSemaphores {
		if name == sharedName(i) {
			return sharedLimit
		}
	}
	if name == sdkSharedName {
		return sharedLimit
	}
	if len(name) > 4 && name[:4] == "own-" {
		return ownLimit
	}
	return 1
}

// describeAll compares all that the server says about this client with what it was told.
func (c *client) describeAll() error {
	for _, b := range c.shared {
		d, err := c.session.Describe(b.name, false)
		if err == nil {
			err = c.compare(b, d)
		}
		if err != nil {
			return err
		}
		if d.GetCount() > limitOf(b.name) {
			return fmt.Errorf("%d tokens of %s are held", d.GetCount(), b.name)
		}
	}
	return c.describeOwn()
}

func (c *client) describeOwn() error {
	d, err := c.session.Describe(c.own.name, false)
	if err != nil {
		if !c.own.created && strings.Contains(err.Error(), "NOT_FOUND") {
			return nil
		}
		return err
	}
	c.own.created = true
	if err := c.compare(&c.own, d); err != nil {
		return err
	}
	return c.compareData(d)
}

// attach opens a stream for the client's session, which is a new one the first time.
func (c *client) attach(ctx context.Context, conn *grpc.ClientConn) error {
	c.seqNo++
	s, err := (&raw.Session{Heard: c.hear, Wrap: c.record}).Open(ctx, conn, &raw.Start{Path: nodePath, SessionId: c.id,
		SeqNo: c.seqNo, TimeoutMillis: uint64(c.pulse.timeout.Milliseconds()),
		ProtectionKey: fmt.Appendf(nil, "key-%d", c.number)})
	if err != nil {
		return fmt.Errorf("session %d of client %d: %w", c.id, c.number, err)
	}
	if c.id != 0 && s.ID != c.id {
		return fmt.Errorf("session %d of client %d became %d", c.id, c.number, s.ID)
	}
	s.Late = c.late
	c.id, c.session = s.ID, s
	for _, b := range append(c.shared, &c.own) {
		b.request = 0 // no grant is told to a new stream
	}
	return nil
}
