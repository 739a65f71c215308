package group

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/internal/hooks"
)

const (
	// relayLease is L of the project's design: how long a leader that has lost a relay waits before it counts the
	// sessions behind it as detached. Together with the leader's own lease it stays below the smallest grace period.
	relayLease = 400 * time.Millisecond
	// relayLeave is how long a follower may speak to clients after it has asked the leader for leave. It is shorter, so
	// that every clock may be wrong by 5 %; TestSilence looks for the worst case.
	relayLeave = relayLease - 50*time.Millisecond
	// leavePoll is how often a leader looks whether it may give the leave that it could not give when it was asked.
	leavePoll = 10 * time.Millisecond
	// relayPatience is how long a leader waits for the next word of another server, which asks for leave every
	// renewInterval. A server that runs gives a silent relay up by itself, after relaySilence; this is for one that is
	// frozen. Whatever leave it had is over long before.
	relayPatience = 2 * relaySilence
	// maxForwardedBytes is how much of another server may wait in the leader's queue. Who keeps to the budget of its streams
	// stays far below that: it has maxRelayBytes, or maxLocalBytes while it led, and at most a message more.
	maxForwardedBytes = 2 * maxLocalBytes
)

var errOverCredit = status.Error(codes.ResourceExhausted, "The server sends more requests than it may have under way")

var errFrozen = status.Error(codes.DeadlineExceeded, "The server has said nothing for too long")

var errSuperseded = status.Error(codes.Aborted, "The server has opened another relay")

var errNotMember = status.Error(codes.PermissionDenied, "This server's cluster has no such member")

// relayPeer is the leader's end of the relay to one other server.
type relayPeer struct {
	group   *Group
	link    *localLink // to the leader of the reign in which the relay was opened
	from    uint64     // the other server
	process uint64     // of it, and number and version, as in its Hello
	number  uint64
	version uint32

	ended      chan struct{} // closed when nothing comes any more
	err        error         // why nothing comes, once ended is closed
	superseded chan struct{} // closed when the other server has opened another relay
	taking     sync.Mutex    // held while superseded is closed, and while a batch is put into the queue
	frozen     chan struct{} // closed when nothing has come for relayPatience
	over       chan struct{} // closed when nothing is to be sent any more
	bell       bell          // the writing goroutine listens

	mutex   sync.Mutex
	quanta  []*relaypb.Quanta         // shared out, and not yet sent
	streams map[uint64]*relayedStream // that the leader knows, by their numbers on the other server
	said    []relayedMessage          // not yet translated
	renew   uint64                    // the last request for leave, 0 once it is given
	heard   coordination.Instant      // when something last came; at first, when the relay was opened
	watch   hooks.Timer               // looks at heard
	room    uint64                    // how much of descriptions the other server takes, from version relayRoom on
	// sentCount and heardCount are how many messages were said, and put into the queue, see Stillness.
	sentCount, heardCount uint64
	lost                  bool // nothing comes any more: there is no more leave

	out    []*relaypb.Message // not yet sent; of take, as what follows
	large  []relayedMessage   // go in pieces, with what else goes to their streams
	behind map[uint64]int     // how many of large go to a stream
	cut    pieces             // of the first of large
	sent   uint64             // what the descriptions count that were sent, or begun
	counts uint64             // what that in cut counts

	coming pieces       // of what the other server says; of receive
	queued atomic.Int64 // what events of the other server in the leader's queue count
}

// relayedMessage is what the leader says to a stream of the other server.
type relayedMessage struct {
	stream  uint64 // its number there
	message coordination.Message
}

func newRelayPeer(g *Group, link *localLink, hello *relaypb.Hello) *relayPeer {
	return &relayPeer{group: g, link: link, from: hello.GetServer(), process: hello.GetProcess(), number: hello.GetNumber(),
		version: hello.GetVersion(), streams: make(map[uint64]*relayedStream), behind: make(map[uint64]int), bell: newBell(), ended: make(chan struct{}),
		superseded: make(chan struct{}), frozen: make(chan struct{}), over: make(chan struct{})}
}

// relayedStream is a client's stream on another server.
type relayedStream struct {
	peer   *relayPeer
	number uint64 // on its own server
	id     coordination.StreamID
}

// deliver implements sink. A stream that the leader ends is forgotten: the other server does not speak of it again. The
// message is left to take, because a large one is long in translating, and the turn is held.
func (s *relayedStream) deliver(_ leaderLink, m *coordination.Message) {
	p := s.peer
	p.mutex.Lock()
	if m.Last() {
		delete(p.streams, s.number)
	}
	p.said = append(p.said, relayedMessage{s.number, *m})
	p.sentCount++
	p.mutex.Unlock()
	p.bell.ring()
}

// exchange serves the relay of one other server until it breaks, or this server leads no more: then the other side has
// to look for the next leader, which may be this server again.
func (g *Group) exchange(rpc relaypb.Relay_ExchangeServer) error {
	first, err := rpc.Recv()
	if err != nil {
		return err
	}
	link := g.streams.localLink()
	if link == nil { // it may not even serve yet
		return errNotLeading
	}
	hello := first.GetHello()
	from := hello.GetServer()
	if !g.alone() && !slices.ContainsFunc(g.store.Members(), func(m raftstore.Member) bool { return m.ID == from }) {
		return errNotMember
	}
	p := newRelayPeer(g, link, hello)
	if !g.relays.add(p) {
		return errSuperseded
	}
	p.beginWatch()
	written := make(chan error, 1)
	go func() { written <- p.write(rpc) }() // they end when this function returns, if not before
	go func() {
		defer g.relays.remove(p)
		defer g.limiter.forget(p)
		p.err = p.receive(first)
		for p.err == nil {
			var batch *relaypb.ToLeader
			if batch, p.err = rpc.Recv(); p.err == nil {
				p.err = p.receive(batch)
			}
		}
		close(p.ended)
		p.abandon()
	}()
	defer p.endWatch()
	defer close(p.over)
	select { // a write may be held up for as long as the other server does not read
	case err := <-written:
		return err
	case <-p.ended:
		return p.err
	case <-p.superseded:
		return errSuperseded
	case <-p.link.gone:
		return errNotLeading // the other looks for the next leader, which may be this server again
	case <-p.frozen:
		return errFrozen
	}
}

// beginWatch begins to look whether the other server is frozen.
func (p *relayPeer) beginWatch() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	clock := p.link.group.shell
	p.heard = clock.Now()
	p.watch = clock.AfterFunc(relayPatience, p.look)
}

func (p *relayPeer) look() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.watch == nil {
		return
	}
	clock := p.link.group.shell
	if left := clock.Until(p.heard + coordination.Instant(relayPatience)); left > 0 {
		p.watch.Reset(left)
		return
	}
	close(p.frozen)
}

func (p *relayPeer) endWatch() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.watch.Stop()
	p.watch = nil
}

// write sends until the relay is over, or breaks.
func (p *relayPeer) write(rpc relaypb.Relay_ExchangeServer) error {
	for {
		var later <-chan time.Time
		if p.owesLeave() {
			later = time.After(leavePoll)
		}
		select {
		case <-p.over:
			return nil
		case <-p.bell:
		case <-later:
		}
		for out := p.take(); out != nil; out = p.take() {
			if err := rpc.Send(out); err != nil {
				return err
			}
		}
	}
}

func (p *relayPeer) owesLeave() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.renew != 0
}

// take returns what is to be sent next, nil if nothing is. Leave that was asked for is given as soon as this server has
// itself the right to speak as the leader. There is one caller at a time.
func (p *relayPeer) take() *relaypb.FromLeader {
	renewed, room, said := p.takeSaid()
	for i := range said {
		m := &said[i]
		waits := m.message.Description != nil && p.isFull(room)
		if p.version >= relayPieces && (m.isLarge() || waits || p.behind[m.stream] > 0) {
			p.behind[m.stream]++
			p.large = append(p.large, *m)
		} else {
			message := messageToPB(m.stream, &m.message)
			p.sent += counts(message)
			p.out = append(p.out, message)
		}
	}
	out := &relaypb.FromLeader{Renewed: renewed}
	if renewed != 0 && p.version > 0 {
		out.Version = relayRoom
	}
	out.Messages, p.out = firstOf(p.out)
	for _, message := range out.Messages {
		out.Counted += counts(message)
	}
	if out.Piece = p.nextPiece(room); out.Piece.GetLast() {
		out.Counted += p.counts
	}
	out.Quanta = p.takeQuanta()
	if out.Renewed == 0 && len(out.Messages) == 0 && out.Piece == nil && out.Quanta == nil {
		return nil
	}
	return out
}

// isLarge tells whether a message goes in pieces.
func (m *relayedMessage) isLarge() bool {
	d := m.message.Description
	return d != nil && len(d.Data)+d.Owners.Bytes()+d.Waiters.Bytes() > relayBatchBytes
}

// isFull tells whether the other server takes no further description at present.
func (p *relayPeer) isFull(room uint64) bool { return p.version >= relayRoom && p.sent >= room }

// nextPiece returns the next piece of what is large, or waits for room; nil if nothing is, or there is none. What goes to the
// same stream later comes behind it, what goes to others does not.
func (p *relayPeer) nextPiece(room uint64) *relaypb.Piece {
	if len(p.large) == 0 {
		return nil
	}
	stream := p.large[0].stream
	if len(p.cut) == 0 {
		if p.large[0].message.Description != nil && p.isFull(room) {
			return nil
		}
		message := messageToPB(stream, &p.large[0].message)
		p.cut, _ = proto.Marshal(message) // it cannot fail: what clients send is UTF-8
		p.counts = counts(message)
		p.sent += p.counts
	}
	piece := p.cut.next()
	if piece == nil || piece.Last {
		p.large[0] = relayedMessage{}
		if p.large = p.large[1:]; len(p.large) == 0 {
			p.large = nil
		}
		if p.behind[stream]--; p.behind[stream] == 0 {
			delete(p.behind, stream)
		}
	}
	return piece
}

// takeSaid returns the leave to be given, 0 if none is, the room that there is, and what the leader has said so far.
func (p *relayPeer) takeSaid() (renewed, room uint64, said []relayedMessage) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.renew != 0 && !p.lost && p.link.maySpeak() && p.group.streams.localLink() == p.link {
		renewed, p.renew = p.renew, 0
	}
	said, p.said = p.said, nil
	return renewed, p.room, said
}

func (p *relayPeer) receive(batch *relaypb.ToLeader) error {
	number := batch.GetRenew()
	p.mutex.Lock()
	p.heard = p.link.group.shell.Now()
	if number != 0 {
		p.renew = number
	}
	more := batch.GetRoom() > p.room
	p.room = max(p.room, batch.GetRoom())
	p.mutex.Unlock()
	if number != 0 || more {
		p.bell.ring()
	}
	if err := p.forward(batch.GetForwards()); err != nil {
		return err
	}
	if demands := batch.GetDemands(); len(demands) > 0 {
		p.group.limiter.demanded(p, demandsFromPB(demands))
		p.mutex.Lock()
		p.heardCount += uint64(len(demands))
		p.mutex.Unlock()
	}
	if piece := batch.GetPiece(); piece != nil {
		forward := new(relaypb.Forward)
		whole, err := p.coming.add(piece, forward)
		if err == nil && whole {
			err = p.forward([]*relaypb.Forward{forward})
		}
		if err != nil {
			return err
		}
	}
	p.link.group.kick()
	return nil
}

// supersede ends the relay because the other server has opened another one: nothing of this one comes behind what the
// other one brings.
func (p *relayPeer) supersede() {
	p.taking.Lock()
	defer p.taking.Unlock()
	close(p.superseded)
}

// forward puts what the other server's streams say into the queue. It fails when more waits there than may, so that a server
// that does not hold its clients back cannot fill this one.
func (p *relayPeer) forward(forwards []*relaypb.Forward) error {
	p.taking.Lock()
	defer p.taking.Unlock()
	select {
	case <-p.superseded:
		return nil
	default:
	}
	for _, forward := range forwards {
		f := forwardFromPB(forward, p.from)
		if stream := p.stream(forward.GetStream(), &f); stream != nil {
			e := event{reign: p.link.reign, sink: stream, id: stream.id, forward: f}
			if p.queued.Add(int64(e.size())) > maxForwardedBytes {
				p.queued.Add(-int64(e.size()))
				return errOverCredit
			}
			p.link.group.queue.put(e)
		}
	}
	p.mutex.Lock()
	p.heardCount += uint64(len(forwards))
	p.mutex.Unlock()
	return nil
}

// stream finds a stream of the other server; f is what it says. One that begins is remembered until it ends. It
// returns nil for one that has ended.
func (p *relayPeer) stream(number uint64, f *coordination.Forward) *relayedStream {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	stream := p.streams[number]
	switch {
	case stream == nil && (f.Attach != nil || f.Roster != nil):
		stream = &relayedStream{peer: p, number: number, id: p.group.streams.nextID()}
		p.streams[number] = stream
	case f.Detach:
		delete(p.streams, number)
	}
	return stream
}

// abandon detaches the streams behind a relay that broke. Their server may speak for a little longer, and their
// sessions must not run out before the clients could know.
func (p *relayPeer) abandon() {
	p.mutex.Lock()
	p.lost = true
	p.mutex.Unlock()
	p.link.group.shell.AfterFunc(relayLease, func() {
		p.mutex.Lock()
		streams := p.streams
		p.streams = nil // nothing more comes
		p.mutex.Unlock()
		for _, stream := range streams {
			e := event{reign: p.link.reign, sink: stream, id: stream.id, forward: coordination.Forward{Detach: true}}
			p.queued.Add(int64(e.size()))
			p.link.group.queue.put(e)
		}
		p.link.group.kick()
	})
}
