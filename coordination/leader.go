package coordination

import (
	"maps"
	"slices"
)

// Leader is the state of the leading server alone: the streams of sessions, the waits for answers, watches and
// deadlines (§0.3). It reads the machine and never changes it. A Replica makes it and passes it all events.
//
// A Leader lives for one term. It is made when the server has applied its own first entry of the term, and
// thrown away when the server leads no more.
type Leader struct {
	machine *Machine
	term    Term
	ages    ages
	counter uint64 // of attachments and barriers of this term

	outbox
	nodes     map[NodeID]*ledNode
	streams   map[StreamID]*attachment
	attaching map[Epoch]*attachment // those whose Attach is in the log's pipeline
	calling   map[CallID]bool       // calls whose command is there
	wakeups   schedule
	strict    strictReads
	takeover  *takeover     // nil once it is done
	watches   int           // in all
	quiet     bool          // a hand-over has begun: nothing is due
	quietEnds bool          // its end is on its way to the log, once
	ended     []*ledSession // by the command that is applied, and streams wait to hear of it
	ownerless bool          // new sessions get no owner: not every server of the cluster can read of one
	// no client is named where its session ends: for the same reason
	clientless bool
}

// Output lists the leader's actions, in order within each list.
type Output struct {
	Commands []Command  // to be put into the log
	Messages []Message  // to be handed to the streams' Fronts
	Calls    []CallDone // to be answered
	Barrier  uint64     // if not 0: to be passed to BarrierPassed once leadership is proven
}

// outbox collects the output of a leader until somebody takes it.
type outbox struct {
	out    Output
	urgent bool // not all commands of out may wait, see MayWait
	// the entry that is executed, 0 between entries
	executing Index
}

// Take returns the output since the last call. The slices are valid until the leader is used again.
func (o *outbox) Take() Output {
	out := o.out
	o.urgent = false
	o.out = Output{Commands: out.Commands[:0], Messages: out.Messages[:0], Calls: out.Calls[:0]}
	return out
}

// MayWait reports whether all commands that Take would return may wait for a moment, to share an entry with
// those that come next. They are acquires that only join queues: nobody gets on with them, and whatever lets
// the queues move is a command itself, or is in the log already. What is executed meanwhile may have changed
// that, and describes come behind them, so then they may not.
func (o *outbox) MayWait() bool { return len(o.out.Commands) > 0 && !o.urgent }

// TakeAllButCommands is Take, but the commands stay.
func (o *outbox) TakeAllButCommands() Output {
	commands, urgent := o.out.Commands, o.urgent
	o.out.Commands = nil
	out := o.Take()
	o.out.Commands, o.urgent = commands, urgent
	return out
}

// put puts out a command.
func (o *outbox) put(c Command) {
	o.out.Commands = append(o.out.Commands, c)
	o.urgent = true
}

// hurry has commands that are put out wait no longer.
func (o *outbox) hurry() { o.urgent = o.urgent || len(o.out.Commands) > 0 }

func (o *outbox) send(a *attachment, m Message) {
	m.Stream, m.Index = a.stream, o.executing
	o.out.Messages = append(o.out.Messages, m)
}

type ledNode struct {
	id        NodeID
	node      *node
	sessions  map[SessionID]*ledSession
	watches   map[SemaphoreID]*watchList
	waits     map[OrderID]*deadline
	deadlines heapOf[*deadline]
	position  int // in Leader.wakeups

	// Commands of this term about this node: how many were proposed, and how many of them are applied. A
	// relaxed describe waits for those proposed before it (§4.5).
	proposed, applied uint64
	describes         []waitingDescribe
}

type ledSession struct {
	id         SessionID
	node       *ledNode
	attachment *attachment // nil while detached
	client     *Client     // of the last attachment under this leader
	lost       Lost        // while detached
	newest     *attachment // of those still attaching
	seqNo      uint64      // last accepted (§2.4)
	// no stream but attachment can claim the session: every other one has ended, or a logged attach beats it
	exclusive    bool
	inFlight     int // commands about this session between proposal and apply
	ending       int // those of them that end it
	absences     int // those of them that begin or end an absence
	held         []*attachment
	asked        Address // of the last request proposed
	countdown    *deadline
	since, until Instant // with countdown
	// it has been detached for as long as this leader is there: since its beginning, as far as this one knows
	inherited bool
	// the leader has begun or stopped a countdown of it: the takeover has nothing to do about it
	settled bool
	watches map[SemaphoreID]*watch
}

// attachment ties a stream to a session, or tries to.
type attachment struct {
	stream    StreamID
	server    uint64
	path      string
	seqNo     uint64
	epoch     Epoch
	node      *ledNode
	session   *ledSession // nil for a new session that is not there yet
	caller    Caller
	client    *Client
	rights    Rights
	stopping  bool
	abandoned bool        // the stream went away while attaching
	held      *heldRoster // nil unless it waits for what becomes of the session
	reads     int         // strict describes that are not answered
	later     []Forward   // requests that wait until those are answered, or until the stream is no longer held
}

// NewLeader takes over the machine's present state (§4.2): every session is detached and has its timeout and
// the node's grace period left, every waiter its timeout, or what the log clock leaves of them. The deadlines
// are made by Tick, see takeover.
func NewLeader(m *Machine, term Term, now Instant) *Leader {
	l := &Leader{
		machine: m, term: term,
		ages:      ages{began: now, clock: m.clock.millis, proven: now, comeBackMillis: maxComeBackMillis},
		nodes:     make(map[NodeID]*ledNode),
		streams:   make(map[StreamID]*attachment),
		attaching: make(map[Epoch]*attachment),
		calling:   make(map[CallID]bool),
	}
	l.beginTakeover(m.calm.millis(term, &m.clock))
	return l
}

// Term is the term that this leader lives for.
func (l *Leader) Term() Term { return l.term }

func (l *Leader) nextEpoch() Epoch {
	l.counter++
	return Epoch{Term: l.term, Counter: l.counter}
}

// leaderSide returns the leader's side of a coordination node, nil if there is no such node.
func (l *Leader) leaderSide(id NodeID) *ledNode {
	n := l.nodes[id]
	if n == nil && l.machine.nodes[id] != nil {
		n = &ledNode{
			id: id, node: l.machine.nodes[id],
			sessions: make(map[SessionID]*ledSession),
			watches:  make(map[SemaphoreID]*watchList),
			waits:    make(map[OrderID]*deadline),
		}
		l.nodes[id] = n
	}
	return n
}

// leaderSide returns the leader's side of a session, nil if there is no such session.
func (n *ledNode) leaderSide(id SessionID) *ledSession {
	s := n.sessions[id]
	if s == nil && n.node.sessions[id] != nil {
		s = &ledSession{id: id, node: n}
		n.sessions[id] = s
	}
	return s
}

// propose puts out a command about a node, and about one of its sessions unless s is nil.
func (l *Leader) propose(n *ledNode, s *ledSession, c Command) {
	n.proposed++
	if s != nil {
		s.inFlight++
		s.counts(c, 1)
	}
	l.put(c)
}

// end ends a stream with a Failure and forgets it.
func (l *Leader) end(a *attachment, refusal *Refusal) {
	delete(l.streams, a.stream)
	l.send(a, Message{Kind: MessageEnd, Refusal: refusal})
}

// forget takes a session from the stream that has it, and forgets what this leader keeps for the two: the
// countdown, watches, describes and the requests that wait for them. It returns the stream, nil if the session
// is detached. Every path on which a session ends, or changes hands, goes through it.
func (l *Leader) forget(s *ledSession) *attachment {
	l.stopCountdown(s)
	for _, w := range s.watches {
		w.remove()
		l.watches--
	}
	a := s.attachment
	s.watches, s.attachment = nil, nil
	if a != nil {
		a.later = nil // describes of a stream without its session are not answered
	}
	return a
}

// lastClient describes the client of a session for a command that ends it at a moment.
func (s *ledSession) lastClient(l *Leader, now Instant) (c Client) {
	switch {
	case l.clientless:
		return Client{}
	case s.client != nil:
		c = *s.client
	}
	if s.attachment == nil {
		c.SilentMillis, c.Lost = inMillis(now-s.since), s.lost
		if s.inherited {
			c.Lost = LostLeader
		}
	}
	return c
}

// Applied takes the effects of a command, written in term. It must be called for every command that is executed, before
// the next one is: a describe that waited for it is answered from the state as it is behind it.
func (l *Leader) Applied(now Instant, term Term, c Command, effects []Effect) {
	l.hurry()
	nodeID, sessionID := c.subject()
	n := l.leaderSide(nodeID)
	var s *ledSession
	if n != nil && term == l.term {
		n.applied++
		if s = n.sessions[sessionID]; s != nil {
			s.inFlight--
			s.counts(c, -1)
		}
	}
	for i := range effects {
		l.effect(now, &effects[i])
	}
	if s != nil {
		l.resumeHeld(now, s)
		s.returned(l, now)
	}
	for i, ended := range l.ended {
		l.resumeHeld(now, ended)
		l.ended[i] = nil
	}
	l.ended = l.ended[:0]
	if n != nil {
		l.answerDescribes(n)
	}
}

func (l *Leader) effect(now Instant, e *Effect) {
	switch e.Kind {
	case EffectCallDone:
		l.callDone(e)
		return
	case EffectNodeDropped:
		l.nodeDropped(e.Node)
		return
	case EffectAttachRefused:
		l.attachRefused(e)
		return
	case EffectResourceAltered, EffectResourceDropped: // for the resources' distributors
		return
	}
	n := l.leaderSide(e.Node)
	switch e.Kind {
	case EffectResult:
		l.stopWait(n, e.Order)
		l.result(n, e)
	case EffectPending:
		l.startWait(now, n, ExpireWaiter{Node: e.Node, Session: e.Session, Semaphore: e.Semaphore,
			Order: e.Order, WaitEpoch: e.WaitEpoch, Term: l.term}, e.TimeoutMillis)
		if a := n.addressee(e); a != nil {
			l.send(a, Message{Kind: MessagePending, Sequence: e.Address.Sequence})
		}
	case EffectWaitDropped:
		l.stopWait(n, e.Order)
	case EffectChanged:
		l.notify(n, e)
	case EffectAttached:
		l.attached(now, n, e)
	case EffectSessionEnded:
		l.sessionEnded(n, e)
	}
}

// addressee is the stream that waits for this effect. It is nil if the session is detached, or if a later
// stream has it by now; then the change takes place without a notification (§3.4, queue rules).
func (n *ledNode) addressee(e *Effect) *attachment {
	s := n.sessions[e.Session]
	if s == nil || s.attachment == nil || s.attachment.epoch != e.Address.Epoch {
		return nil
	}
	return s.attachment
}

func (l *Leader) result(n *ledNode, e *Effect) {
	if a := n.addressee(e); a != nil {
		l.send(a, Message{Kind: MessageResult, Sequence: e.Address.Sequence, Request: e.Request,
			Refusal: e.Refusal, Done: e.Done})
	}
}

// sessionEnded forgets a session. Its stream, if it has one, gets SessionStopped if it asked for the end, otherwise the
// Failure that the session has expired (§2.9).
func (l *Leader) sessionEnded(n *ledNode, e *Effect) {
	s := n.sessions[e.Session]
	if s == nil {
		return
	}
	a := l.forget(s)
	delete(n.sessions, s.id)
	if len(s.held) > 0 {
		l.ended = append(l.ended, s)
	}
	switch {
	case a == nil:
	case a.stopping && a.epoch == e.Address.Epoch:
		delete(l.streams, a.stream)
		l.send(a, Message{Kind: MessageStopped, Session: s.id})
	default:
		l.end(a, SessionExpired)
	}
}

// nodeDropped ends every stream attached to the node (§1.3). Streams still attaching are refused when their turn comes.
func (l *Leader) nodeDropped(id NodeID) {
	n := l.nodes[id]
	if n == nil {
		return
	}
	for _, sessionID := range slices.Sorted(maps.Keys(n.sessions)) {
		s := n.sessions[sessionID]
		streams := s.held
		if a := l.forget(s); a != nil {
			streams = append(streams, a)
		}
		for _, a := range streams {
			l.end(a, LinkFailure)
		}
	}
	if len(n.deadlines) > 0 {
		l.wakeups.nodes.remove(n)
	}
	delete(l.nodes, id)
}

// TurnAway ends a stream, attached or not. Its session goes on as when the relay is lost: the Failure may not
// arrive, and the stream then claims the session from the next leader.
func (l *Leader) TurnAway(now Instant, stream StreamID, refusal *Refusal) {
	l.Lose(now, stream)
	l.end(&attachment{stream: stream}, refusal)
}
