package rings

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/coordd/coordd/coordination"
)

// historyStream is a client's stream on a server.
type historyStream struct {
	history *history
	server  *historyServer
	front   *coordination.Front
	client  *historyClient
}

func (s *historyStream) send(m coordination.ClientMessage) { s.forward(s.front.Receive(&m)) }

func (s *historyStream) forward(f coordination.Forward) {
	if r := s.server.relay; r != nil && f != (coordination.Forward{}) {
		r.up = append(r.up, relayedUp{s, f})
	}
}

func (s *historyStream) mute() { s.front.Mute(!s.server.permit || s.server.relay == nil) }

// read hands the client the replies that may be sent. At times the permit ends before they are written.
func (s *historyStream) read() {
	s.mute()
	replies := s.front.Take(nil)
	if len(replies) > 0 && s.history.one(8) {
		s.front.Mute(true)
		again := s.front.PutBack(replies)
		s.mute()
		if again {
			s.history.counts["put back"]++
			replies = s.front.Take(nil)
		}
	}
	for i := range replies {
		s.client.hear(&replies[i])
	}
	if s.front.Ending() == coordination.EndingSilent && !s.client.over {
		s.client.linkFails()
	}
}

// historyClient is a client with one stream. It has a semaphore of its own, of which it knows how every
// request must be answered, what a describe must show, and when its watch must fire; a request that is
// executed twice, not at all or out of turn shows. On the semaphores that it shares with others every request
// must be answered. Answers come in the order of sending.
type historyClient struct {
	history  *history
	number   int
	stream   *historyStream
	wants    coordination.SessionID // in its start
	session  coordination.SessionID // 0 until the start is answered
	stopping bool
	over     bool   // the stream has ended, or the client has closed it
	doomed   bool   // another stream wants its session: from here on nothing is certain
	disorder string // allowed only if "Link failure" follows
	asked    []*asked

	// The client's own semaphore, as it must be once the requests sent so far are executed.
	own          string
	exists, held bool
	data         []byte
	watch        *asked
}

// asked is a request and what came of it.
type asked struct {
	request *coordination.Request
	changes int // of leaders and relays, when it was sent
	known   bool
	refusal *coordination.Refusal // the answer, if it is known
	done    bool
	data    []byte // that a describe shows
	count   uint64

	first, last        bool // of the answers have come
	watching, mustFire bool
	fired              int
}

func (h *history) open(s *historyServer, session coordination.SessionID) {
	c := &historyClient{history: h, number: len(h.clients), wants: session, doomed: h.ended[session],
		own: fmt.Sprint("own-", len(h.clients))}
	c.stream = &historyStream{h, s, coordination.NewFront(&h.policy), c}
	if s.relay == nil {
		c.stream.front.Orphan(h.now)
	}
	s.streams = append(s.streams, c.stream)
	h.clients = append(h.clients, c)
	h.note("client %d wants session %d of server %d", c.number, session, s.number)
	c.stream.send(coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{Path: "/local/n", Session: session, TimeoutMillis: 600_000,
			Server: uint64(s.number + 1), Nonce: h.draw()}})
}

// rivals reports whether another client has this one's session, or wants it.
func (c *historyClient) rivals() bool {
	return slices.ContainsFunc(c.history.alive(), func(other *historyClient) bool {
		return other != c && (other.session == c.session || other.wants == c.session)
	})
}

func (h *history) alive() []*historyClient {
	return slices.DeleteFunc(slices.Clone(h.clients), func(c *historyClient) bool { return c.over })
}

// act makes a client do something; new streams are opened on s.
func (h *history) act(s *historyServer) {
	alive := h.alive()
	if len(alive) < 4 || h.one(60) {
		h.open(s, 0)
		return
	}
	c := alive[h.random.IntN(len(alive))]
	if c.session == 0 || c.stopping {
		return
	}
	switch x := h.random.IntN(60); {
	case x < 3 && h.thefts && !c.rivals():
		h.counts["thefts"]++
		c.doomed = true
		h.open(s, c.session)
	case x == 3:
		h.note("client %d closes", c.number)
		c.over, c.disorder = true, ""
		c.stream.forward(c.stream.front.Close())
		if !c.rivals() {
			h.open(s, c.session)
		}
	case x == 4:
		h.note("client %d stops", c.number)
		c.stopping = true
		c.stream.send(coordination.ClientMessage{Kind: coordination.ClientStop})
	case c.unanswered() < 6 && x < 40:
		c.askOwn()
	case c.unanswered() < 6:
		c.askShared()
	}
}

func (c *historyClient) unanswered() (n int) {
	for _, a := range c.asked {
		if !a.last {
			n++
		}
	}
	return n
}

func (c *historyClient) send(a *asked) {
	a.changes = c.history.changes
	c.asked = append(c.asked, a)
	c.history.note("client %d asks %d: %+v", c.number, len(c.asked), *a.request)
	c.stream.send(coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: uint64(len(c.asked)),
		Request: a.request})
}

func (c *historyClient) askOwn() {
	random := c.history.random
	r := &coordination.Request{Name: c.own}
	a := &asked{request: r, known: true, refusal: coordination.SemaphoreMissing}
	if c.exists {
		a.refusal = nil
	}
	switch random.IntN(6) {
	case 0:
		r.Kind, r.Limit = coordination.RequestCreate, 1
		if a.refusal = nil; c.exists {
			a.refusal = coordination.SemaphoreExists
			break
		}
		c.exists, c.data = true, nil
	case 1:
		r.Kind, r.Data = coordination.RequestUpdate, []byte{byte(1 + random.IntN(3))}
		if c.exists && !bytes.Equal(c.data, r.Data) {
			c.data = r.Data
			c.change()
		}
	case 2:
		r.Kind = coordination.RequestDelete
		switch {
		case c.held:
			a.refusal = coordination.SemaphoreNotEmpty
		case c.exists:
			c.exists = false
			c.change()
		}
	case 3:
		r.Kind, r.Count = coordination.RequestAcquire, 1
		a.done, c.held = c.exists, c.exists
	case 4:
		r.Kind = coordination.RequestRelease
		a.refusal, a.done, c.held = nil, c.held, false
	case 5:
		r.Kind, r.WatchData = coordination.RequestDescribe, random.IntN(2) == 0
		if !c.exists {
			a.refusal = coordination.SemaphoreNotFound
			break
		}
		if a.data = c.data; c.held {
			a.count = 1
		}
		if r.WatchData {
			c.change()
			c.watch = a
		}
	}
	c.send(a)
}

// change notes that the client's own semaphore changes, which fires its watch.
func (c *historyClient) change() {
	if c.watch != nil {
		c.watch.mustFire, c.watch = true, nil
	}
}

func (c *historyClient) askShared() {
	random := c.history.random
	r := &coordination.Request{Name: []string{"a", "b", "c"}[random.IntN(3)]}
	switch random.IntN(6) {
	case 0:
		r.Kind, r.Limit = coordination.RequestCreate, uint64(1+random.IntN(2))
	case 1:
		r.Kind, r.WatchData, r.WatchOwners = coordination.RequestDescribe, random.IntN(2) == 0,
			random.IntN(2) == 0
	case 2:
		r.Kind = coordination.RequestRelease
	case 3:
		r.Kind, r.Force = coordination.RequestDelete, random.IntN(2) == 0
	default:
		r.Kind, r.Count, r.Ephemeral = coordination.RequestAcquire, 1, r.Name == "c"
		r.TimeoutMillis = []uint64{0, 1, 50, coordination.Infinite}[random.IntN(4)]
	}
	c.send(&asked{request: r})
}

// releaseAll gives back the shared semaphores.
func (c *historyClient) releaseAll() {
	for _, name := range []string{"a", "b", "c"} {
		if !c.over && c.session != 0 && !c.stopping {
			c.send(&asked{request: &coordination.Request{Kind: coordination.RequestRelease, Name: name}})
		}
	}
}

func (c *historyClient) fail(format string, args ...any) {
	c.history.fail("client %d: "+format, append([]any{c.number}, args...)...)
}

func (c *historyClient) hear(r *coordination.Reply) {
	c.history.note("client %d hears %+v", c.number, *r)
	if c.over {
		return
	}
	c.history.counts["replies"]++
	switch r.Kind {
	case coordination.ReplyNone:
	case coordination.ReplyPing:
		c.stream.send(coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: r.Opaque})
	case coordination.ReplyStarted:
		if c.session != 0 {
			c.fail("started twice")
		}
		c.session = r.Session
	case coordination.ReplyStopped:
		if !c.stopping {
			c.fail("stopped")
		}
		c.over = true
	case coordination.ReplyFailure:
		switch {
		case r.Refusal.Text == coordination.LinkFailure.Text:
			c.linkFails()
		case !c.doomed && c.session != 0:
			c.fail("%s", r.Refusal.Text)
		}
		c.over = true
	case coordination.ReplyPending, coordination.ReplyResult, coordination.ReplyChanged:
		if r.ReqID == 0 || r.ReqID > uint64(len(c.asked)) {
			c.fail("an answer to %d", r.ReqID)
		}
		c.hearAnswer(c.asked[r.ReqID-1], r)
	default:
		c.fail("reply %d", r.Kind)
	}
}

// linkFails ends the client. A stream may end so if no server knows the outcome of a request any more: of one
// sent before a stop, or before the checkpoint that a server took over; and of a describe if a later request
// was executed. A start whose session is gone may end silently.
func (c *historyClient) linkFails() {
	c.history.counts["link failures"]++
	c.over, c.disorder = true, ""
	describe := slices.IndexFunc(c.asked,
		func(a *asked) bool { return a.request.Kind == coordination.RequestDescribe && !a.first })
	overtaken := describe >= 0 && slices.ContainsFunc(c.asked[describe:],
		func(a *asked) bool { return a.request.Kind != coordination.RequestDescribe })
	refused := c.session == 0 && c.wants != 0
	if !overtaken && !refused && !c.doomed && !c.stopping && !c.history.restored {
		c.fail("a link failure without a reason")
	}
}

func (c *historyClient) hearAnswer(a *asked, r *coordination.Reply) {
	switch r.Kind {
	case coordination.ReplyPending:
		if a.request.Kind != coordination.RequestAcquire || a.first {
			c.fail("Pending of %d", r.ReqID)
		}
		if a.known && !c.doomed {
			c.fail("%d waits for a semaphore that nobody else uses", r.ReqID)
		}
		c.inOrder(a, r.ReqID)
	case coordination.ReplyResult:
		if a.request.Kind != r.Request || a.last {
			c.fail("a second result of %d", r.ReqID)
		}
		c.inOrder(a, r.ReqID)
		a.last, a.watching = true, r.WatchAdded
		if a.known && !c.doomed {
			c.compare(a, r)
		}
	case coordination.ReplyChanged:
		if a.fired++; !a.watching || a.fired > 1 {
			c.fail("Changed of %d, for the %d. time", r.ReqID, a.fired)
		}
		spurious := !r.DataChanged && !r.OwnersChanged && c.history.changes > a.changes
		if a.known && !a.mustFire && !spurious && !c.doomed {
			c.fail("the watch of %d fires although nothing has changed", r.ReqID)
		}
	}
}

func (c *historyClient) compare(a *asked, r *coordination.Reply) {
	if r.Refusal != a.refusal || r.Done != a.done {
		c.fail("request %d of kind %d: got %v %v, want %v %v", r.ReqID, r.Request, r.Refusal, r.Done, a.refusal,
			a.done)
	}
	if d := r.Description; d != nil && (d.Count != a.count || !bytes.Equal(d.Data, a.data)) {
		c.fail("describe %d shows %v, count %d, want %v and %d", r.ReqID, d.Data, d.Count, a.data, a.count)
	}
}

// inOrder wants all earlier requests to be answered. The Pending of an acquire that waits is lost with a
// leader if what comes after it is known already.
func (c *historyClient) inOrder(a *asked, reqID uint64) {
	if a.first {
		return
	}
	a.first = true
	for i, earlier := range c.asked[:reqID-1] {
		waits := earlier.request.Kind == coordination.RequestAcquire && !earlier.known
		if !earlier.first && !waits && !c.doomed {
			c.disorder = fmt.Sprintf("request %d is answered before %d", reqID, i+1)
		}
	}
}

// verify judges the client once nothing is on its way any more.
func (c *historyClient) verify() {
	switch {
	case c.disorder != "" && !c.doomed:
		c.fail("%s", c.disorder)
	case c.over || c.doomed:
		return
	case c.session == 0 || c.stopping:
		c.fail("the start or the stop was not answered: %v", c.stopping)
	}
	for i, a := range c.asked {
		if !a.last {
			c.fail("request %d of kind %d has no answer", i+1, a.request.Kind)
		}
		if a.watching && a.mustFire && a.fired == 0 {
			c.fail("the watch of %d has not fired", i+1)
		}
	}
}
