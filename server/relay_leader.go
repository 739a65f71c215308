package server

import (
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/relaypb"
)

// relayLease is L of the project's design: how long a follower may speak to clients after it has asked the leader for
// leave. Together with the leader's own lease it stays below the smallest grace period.
const relayLease = 400 * time.Millisecond

// relayPeer is the leader's end of the relay to one other server.
type relayPeer struct {
	server  *Server
	link    *localLink // to the leader of the term in which the relay was opened
	from    uint64     // the other server
	streams map[uint64]*relayedStream

	mutex sync.Mutex
	out   *relaypb.FromLeader // not yet sent, nil if nothing is
	wake  chan struct{}       // capacity 1
}

// relayedStream is a client's stream on another server.
type relayedStream struct {
	peer   *relayPeer
	number uint64 // on its own server
	id     coordination.StreamID
}

func (s *relayedStream) deliver(_ leaderLink, m *coordination.Message) {
	s.peer.send(func(out *relaypb.FromLeader) { out.Messages = append(out.Messages, messageToPB(s.number, m)) })
}

func (p *relayPeer) send(add func(*relaypb.FromLeader)) {
	p.mutex.Lock()
	if p.out == nil {
		p.out = new(relaypb.FromLeader)
	}
	add(p.out)
	p.mutex.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// exchange serves the relay of one other server until it breaks, or this server leads no more.
func (s *Server) exchange(rpc exchangeServer) error {
	first, err := rpc.Recv()
	if err != nil {
		return err
	}
	link := s.streams.localLink()
	if link == nil { // it may not even serve yet
		return errNotLeading
	}
	p := &relayPeer{server: s, link: link, from: first.GetHello().GetServer(), streams: make(map[uint64]*relayedStream), wake: make(chan struct{}, 1)}
	ended := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() { p.write(rpc, ended) })
	for batch := first; err == nil; batch, err = rpc.Recv() {
		p.receive(batch)
	}
	close(ended)
	writing.Wait()
	p.abandon()
	return err
}

func (p *relayPeer) write(rpc exchangeServer, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-p.link.gone:
			// It looks for the next leader, which may be this server again without its having heard of a change.
			_ = rpc.Send(&relaypb.FromLeader{Gone: true})
			return
		case <-p.wake:
		}
		p.mutex.Lock()
		out := p.out
		p.out = nil
		p.mutex.Unlock()
		if out != nil && rpc.Send(out) != nil {
			return
		}
	}
}

func (p *relayPeer) receive(batch *relaypb.ToLeader) {
	if number := batch.GetRenew(); number != 0 && p.server.voice.maySpeak() && p.server.streams.localLink() == p.link {
		p.send(func(out *relaypb.FromLeader) { out.Renewed = number })
	}
	for _, forward := range batch.GetForwards() {
		stream := p.streams[forward.GetStream()]
		if stream == nil {
			stream = &relayedStream{peer: p, number: forward.GetStream(), id: p.server.streams.nextID()}
			p.streams[stream.number] = stream
		}
		f := forwardFromPB(forward, p.from)
		if f.Detach {
			delete(p.streams, stream.number)
		}
		p.link.group.queue.put(event{link: p.link, sink: stream, id: stream.id, forward: f})
	}
	p.link.group.kick()
}

// abandon detaches the streams behind a relay that broke. Their server may speak for another relayLease, and their
// sessions must not run out before the clients could know.
func (p *relayPeer) abandon() {
	time.AfterFunc(relayLease, func() {
		for _, stream := range p.streams {
			p.link.group.queue.put(event{link: p.link, sink: stream, id: stream.id, forward: coordination.Forward{Detach: true}})
		}
		p.link.group.kick()
	})
}
