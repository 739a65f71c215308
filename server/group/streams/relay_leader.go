package streams

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/relaypb"
)

const (
	// relayLease is the time after which a leader that has lost a relay counts the sessions behind it as detached: by
	// then every permit that it gave is over. Together with the leader's own lease it stays below the smallest grace
	// period.
	relayLease = 400 * time.Millisecond
	// relayPermit is the time for which a follower may speak to clients after it has asked the leader for a permit. It
	// is shorter, so that every clock may be wrong by 5 %; TestSilence looks for the worst case.
	relayPermit = relayLease - 50*time.Millisecond
	// permitPoll is the pause between two attempts of a leader to give a permit that it could not give when it was
	// asked.
	permitPoll = 10 * time.Millisecond
	// relayPatience bounds the time between two batches of another server, which asks for a permit every renewInterval.
	// A server that runs gives up a silent relay by itself, after relaySilence; this is for one that is frozen. Every
	// permit that it had is over long before.
	relayPatience = 2 * relaySilence
	// maxForwardedBytes bounds the messages of another server in the leader's queue. A server that keeps to the budget
	// of its streams stays far below: it has maxRelayBytes, or maxLocalBytes while it led, and at most a message more.
	maxForwardedBytes = 2 * maxLocalBytes
)

// ErrNotLeading reports that this server does not lead: the command or message was not executed, and this attempt will
// not execute it.
var ErrNotLeading = status.Error(codes.FailedPrecondition, "This server does not lead")

var errOverCredit = status.Error(codes.ResourceExhausted,
	"The server sends more requests than it may have under way")
var errFrozen = status.Error(codes.DeadlineExceeded, "The server has said nothing for too long")

var errSuperseded = status.Error(codes.Aborted, "The server has opened another relay")

// Peer is the leader's end of the relay to one other server. Three goroutines meet in it: a reader of the relay, a
// writer, and the holder of the turn, which leaves the leader's messages there.
//
// Its invariant is the other server's right to speak. That server may speak to its clients until its last permit is
// over, which it counts from its own asking. So a permit is given only while this server has its lease and is still the
// leader of the same reign; and when the relay breaks, the sessions behind it do not count as detached before the last
// permit must be over (abandon).
type Peer struct {
	peers *Peers
	link  *Local // to the leader of the reign in which the relay was opened
	// from is the other server; process and number are as it gave them in its Hello.
	from, process, number uint64

	// The ends of the relay. Each channel is closed once: ended by the reader, with err, when it fails; superseded by
	// Peers, when the other server has opened another relay; frozen by watch, when nothing has come for relayPatience;
	// over when the RPC ends, for the writer.
	ended, superseded, frozen, over chan struct{}
	err                             error
	// admitting is held while superseded is closed, and while a batch is put into the queue, so that nothing of
	// an older relay comes behind what the newer one brings.
	admitting sync.Mutex
	bell      turn.Bell // the writer listens

	// mutex protects what follows, up to granted.
	mutex   sync.Mutex
	quanta  []*relaypb.Quanta        // shared out, and not yet sent
	streams map[uint64]*RemoteStream // that the leader knows, by their numbers on the other server
	said    []relayedMessage         // messages of the leader, for the writer to encode
	renew   uint64                   // number of the last request for a permit, 0 once it is given
	heard   coordination.Instant     // of the last batch; at first, of the opening
	watch   hooks.Timer              // looks at heard
	// the bytes of descriptions that the other server has room for, counted from the opening
	room uint64
	// sentCount counts the messages of the leader, and heardCount those put into the queue, see Stillness.
	sentCount, heardCount uint64
	lost                  bool // the relay is over: it gets no more permits
	// the moment of the last permit that the other server may have, 0 without one; and its request
	given   coordination.Instant
	granted uint64

	outgoing              // of the writer
	coming   pieces       // of the reader: a message that comes in pieces
	queued   atomic.Int64 // bytes of the other server's messages in the leader's queue
}

// outgoing has the messages on their way to the other server. It belongs to the writer of a relay.
type outgoing struct {
	// out are messages that fit into a batch, and left counts those that have left it. large are those that do not
	// fit, or whose descriptions wait until the other server has room; they go in pieces, one after the other. Each
	// stream gets its messages in order: a large one is begun when all have left that were in out before it, and
	// later ones to its stream queue in large (behind counts them by stream). cut is the rest of the first.
	out    []*relaypb.Message
	left   uint64
	large  []relayedMessage
	behind map[uint64]int
	cut    pieces
	// sent counts the bytes of all descriptions that were sent or begun, to be compared with room, and counts those of
	// the one in cut.
	sent, counts uint64
}

// relayedMessage is a message of the leader to a stream of the other server.
type relayedMessage struct {
	stream  uint64 // its number there
	message coordination.Message
	after   uint64 // of a large one: the value of left at which it is begun
}

// NewPeer returns the leader's end of a relay that another server has opened.
func NewPeer(peers *Peers, link *Local, from uint64, hello *relaypb.Hello) *Peer {
	return &Peer{peers: peers, link: link, from: from, process: hello.GetProcess(),
		number: hello.GetNumber(), streams: make(map[uint64]*RemoteStream),
		outgoing: outgoing{behind: make(map[uint64]int)}, bell: turn.NewBell(), ended: make(chan struct{}),
		superseded: make(chan struct{}), frozen: make(chan struct{}), over: make(chan struct{})}
}

// RemoteStream is a client's stream on another server.
type RemoteStream struct {
	peer   *Peer
	number uint64 // on its own server
	id     coordination.StreamID
}

// Where returns the server of the stream and its number there.
func (s *RemoteStream) Where() (server uint64, id coordination.StreamID) {
	return s.peer.from, coordination.StreamID(s.number)
}

// Dequeued notes that a message of the stream has left the queue, in which it had so many bytes.
func (s *RemoteStream) Dequeued(bytes int) { s.peer.queued.Add(-int64(bytes)) }

// deliver implements Sink, and is called by the holder of the turn. It forgets a stream that the leader ends, because
// the other server sends nothing more of it. It does not encode the message: that may take long, so the writer does
// it.
func (s *RemoteStream) deliver(_ Link, m *coordination.Message) {
	p := s.peer
	p.mutex.Lock()
	if m.Last() {
		delete(p.streams, s.number)
	}
	p.said = append(p.said, relayedMessage{stream: s.number, message: *m})
	p.sentCount++
	p.mutex.Unlock()
	p.bell.Ring()
}

// Exchange serves the relay of one other server until it breaks, or the reign ends: then the other side looks for the
// next leader, which may be this server again.
func (r *Peers) Exchange(from uint64, rpc grpc.BidiStreamingServer[relaypb.ToLeader, relaypb.FromLeader]) error {
	first, err := rpc.Recv()
	if err != nil {
		return err
	}
	link := r.streams.LocalLink()
	if link == nil { // it may not even serve yet
		return ErrNotLeading
	}
	p := NewPeer(r, link, from, first.GetHello())
	if !r.add(p) {
		return errSuperseded
	}
	p.beginWatch()
	written := make(chan error, 1)
	go func() { written <- p.write(rpc) }() // both goroutines end when this function returns, if not before
	go func() {
		defer r.remove(p)
		defer r.units.Forget(p)
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
	select { // it waits for neither goroutine: a Send may hang for as long as the other server does not read
	case err := <-written:
		return err
	case <-p.ended:
		return p.err
	case <-p.superseded:
		return errSuperseded
	case <-p.link.gone:
		return ErrNotLeading
	case <-p.frozen:
		return errFrozen
	}
}

// beginWatch begins to watch for a frozen server.
func (p *Peer) beginWatch() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	shell := p.peers.shell
	p.heard = shell.Now()
	p.watch = shell.AfterFunc(relayPatience, p.checkFrozen)
}

// checkFrozen ends the relay if nothing has come for relayPatience.
func (p *Peer) checkFrozen() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.watch == nil {
		return
	}
	shell := p.peers.shell
	if left := shell.Until(p.heard + coordination.Instant(relayPatience)); left > 0 {
		p.watch.Reset(left)
		return
	}
	close(p.frozen)
}

func (p *Peer) endWatch() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.watch.Stop()
	p.watch = nil
}

// write sends batches until the relay is over or breaks.
func (p *Peer) write(rpc grpc.BidiStreamingServer[relaypb.ToLeader, relaypb.FromLeader]) error {
	for {
		var later <-chan time.Time
		if p.owesPermit() {
			later = time.After(permitPoll)
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

func (p *Peer) owesPermit() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.renew != 0
}

// take returns the next batch, nil without anything to send. With it goes the permit that was asked for, if this server
// may speak itself as the leader. Only the writer calls it.
func (p *Peer) take() *relaypb.FromLeader {
	renewed, room, said := p.takeSaid()
	for i := range said {
		m := &said[i]
		waits := m.message.Description != nil && p.isFull(room)
		if m.isLarge() || waits || p.behind[m.stream] > 0 {
			p.behind[m.stream]++
			m.after = p.left + uint64(len(p.out))
			p.large = append(p.large, *m)
		} else {
			message := relaypb.EncodeMessage(m.stream, &m.message)
			p.sent += counts(message)
			p.out = append(p.out, message)
		}
	}
	out := &relaypb.FromLeader{Renewed: renewed}
	out.Messages, p.out = firstOf(p.out)
	p.left += uint64(len(out.Messages))
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

// isLarge reports whether a message goes in pieces.
func (m *relayedMessage) isLarge() bool {
	return m.message.Description != nil && m.message.Description.Bytes() > relayBatchBytes
}

// isFull reports whether the other server lacks room for another description.
func (p *Peer) isFull(room uint64) bool { return p.sent >= room }

// nextPiece returns the next piece of the first large message. It returns nil without a large message, if earlier
// messages still wait, or if the other server lacks room for it.
func (p *Peer) nextPiece(room uint64) *relaypb.Piece {
	if len(p.large) == 0 || p.left < p.large[0].after {
		return nil
	}
	stream := p.large[0].stream
	if len(p.cut) == 0 {
		if p.large[0].message.Description != nil && p.isFull(room) {
			return nil
		}
		message := relaypb.EncodeMessage(stream, &p.large[0].message)
		p.cut, _ = proto.Marshal(message) // it cannot fail: EncodeMessage has judged it
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

// takeSaid takes the leader's messages since the last call. It also returns the number of the request for which a
// permit is given, 0 without one, and the room of the other server.
func (p *Peer) takeSaid() (renewed, room uint64, said []relayedMessage) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.renew != 0 && p.grant(p.renew) {
		renewed, p.renew = p.renew, 0
	}
	said, p.said = p.said, nil
	return renewed, p.room, said
}

func (p *Peer) receive(batch *relaypb.ToLeader) error {
	number := batch.GetRenew()
	p.mutex.Lock()
	p.heard = p.peers.shell.Now()
	if number != 0 {
		p.renew = number
	}
	more := batch.GetRoom() > p.room
	p.room = max(p.room, batch.GetRoom())
	p.mutex.Unlock()
	if number != 0 || more {
		p.bell.Ring()
	}
	if err := p.forward(batch.GetForwards()); err != nil {
		return err
	}
	if demands := batch.GetDemands(); len(demands) > 0 {
		p.peers.units.Demanded(p, demandsFromPB(demands))
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
	p.peers.core.Kick()
	return nil
}

// supersede ends the relay because the other server has opened another one. Once it has returned, no message of this
// one comes into the queue.
func (p *Peer) supersede() {
	p.admitting.Lock()
	defer p.admitting.Unlock()
	close(p.superseded)
}

// forward puts messages of the other server's streams into the queue. It fails above maxForwardedBytes, so that a
// server which does not hold its clients back cannot fill this one.
func (p *Peer) forward(forwards []*relaypb.Forward) error {
	p.admitting.Lock()
	defer p.admitting.Unlock()
	select {
	case <-p.superseded:
		return nil
	default:
	}
	for _, forward := range forwards {
		f := relaypb.DecodeForward(forward, p.from)
		if stream := p.stream(forward.GetStream(), &f); stream != nil {
			s := Forwarded{Reign: p.link.reign, Sink: stream, ID: stream.id, Forward: f}
			if p.queued.Add(int64(s.Size())) > maxForwardedBytes {
				p.queued.Add(-int64(s.Size()))
				return errOverCredit
			}
			p.peers.core.Put(s)
		}
	}
	p.mutex.Lock()
	p.heardCount += uint64(len(forwards))
	p.mutex.Unlock()
	return nil
}

// stream returns the stream of the other server with a number, from which f came. An attach or a roster begins a new
// one, which is kept until it ends. For one that has ended stream returns nil.
func (p *Peer) stream(number uint64, f *coordination.Forward) *RemoteStream {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	stream := p.streams[number]
	switch {
	case stream == nil && (f.Attach != nil || f.Roster != nil):
		stream = &RemoteStream{peer: p, number: number, id: p.peers.streams.nextID()}
		p.streams[number] = stream
	case f.Detach:
		delete(p.streams, number)
	}
	return stream
}

// abandon detaches the streams behind a relay that broke, relayLease later: until then their server may have a permit
// and speak to its clients, so no timeout of their sessions may begin.
func (p *Peer) abandon() {
	p.forsake()
	p.peers.shell.AfterFunc(relayLease, func() {
		p.mutex.Lock()
		streams := p.streams
		p.streams = nil // nothing more comes
		p.mutex.Unlock()
		for _, stream := range streams {
			s := Forwarded{Reign: p.link.reign, Sink: stream, ID: stream.id,
				Forward: coordination.Forward{Lost: true}}
			p.queued.Add(int64(s.Size()))
			p.peers.core.Put(s)
		}
		p.peers.core.Kick()
	})
}

// forsake ends the granting of permits over the relay, and returns the moment of the last one.
func (p *Peer) forsake() coordination.Instant {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lost = true
	return p.given
}
