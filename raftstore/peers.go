package raftstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// headerFormat is the version of what members say to each other.
const headerFormat = 1

// peers sends messages to the other members. Each has two lanes with a connection each, so that a heartbeat
// never waits behind a megabyte of log. send and update are called within the turn.
type peers struct {
	s      *Store
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	peers map[uint64]*peer
	// addresses from headers: a new leader may write to us before we know that it exists
	learned map[uint64]string
}

// peer is one other member.
type peer struct {
	id           uint64
	address      string
	urgent, bulk *lane
	cancel       context.CancelFunc
}

func newPeers(s *Store) *peers {
	p := &peers{s: s, peers: map[uint64]*peer{}, learned: map[uint64]string{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// close ends all lanes and waits for them.
func (p *peers) close() {
	p.cancel()
	p.wg.Wait()
}

// send queues a message; it is dropped if there is no room or nobody to send it to.
func (p *peers) send(m *pb.Message) {
	p.mu.Lock()
	to := p.peers[m.GetTo()]
	if to == nil {
		if address := p.learned[m.GetTo()]; address != "" {
			to = p.open(m.GetTo(), address)
		}
	}
	p.mu.Unlock()
	switch {
	case to == nil:
	case m.GetType() == pb.MsgApp && len(m.GetEntries()) == 0:
		to.bulk.hold(m)
	case m.GetType() == pb.MsgApp:
		to.bulk.add(m)
	case m.GetType() == pb.MsgReadIndexResp: // whoever asked waits for what is committed
		to.bulk.release()
		to.urgent.add(m)
	default:
		to.urgent.add(m)
	}
}

// release sends what waits for company, see lane.hold.
func (p *peers) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		to.bulk.release()
	}
}

// update opens and closes lanes so that they match the members.
func (p *peers) update(conf membership.Conf) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, old := range p.peers {
		if m := conf.Member(id); m == nil || m.Peer != old.address {
			old.cancel()
			delete(p.peers, id)
		}
	}
	for id := range p.learned {
		if !p.s.admitted().Admits(id) {
			delete(p.learned, id)
		}
	}
	for _, m := range conf.Members {
		if m.ID != p.s.identity.Member && p.peers[m.ID] == nil && m.Peer != "" {
			p.open(m.ID, m.Peer)
		}
	}
}

// open starts the lanes to one member. The caller holds the lock.
func (p *peers) open(id uint64, address string) *peer {
	ctx, cancel := context.WithCancel(p.ctx)
	to := &peer{id: id, address: address, cancel: cancel}
	to.urgent = newLane(p.s, to, true)
	to.bulk = newLane(p.s, to, false)
	p.peers[id] = to
	p.wg.Add(2)
	for _, l := range []*lane{to.urgent, to.bulk} {
		go func() {
			defer p.wg.Done()
			l.run(ctx)
		}()
	}
	return to
}

// learn notes where an accepted sender listens.
func (p *peers) learn(id uint64, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.learned) < membership.MaxMembers || p.learned[id] != "" {
		p.learned[id] = address
	}
}

// addressOf returns where a member listens, "" if that is unknown.
func (p *peers) addressOf(id uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.peers[id]; to != nil {
		return to.address
	}
	return p.learned[id]
}

// renew makes both lanes to a silent member connect again: after a cut network an old connection can stay
// dead for longer than the cut.
func (p *peers) renew(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.peers[id]; to != nil {
		to.urgent.renew()
		to.bulk.renew()
	}
}

// shut ends the urgent streams to members and keeps them ended until reopen.
func (p *peers) shut(ids []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if to := p.peers[id]; to != nil {
			to.urgent.shutDown()
			to.bulk.drop() // which would have the member take this one back
		}
	}
}

// reopen lets all streams be opened again.
func (p *peers) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		to.urgent.reopen()
	}
}

// header opens a stream to a member.
func (s *Store) header(to uint64, urgent bool) *peerpb.Header {
	conf := s.view.Load().conf
	return &peerpb.Header{
		Members: lograte.Printable(conf.List(), membersTextMax), Settings: s.settings(),
		Format: headerFormat, Cluster: s.identity.Cluster, From: s.identity.Member, To: to,
		Incarnation: s.identity.Incarnation, Address: s.cfg.Cluster.address(),
		ClientAddress: *s.client.Load(), Version: s.cfg.Cluster.Version,
		ToIncarnation: s.admitted().Conf.Incarnation(to),
		Urgent:        urgent, Full: s.full.Load(),
	}
}

// lane is a bounded queue of messages and the goroutine that sends them.
type lane struct {
	s      *Store
	to     *peer
	urgent bool
	bell   turn.Bell
	reach  reach // what was told last; owned by run

	mu         sync.Mutex
	queue      []*pb.Message
	bytes      int
	held       *pb.Message            // see hold
	stream     context.CancelFunc     // ends the open stream, nil if there is none
	conn       *grpc.ClientConn       // under the open stream, nil if there is none
	up         atomic.Bool            // the other member takes this one's messages
	tried      atomic.Bool            // it was up, or could not be connected, at least once
	sentClient atomic.Pointer[string] // the client address in the last header sent, see Store.client
	announcing bool                   // what this member says of itself has changed
	anew       bool                   // the stream was ended to be opened again
	shut       bool                   // the stream was ended, and there is to be none for now
}

func newLane(s *Store, to *peer, urgent bool) *lane {
	return &lane{s: s, to: to, urgent: urgent, bell: turn.NewBell()}
}

func messageBytes(m *pb.Message) int { return messageOverheadEstimate + entriesBytes(m.GetEntries()) }

// add queues a message unless the queue is full. Raft sends again what it needs.
func (l *lane) add(m *pb.Message) {
	size := messageBytes(m)
	l.mu.Lock()
	full := len(l.queue) >= laneMessagesMax || l.bytes > 0 && l.bytes+size > laneBytesMax
	if !full {
		l.queue = append(l.queue, m)
		l.bytes += size
		l.held = nil
	}
	l.mu.Unlock()
	if full {
		l.unreachable()
		return
	}
	l.bell.Ring()
}

// hold keeps back a message without entries, which tells hardly more than how far the log is committed: the
// next one with entries says the same. It goes by itself with the next tick, or when the other side asks what
// is committed. That halves what a lone client's requests cost the cluster.
func (l *lane) hold(m *pb.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = m
}

// release queues the message that is held back.
func (l *lane) release() {
	l.mu.Lock()
	m := l.held
	l.held = nil
	l.mu.Unlock()
	if m != nil {
		l.add(m)
	}
}

// take removes the messages of one frame, and reports whether it has to say again who sends it.
func (l *lane) take() (batch []*pb.Message, announces bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	announces, l.announcing = l.announcing, false
	n, bytes := 0, 0
	for n < len(l.queue) && (n == 0 || bytes < frameBytesMax) {
		bytes += messageBytes(l.queue[n])
		n++
	}
	batch = l.queue[:n:n]
	l.queue = l.queue[n:]
	l.bytes -= bytes
	return batch, announces
}

// drop empties the queue.
func (l *lane) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.bytes, l.held = nil, 0, nil
}

func (l *lane) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		l.anew = true
		l.stream()
	}
}

func (l *lane) shutDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, l.queue, l.bytes, l.held = true, nil, 0, nil
	if l.stream != nil {
		l.stream()
	}
}

func (l *lane) reopen() {
	l.mu.Lock()
	l.shut = false
	l.mu.Unlock()
	l.bell.Ring()
}

// awaitOpen waits while the lane is shut, and reports whether ctx goes on.
func (l *lane) awaitOpen(ctx context.Context) bool {
	for l.isShut() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.bell:
		}
	}
	return ctx.Err() == nil
}

func (l *lane) isShut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

// takeAnew reports whether renew has ended the stream.
func (l *lane) takeAnew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	anew := l.anew
	l.anew = false
	return anew
}

// run keeps connected, whether there is something to send or not: the first message may be one that decides
// an election, and raft does not send it twice. After each failure it tries again, a little later every time.
func (l *lane) run(ctx context.Context) {
	pause := reconnectPauseMin
	for l.awaitOpen(ctx) {
		begun := time.Now()
		accepted, err := l.connected(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.takeAnew() || l.isShut() {
			continue
		}
		l.tried.Store(true)
		l.failed(err)
		if accepted || time.Since(begun) > acceptGrace {
			pause = reconnectPauseMin
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		l.drop()
		pause = min(2*pause, reconnectPauseMax)
	}
}

// connected opens a stream and sends on it until it breaks.
func (l *lane) connected(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	if l.stream = cancel; l.shut {
		cancel()
	}
	l.mu.Unlock()
	l.sentClient.Store(l.s.client.Load())
	out, err := l.s.network.messages(ctx, l.to.address, l.s.header(l.to.id, l.urgent))
	if err != nil {
		return false, err
	}
	defer out.close()
	if carried, ok := out.(*grpcFrames); ok {
		l.carry(carried.conn)
		defer l.carry(nil)
	}
	defer func() {
		select {
		case <-out.accepted():
			accepted = true
		default:
		}
	}()
	grace := time.NewTimer(acceptGrace)
	defer grace.Stop()
	defer l.up.Store(false)
	welcome := out.accepted()
	for {
		for batch, announces := l.take(); len(batch) > 0 || announces; batch, announces = l.take() {
			f := &peerpb.Frame{Messages: make([][]byte, 0, len(batch))}
			client := l.s.client.Load()
			if announces {
				f.Header = l.s.header(l.to.id, l.urgent)
			}
			for _, m := range batch {
				b, err := proto.Marshal(m)
				if err != nil {
					return false, err
				}
				f.Messages = append(f.Messages, b)
			}
			if err := out.send(f); err != nil {
				return false, err
			}
			if announces {
				l.sentClient.Store(client)
			}
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-out.ended():
			if err = out.send(&peerpb.Frame{}); err == nil { // it says why
				err = errStreamEnded
			}
			return false, err
		case <-welcome:
			welcome = nil
			l.taken()
		case <-grace.C:
			l.taken()
		case <-l.bell:
		}
	}
}

// taken notes that the other member takes this one's messages.
func (l *lane) taken() {
	l.up.Store(true)
	l.tried.Store(true)
	l.tellReach(nil)
}

// carry notes the connection under the open stream.
func (l *lane) carry(conn *grpc.ClientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
}

// connected reports whether a member takes messages from here, as far as is known, and tried whether it has
// been found out at least once.
func (p *peers) connected(id uint64) (up, tried bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.peers[id]
	return to != nil && to.urgent.up.Load(), to == nil || to.urgent.tried.Load()
}

// UrgentConn is the connection over which this member's heartbeats, and its answers to them, go to another
// member; nil while there is none. Calls over it must be small. It is closed when the members connect anew.
func (s *Store) UrgentConn(member uint64) *grpc.ClientConn {
	s.peers.mu.Lock()
	to := s.peers.peers[member]
	s.peers.mu.Unlock()
	if to == nil {
		return nil
	}
	to.urgent.mu.Lock()
	defer to.urgent.mu.Unlock()
	return to.urgent.conn
}

// failed tells raft that messages were lost. A refusal that is for ever has other members asked: only what a
// majority says ends the store.
func (l *lane) failed(err error) {
	if errors.Is(err, ErrRemoved) || errors.Is(err, ErrEmptied) {
		l.s.admission.begin()
	}
	l.tellReach(err)
	l.unreachable()
}

func (l *lane) unreachable() {
	id := l.to.id
	l.s.inbox.put(func(m *mail) { m.unreachable = append(m.unreachable, id) })
}
