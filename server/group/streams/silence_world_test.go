package streams

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/lease"
	"github.com/coordd/coordd/server/group/relaypb"
)

// silenceWorld is servers, clients and the network between them in virtual time. What decides who may speak
// and when a session ends is the real code: Leader, Relay, Peer, Set, Stream, Front and
// Replica. Raft is reduced to what it promises: a leader's lease counts from the start of a round that a
// majority has answered, the next leader is elected after that start, and it has of what the last one had in
// flight the first few entries.
type silenceWorld struct {
	now     time.Duration  // true time
	events  []silenceEvent // the next one first
	count   int
	index   coordination.Index
	term    coordination.Term
	stamp   uint64        // of the last entry that has one
	leads   *silentServer // whose proposals are committed; nil for nobody's
	relays  []*silenceRelay
	servers []*silentServer
	clients []*silenceClient
	history []string

	pipeline  []silenceEntry // proposed and not yet applied
	committed time.Duration  // when the last of them is
	latency   func() time.Duration
	// how long a server takes from one stream to the next when they join a relay
	stride func() time.Duration
	kept   func(n int) int // how many of n entries in flight the next leader has
	batch  func(n int) int // how many of a turn's n commands the next entry has
}

// silenceEntry is an entry of the log.
type silenceEntry struct {
	coordination.Entry
	by *silentServer
}

// silenceClient is a client that answers pings at once.
type silenceClient struct {
	in      *silenceWorld
	stream  *Stream       // nil once it has ended
	at      *silentServer // where the client is
	timeout uint64        // of its session, milliseconds
	session coordination.SessionID
	spoke   time.Duration // when the client was last told what it takes for a sign of life
	longest time.Duration // silence
	expired time.Duration // when the session ended, 0 if it has not
	expirer *silentServer
	left    bool          // the stream had ended before
	late    time.Duration // how long after the end the client was told that it lives
	ended   coordination.Ending
	refusal *coordination.Refusal // with which it ended
}

// silentServer is one server. Its clock runs at its own rate, also while the server is paused.
type silentServer struct {
	world       *silenceWorld
	rate        float64
	pausedUntil time.Duration
	replica     *coordination.Replica[Sink, *silentServer]
	link        *Local // to the leader on this server
	streams     *Set
	peers       *Peers
	unsaid      Unsaid
	queue       []Forwarded
	leaseUntil  coordination.Instant
	quiet       bool // it hands over
	due         hooks.Timer
	confirms    bool // rounds that begin now will be answered
	// what it has not heard of, as a leader that does not know that it leads no more
	behind []silenceEntry
}

type silenceEvent struct {
	at time.Duration
	on *silentServer // does nothing while it is paused; nil for the world
	do func()
}

// note remembers what happened, for whoever has to understand a failure.
func (w *silenceWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%12v ", w.now)+fmt.Sprintf(format, args...))
}

func (w *silenceWorld) schedule(at time.Duration, on *silentServer, do func()) {
	w.count++
	e := silenceEvent{max(at, w.now), on, do}
	place := sort.Search(len(w.events), func(i int) bool { return w.events[i].at > e.at })
	w.events = slices.Insert(w.events, place, e)
}

// run lets time pass until the given moment.
func (w *silenceWorld) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = e.at
		if e.on != nil && w.now < e.on.pausedUntil {
			w.schedule(e.on.pausedUntil, e.on, e.do)
			continue
		}
		e.do()
		w.settle()
	}
	w.now = until
}

// settle has everybody who is not paused deal with what there is.
func (w *silenceWorld) settle() {
	for _, s := range w.servers {
		if w.now >= s.pausedUntil && s.serves() && len(s.queue) > 0 {
			s.turn()
		}
	}
	for _, c := range w.relays {
		c.pump()
		c.answer()
	}
	for _, c := range w.clients {
		c.listen()
	}
}

// listen is the writer of the client's stream, and the client itself.
func (c *silenceClient) listen() {
	s, w := c.stream, c.in
	for s != nil && w.now >= c.at.pausedUntil {
		// without its lock: there is one goroutine, and this is asked for all clients at each event
		if !s.scheduled {
			return
		}
		replies, ending := s.Take(nil)
		for i := range replies {
			c.hear(&replies[i])
		}
		if c.ended = ending; ending != coordination.EndingNone {
			c.stream = nil
			s.stopTimers()
			w.note("stream %d ends (%d), last heard %v", s.id, ending, c.spoke)
			c.at.streams.remove(s)
			return
		}
	}
}

// heardOfExpiry reports whether the stream has ended with the news that its session has expired.
func (c *silenceClient) heardOfExpiry() bool {
	return c.ended == coordination.EndingOK && c.refusal != nil && *c.refusal == *coordination.SessionExpired
}

func (c *silenceClient) hear(r *coordination.Reply) {
	w := c.in
	switch r.Kind {
	case coordination.ReplyFailure:
		c.refusal = r.Refusal
		return
	case coordination.ReplyNone, coordination.ReplyStopped:
		return
	case coordination.ReplyStarted:
		c.session = r.Session
	case coordination.ReplyPing:
		c.say(coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: r.Opaque})
	}
	if w.now-c.spoke > 50*time.Millisecond && c == w.clients[0] || c.expired != 0 {
		w.note("the client of session %d hears something, after %v", c.session, w.now-c.spoke)
	}
	c.longest = max(c.longest, w.now-c.spoke)
	c.spoke = w.now
	if c.expired != 0 {
		c.late = max(c.late, w.now-c.expired)
	}
}

// chat has the client ping, so that there is always something to answer.
func (c *silenceClient) chat(often time.Duration) {
	if c.session != 0 {
		c.say(coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: 7})
	}
	if c.stream != nil {
		c.in.schedule(c.in.now+often, c.at, func() { c.chat(often) })
	}
}

// say has the client send a message.
func (c *silenceClient) say(m coordination.ClientMessage) {
	if s := c.stream; s != nil {
		s.mutex.Lock()
		s.settle(s.front.Receive(&m))
		s.mutex.Unlock()
	}
}

func (w *silenceWorld) addServer(rate float64) *silentServer {
	machine, err := coordination.NewMachine("/local", coordination.DefaultLimits())
	if err != nil {
		panic(err)
	}
	s := &silentServer{world: w, rate: rate, confirms: true}
	shell := clock.New(s)
	s.replica = coordination.NewReplica[Sink, *silentServer](machine, coordination.Formats{})
	s.streams = New(Config{Core: s, Clock: shell, Room: budget.New("queue", 0), Linger: time.Hour,
		OutboundBytes: 128_000_000})
	s.peers = &Peers{core: s, streams: s.streams, shell: shell}
	w.servers = append(w.servers, s)
	s.watch()
	return s
}

// Kick implements Core: only the world takes turns.
func (*silentServer) Kick() {}

// Ring implements Core.
func (*silentServer) Ring() {}

// Member implements Core.
func (*silentServer) Member() uint64 { return 0 }

// Traced implements Core.
func (*silentServer) Traced(*coordination.Message, string) {}

// Put implements Core.
func (s *silentServer) Put(words Forwarded) { s.queue = append(s.queue, words) }

// Now implements hooks.Clock.
func (s *silentServer) Now() coordination.Instant {
	return coordination.Instant(float64(s.world.now) * s.rate)
}

func (s *silentServer) trueTime(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(d) / s.rate))
}

type silenceTimer struct {
	server *silentServer
	do     func()
	number int
}

// AfterFunc implements hooks.Clock.
func (s *silentServer) AfterFunc(d time.Duration, do func()) hooks.Timer {
	t := &silenceTimer{server: s, do: do}
	t.Reset(d)
	return t
}

// Reset implements hooks.Timer.
func (t *silenceTimer) Reset(d time.Duration) bool {
	t.number++
	number := t.number
	t.server.world.schedule(t.server.world.now+t.server.trueTime(d), t.server, func() {
		if number == t.number {
			t.do()
		}
	})
	return true
}

// Stop implements hooks.Timer.
func (t *silenceTimer) Stop() bool {
	t.number++
	return true
}

// MaySpeak implements Core: the leader's lease.
func (s *silentServer) MaySpeak() bool { return s.Now() < s.leaseUntil && !s.quiet }

// IsQuiet implements Core.
func (s *silentServer) IsQuiet() bool { return s.quiet }

// watch is Uplink.wakeMutedStreams: a stream that was mute is sent as soon as it may speak.
func (s *silentServer) watch() {
	s.AfterFunc(leaderPoll, func() {
		s.streams.wakeMuted()
		s.watch()
	})
}

// confirm begins a round that confirms the leadership, and the next one later. The answers take delay.
func (s *silentServer) confirm(every, delay time.Duration) {
	begun, term := s.Now(), s.world.term
	if s.confirms {
		s.world.schedule(s.world.now+delay, s, func() {
			if s.replica.Term() == term {
				s.leaseUntil = max(s.leaseUntil, begun+coordination.Instant(lease.Window))
				s.turn()
			}
		})
	}
	s.AfterFunc(every, func() {
		if s.serves() {
			s.confirm(every, delay)
		}
	})
}

// elect has a server lead: of what its predecessor had in flight it has the first entries, and none of the
// others. Then it applies its first entry and serves.
func (w *silenceWorld) elect(s *silentServer) {
	w.note("a leader is elected, its clock runs at %v", s.rate)
	for _, e := range w.pipeline[:w.kept(len(w.pipeline))] {
		w.apply(e, false)
	}
	w.pipeline = nil
	w.term++
	w.leads = s
	s.replica.Leading(w.term, 0)
	w.apply(w.entry(s), false)
	s.setLeader()
	s.turn()
}

// serves reports whether a server takes itself for the leader.
func (s *silentServer) serves() bool { return s.replica.Reign() != 0 }

// follow tells a server's group that another server leads, or none.
func (s *silentServer) follow() {
	s.replica.Following()
	s.setLeader()
}

// depose tells a server that it leads no more.
func (s *silentServer) depose() {
	s.follow()
	for _, e := range s.behind {
		s.replica.Committed(s.Now(), &e.Entry)
	}
	s.behind = nil
}

// turn is a turn of the group without a store: what the leader proposes is applied a little later if it still
// counts.
func (s *silentServer) turn() {
	now, queue := s.Now(), s.queue
	if s.replica.IsQuiet() {
		queue = nil
	} else {
		s.queue = nil
	}
	for i := range queue {
		q := &queue[i]
		s.replica.Forward(now, q.Reign, q.ID, q.Sink, q.Forward)
	}
	s.replica.Tick(now)
	if due := s.replica.NextDeadline(); due <= now { // there are too few sessions for a second tick
		panic(fmt.Sprintf("a leader has something due at %v, ticked at %v", due, now))
	}
	work := s.replica.Take()
	if s.world.leads == s {
		for _, commands := range s.world.split(work.Commands) {
			s.world.propose(s, commands)
		}
	}
	s.unsaid.Say(s.link, work.Messages, s.replica)
	if next := s.replica.NextDeadline(); next != coordination.Never {
		if s.due == nil {
			s.due = clock.New(s).AfterFunc(s.until(next), s.turn)
		} else {
			s.due.Reset(s.until(next))
		}
	}
}

// until returns the time from now to t.
func (s *silentServer) until(t coordination.Instant) time.Duration { return clock.New(s).Until(t) }

// setLeader is that of a group: the streams turn to the leader that the replica has now, or to none.
func (s *silentServer) setLeader() {
	s.unsaid, s.quiet = Unsaid{}, false
	if s.link != nil {
		s.link.End()
		s.link = nil
	}
	if s.serves() {
		s.link = NewLocal(s, s.replica.Reign(), s.replica.Term())
		s.streams.Follow(s.link)
	} else {
		s.streams.Follow(nil)
	}
}

// entry is the next entry of the log.
func (w *silenceWorld) entry(by *silentServer, commands ...coordination.Command) silenceEntry {
	w.index++
	e := coordination.Entry{Index: w.index, Term: w.term, Commands: slices.Clone(commands)}
	if len(commands) > 0 {
		e.ServedMillis = by.replica.Served(by.Now(), true)
		e.StampMillis = by.replica.Stamp(uint64(time.Duration(by.Now()).Milliseconds()))
	}
	return silenceEntry{e, by}
}

// split makes entries of the commands of a turn: mostly one of all, as a group does, or several.
func (w *silenceWorld) split(commands []coordination.Command) (entries [][]coordination.Command) {
	for len(commands) > 0 {
		n := w.batch(len(commands))
		entries, commands = append(entries, commands[:n]), commands[n:]
	}
	return entries
}

// propose puts an entry into the log. It is applied a little later, behind those before it.
func (w *silenceWorld) propose(by *silentServer, commands []coordination.Command) {
	e := w.entry(by, commands...)
	w.pipeline = append(w.pipeline, e)
	w.committed = max(w.committed, w.now+w.latency())
	w.schedule(w.committed, by, func() {
		if w.leads != by || len(w.pipeline) == 0 || w.pipeline[0].Index != e.Index {
			return // the next leader knows what became of it
		}
		e := w.pipeline[0]
		w.pipeline = w.pipeline[1:]
		w.apply(e, true)
		by.turn()
	})
}

// apply has all servers apply an entry that is committed; who proposed it knows that, or has lost touch.
func (w *silenceWorld) apply(e silenceEntry, known bool) {
	if e.StampMillis != 0 {
		if e.StampMillis < w.stamp {
			panic(fmt.Sprintf("entry %d has stamp %d, one before it %d", e.Index, e.StampMillis, w.stamp))
		}
		w.stamp = e.StampMillis
	}
	for _, m := range w.servers {
		serves := m.serves()
		if serves && (m.replica.Term() != e.Term || !known) {
			m.behind = append(m.behind, e)
			continue
		}
		quiet := m.replica.IsQuiet()
		effects := m.replica.Committed(m.Now(), &e.Entry)
		if quiet && !m.replica.IsQuiet() {
			m.quiet = false
		}
		if m == e.by || !serves && !known {
			w.ends(effects, e.by)
		}
	}
}

// ends notes which sessions have ended.
func (w *silenceWorld) ends(effects []coordination.Effect, by *silentServer) {
	for i := range effects {
		if effects[i].Kind != coordination.EffectSessionEnded {
			continue
		}
		for _, c := range w.clients {
			if c.session == effects[i].Session && c.expired == 0 {
				c.expired, c.expirer, c.left = w.now, by, c.stream == nil
				w.note("session %d ends, its client last heard something at %v", c.session, c.spoke)
			}
		}
	}
}

// silenceRelay is one relay with the network under it.
type silenceRelay struct {
	from, to           *silentServer
	relay              *Relay
	peer               *Peer
	there, back        func() time.Duration // delays of the next message
	cutThere, cutBack  bool
	lastThere, arrived time.Duration // messages do not overtake each other
	joined             bool
	asked              int  // for a permit, apart from the relay
	lostThere, over    bool // the leader has noticed that the relay broke; the follower has
}

// open connects a follower to a leader; the first request for a permit goes out at once.
func (w *silenceWorld) open(from, to *silentServer, there, back func() time.Duration) *silenceRelay {
	c := &silenceRelay{from: from, to: to, there: there, back: back}
	c.relay = &Relay{streams: from.streams, shell: clock.New(from),
		bell: turn.NewBell(), asked: make(map[uint64]moment), ready: func() {}}
	c.peer = NewPeer(to.peers, to.streams.LocalLink(), 1, &relaypb.Hello{})
	c.peer.room = 1 << 40
	w.relays = append(w.relays, c)
	if c.peer.link != nil {
		to.peers.add(c.peer)
		c.peer.beginWatch()
	}
	c.renew()
	return c
}

func (c *silenceRelay) renew() {
	if c.over {
		return
	}
	c.relay.renew()
	c.askForPermit()
	c.from.AfterFunc(renewInterval, c.renew)
}

// askForPermit is a question over the connection of the heartbeats, which the same cuts concern, and its
// answer. Nothing on it waits for the relay, so one may be fast and the next one slow.
func (c *silenceRelay) askForPermit() {
	w, request := c.from.world, c.relay.permitRequest()
	c.asked++
	slow := time.Duration(c.asked%3) * 130 * time.Millisecond
	if c.cutThere {
		return
	}
	w.schedule(w.now+time.Millisecond+slow, c.to, func() {
		if c.peer.link == nil {
			return
		}
		grant := c.peer.answer(request)
		if grant == nil || c.cutBack {
			return
		}
		w.schedule(w.now+time.Millisecond, c.from, func() {
			switch {
			case c.over:
			case grant.GetDrop():
				c.dropped(c.relay.drop())
			default:
				c.relay.granted(grant.GetRenewed())
			}
		})
	})
}

// dropped reports to the leader that the follower has no permit, unless that is lost.
func (c *silenceRelay) dropped(number uint64) {
	if w := c.from.world; !c.cutThere {
		w.schedule(w.now+time.Millisecond, c.to, func() {
			if c.peer.link != nil {
				c.peer.answer(&relaypb.PermitRequest{Dropped: number})
			}
		})
	}
}

// pump sends what the follower has.
func (c *silenceRelay) pump() {
	w := c.from.world
	if c.over || w.now < c.from.pausedUntil {
		return
	}
	for out := c.relay.take(); out != nil; out = c.relay.take() {
		c.lastThere = max(c.lastThere, w.now+c.there())
		if !c.cutThere {
			w.schedule(c.lastThere, c.to, func() { c.atLeader(out) })
		}
	}
}

func (c *silenceRelay) atLeader(batch *relaypb.ToLeader) {
	if !c.lostThere && c.peer.link != nil {
		_ = c.peer.receive(batch)
	}
}

// answer sends what the leader has.
func (c *silenceRelay) answer() {
	w := c.from.world
	if c.lostThere || c.peer.link == nil || w.now < c.to.pausedUntil {
		return
	}
	select {
	case <-c.peer.frozen: // as exchange does
		c.breakAtLeader()
		return
	default:
	}
	for out := c.peer.take(); out != nil; out = c.peer.take() {
		c.arrived = max(c.arrived, w.now+c.back())
		if !c.cutBack {
			w.schedule(c.arrived, c.from, func() { c.atFollower(out) })
		}
	}
}

func (c *silenceRelay) atFollower(batch *relaypb.FromLeader) {
	if c.over {
		return
	}
	_ = c.relay.receive(batch)
	if !c.joined {
		c.joined = true
		c.from.world.note("the follower joins")
		c.join()
	}
}

// join is Set.join, but time passes, and things happen, between one stream and the next.
func (c *silenceRelay) join() {
	w, set := c.from.world, c.from.streams
	if set.link != nil {
		return
	}
	streams := set.redirect(c.relay)
	slices.SortStableFunc(streams, func(a, b *Stream) int { return cmp.Compare(a.id, b.id) })
	at := w.now
	for _, s := range streams {
		at += w.stride()
		w.schedule(at, c.from, func() {
			if set.link == c.relay && set.Find(s.id) == s {
				s.Follow(c.relay)
			}
		})
	}
}

// breakAtLeader has the leader notice that the relay broke, breakAtFollower the follower.
func (c *silenceRelay) breakAtLeader() {
	if !c.lostThere && c.peer.link != nil {
		c.lostThere = true
		c.from.world.note("the leader notices that a relay broke")
		c.peer.endWatch()
		c.to.peers.remove(c.peer)
		c.peer.abandon()
	}
}

func (c *silenceRelay) breakAtFollower() {
	c.over = true
	c.from.world.note("the follower notices that a relay broke")
	c.from.streams.unfollow(c.relay)
}
