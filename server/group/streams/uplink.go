package streams

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore"
)

const (
	// leaderPoll is the pause between two looks at the right to speak, or for a connection to the leader.
	leaderPoll = 20 * time.Millisecond
)

// Uplink is this server's part in a cluster: it keeps the relay to the leader.
type Uplink struct {
	core    Core
	streams *Set
	units   Units
	clock   clock.Clock // not the rings'
	logger  *slog.Logger
	ready   func() // called when there is a leader
	store   *raftstore.Store
	stop    context.CancelFunc
	ended   sync.WaitGroup

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

// NewUplink returns the way of a server to the leader; ready is called when there is one.
func NewUplink(core Core, set *Set, limiter Units, shell clock.Clock, logger *slog.Logger,
	ready func()) *Uplink {
	return &Uplink{core: core, streams: set, units: limiter, clock: shell, logger: logger, ready: ready,
		process: Nonce(), change: make(chan struct{}), news: make(chan struct{})}
}

// Start begins to look for the leader.
func (m *Uplink) Start(store *raftstore.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	m.store, m.stop = store, cancel
	m.ended.Go(func() { m.relay(ctx) })
	m.ended.Go(func() { m.listen(ctx) })
}

// End is the counterpart of start, without which it does nothing.
func (m *Uplink) End() {
	if m.stop != nil {
		m.stop()
		m.ended.Wait()
	}
}

// Toward notes who leads in a term. The same leader in another term is another one. The group calls it, too,
// when this server begins to lead.
func (m *Uplink) Toward(term, leader uint64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if leader == m.core.Member() {
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
func (m *Uplink) announce() {
	close(m.news)
	m.news = make(chan struct{})
}

// AwaitNews returns what is closed when there may be another leader to ask than now.
func (m *Uplink) AwaitNews() <-chan struct{} {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.news
}

// Conn returns the connection to the leader, nil without one.
func (m *Uplink) Conn() *grpc.ClientConn {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.conn
}

// Openings returns how often a relay was opened.
func (m *Uplink) Openings() uint64 { return m.opened.Load() }

func (m *Uplink) leaderOf() (leader uint64, change <-chan struct{}) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.leader, m.change
}

// relay keeps the relay to whoever leads.
func (m *Uplink) relay(ctx context.Context) {
	for ctx.Err() == nil {
		leader, change := m.leaderOf()
		if conn := m.store.Peers.Conn(leader, false); conn != nil {
			m.relayTo(ctx, leader, conn, change)
			select {
			case <-ctx.Done():
			case <-time.After(relayRetry):
			}
			continue
		}
		wait := time.After(leaderPoll) // the leader may not be connected yet
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

// relayTo relays to the leader over conn, until the relay breaks or another member leads.
func (m *Uplink) relayTo(ctx context.Context, leader uint64, conn *grpc.ClientConn, change <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-change:
			cancel()
		case <-ctx.Done():
		}
	}()
	m.relays++
	r := &Relay{process: m.process, number: m.relays, streams: m.streams, limiter: m.units, clock: m.clock,
		bell: turn.NewBell(), asked: make(map[uint64]moment),
		urgent: func() *grpc.ClientConn { return m.store.Peers.Conn(leader, true) },
		mute:   func() { m.store.Peers.Renew(leader) }, ready: func() {
			m.opened.Add(1)
			m.setConn(conn)
			m.ready()
		}}
	if err := r.run(ctx, conn); err != nil && ctx.Err() == nil {
		m.logger.Debug("the relay to the leader broke", "leader", raftstore.IDText(leader), "err", err)
	}
	m.setConn(nil)
}

func (m *Uplink) setConn(conn *grpc.ClientConn) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.conn = conn
	m.announce()
}

// listen has streams sent that were mute, as soon as this server may speak again.
func (m *Uplink) listen(ctx context.Context) {
	ticker := time.NewTicker(leaderPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.streams.wakeMuted()
	}
}
