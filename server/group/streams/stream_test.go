package streams

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/hooks"
)

// idle is a client that does nothing.
type idle struct{}

func (idle) Wake()               {}
func (idle) CutOff()             {}
func (idle) Panicked(reason any) { panic(reason) }

// testSet is streams of a group that does nothing.
func testSet(hands hooks.Clock, linger time.Duration) *Set {
	return New(Config{Core: new(silentServer), Clock: clock.New(hands), Room: budget.New("queue", 0),
		Linger: linger, OutboundBytes: 1 << 20})
}

// talker is a link to a leader that always lets speak.
type talker struct{}

func (talker) MaySpeak() bool { return true }

func (talker) put(*Stream, coordination.Forward) {}

// cutClient is a client to whom nothing can be sent.
type cutClient struct {
	idle
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
		set: testSet(nil, linger)}
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{TimeoutMillis: 600_000}})
	s.deliver(talker{}, &coordination.Message{Kind: coordination.MessageAttached,
		Rights: coordination.AllRights})
	return s, client
}

// TestOutboundLimit fills a stream whose client reads nothing.
func TestOutboundLimit(t *testing.T) {
	s, client := unreadStream(time.Hour)
	room := s.set.config.OutboundBytes - s.front.Queued()*replyBytes
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

func (m *moody) MaySpeak() bool { return m.speaks }

// wokenClient counts how often its stream had something to send.
type wokenClient struct {
	idle
	woken int
}

func (c *wokenClient) Wake() { c.woken++ }

// TestMuteForAMoment takes the right to speak away, and gives it back before anybody looks.
func TestMuteForAMoment(t *testing.T) {
	link, client, set := &moody{speaks: true}, &wokenClient{}, testSet(nil, 0)
	policy := coordination.PingPolicy{Opaque: func() uint64 { return 1 }}
	s := &Stream{front: coordination.NewFront(&policy), client: client, timerAt: coordination.Never,
		set: set}
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
	idle
	panics int
}

// Panicked implements Client.
func (c *panickedClient) Panicked(any) { c.panics++ }

// TestTimerWithoutProgress has a Front that is due again at once, as only a defect makes it: the stream is
// taken out of service with one report, and its timer is not set again.
func TestTimerWithoutProgress(t *testing.T) {
	hands, client := &turnedClock{}, &panickedClient{}
	s := &Stream{client: client, timerAt: coordination.Never, link: talker{},
		set: testSet(hands, time.Hour)}
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
		hands.now = s.front.Wake()
		s.tick()
	}
	set := hands.set
	s.Close() // as the handler does whose client is told
	s.Take(nil)
	if client.panics != 1 || hands.set != set || s.front.Wake() != coordination.Never {
		t.Errorf("%d panics, set %d times, then %d, due at %v", client.panics, set, hands.set, s.front.Wake())
	}
}

// TestSilentEnd takes the answers that a client has not been sent away from its writer when the stream ends
// without a word, and has the writer called for the end.
func TestSilentEnd(t *testing.T) {
	hands, client, link := &turnedClock{}, &wokenClient{}, &moody{speaks: true}
	s := &Stream{client: client, timerAt: coordination.Never, link: link,
		set: testSet(hands, time.Hour)}
	s.front = coordination.NewFront(&coordination.PingPolicy{Opaque: func() uint64 { return 1 }})
	defer s.stopTimers()
	s.front.Receive(&coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{TimeoutMillis: 3000}})
	s.deliver(link, &coordination.Message{Kind: coordination.MessageAttached, Session: 1, GraceMillis: 1000})
	taken, _ := s.Take(nil)
	s.Follow(nil)
	hands.now = s.front.Wake()
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

// TestStreamBytes shows when a stream is not read because of what it has asked: at the limit.
func TestStreamBytes(t *testing.T) {
	for under := range 2 {
		s, _ := unreadStream(0)
		defer s.stopTimers()
		request := &coordination.Request{Kind: coordination.RequestUpdate}
		request.Data = make([]byte, maxStreamBytes-request.Bytes()-under)
		if paused := s.receive(&coordination.ClientMessage{Kind: coordination.ClientSemaphore,
			Request: request}) != nil; paused != (under == 0) {
			t.Errorf("%d below the limit: paused %v", under, paused)
		}
	}
}
