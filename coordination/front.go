package coordination

import "slices"

// PingPolicy sets when a stream is pinged (§2.7) and how soon a failed start is answered.
type PingPolicy struct {
	// MaxIntervalMillis shortens the interval between pings, 0 leaves it. The Python SDK gives up after 3 s
	// of silence.
	MaxIntervalMillis uint64
	// HoldStartFailureMillis delays the Failure of a start, because several SDKs try again without a pause.
	HoldStartFailureMillis uint64
	// FirstMessageMillis limits the time of an open stream without a SessionStart. It is not in the reference.
	FirstMessageMillis uint64
	// Opaque returns the number of the next ping, not 0 and hard to guess.
	Opaque func() uint64
}

const (
	minPingMillis  = 10
	maxPingMillis  = 5000
	mutePollMillis = 100 // how soon a Front that was mute pings when it may
	// tardyMillis bounds the delay of a Tick, or of the taking of a ping, on a healthy server: far timers are rounded
	// up. A longer delay shows that the server itself was held up.
	tardyMillis = 100
	// unreadMillis limits the time of a stream that is not read. It is not in the reference.
	unreadMillis = 10_000
)

// Front is one client's stream on the server that holds it: what the client may send now, its open requests,
// its pings (§2.1, §2.6 to §2.9). It is not safe for concurrent use.
//
// The server calls Receive with what the client says, Deliver with what the leader says, and Tick when Wake
// has come. What they return goes to the leader; what the client is to read piles up in order until the
// server calls Take and sends it.
//
// # What a stream may do
//
// Four fields decide, because four parties do. The client and the leader move state. The group says with
// Orphan and Rejoin whether there is a leader to forward to, and with Mute whether this server has a permit
// to speak. And only a leader can say whether a session still lives after another leader has gone: until one
// has, the stream claims it.
//
//	state         reads from the client  forwards                      says               ends by itself
//	ExpectsStart  a SessionStart         nothing                       nothing            when the start is overdue
//	Attaching     nothing                Attach; an orphan later,      nothing            as an orphan, after a node's
//	                                     with Rejoin                                      default grace period
//	Attached      everything             requests; those of an orphan  pings and replies  no pong, stream unread;
//	                                     later, in the roster                             as an orphan, after its grace
//	Stopping      pings and pongs        nothing more                  as Attached        as Attached
//	HoldsFailure  nothing                the roster, once, if it       the Failure held   silently, after heldMillis
//	                                     claims a session                                 of being quiet
//	Ended         nothing                nothing                       what was left      it has
//
// Messages under "says" are sent only by a stream that is not quiet, that is, neither mute nor claiming. A quiet one
// keeps its replies, and is not pinged, because its client could not answer; one that ends quietly sends nothing. A
// client takes every message for a sign that its session lives, so a stream that spoke without being sure could keep
// two clients believing that they hold the same lock.
type Front struct {
	policy *PingPolicy

	// Where the stream is, see above.
	state  frontState
	mute   bool
	claims bool // cleared by the first message of a leader that knows of the stream, or wants it to end
	orphan bool
	ending Ending // with frontEnded: how

	// start is the client's attach request, until the stream has ended; roster is made from it when the leader has
	// attached the stream, and announces the stream to the next leader. Its Open stays empty: Rejoin fills it from
	// open.
	start  *AttachRequest
	roster Roster
	// grace limits, in milliseconds, how long the attached stream may be an orphan: the grace period of its node,
	// during which the next leader would not end the session either. expires is the end of that, or the time at which a
	// held Failure is dropped.
	grace   uint64
	expires Instant
	// held is the Failure of frontHoldsFailure. resumed is set while a leader is asked, because the stream
	// claimed the session when it began to hold: its answer allows the stream to say the Failure, or replaces
	// it by "expired".
	held    *Refusal
	resumed bool

	// Pings (§2.7). interval and patience are milliseconds: a ping is made interval after the one before, and
	// has to be answered within patience; a policy may shorten the first and leaves the second as the client
	// knows it. opaque is the number of the unanswered ping, or 0, pinged the time at which it was made, overdue the
	// time at which its patience ends. wake is the time at which Tick is due.
	interval, patience uint64
	opaque             uint64
	pinged, overdue    Instant
	wake               Instant
	// Who is to blame for a late answer? Not the client, if nobody has taken the ping yet (untaken: it may
	// also have been put back), unless replies taken before it are still being sent (behind), since then it
	// is the client who does not read. sending says whether the last Take found anything. unread is since
	// when the server has not read the stream, for want of room; Never while it reads. What becomes of the
	// blame is in front_late.go.
	untaken, behind, sending bool
	unread                   Instant

	// Requests. The stream numbers them, and an answer carries the number, also from a later leader: sequence is the
	// last number given, outcome that of the request whose outcome came last. open are those whose last message is
	// still to come; of them unanswered have had no message at all, and count waiting bytes.
	sequence, outcome Sequence
	open              openRequests
	unanswered        int
	waiting           int

	// replies wait for Take; taken counts those that it has returned. Replies are therefore numbered from 1
	// on, by which an open request knows its Pending. Those up to number void were dropped, although the client's
	// writer may still have them.
	replies     []Reply
	taken, void int
}

type frontState uint8

const (
	frontExpectsStart frontState = iota
	frontAttaching
	frontHoldsFailure
	frontAttached
	frontStopping
	frontEnded
)

// NewFront returns the Front of a stream that has just been opened.
func NewFront(policy *PingPolicy) *Front {
	return &Front{policy: policy, wake: Never, expires: Never, unread: Never}
}

// Open sets the instant at which the stream was opened. Without it the first message may take any time.
func (f *Front) Open(now Instant) {
	if f.state == frontExpectsStart {
		f.wake = now.After(f.policy.FirstMessageMillis)
	}
}

// Wake is the time at which Tick is due, or Never. Tick(now) leaves it later than now, and that of a stream that has
// ended is Never: a caller that obeys Wake cannot spin.
func (f *Front) Wake() Instant { return min(f.wake, f.expires, f.unreadUntil()) }

// Ending is the end of the RPC, once the replies taken so far and those still there are sent.
func (f *Front) Ending() Ending { return f.ending }

// Attaching reports whether the Front waits for the answer to its start. The client's next message must not
// be read until it has come (§2.1).
func (f *Front) Attaching() bool { return f.state == frontAttaching || f.state == frontHoldsFailure }

// Attached reports whether the stream speaks for a session.
func (f *Front) Attached() bool { return f.state == frontAttached || f.state == frontStopping }

// Queued is the number of replies that wait to be taken; 0 while the Front is quiet.
func (f *Front) Queued() int {
	if f.silent() {
		return 0
	}
	return len(f.replies)
}

// InFlight counts the client's requests that are not answered yet: requests without a first answer, and replies that
// wait to be taken. An acquire that waits for its turn counts until its Pending is taken, a watch until it is set. It
// is 0 once the stream has ended: later messages have no effect.
func (f *Front) InFlight() int {
	if f.state == frontEnded {
		return 0
	}
	return f.unanswered + len(f.replies)
}

// InFlightBytes is the size of the requests without a first answer, and of a start that is not answered. It is 0 once
// the stream has ended.
func (f *Front) InFlightBytes() int {
	switch f.state {
	case frontEnded:
		return 0
	case frontAttaching:
		return f.start.Bytes()
	}
	return f.waiting
}

// Session returns the session that the stream speaks for, 0 before it has one, and its node.
func (f *Front) Session() (NodeID, SessionID) { return f.roster.Node, f.roster.Session }

// SaysLast reports whether the last reply that waits to be taken is one with this description.
func (f *Front) SaysLast(d *SemaphoreDescription) bool {
	return len(f.replies) > 0 && f.replies[len(f.replies)-1].Description == d
}

// Take moves the replies to the end of into and returns it.
func (f *Front) Take(into []Reply) []Reply {
	const keep = 2 // an idle stream's pings need no more
	if f.silent() {
		f.withhold()
		return into
	}
	f.sending, f.untaken = len(f.replies) > 0, false
	into = append(into, f.replies...)
	f.taken += len(f.replies)
	clear(f.replies)
	f.replies = f.replies[:0]
	if cap(f.replies) > keep {
		f.replies = nil
	}
	return into
}

// PutBack takes back replies of the last Take that have not been sent, if the Front has become quiet since, or
// drops them if it has dropped all others. It reports whether it did; if not, the caller sends them.
func (f *Front) PutBack(replies []Reply) bool {
	switch {
	case f.taken <= f.void:
		return true
	case !f.silent():
		return false
	}
	f.replies = append(slices.Clone(replies), f.replies...)
	f.taken -= len(replies)
	f.sending = false
	f.untaken = f.untaken || slices.ContainsFunc(replies,
		func(r Reply) bool { return r.Kind == ReplyPing && r.Opaque == f.opaque })
	f.withhold()
	return true
}

// Receive takes the client's next message.
func (f *Front) Receive(m *ClientMessage) Forward {
	switch f.state {
	case frontExpectsStart:
		if m.Kind != ClientStart {
			f.end(EndingInvalidStart)
			return Forward{}
		}
		f.state, f.start, f.wake = frontAttaching, m.Start, Never
		if f.orphan {
			f.wake = 0 // Tick begins the time that an orphan waits
			f.claims = f.claimed() != 0
		}
		f.interval = min(max(m.Start.TimeoutMillis/3, minPingMillis), maxPingMillis)
		f.patience = f.interval
		if most := f.policy.MaxIntervalMillis; most != 0 {
			f.interval = min(f.interval, most)
		}
		return f.toLeader(Forward{Attach: m.Start})
	case frontAttached, frontStopping:
		return f.receiveAttached(m)
	}
	return Forward{}
}

func (f *Front) receiveAttached(m *ClientMessage) Forward {
	switch m.Kind {
	case ClientPing:
		if m.Opaque == f.opaque {
			f.answered() // the Python SDK answers a ping with a ping
		}
		f.reply(Reply{Kind: ReplyPong, Opaque: m.Opaque})
		return Forward{}
	case ClientPong:
		// With no ping outstanding the expected number is 0 (§2.7).
		if m.Opaque != f.opaque {
			return f.fail(PongMismatch)
		}
		f.answered()
		return Forward{}
	case ClientStart:
		return f.fail(StartedTwice)
	case ClientUnsupported:
		return f.fail(UnimplementedRequest)
	case ClientStop:
		if f.state == frontStopping {
			return f.fail(SessionNotAttachedHere)
		}
		f.state, f.roster.Stopping = frontStopping, true
		return f.ask(0, &Request{Kind: RequestStop})
	case ClientSemaphore:
		return f.receiveRequest(m)
	}
	return f.fail(EmptyRequest)
}

// answered notes that the client has answered the outstanding ping. Where pings are made more often than they
// have to be answered, the next may have been held back by this one; then it is due at once.
func (f *Front) answered() {
	if f.opaque != 0 && f.interval < f.patience && f.wake == f.overdue {
		f.wake = 0
	}
	f.opaque = 0
}

func (f *Front) receiveRequest(m *ClientMessage) Forward {
	if refusal := f.roster.Rights.refuse(m.Request.Kind); refusal != nil {
		f.reply(Reply{Kind: ReplyResult, Request: m.Request.Kind, ReqID: m.ReqID, Refusal: refusal})
		return Forward{}
	}
	if f.state == frontStopping {
		return f.fail(SessionNotAttachedHere)
	}
	forward := f.ask(m.ReqID, m.Request)
	open := &f.open.list[len(f.open.list)-1]
	open.received, open.room = m.Received, m.RoomMicros
	return forward
}

// ask numbers a request, keeps it until its last message has come, and forwards it. With it the leader learns
// how far the stream has got: below Acknowledged nothing is open any more, so outcomes that the session
// remembers for a repetition can be forgotten, and so can those up to Answered.
func (f *Front) ask(reqID uint64, r *Request) Forward {
	f.sequence++
	f.unanswered++
	f.waiting += r.Bytes()
	f.open.add(openRequest{OpenRequest: OpenRequest{Sequence: f.sequence, Request: r}, reqID: reqID})
	forward := Forward{Request: r, Sequence: f.sequence, Acknowledged: f.open.oldest()}
	if f.outcome > forward.Acknowledged {
		forward.Answered = f.outcome
	}
	return f.toLeader(forward)
}

// toLeader holds back the messages that an orphan cannot forward. Rejoin repeats all of them to the next leader.
func (f *Front) toLeader(forward Forward) Forward {
	if f.orphan {
		return Forward{}
	}
	return forward
}

// refuse is the table of permissions of §2.6.
func (r Rights) refuse(kind RequestKind) *Refusal {
	switch {
	case kind == RequestAcquire && r&RightWrite == 0, kind == RequestRelease && r&RightWrite == 0:
		return WriteDenied
	case kind == RequestCreate && r&RightWrite == 0:
		return CreateDenied
	case kind == RequestUpdate && r&RightWrite == 0:
		return UpdateDenied
	case kind == RequestDelete && r&RightErase == 0:
		return DeleteDenied
	case kind == RequestDescribe && r&RightRead == 0:
		return ReadDenied
	}
	return nil
}

// Close marks the client's side as closed, or gone: the stream is abandoned (§2.9).
func (f *Front) Close() Forward {
	if f.state == frontEnded {
		return Forward{}
	}
	detach := Forward{Detach: f.known()}
	f.end(EndingAbandoned)
	return detach
}

// End ends the stream with a Failure that neither client nor leader asked for, as when the server stops.
func (f *Front) End(refusal *Refusal) Forward {
	if f.state == frontEnded {
		return Forward{}
	}
	if f.quiet() {
		return f.giveUp()
	}
	return f.fail(refusal)
}

// Deliver takes a message of the leader.
func (f *Front) Deliver(now Instant, m *Message) {
	if f.state == frontEnded {
		return
	}
	if m.Kind == MessageEnd && f.quiet() {
		// The replies that a quiet Front has kept would be a sign of life to the client, just before the end of its
		// session. Before SessionStopped that does no harm: the client has asked for it.
		f.drop()
	}
	switch m.Kind {
	case MessageAttached, MessageResumed, MessageEnd, MessageStopped:
		// the leader knows of this stream, or wants it to end
		f.claims = false
	}
	if f.state == frontHoldsFailure {
		f.deliverHeld(m)
		return
	}
	switch m.Kind {
	case MessageResumed:
	case MessageAttached:
		f.state, f.grace = frontAttached, m.GraceMillis
		f.roster = Roster{Node: m.Node, Session: m.Session, Epoch: m.Epoch, Rights: m.Rights,
			Path: f.start.Path, Caller: f.start.Caller, Identity: f.start.Identity, Client: f.start.Client,
			Server: f.start.Server, SeqNo: f.start.SeqNo, TimeoutMillis: f.start.TimeoutMillis}
		f.reply(Reply{Kind: ReplyStarted, Session: m.Session})
		f.ping(now)
	case MessageEnd:
		if f.state == frontAttaching && f.policy.HoldStartFailureMillis > 0 {
			f.hold(m.Refusal)
			f.wake = now.After(f.policy.HoldStartFailureMillis)
			return
		}
		f.fail(m.Refusal)
	case MessageStopped:
		f.reply(Reply{Kind: ReplyStopped, Session: m.Session})
		f.end(EndingOK)
	default:
		f.deliverAnswer(now, m)
	}
}

func (f *Front) deliverAnswer(now Instant, m *Message) {
	at := f.open.find(m.Sequence)
	if at < 0 {
		return
	}
	open := &f.open.list[at]
	if m.Kind == MessageChanged && !open.Watching {
		early := *m
		open.early = &early
		return
	}
	reply := Reply{ReqID: open.reqID}
	if open.received != 0 {
		reply.Received, reply.Delivered, reply.Index = open.received, now, m.Index
		reply.Queued = open.pending != 0
		if !open.answered {
			reply.Asked, reply.RoomMicros = open.Request, open.room
		}
	}
	if !open.answered {
		open.answered = true
		f.unanswered--
		f.waiting -= open.Request.Bytes()
	}
	last := true
	switch m.Kind {
	case MessagePending:
		if open.pending != 0 {
			return // said before, under an earlier leader
		}
		reply.Kind, last = ReplyPending, false
		open.pending, open.Pending = f.taken+len(f.replies)+1, true
	case MessageResult:
		reply.Kind, reply.Request, reply.Refusal, reply.Done = ReplyResult, m.Request, m.Refusal, m.Done
		if open.Request.check() == nil { // the leader refused any other without the log, which has no outcome of it
			f.outcome = m.Sequence
		}
		// A Pending that is still here is no news any more, and some SDKs trip over the two together. It
		// leaves an empty reply in its place, because replies are numbered.
		if unseen := open.pending - 1 - f.taken; open.pending > 0 && unseen >= 0 {
			reply.Asked, reply.RoomMicros = f.replies[unseen].Asked, open.room
			f.replies[unseen] = Reply{}
		}
	case MessageDescribed:
		reply.Kind, reply.Request, reply.Refusal = ReplyResult, RequestDescribe, m.Refusal
		reply.Description, reply.WatchAdded = m.Description, m.WatchAdded
		last = !m.WatchAdded
		open.Watching, open.Mark = m.WatchAdded, m.Mark
	case MessageChanged:
		reply.Kind, reply.DataChanged, reply.OwnersChanged = ReplyChanged, m.DataChanged, m.OwnersChanged
	}
	if last {
		f.open.close(at)
	}
	f.reply(reply)
	if !last && open.Watching && open.early != nil {
		f.deliverAnswer(now, open.early)
	}
}

// Tick must be called when Wake has come: it pings, finds that a ping was not answered in time, or answers a failed
// start.
func (f *Front) Tick(now Instant) Forward {
	switch {
	case f.state == frontEnded:
		return Forward{}
	case now >= f.expires:
		return f.giveUp()
	case now < f.wake && now < f.unreadUntil():
		return Forward{}
	}
	switch f.state {
	case frontExpectsStart:
		f.end(EndingStartOverdue)
	case frontAttaching:
		f.wake = Never
		f.awaitLeader(now)
	case frontHoldsFailure:
		return f.tellHeld(now)
	case frontAttached, frontStopping:
		if f.quiet() { // the client would hear no ping, and whatever is late now is not its fault
			f.wake, f.overdue = now.After(min(f.interval, mutePollMillis)), now.After(f.patience)
			if f.unread != Never {
				f.unread = now
			}
			return Forward{}
		}
		return f.tickAttached(now)
	}
	return Forward{}
}

// tickAttached is Tick of a stream that speaks for a session, and may speak.
func (f *Front) tickAttached(now Instant) Forward {
	switch {
	case now >= f.unreadUntil():
		return f.fail(StreamNotRead)
	case f.opaque == 0:
		f.ping(now)
		return Forward{}
	}
	if f.unread != Never { // an answer may lie there that the server has not read; Read goes on from here
		f.wake = Never
		return Forward{}
	}
	f.excuse(now)
	if now >= f.overdue {
		return f.fail(PingTimeout)
	}
	f.wake = f.overdue
	return Forward{}
}

func (f *Front) ping(now Instant) {
	f.opaque = f.policy.Opaque()
	f.pinged, f.untaken, f.behind = now, true, f.sending
	f.wake, f.overdue = now.After(f.interval), now.After(f.patience)
	f.reply(Reply{Kind: ReplyPing, Opaque: f.opaque})
}

func (f *Front) reply(r Reply) { f.replies = append(f.replies, r) }

// fail ends the stream with a Failure, and detaches it from the leader, which may have been the one to end
// it: that does no harm. A quiet Front holds the Failure back for a while, and is attached until then.
func (f *Front) fail(refusal *Refusal) Forward {
	detach := Forward{Detach: f.known()}
	if f.quiet() {
		f.hold(refusal)
		return Forward{}
	}
	f.reply(Reply{Kind: ReplyFailure, Refusal: refusal})
	f.end(EndingOK)
	return detach
}

// known reports whether the leader may know of the stream.
func (f *Front) known() bool { return f.state != frontExpectsStart }

func (f *Front) end(ending Ending) {
	if ending == EndingAbandoned && f.quiet() {
		f.drop()
	}
	f.state, f.ending, f.wake, f.expires = frontEnded, ending, Never, Never
	f.open, f.start = openRequests{}, nil
	f.stopPinging()
}

// drop drops all replies that the client has not been sent, those that its writer has taken among them.
func (f *Front) drop() { f.replies, f.void = nil, f.taken }

// silent reports whether Take has to return nothing. A stream that has ended decided in that moment what it
// leaves to be taken, so it is never silent.
func (f *Front) silent() bool { return f.quiet() && f.state != frontEnded }
