package group

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore"
)

const (
	// leaderPoll is how often the right to speak is looked at, and a leader's address that is not known yet.
	leaderPoll = 20 * time.Millisecond
)

// member is this server's part in a cluster: it keeps the relay to the leader.
type member struct {
	group *Group
	stop  context.CancelFunc
	ended sync.WaitGroup

	process uint64 // as in relaypb.Hello
	relays  uint64 // tried so far
	opened  atomic.Uint64

	mutex  sync.Mutex
	leader uint64           // as the log says; 0 if there is none, or this one leads
	term   uint64           // in which that was said
	change chan struct{}    // closed when leader or term changes
	conn   *grpc.ClientConn // to the leader, while the relay is open
	news   chan struct{}    // closed when there may be another leader to ask
}

// startMember begins to look for the leader. A server alone has nobody to look for.
func (g *Group) startMember() {
	if g.alone() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := g.member
	m.stop = cancel
	m.ended.Go(func() { m.relay(ctx) })
	m.ended.Go(func() { m.listen(ctx) })
	m.ended.Go(func() { g.compareDigests(ctx) })
}

func (g *Group) stopMember() {
	if g.member.stop != nil {
		g.member.stop()
		g.member.ended.Wait()
	}
}

func newMember(g *Group) *member {
	return &member{group: g, process: Nonce(), change: make(chan struct{}), news: make(chan struct{})}
}

// toward notes who leads in a term. The same leader in another term is another one. The group calls it, too,
// when this server begins to lead.
func (m *member) toward(term, leader uint64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if leader == m.group.store.Member() {
		leader = 0
	}
	if m.leader != leader || m.term != term {
		m.leader, m.term = leader, term
		close(m.change)
		m.change = make(chan struct{})
	}
	m.announce()
}

// announce wakes the calls that wait for a leader. The mutex is held.
func (m *member) announce() {
	close(m.news)
	m.news = make(chan struct{})
}

// awaitNews returns what is closed when there may be another leader to ask than now.
func (m *member) awaitNews() <-chan struct{} {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.news
}

// relayConn is the connection to the leader, nil if there is none.
func (m *member) relayConn() *grpc.ClientConn {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.conn
}

func (m *member) present() (leader uint64, change <-chan struct{}) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.leader, m.change
}

// relay keeps the relay to whoever leads.
func (m *member) relay(ctx context.Context) {
	for ctx.Err() == nil {
		leader, change := m.present()
		if address := m.address(leader); address != "" {
			m.relayTo(ctx, leader, address, change)
			select {
			case <-ctx.Done():
			case <-time.After(relayRetry):
			}
			continue
		}
		wait := time.After(leaderPoll) // the leader's address may not be known yet
		if leader == 0 {
			wait = nil
		}
		select {
		case <-ctx.Done():
		case <-change:
		case <-wait:
		}
	}
}

// address is where the member with an id listens for others; empty if that is not known.
func (m *member) address(id uint64) string {
	leader, _ := m.group.store.Members().Find(id)
	return leader.PeerAddress
}

// relayTo relays to the leader, which is the member at address, until the relay breaks or another member
// leads.
func (m *member) relayTo(ctx context.Context, leader uint64, address string, change <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-change:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := m.group.store.DialPeer(address)
	if err != nil {
		return
	}
	defer conn.Close()
	m.relays++
	r := &relay{self: m.group.store.Member(), process: m.process, number: m.relays, streams: m.group.streams,
		limiter: m.group.limiter, clock: m.group.shell,
		bell: turn.NewBell(), asked: make(map[uint64]moment),
		urgent: func() *grpc.ClientConn { return m.group.store.UrgentConn(leader) }, ready: func() {
			m.opened.Add(1)
			m.setConn(conn)
			m.group.markReady()
		}}
	if err := r.run(ctx, conn); err != nil && ctx.Err() == nil {
		m.group.logger.Debug("the relay to the leader broke", "leader", address, "err", err)
	}
	m.setConn(nil)
}

func (m *member) setConn(conn *grpc.ClientConn) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.conn = conn
	m.announce()
}

// listen has streams sent that were mute, as soon as this server may speak again.
func (m *member) listen(ctx context.Context) {
	ticker := time.NewTicker(leaderPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.group.streams.wakeMuted()
	}
}

// RelayConn is the connection to the leader, nil if there is none.
func (g *Group) RelayConn() *grpc.ClientConn { return g.member.relayConn() }

// LeaderAddress is where the leader listens for other servers; empty if it is this server, or unknown.
func (g *Group) LeaderAddress() string {
	leader := g.store.Leader()
	if leader == g.store.Member() {
		return ""
	}
	return g.member.address(leader)
}

// HandOver gives the leadership to the member that is furthest, so that nobody has to find out that this one
// is gone.
func (g *Group) HandOver(ctx context.Context) {
	if ctx.Err() != nil || !g.Leads() {
		return
	}
	var heir raftstore.Member
	for _, m := range g.store.Members() {
		if m.ID != g.store.Member() && !m.Learner && m.Active && (heir.ID == 0 || m.Match > heir.Match) {
			heir = m
		}
	}
	if heir.ID == 0 {
		return
	}
	if err := g.store.TransferLeader(ctx, heir.ID); err != nil {
		g.logger.Warn("could not hand over the leadership", "to", heir.Name, "err", err)
		return
	}
	look := time.NewTicker(time.Millisecond) // until the heir is elected, it may need this server's vote
	defer look.Stop()
	for g.store.Leader() == 0 && ctx.Err() == nil {
		<-look.C
	}
}
