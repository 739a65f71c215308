package peers

import (
	"context"
	"log/slog"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// Format is the version of what members say to each other.
const Format = 2

// Transport sends messages to the other members. Each has two lanes with a connection each, so that a heartbeat
// never waits behind a megabyte of log. Send and Update are called within the turn; the other methods may be called
// from any goroutine.
type Transport struct {
	self    Member
	id      uint64 // of the member itself
	network Network
	logger  *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

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

// New returns a transport for the member with an id. It sends nothing before Update.
func New(self Member, id uint64, network Network, logger *slog.Logger) *Transport {
	p := &Transport{self: self, id: id, network: network, logger: logger, peers: map[uint64]*peer{},
		learned: map[uint64]string{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close ends all lanes and waits for them.
func (p *Transport) Close() {
	p.cancel()
	p.wg.Wait()
}

// Send queues a message; it is dropped if there is no room or nobody to send it to.
func (p *Transport) Send(m *pb.Message) {
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
	case m.GetType() == pb.MsgReadIndexResp: // the caller waits for what is committed
		to.bulk.release()
		to.urgent.add(m)
	default:
		to.urgent.add(m)
	}
}

// Release sends what waits for company, see lane.hold.
func (p *Transport) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		to.bulk.release()
	}
}

// Update opens and closes lanes so that they match the members.
func (p *Transport) Update(conf membership.Conf) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, old := range p.peers {
		if m := conf.Member(id); m == nil || m.Peer != old.address {
			old.cancel()
			delete(p.peers, id)
		}
	}
	for id := range p.learned {
		if !p.self.Admitted().Admits(id) {
			delete(p.learned, id)
		}
	}
	for _, m := range conf.Members {
		if m.ID != p.id && p.peers[m.ID] == nil && m.Peer != "" {
			p.open(m.ID, m.Peer)
		}
	}
}

// open starts the lanes to one member. The caller holds the lock.
func (p *Transport) open(id uint64, address string) *peer {
	ctx, cancel := context.WithCancel(p.ctx)
	to := &peer{id: id, address: address, cancel: cancel}
	to.urgent = newLane(p, to, true)
	to.bulk = newLane(p, to, false)
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

// Learn notes where a sender that was just accepted listens. A dial to it that hangs is repeated: the sender may have
// been started anew on another machine, and its name stands for another address since.
func (p *Transport) Learn(id uint64, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.peers[id]; to != nil {
		to.urgent.redial()
		to.bulk.redial()
	}
	if len(p.learned) < membership.MaxMembers || p.learned[id] != "" {
		p.learned[id] = address
	}
}

// AddressOf returns where a member listens, "" if that is unknown.
func (p *Transport) AddressOf(id uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.peers[id]; to != nil {
		return to.address
	}
	return p.learned[id]
}

// Renew makes both lanes to a silent member connect again: after a cut network an old connection can stay
// dead for longer than the cut.
func (p *Transport) Renew(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.peers[id]; to != nil {
		to.urgent.renew()
		to.bulk.renew()
	}
}

// Shut ends the urgent streams to members and keeps them ended until Reopen.
func (p *Transport) Shut(ids []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if to := p.peers[id]; to != nil {
			to.urgent.shutDown()
			to.bulk.drop() // its entries would make the member take this one back
		}
	}
}

// Reopen lets all streams be opened again.
func (p *Transport) Reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		to.urgent.reopen()
	}
}

// Connected reports whether a member takes messages from here, as far as is known, and tried whether it has
// been found out at least once.
func (p *Transport) Connected(id uint64) (up, tried bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.peers[id]
	return to != nil && to.urgent.up.Load(), to == nil || to.urgent.tried.Load()
}

// Conn returns one of the two connections to another member; nil while it is not connected. Over the urgent one go
// heartbeats and the answers to them: calls over it must be small. It is closed when the members connect anew.
func (p *Transport) Conn(id uint64, urgent bool) *grpc.ClientConn {
	p.mu.Lock()
	to := p.peers[id]
	p.mu.Unlock()
	if to == nil {
		return nil
	}
	if urgent {
		return to.urgent.conn.Load()
	}
	return to.bulk.conn.Load()
}

// RenewBulk is Renew for the connection that is not urgent.
func (p *Transport) RenewBulk(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.peers[id]; to != nil {
		to.bulk.renew()
	}
}

// Announce makes each urgent lane send the member's header again.
func (p *Transport) Announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		to.urgent.announce()
	}
}

// Announced reports whether every member that takes messages has been sent a header with a client address.
func (p *Transport) Announced(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		if sent := to.urgent.sentClient.Load(); to.urgent.up.Load() && (sent == nil || *sent != client) {
			return false
		}
	}
	return true
}

// SendSnapshot sends the chunks that next returns to a member, in a goroutine of its own, and then calls done. It
// reports false if the member's address is not known. The context that next gets ends with the transport, or after
// snapshotTimeMax.
func (p *Transport) SendSnapshot(to uint64, next func(ctx context.Context) (*peerpb.Chunk, error),
	done func(err error)) bool {
	address := p.AddressOf(to)
	if address == "" {
		return false
	}
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, snapshotTimeMax)
		defer cancel()
		done(p.network.Snapshot(ctx, address, p.self.Header(to, false),
			func() (*peerpb.Chunk, error) { return next(ctx) }))
	})
	return true
}
