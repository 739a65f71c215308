package standin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// Client is a session in a test's hands: a competitor of the code under test. It speaks to the server within the
// process, so neither faults nor Requests know of it, and answers its pings. Where a method is refused the test fails.
// After Restart it goes on with its session; a method that is under way then fails.
type Client struct {
	// ID is the session.
	ID uint64

	server *Server
	path   string
	mutex  sync.Mutex
	talk   *talk // the latest
}

// Exclusive is all of a semaphore. One that is not there is made for as long as somebody has it.
const Exclusive = uint64(math.MaxUint64)

// clientTimeout is the timeout of a Client's session.
const clientTimeout = 10 * time.Second

// Client starts a session of a coordination node, with a timeout of 10 s. It ends with Stop, Vanish or the
// stand-in.
func (s *Server) Client(node string) *Client {
	s.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), s.settings.patience)
	defer cancel()
	path := s.path(node).String()
	t, id, err := s.attach(ctx, path, 0)
	if err != nil {
		s.fail("client: %s: %v\n%s", node, err, s.situation())
		return nil
	}
	return &Client{ID: uint64(id), talk: t, server: s, path: path}
}

// present returns the stream of the client, and attaches to the session again if a server has ended the last one.
func (c *Client) present(ctx context.Context) (*talk, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case <-c.talk.cut: // by the client itself
		return nil, errStreamEnded
	case <-c.talk.ended:
		t, _, err := c.server.attach(ctx, c.path, coordination.SessionID(c.ID))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errStreamEnded, err)
		}
		c.talk = t
	default:
	}
	return c.talk, nil
}

// Acquire takes some of a semaphore if it is free, and reports whether it was.
func (c *Client) Acquire(name string, count uint64) bool {
	c.server.helper()()
	return c.do(acquisition(name, count, 0)).Done
}

// Queue takes some of a semaphore, or waits for it without end. It returns when the one or the other is so.
func (c *Client) Queue(name string, count uint64) {
	c.server.helper()()
	c.do(acquisition(name, count, coordination.Infinite))
}

// Share takes some of an ephemeral semaphore, which is made if it is missing, with data: so do the instances of a
// service. It reports whether there was enough.
func (c *Client) Share(name string, count uint64, data []byte) bool {
	c.server.helper()()
	return c.do(&coordination.Request{Kind: coordination.RequestAcquire, Name: name, Count: count, Data: data,
		Ephemeral: true}).Done
}

func acquisition(name string, count, timeoutMillis uint64) *coordination.Request {
	return &coordination.Request{Kind: coordination.RequestAcquire, Name: name, Count: count,
		TimeoutMillis: timeoutMillis, Ephemeral: count == Exclusive}
}

// Release gives back what the session has of a semaphore, or waits for, and reports whether there was
// anything.
func (c *Client) Release(name string) bool {
	c.server.helper()()
	return c.do(&coordination.Request{Kind: coordination.RequestRelease, Name: name}).Done
}

// Create makes a semaphore.
func (c *Client) Create(name string, limit uint64, data []byte) {
	c.server.helper()()
	c.do(&coordination.Request{Kind: coordination.RequestCreate, Name: name, Limit: limit, Data: data})
}

// Update replaces the data of a semaphore.
func (c *Client) Update(name string, data []byte) {
	c.server.helper()()
	c.do(&coordination.Request{Kind: coordination.RequestUpdate, Name: name, Data: data})
}

// Delete removes a semaphore, with force also one that somebody has or waits for.
func (c *Client) Delete(name string, force bool) {
	c.server.helper()()
	c.do(&coordination.Request{Kind: coordination.RequestDelete, Name: name, Force: force})
}

// Stop ends the session. What it has goes to those who wait.
func (c *Client) Stop() {
	c.server.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), c.server.settings.patience)
	defer cancel()
	t, err := c.present(ctx)
	if err == nil {
		err = t.stop(ctx)
	}
	if err != nil {
		c.server.fail("client: stop session %d: %v", c.ID, err)
	}
}

// Vanish has the client die: nobody stops the session, whose timeout begins to run.
func (c *Client) Vanish() {
	c.mutex.Lock()
	t := c.talk
	c.mutex.Unlock()
	t.CutOff()
	<-t.ended
}

func (c *Client) do(r *coordination.Request) coordination.Reply {
	c.server.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), c.server.settings.patience)
	defer cancel()
	t, err := c.present(ctx)
	var reply coordination.Reply
	if err == nil {
		reply, err = t.ask(ctx, r)
	}
	if err != nil {
		c.server.fail("client: session %d: semaphore %q: %v\n%s", c.ID, r.Name, err, c.server.situation())
	}
	return reply
}

// talk is a stream of a client in the process of the server. It implements group.Client.
type talk struct {
	stream  *streams.Stream
	woken   chan struct{}
	started chan coordination.Reply // or failed
	ended   chan struct{}           // closed when nothing comes any more

	cutting sync.Once
	cut     chan struct{} // closed when the client is gone

	sending sync.Mutex      // held while the stream gets a message, or is left
	resume  <-chan struct{} // closed when the next message may be sent; nil: now
	left    bool            // nothing may be sent any more

	mutex   sync.Mutex
	asked   uint64                             // requests so far
	waiting map[uint64]chan coordination.Reply // of requests without a first answer
}

var errStreamEnded = errors.New("the stream has ended")

// attach starts a session, or attaches to one.
func (c *core) attach(ctx context.Context, path string, session coordination.SessionID) (*talk,
	coordination.SessionID, error) {
	g, err := c.leader(ctx)
	if err != nil {
		return nil, 0, err
	}
	t := &talk{woken: make(chan struct{}, 1), started: make(chan coordination.Reply, 1),
		ended: make(chan struct{}), cut: make(chan struct{}),
		waiting: make(map[uint64]chan coordination.Reply)}
	policy := &coordination.PingPolicy{Opaque: streams.Nonce,
		FirstMessageMillis: uint64(startPatience.Milliseconds())}
	t.stream = g.NewStream(t, streams.Caller{}, policy)
	if err := t.stream.Enter(); err != nil {
		return nil, 0, err
	}
	t.stream.Open()
	go t.listen()
	start := &coordination.AttachRequest{Path: path, Session: session,
		TimeoutMillis: uint64(clientTimeout.Milliseconds()), Description: "standin client"}
	if err = t.say(ctx, &coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: start}); err == nil {
		var started coordination.Reply
		if started, err = t.await(ctx, t.started); err == nil {
			return t, started.Session, nil
		}
	}
	t.CutOff()
	<-t.ended
	return nil, 0, err
}

// await returns what is heard of an answer, a refusal as its error.
func (t *talk) await(ctx context.Context, answer <-chan coordination.Reply) (coordination.Reply, error) {
	select {
	case r := <-answer:
		return r, refused(r)
	case <-t.ended:
	case <-ctx.Done():
		return coordination.Reply{}, ctx.Err()
	}
	// A stream may end right behind the answer, which then says more than that it has.
	select {
	case r := <-answer:
		return r, refused(r)
	default:
		return coordination.Reply{}, errStreamEnded
	}
}

// refused is why something was, nil if it was not.
func refused(r coordination.Reply) error {
	if r.Refusal == nil {
		return nil
	}
	return fmt.Errorf("%v: %s", r.Refusal.Status, r.Refusal.Text)
}

// Wake implements group.Client.
func (t *talk) Wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// CutOff implements group.Client.
func (t *talk) CutOff() { t.cutting.Do(func() { close(t.cut) }) }

// Panicked implements group.Client.
func (t *talk) Panicked(reason any) { panic(reason) }

// listen hears the server until the end of the stream.
func (t *talk) listen() {
	defer t.leave()
	var replies []coordination.Reply
	for {
		var ending coordination.Ending
		replies, ending = t.stream.Take(replies[:0])
		for _, r := range replies {
			t.hear(r)
		}
		if ending != coordination.EndingNone {
			return
		}
		if len(replies) > 0 {
			continue
		}
		select {
		case <-t.woken:
		case <-t.cut:
			return
		}
	}
}

func (t *talk) leave() {
	t.sending.Lock()
	defer t.sending.Unlock()
	t.left = true
	t.stream.Close()
	t.stream.Leave()
	close(t.ended)
}

func (t *talk) hear(r coordination.Reply) {
	switch r.Kind {
	case coordination.ReplyPing:
		go func() { // which may have to wait until something is heard
			_ = t.say(context.Background(), &coordination.ClientMessage{Kind: coordination.ClientPong,
				Opaque: r.Opaque})
		}()
	case coordination.ReplyStarted, coordination.ReplyFailure:
		select {
		case t.started <- r:
		default:
		}
	case coordination.ReplyPending, coordination.ReplyResult:
		t.mutex.Lock()
		defer t.mutex.Unlock()
		if first := t.waiting[r.ReqID]; first != nil {
			first <- r
			delete(t.waiting, r.ReqID)
		}
	}
}

// say sends a message when the server takes it.
func (t *talk) say(ctx context.Context, m *coordination.ClientMessage) error {
	for {
		wait, err := t.sayNow(ctx, m)
		if err != nil || wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-t.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sayNow sends a message, or returns what has to be waited for.
func (t *talk) sayNow(ctx context.Context, m *coordination.ClientMessage) (wait <-chan struct{}, err error) {
	t.sending.Lock()
	defer t.sending.Unlock()
	if t.left {
		return nil, errStreamEnded
	}
	if t.resume != nil {
		select {
		case <-t.resume:
		default:
			return t.resume, nil
		}
	}
	t.stream.AwaitRoom(ctx, m)
	t.resume = t.stream.Receive(m)
	return nil, nil
}

// ask returns the first answer to a request.
func (t *talk) ask(ctx context.Context, r *coordination.Request) (coordination.Reply, error) {
	answer := make(chan coordination.Reply, 1)
	t.mutex.Lock()
	t.asked++
	number := t.asked
	t.waiting[number] = answer
	t.mutex.Unlock()
	defer func() {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		delete(t.waiting, number)
	}()
	if err := t.say(ctx, &coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: number,
		Request: r}); err != nil {
		return coordination.Reply{}, err
	}
	return t.await(ctx, answer)
}

// stop ends the session.
func (t *talk) stop(ctx context.Context) error {
	err := t.say(ctx, &coordination.ClientMessage{Kind: coordination.ClientStop})
	if err == nil {
		select {
		case <-t.ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	t.CutOff()
	<-t.ended
	return err
}
