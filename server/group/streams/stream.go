package streams

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/server/group/slowest"
)

const (
	// replyBytes is the size of a queued reply for Config.OutboundBytes, without the description that it carries.
	replyBytes = 128
	// maxInFlightRequests bounds the requests of one stream without an answer and the answers not sent. At the bound
	// the stream is not read any more.
	maxInFlightRequests = 1024
)

// Stream is one client's stream on this server: its Front, the way to the leader, and what waits for the
// client. It knows nothing of the connection; that is its Client.
type Stream struct {
	id     coordination.StreamID
	set    *Set
	client Client
	caller Caller

	credit int // bytes of Set.Budget for the message that comes next; of AwaitRoom and Receive
	coming int // bytes of the queue's room for it; of the same

	mutex   sync.Mutex // guards what follows, and is never held across I/O
	front   *coordination.Front
	link    Link        // where the Front's messages go; nil while there is no leader
	timer   hooks.Timer // calls tick at the Front's Wake; nil until there is one
	timerAt coordination.Instant
	// calls remind where the rings' clock is turned by hand
	reminder *time.Timer
	// closed when the client may be read again; nil while it may
	resume chan struct{}
	ended  bool // the Front has ended, and lingering runs
	// cuts off a client that does not read the end of its stream
	lingering *time.Timer
	// the client was woken, and has not yet found that there is nothing more to take
	scheduled bool
	outbound  int // bytes queued
	// sizes of the descriptions of a leader elsewhere that have not left this server
	copies map[*coordination.SemaphoreDescription]int
	closed bool // AllGone was called
	holds  int  // bytes of Set.Budget for the Front's requests
}

// Client is the connection behind a Stream. Wake and CutOff may be called under the stream's lock, so they
// must neither block nor call the stream.
type Client interface {
	// Wake is called when there is something to Take. It is not called again before Take has found nothing, or
	// PutBack has put something back.
	Wake()
	// CutOff ends the connection of a client that does not read.
	CutOff()
	// Panicked ends the client, because code of the stream has panicked on a goroutine that serves others as well. The
	// panic goes no further.
	Panicked(reason any)
}

// Caller is the caller that opened a stream, with the rights and the identity that count for its sessions.
type Caller struct {
	coordination.Caller
	Identity coordination.Identity
	// Client describes the caller for events; nil: unknown. It is not changed any more.
	Client *coordination.Client
	// Trace is W3C's traceparent, empty if the stream is part of no trace. Watchers of events see it.
	Trace string
}

// NewStream makes a stream of a client, which is pinged by policy. It takes part from Enter on.
func (set *Set) NewStream(client Client, caller Caller, policy *coordination.PingPolicy) *Stream {
	return &Stream{id: set.nextID(), set: set, client: client, caller: caller,
		front: coordination.NewFront(policy), timerAt: coordination.Never}
}

// Enter adds the stream to its Set. Errors: ErrStopped.
func (s *Stream) Enter() error { return s.set.add(s) }

// Leave is the counterpart of Enter, and the last call of a stream.
func (s *Stream) Leave() {
	s.set.remove(s)
	s.stopTimers()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.set.Budget.Release(s.holds + s.credit)
	s.holds, s.credit = 0, 0
	s.enqueued()
}

// Open starts the time within which the first message must come.
func (s *Stream) Open() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.front.Open(s.set.config.Clock.Now())
	s.settle(coordination.Forward{})
	s.startReminding()
}

// AwaitRoom returns when the group has room for another message of the client, or ctx is done. Meanwhile the
// stream is not read, so its ping clock stands still. Pings and pongs need no room.
func (s *Stream) AwaitRoom(ctx context.Context, message *coordination.ClientMessage) {
	bytes := message.Bytes()
	if bytes == 0 {
		return
	}
	begun, waited := coordination.Instant(0), false
	if message.Request != nil {
		begun = s.set.config.Clock.Now()
		message.Received = begun
	}
	s.credit = s.draw(ctx, s.set.Budget, bytes, &waited)
	s.coming = s.draw(ctx, s.set.config.Room, bytes, &waited)
	if !waited {
		return
	}
	now := s.set.config.Clock.Now()
	message.RoomMicros = uint32(slowest.MicrosOf(now - begun))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.front.Read(now)
	s.plan()
}

// draw acquires room for the message that comes next, and waits for it if necessary. It returns the bytes that it
// acquired, 0 if ctx is done before.
func (s *Stream) draw(ctx context.Context, from *budget.Budget, bytes int, waited *bool) int {
	if from.TryAcquire(bytes) {
		return bytes
	}
	if !*waited {
		*waited = true
		s.notRead()
	}
	if !from.Acquire(ctx, bytes) {
		return 0
	}
	return bytes
}

// enqueued releases the room that was kept in the queue for a message: it is there, or goes elsewhere.
func (s *Stream) enqueued() {
	s.set.config.Room.Release(s.coming)
	s.coming = 0
}

// account adjusts the stream's share of Set.Budget to the requests that its Front has. The mutex is held.
func (s *Stream) account() {
	if holds := s.front.InFlightBytes(); holds != s.holds {
		s.set.Budget.Adjust(holds - s.holds)
		s.holds = holds
	}
}

func (s *Stream) notRead() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.front.NotRead(s.set.config.Clock.Now())
	s.plan()
}

// Receive hands a message of the client to the Front. The next one must not be read before the returned
// channel is closed; nil means at once.
func (s *Stream) Receive(message *coordination.ClientMessage) <-chan struct{} {
	resume := s.receive(message)
	s.set.config.Core.Kick()
	return resume
}

func (s *Stream) receive(message *coordination.ClientMessage) <-chan struct{} {
	if message.Start != nil {
		message.Start.Nonce, message.Start.Server = Nonce(), s.set.config.Core.Member()
		message.Start.Caller, message.Start.Identity = s.caller.Caller, s.caller.Identity
		message.Start.Client = s.caller.Client
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.holds += s.credit
	s.credit = 0
	s.settle(s.front.Receive(message)) // the Front has it now, or it is answered
	s.enqueued()
	if !s.mayRead() && s.resume == nil {
		s.resume = make(chan struct{})
		s.front.NotRead(s.set.config.Clock.Now())
		s.plan()
	}
	return s.resume
}

// mayRead reports whether the client's next message may be read: not before the start is answered
// (coordination.md §2.1), and not while too much is in flight. The mutex is held.
func (s *Stream) mayRead() bool {
	return !s.front.Attaching() && s.front.InFlight() < maxInFlightRequests &&
		s.front.InFlightBytes() < maxStreamBytes
}

// resumeReading wakes the handler if the client may be read again. The mutex is held.
func (s *Stream) resumeReading() {
	if s.resume != nil && s.mayRead() {
		close(s.resume)
		s.resume = nil
		s.front.Read(s.set.config.Clock.Now())
	}
}

// Close reports to the Front that the client is gone, or has closed its side. Queued replies may still be taken.
func (s *Stream) Close() {
	s.mutex.Lock()
	s.settle(s.front.Close())
	s.mutex.Unlock()
	s.set.config.Core.Kick()
}

// Abandon ends a stream whose code has panicked. Its Front cannot be trusted any more.
func (s *Stream) Abandon() {
	s.mutex.Lock()
	// a Front without replies: the client gets no end of the stream from it
	s.front = coordination.NewFront(&coordination.PingPolicy{})
	s.settle(coordination.Forward{Detach: true})
	s.link = nil
	s.mutex.Unlock()
	s.set.config.Core.Ring()
	s.stopTimers()
}

// stopTimers must be called when nothing starts one any more.
func (s *Stream) stopTimers() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.lingering != nil {
		s.lingering.Stop()
	}
	if s.reminder != nil {
		s.reminder.Stop()
		s.reminder = nil
	}
}

// deliver passes a message of the leader behind from to the Front. A late one of an earlier leader is dropped.
func (s *Stream) deliver(from Link, m *coordination.Message) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.link != from {
		return
	}
	s.front.Deliver(s.set.config.Clock.Now(), m)
	if m.Kind == coordination.MessageAttached && s.caller.Trace != "" {
		s.set.config.Core.Traced(m, s.caller.Trace)
	}
	if m.Description != nil {
		s.outbound += m.Description.Bytes()
		if _, here := from.(*Local); !here && !s.closed && s.front.SaysLast(m.Description) {
			s.copied(m.Description)
		}
	}
	s.settle(coordination.Forward{})
}

// attached reports whether the stream has a session.
func (s *Stream) attached() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.front.Attached()
}

// Follow turns the stream to the leader behind link, which gets its roster; nil: to no leader.
func (s *Stream) Follow(link Link) {
	defer s.set.config.Core.Ring()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.front.Orphan(s.set.config.Clock.Now())
	s.link = link
	if link == nil {
		s.settle(coordination.Forward{})
	} else {
		s.settle(s.front.Rejoin())
	}
}

// End ends the stream with a Failure, as when the server stops.
func (s *Stream) End(refusal *coordination.Refusal) {
	defer s.set.config.Core.Ring()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.settle(s.front.End(refusal))
}

// tick is called by the timer. Where it panics the stream ends, because its timer would not.
func (s *Stream) tick() {
	defer func() {
		if reason := recover(); reason != nil {
			s.Abandon()
			s.client.Panicked(reason)
		}
	}()
	if s.wakeUp().Detach {
		s.set.config.Core.Kick()
	}
}

func (s *Stream) wakeUp() coordination.Forward {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.timerAt = coordination.Never
	s.mute()
	now := s.set.config.Clock.Now()
	forward := s.front.Tick(now)
	if wake := s.front.Wake(); wake <= now {
		panic(fmt.Sprintf("stream %d is due at %v, ticked at %v", s.id, wake, now))
	}
	s.settle(forward)
	return forward
}

// mute passes to the Front whether the leader lets it speak at present. The mutex is held.
func (s *Stream) mute() {
	speaks := s.link != nil && s.link.MaySpeak()
	s.front.Mute(!speaks)
	if s.link != nil && !speaks {
		s.set.muted.Store(true)
	}
}

// settle sends f to the leader, and does what the Front's new state requires: it adjusts the budget and the timer, and
// wakes the handler and the client. The mutex is held.
func (s *Stream) settle(f coordination.Forward) {
	s.mute()
	if f != (coordination.Forward{}) && s.link != nil {
		s.link.put(s, f)
	}
	s.account()
	s.resumeReading()
	s.plan()
	if s.front.Ending() != coordination.EndingNone && !s.ended {
		s.ended = true
		s.lingering = time.AfterFunc(s.set.config.Linger, s.client.CutOff)
	}
	if s.outbound+s.front.Queued()*replyBytes > s.set.config.OutboundBytes {
		s.client.CutOff()
	} else {
		s.schedule()
	}
}

// schedule wakes the client if there is something to Take. The mutex is held.
func (s *Stream) schedule() {
	if !s.scheduled && (s.front.Queued() > 0 || s.front.Ending() != coordination.EndingNone) {
		s.scheduled = true
		s.client.Wake()
	}
}

// plan sets the timer to the Front's Wake. The mutex is held.
func (s *Stream) plan() {
	if wake := s.front.Wake(); wake != s.timerAt {
		s.setTimer(wake)
	}
}

// timerGrid is the grid to which far timers are rounded up, so that the pings of many streams go out together.
const timerGrid = coordination.Instant(50 * time.Millisecond)

func (s *Stream) setTimer(wake coordination.Instant) {
	s.timerAt = wake
	if wake != coordination.Never && wake-s.set.config.Clock.Now() > 20*timerGrid {
		wake = (wake/timerGrid + 1) * timerGrid
	}
	switch {
	case wake == coordination.Never:
		if s.timer != nil {
			s.timer.Stop()
		}
	case s.timer == nil:
		s.timer = s.set.config.Clock.AfterFunc(s.set.config.Clock.Until(wake), s.tick)
	default:
		s.timer.Reset(s.set.config.Clock.Until(wake))
	}
}

// Take returns the replies to be sent, and the end of the stream behind them, if any. Without either the stream is no
// longer scheduled.
func (s *Stream) Take(into []coordination.Reply) ([]coordination.Reply, coordination.Ending) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mute()
	if s.front.PingWaits() {
		s.front.PingTaken(s.set.config.Clock.Now())
	}
	replies := s.front.Take(into)
	s.outbound = 0
	s.resumeReading()
	s.plan()
	if len(replies) == 0 && s.front.Ending() == coordination.EndingNone {
		s.scheduled = false
	}
	return replies, s.front.Ending()
}

// Sent is called when gRPC has taken a reply.
func (s *Stream) Sent(r *coordination.Reply) {
	if r.Asked == nil {
		return
	}
	now := s.set.config.Clock.Now()
	if !s.set.config.Slow.Wants(r.Received, now) {
		return
	}
	q := slowest.Request{Kind: r.Asked.Kind, Name: r.Asked.Name, Received: r.Received, Delivered: r.Delivered,
		Sent: now, Room: coordination.Instant(r.RoomMicros) * coordination.Instant(time.Microsecond), Index: r.Index}
	s.mutex.Lock()
	q.Node, q.Session = s.front.Session()
	_, q.Led = s.link.(*Local)
	s.mutex.Unlock()
	s.set.config.Slow.Add(q)
}

// PutBack returns replies to the Front if they may not be sent any more, and reports whether it did: a client
// that reads slowly may have held up its writer for longer than the right to speak lasts. The stream stays
// unscheduled until it may speak again.
func (s *Stream) PutBack(replies []coordination.Reply) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mute()
	if !s.front.PutBack(replies) {
		return false
	}
	s.scheduled = false
	s.schedule() // if the stream has ended silently
	return true
}

// ID returns the number of the stream among those of its server.
func (s *Stream) ID() coordination.StreamID { return s.id }

// Client returns the connection of the stream.
func (s *Stream) Client() Client { return s.client }

// Backlog counts the requests and replies of a stream that wait.
type Backlog struct {
	// InFlight counts requests without an answer, and answers that are not sent.
	InFlight int
	// Queued counts replies that wait for the client to take them.
	Queued int
	// Paused reports whether the client is not read at present.
	Paused bool
}

// Backlog returns the present backlog.
func (s *Stream) Backlog() Backlog {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return Backlog{InFlight: s.front.InFlight(), Queued: s.front.Queued(), Paused: s.front.Unread()}
}
