package group

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/scheme/outcome"
)

// talker is a link to a leader that always lets speak.
type talker struct{}

func (talker) maySpeak() bool { return true }

func (talker) put(*Stream, coordination.Forward) {}

// cutClient is a client to whom nothing can be sent.
type cutClient struct {
	nobody
	cut chan struct{}
}

// CutOff implements Client.
func (c *cutClient) CutOff() { c.cut <- struct{}{} }

// unreadStream is a stream with a session, whose client reads nothing.
func unreadStream(linger time.Duration) (*Stream, *cutClient) {
	client := &cutClient{cut: make(chan struct{}, 10)}
	policy := coordination.PingPolicy{Opaque: func() uint64 { return 1 }}
	s := &Stream{front: coordination.NewFront(&policy), client: client, scheduled: true,
		timerAt: coordination.Never, link: talker{},
		group: &Group{clock: NewClock(nil), queue: newQueue(),
			config: Config{Linger: linger, OutboundBytes: 1 << 20}}}
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{TimeoutMillis: 600_000}})
	s.deliver(talker{}, &coordination.Message{Kind: coordination.MessageAttached,
		Rights: coordination.AllRights})
	return s, client
}

// TestOutboundLimit fills a stream whose client reads nothing.
func TestOutboundLimit(t *testing.T) {
	s, client := unreadStream(time.Hour)
	room := s.group.config.OutboundBytes - s.front.Queued()*replyBytes
	s.deliver(talker{}, &coordination.Message{Kind: coordination.MessageDescribed,
		Description: &coordination.SemaphoreDescription{Data: make([]byte, room)}})
	select {
	case <-client.cut:
		t.Fatal("cut off at the limit")
	default:
	}
	s.deliver(talker{}, &coordination.Message{Kind: coordination.MessageDescribed,
		Description: &coordination.SemaphoreDescription{Data: make([]byte, 1)}})
	select {
	case <-client.cut:
	default:
		t.Fatal("not cut off past the limit")
	}
	s.front.Close()
	s.settle(coordination.Forward{})
	s.stopTimers()
}

// moody is a link to a leader that lets speak at times.
type moody struct {
	talker
	speaks bool
}

func (m *moody) maySpeak() bool { return m.speaks }

// wokenClient counts how often its stream had something to send.
type wokenClient struct {
	nobody
	woken int
}

func (c *wokenClient) Wake() { c.woken++ }

// TestMuteForAMoment takes the right to speak away, and gives it back before anybody looks.
func TestMuteForAMoment(t *testing.T) {
	link, client, set := &moody{speaks: true}, &wokenClient{}, newStreamSet()
	policy := coordination.PingPolicy{Opaque: func() uint64 { return 1 }}
	s := &Stream{front: coordination.NewFront(&policy), client: client, timerAt: coordination.Never,
		group: &Group{clock: NewClock(nil), queue: newQueue(), streams: set,
			config: Config{OutboundBytes: 1 << 20}}}
	defer s.stopTimers()
	set.followLocked(link)
	if err := set.add(s); err != nil {
		t.Fatal(err)
	}
	start := &coordination.AttachRequest{TimeoutMillis: 600_000}
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientStart, Start: start})
	set.wakeMuted()
	if client.woken != 0 {
		t.Fatal("woken, but nothing has happened")
	}

	link.speaks = false
	s.deliver(link, &coordination.Message{Kind: coordination.MessageAttached})
	set.wakeMuted()
	if client.woken != 0 {
		t.Fatal("woken, but it may not speak")
	}
	link.speaks = true
	set.wakeMuted()
	if replies, _ := s.Take(nil); client.woken != 1 || len(replies) != 2 {
		t.Errorf("woken %d times, and had to say %v", client.woken, replies)
	}
}

// turnedClock is a clock that a test turns, which counts the timers that are set.
type turnedClock struct {
	now coordination.Instant
	set int
}

// Now implements hooks.Clock.
func (c *turnedClock) Now() coordination.Instant { return c.now }

// AfterFunc implements hooks.Clock.
func (c *turnedClock) AfterFunc(time.Duration, func()) hooks.Timer {
	c.set++
	return countedTimer{c}
}

type countedTimer struct{ clock *turnedClock }

// Reset implements hooks.Timer.
func (t countedTimer) Reset(time.Duration) bool { t.clock.set++; return true }

// Stop implements hooks.Timer.
func (countedTimer) Stop() bool { return true }

// panickedClient counts the panics that are reported.
type panickedClient struct {
	nobody
	panics int
}

// Panicked implements Client.
func (c *panickedClient) Panicked(any) { c.panics++ }

// TestTimerWithoutProgress has a Front that is due again at once, as only a defect makes it: the stream is
// taken out of service with one report, and its timer is not set again.
func TestTimerWithoutProgress(t *testing.T) {
	clock, client := &turnedClock{}, &panickedClient{}
	s := &Stream{client: client, timerAt: coordination.Never, link: talker{},
		group: &Group{clock: NewClock(clock), queue: newQueue(), config: Config{Linger: time.Hour,
			OutboundBytes: 1 << 20}}}
	pings := 0
	s.front = coordination.NewFront(&coordination.PingPolicy{Opaque: func() uint64 {
		if pings++; pings == 2 {
			s.front.Close() // in the midst of a ping, which then sets the clock of a stream that has ended
		}
		return 1
	}})
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{TimeoutMillis: 3000}})
	s.deliver(talker{}, &coordination.Message{Kind: coordination.MessageAttached, Session: 1})
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: 1})
	for range 2 {
		clock.now = s.front.Wake()
		s.tick()
	}
	set := clock.set
	s.Close() // as the handler does whose client is told
	s.Take(nil)
	if client.panics != 1 || clock.set != set || s.front.Wake() != coordination.Never {
		t.Errorf("%d panics, set %d times, then %d, due at %v", client.panics, set, clock.set, s.front.Wake())
	}
}

// TestSilentEnd takes the answers that a client has not been sent away from its writer when the stream ends
// without a word, and has the writer called for the end.
func TestSilentEnd(t *testing.T) {
	clock, client, link := &turnedClock{}, &wokenClient{}, &moody{speaks: true}
	s := &Stream{client: client, timerAt: coordination.Never, link: link,
		group: &Group{clock: NewClock(clock), queue: newQueue(), config: Config{Linger: time.Hour,
			OutboundBytes: 1 << 20}, streams: newStreamSet()}}
	s.front = coordination.NewFront(&coordination.PingPolicy{Opaque: func() uint64 { return 1 }})
	defer s.stopTimers()
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{TimeoutMillis: 3000}})
	s.deliver(link, &coordination.Message{Kind: coordination.MessageAttached, Session: 1, GraceMillis: 1000})
	taken, _ := s.Take(nil)
	s.follow(nil)
	clock.now = s.front.Wake()
	s.tick()
	before := client.woken
	if s.front.Ending() != coordination.EndingSilent || !s.PutBack(taken) || client.woken != before+1 {
		t.Fatalf("ending %v, woken %d times after %d", s.front.Ending(), client.woken, before)
	}
	if replies, ending := s.Take(nil); len(replies) != 0 || ending != coordination.EndingSilent {
		t.Errorf("took %v and ending %v", replies, ending)
	}
}

// TestLinger ends a stream whose client does not read the end.
func TestLinger(t *testing.T) {
	s, client := unreadStream(20 * time.Millisecond)
	s.End(coordination.LinkFailure)
	<-client.cut
	s.stopTimers()
}

// TestQueueRoom shows when streams are not read any more: one byte past the limit.
func TestQueueRoom(t *testing.T) {
	for past := range 2 {
		q := newQueue()
		q.put(event{forward: coordination.Forward{Request: &coordination.Request{Data: make([]byte,
			maxQueuedBytes-2*requestBytes+past)}}})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if entered := q.room.enter(over, requestBytes); entered != (past == 0) {
			t.Errorf("%d past the limit: there is room %v", past, entered)
		}
	}
}

// TestRoomIsForOne has many wait for room in the queue, streams and calls, when a turn empties it: no more of
// them are let in than it has room for, although none of them has put anything yet.
func TestRoomIsForOne(t *testing.T) {
	g := openTest(t, nil)
	g.turn.Lock() // nobody empties the queue
	defer g.turn.Unlock()
	const each = 3 << 20
	g.streams.budget.limit(1 << 40) // it would hold up most of them before
	g.queue.put(event{forward: coordination.Forward{Request: &coordination.Request{Data: make([]byte,
		maxQueuedBytes)}}})
	const clients = 2 * maxQueuedBytes / each
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entered := make(chan *Stream, clients)
	message := &coordination.ClientMessage{Kind: coordination.ClientSemaphore,
		Request: &coordination.Request{Data: make([]byte, each)}}
	for range clients {
		s := g.NewStream(nil, Caller{}, &coordination.PingPolicy{})
		go func() {
			s.AwaitRoom(ctx, message)
			entered <- s
		}()
	}
	waiting := func() int {
		g.queue.room.mutex.Lock()
		defer g.queue.room.mutex.Unlock()
		return g.queue.room.waiting.Len()
	}
	eventually(t, "all to wait", func() bool { return waiting() == clients })
	g.queue.takeRequests(nil)
	const most = maxQueuedBytes / (each + requestBytes)
	var in []*Stream
	for range most {
		in = append(in, <-entered)
	}
	if left := waiting(); left != clients-most {
		t.Fatalf("%d of %d wait after there was room for %d", left, clients, most)
	}
	for _, s := range in { // what they bring, goes elsewhere
		s.mutex.Lock()
		s.enqueued()
		s.mutex.Unlock()
	}
	eventually(t, "the next ones", func() bool { return waiting() == max(0, clients-2*most) })
	cancel()
	eventually(t, "all to be gone", func() bool { return waiting() == 0 })
}

// TestBytesInFlight shows when requests wait in the queue: at the limit of what is proposed and not applied.
func TestBytesInFlight(t *testing.T) {
	g := openTest(t, nil)
	g.turn.Lock()
	defer g.turn.Unlock()
	for inFlight, want := range map[int]bool{maxInFlightBytes - 1: true, maxInFlightBytes: false} {
		asked := &call{done: make(chan callAnswer, 1),
			read: func(*coordination.Machine) outcome.Outcome { return outcome.Done() }}
		g.queue.put(event{call: asked})
		g.inFlight = inFlight
		g.work()
		if taken := len(asked.done) == 1; taken != want {
			t.Errorf("with %d bytes in flight: taken %v", inFlight, taken)
		}
		g.inFlight = 0
		g.queue.putStore(storeEvent{}) // requests are looked at again once the log has said something
		g.work()
	}
}

// TestLag shows what a server knows of how far the leader is.
func TestLag(t *testing.T) {
	g := newGroup(Config{})
	if _, known := g.Lag(); known {
		t.Error("nobody has told yet")
	}
	g.applied.Store(10)
	for told, want := range map[uint64]uint64{5: 0, 10: 0, 17: 7} {
		g.committed.Store(told)
		if lag, known := g.Lag(); lag != want || !known {
			t.Errorf("told of %d entries: %d are missing, %v", told, lag, known)
		}
	}
	g.streams.follow(&localLink{group: g})
	if lag, known := g.Lag(); lag != 0 || !known {
		t.Errorf("the leader lacks %d, %v", lag, known)
	}
}
