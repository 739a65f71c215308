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

// Uplink keeps this server's relay to the leader, and announces changes of the leader to calls and reads.
type Uplink struct {
	core    Core
	streams *Set
	units   Units
	shell   clock.Clock // not the clock of the rings
	logger  *slog.Logger
	ready   func() // called when there is a leader
	store   *raftstore.Store
	stop    context.CancelFunc
	ended   sync.WaitGroup

	process uint64        // as in relaypb.Hello
	relays  uint64        // number of the last Relay, whether it opened or not
	opened  atomic.Uint64 // relays that have opened

	mutex  sync.Mutex
	leader uint64           // by raft; 0 if it is unknown, or this server
	term   uint64           // of leader
	change chan struct{}    // closed when leader or term changes
	conn   *grpc.ClientConn // to the leader, while the relay is open
	news   chan struct{}    // closed when there may be another leader to ask
}

// NewUplink returns the way of a server to the leader; ready is called when there is one.
func NewUplink(core Core, set *Set, limiter Units, shell clock.Clock, logger *slog.Logger,
	ready func()) *Uplink {
	return &Uplink{core: core, streams: set, units: limiter, shell: shell, logger: logger, ready: ready,
		process: Nonce(), change: make(chan struct{}), news: make(chan struct{})}
}

// Start begins to look for the leader.
func (u *Uplink) Start(store *raftstore.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	u.store, u.stop = store, cancel
	u.ended.Go(func() { u.relay(ctx) })
	u.ended.Go(func() { u.wakeMutedStreams(ctx) })
}

// End is the counterpart of Start, without which it does nothing.
func (u *Uplink) End() {
	if u.stop != nil {
		u.stop()
		u.ended.Wait()
	}
}

// Toward notes the leader of a term, which ends the relay to another one. The same server in another term is another
// leader. When this server begins to serve as the leader the group calls it with 0.
func (u *Uplink) Toward(term, leader uint64) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if leader == u.core.Member() {
		leader = 0
	}
	if u.leader != leader || u.term != term {
		u.leader, u.term = leader, term
		close(u.change)
		u.change = make(chan struct{})
	}
	u.announce()
}

// announce wakes the calls that wait for a leader. The mutex is held.
func (u *Uplink) announce() {
	close(u.news)
	u.news = make(chan struct{})
}

// AwaitNews returns a channel that is closed when there may be another leader to ask than now.
func (u *Uplink) AwaitNews() <-chan struct{} {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.news
}

// Conn returns the connection to the leader, nil without one.
func (u *Uplink) Conn() *grpc.ClientConn {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.conn
}

// Openings returns how often a relay was opened.
func (u *Uplink) Openings() uint64 { return u.opened.Load() }

func (u *Uplink) leaderOf() (leader uint64, change <-chan struct{}) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.leader, u.change
}

// relay keeps the relay to the present leader.
func (u *Uplink) relay(ctx context.Context) {
	for ctx.Err() == nil {
		leader, change := u.leaderOf()
		if conn := u.store.Peers.Conn(leader, false); conn != nil {
			u.relayTo(ctx, leader, conn, change)
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
func (u *Uplink) relayTo(ctx context.Context, leader uint64, conn *grpc.ClientConn, change <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-change:
			cancel()
		case <-ctx.Done():
		}
	}()
	u.relays++
	r := &Relay{process: u.process, number: u.relays, streams: u.streams, limiter: u.units, shell: u.shell,
		bell: turn.NewBell(), asked: make(map[uint64]moment),
		urgent:    func() *grpc.ClientConn { return u.store.Peers.Conn(leader, true) },
		reconnect: func() { u.store.Peers.Renew(leader) }, ready: func() {
			u.opened.Add(1)
			u.setConn(conn)
			u.ready()
		}}
	if err := r.run(ctx, conn); err != nil && ctx.Err() == nil {
		u.logger.Debug("the relay to the leader broke", "leader", raftstore.IDText(leader), "err", err)
	}
	u.setConn(nil)
}

func (u *Uplink) setConn(conn *grpc.ClientConn) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.conn = conn
	u.announce()
}

// wakeMutedStreams wakes the streams that were mute, soon after this server may speak again.
func (u *Uplink) wakeMutedStreams(ctx context.Context) {
	ticker := time.NewTicker(leaderPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		u.streams.wakeMuted()
	}
}
