package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/wire"
)

// sessionStream is one Session stream on this server. Its handler's goroutine reads; the writers send.
type sessionStream struct {
	id     coordination.StreamID
	rpc    Ydb_Coordination_V1.CoordinationService_SessionServer
	finish statusWriter
	group  *group
	pool   *writers
	panics *panicCounter
	limits *Hardening

	identity *identity
	enforced bool // the identity's rights count

	mutex     sync.Mutex // guards what follows, and is never held across I/O
	front     *coordination.Front
	link      leaderLink // where the Front's messages go; nil while there is no leader
	timer     timer      // calls tick at the Front's Wake; nil until there is one
	timerAt   coordination.Instant
	resume    chan struct{} // closed when the client may be read again; nil while it may
	ended     bool          // the Front has, and lingering runs
	lingering *time.Timer   // cuts off a client that does not read what it is told at the end
	scheduled bool          // a writer has it, or will have
	outbound  int           // bytes queued
}

// statusWriter ends an RPC from outside of its handler. gRPC's own SendMsg and RecvMsg do the same when they fail; it
// spares every stream a second goroutine. TestStreamEndsFromOutside shows that the linked gRPC has it.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

var errNoStatusWriter = errors.New("gRPC's server stream has no WriteStatus")

func (s *Server) newStream(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) (*sessionStream, error) {
	finish, ok := grpc.ServerTransportStreamFromContext(rpc.Context()).(statusWriter)
	if !ok {
		return nil, status.Error(codes.Internal, errNoStatusWriter.Error())
	}
	return &sessionStream{
		id: s.streams.nextID(), rpc: rpc, finish: finish, group: s.group, pool: s.writers,
		identity: identityOf(rpc.Context()), enforced: s.auth.required,
		front: coordination.NewFront(s.pingPolicy(rpc.Context())), timerAt: coordination.Never,
		panics: &s.panics, limits: &s.config.Hardening,
	}, nil
}

// open starts the time within which the first message must come.
func (s *sessionStream) open() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.front.Open(s.group.clock.now())
	s.forward(coordination.Forward{})
}

// serve reads the client's messages until the stream has ended. The status of the RPC is that of the Front's ending,
// written by a writer behind the last reply.
func (s *sessionStream) serve() error {
	defer s.leaveOnPanic()
	ctx := s.rpc.Context()
	s.open()
	for {
		s.group.queue.awaitRoom(ctx)
		request, err := s.rpc.Recv()
		if err != nil {
			s.close(ctx, err)
			return nil
		}
		resume := s.receive(request)
		s.group.kick()
		if resume == nil {
			continue
		}
		select {
		case <-resume:
		case <-ctx.Done():
		}
	}
}

// receive hands a message of the client to the Front. The next one must not be read before the returned channel is
// closed; nil means at once.
func (s *sessionStream) receive(request *Ydb_Coordination.SessionRequest) <-chan struct{} {
	message := wire.FromClient(request)
	if message.Start != nil {
		message.Start.Nonce, message.Start.Server = nonzero(), s.group.store.Member()
		message.Start.Caller = coordination.Caller{Subject: s.identity.name, Enforced: s.enforced}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.forward(s.front.Receive(&message))
	if !s.mayRead() && s.resume == nil {
		s.resume = make(chan struct{})
	}
	return s.resume
}

// mayRead reports whether the client's next message may be read: not before the start is answered (coordination.md
// §2.1), and not while too much is in flight. The mutex is held.
func (s *sessionStream) mayRead() bool {
	return !s.front.Attaching() && s.front.InFlight() < maxInFlightRequests
}

// resumeReading lets the handler go on where it may. The mutex is held.
func (s *sessionStream) resumeReading() {
	if s.resume != nil && s.mayRead() {
		close(s.resume)
		s.resume = nil
	}
}

// close tells the Front that the client is gone. Where it only closed its side, what is queued is still sent.
func (s *sessionStream) close(ctx context.Context, cause error) {
	s.mutex.Lock()
	s.forward(s.front.Close())
	s.mutex.Unlock()
	s.group.kick()
	if cause == io.EOF {
		<-ctx.Done() // a writer ends the RPC
	}
	s.stopTimers()
}

// stopTimers must be called when nothing starts one any more.
func (s *sessionStream) stopTimers() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.lingering != nil {
		s.lingering.Stop()
	}
}

// deliver takes a message of the leader behind from. One that comes late from an earlier leader is dropped.
func (s *sessionStream) deliver(from leaderLink, m *coordination.Message) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.link != from {
		return
	}
	s.front.Deliver(s.group.clock.now(), m)
	if m.Description != nil {
		s.outbound += len(m.Description.Data) + m.Description.Owners.Bytes() + m.Description.Waiters.Bytes()
	}
	s.forward(coordination.Forward{})
}

// attached tells whether the stream speaks for a session.
func (s *sessionStream) attached() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.front.Attached()
}

// follow has the stream speak to the leader behind link from now on, which is told who it is; nil: there is none.
func (s *sessionStream) follow(link leaderLink) {
	defer s.group.queue.signal()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.front.Orphan(s.group.clock.now())
	s.link = link
	if link == nil {
		s.forward(coordination.Forward{})
	} else {
		s.forward(s.front.Rejoin())
	}
}

// end ends the stream with a Failure, as when the server stops.
func (s *sessionStream) end(refusal *coordination.Refusal) {
	defer s.group.queue.signal()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.forward(s.front.End(refusal))
}

func (s *sessionStream) tick() {
	defer s.endOnPanic()
	if s.wakeUp().Detach {
		s.group.kick()
	}
}

func (s *sessionStream) wakeUp() coordination.Forward {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.timerAt = coordination.Never
	s.mute()
	forward := s.front.Tick(s.group.clock.now())
	s.forward(forward)
	return forward
}

// mute tells the Front whether the leader lets it speak at present. The mutex is held.
func (s *sessionStream) mute() { s.front.Mute(s.link == nil || !s.link.maySpeak()) }

// forward carries out what the Front wants. The mutex is held.
func (s *sessionStream) forward(f coordination.Forward) {
	s.mute()
	if f != (coordination.Forward{}) && s.link != nil {
		s.link.put(s, f)
	}
	s.resumeReading()
	if wake := s.front.Wake(); wake != s.timerAt {
		s.setTimer(wake)
	}
	if s.front.Ending() != coordination.EndingNone && !s.ended {
		s.ended = true
		s.lingering = time.AfterFunc(s.limits.Linger, s.cutOff)
	}
	if s.outbound+s.front.Queued()*replyBytes > maxOutboundBytes {
		s.cutOff()
	} else if !s.scheduled && (s.front.Queued() > 0 || s.front.Ending() != coordination.EndingNone) {
		s.scheduled = true
		s.pool.schedule(s)
	}
}

// timerGrid is what far timers are rounded up to, so that the pings of many streams go out together.
const timerGrid = coordination.Instant(50 * time.Millisecond)

func (s *sessionStream) setTimer(wake coordination.Instant) {
	s.timerAt = wake
	if wake != coordination.Never && wake-s.group.clock.now() > 20*timerGrid {
		wake = (wake/timerGrid + 1) * timerGrid
	}
	switch {
	case wake == coordination.Never:
		if s.timer != nil {
			s.timer.Stop()
		}
	case s.timer == nil:
		s.timer = s.group.clock.afterFunc(s.group.clock.until(wake), s.tick)
	default:
		s.timer.Reset(s.group.clock.until(wake))
	}
}

// cutOff ends the RPC of a client that does not read. The reader notices, and the session is detached.
func (s *sessionStream) cutOff() {
	go s.finish.WriteStatus(status.New(codes.ResourceExhausted, "The client does not read its stream"))
}

// take gives a writer what is to be sent, and how the RPC ends behind it. With nothing to do the stream is no longer
// scheduled.
func (s *sessionStream) take(into []coordination.Reply) ([]coordination.Reply, coordination.Ending) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mute()
	replies := s.front.Take(into)
	s.outbound = 0
	s.resumeReading()
	if len(replies) == 0 && s.front.Ending() == coordination.EndingNone {
		s.scheduled = false
	}
	return replies, s.front.Ending()
}

// putBack returns replies to the Front if they may no longer be said, and reports whether it did: a client that reads
// slowly may have held up the writer for longer than the right to speak lasts. The stream stays unscheduled until it may
// speak again.
func (s *sessionStream) putBack(replies []coordination.Reply) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mute()
	if !s.front.PutBack(replies) {
		return false
	}
	s.scheduled = false
	return true
}

// send writes what is queued and ends the RPC if the Front has ended. It reports whether there may be more.
func (s *sessionStream) send(buffer []coordination.Reply) (_ []coordination.Reply, more bool) {
	defer s.endOnPanic()
	replies, ending := s.take(buffer[:0])
	for i := range replies {
		if replies[i].Kind == coordination.ReplyNone {
			continue
		}
		if i > 0 && s.putBack(replies[i:]) {
			return replies, false
		}
		if err := s.rpc.Send(wire.ToClient(&replies[i])); err != nil {
			return replies, false // the reader notices as well
		}
		replies[i] = coordination.Reply{}
	}
	if ending != coordination.EndingNone {
		_ = s.finish.WriteStatus(endStatus(ending))
		return replies, false
	}
	return replies, len(replies) > 0
}

// endStatus is the gRPC status of an ending (coordination.md §2.9).
func endStatus(ending coordination.Ending) *status.Status {
	switch ending {
	case coordination.EndingInvalidStart:
		return status.New(codes.InvalidArgument, "First message must be a SessionStart")
	case coordination.EndingStartOverdue:
		return status.New(codes.DeadlineExceeded, "First message did not come in time")
	case coordination.EndingAbandoned:
		return status.New(codes.Canceled, "Request abandoned")
	case coordination.EndingSilent:
		return status.New(codes.Unavailable, coordination.LinkFailure.Text)
	}
	return status.New(codes.OK, "")
}

// streamSet is the open Session streams of the process.
type streamSet struct {
	mutex   sync.Mutex
	open    map[coordination.StreamID]*sessionStream
	last    coordination.StreamID
	most    int
	closing bool
	link    leaderLink // of all of them; nil while there is no leader
}

func newStreamSet(most int) *streamSet {
	return &streamSet{open: make(map[coordination.StreamID]*sessionStream), most: most}
}

func (set *streamSet) nextID() coordination.StreamID {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	set.last++
	return set.last
}

// add counts a stream in. It fails if there are too many (coordination.md §2.2), or the server is stopping.
func (set *streamSet) add(s *sessionStream) error {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if s.link = set.link; s.link == nil {
		s.front.Orphan(s.group.clock.now())
	}
	switch {
	case set.closing:
		return status.Error(codes.Unavailable, errStopped.Error())
	case len(set.open) >= set.most:
		return status.Error(codes.ResourceExhausted, "Too many requests")
	}
	set.open[s.id] = s
	return nil
}

func (set *streamSet) remove(s *sessionStream) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	delete(set.open, s.id)
}

func (set *streamSet) find(id coordination.StreamID) *sessionStream {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.open[id]
}

// localLink is the link to the leader on this server, nil if it does not lead.
func (set *streamSet) localLink() *localLink {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	link, _ := set.link.(*localLink)
	return link
}

// follow has all streams, and those to come, speak to the leader behind link; nil: there is none.
func (set *streamSet) follow(link leaderLink) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	set.followLocked(link)
}

func (set *streamSet) followLocked(link leaderLink) {
	for _, s := range set.turn(link) {
		s.follow(link)
	}
}

// turn has the streams to come speak to the leader behind link, and returns those that are there in the order in which
// they have to follow: a start must find the streams whose session it may want. The mutex is held until they have.
func (set *streamSet) turn(link leaderLink) []*sessionStream {
	set.link = link
	streams := make([]*sessionStream, 0, len(set.open))
	var later []*sessionStream
	for _, s := range set.open {
		if s.attached() {
			streams = append(streams, s)
		} else {
			later = append(later, s)
		}
	}
	return append(streams, later...)
}

// led tells whether there is a leader to speak to.
func (set *streamSet) led() bool {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.link != nil
}

// speaking is the link to the leader that lets this server speak at present, nil without leave.
func (set *streamSet) speaking() leaderLink {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == nil || !set.link.maySpeak() {
		return nil
	}
	return set.link
}

// leave has all streams wait for the next leader, if they speak to the one behind link.
func (set *streamSet) leave(link leaderLink) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == link {
		set.followLocked(nil)
	}
}

// join has all streams speak to the leader behind link, if there is none yet.
func (set *streamSet) join(link leaderLink) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == nil {
		set.followLocked(link)
	}
}

// wake has the streams sent that have something to send and were mute.
func (set *streamSet) wake() {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	for _, s := range set.open {
		s.mutex.Lock()
		s.forward(coordination.Forward{})
		s.mutex.Unlock()
	}
}

// endAll refuses new streams and ends all open ones.
func (set *streamSet) endAll(refusal *coordination.Refusal) {
	set.mutex.Lock()
	set.closing = true
	streams := slices.Collect(maps.Values(set.open))
	set.mutex.Unlock()
	for _, s := range streams {
		s.end(refusal)
	}
}
