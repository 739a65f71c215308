package streams

import (
	"context"
	"sync"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/server/group/relaypb"
)

// Peers has the relays that are open towards this server, as the leader. Of each other server the last one counts: when
// a new one comes the older one is broken, even if that has not been noticed here.
type Peers struct {
	core    Core
	streams *Set
	units   Units
	shell   clock.Clock // not the clock of the rings

	mutex sync.Mutex
	open  map[uint64]*Peer
	given coordination.Instant // the moment of the last permit over a relay that is over
	// closed by Hush; nil while no stream of permits waits
	hushed chan struct{}
	all    sync.WaitGroup
}

// NewPeers returns an empty set of relays to the group behind core. Their clock is shell.
func NewPeers(core Core, set *Set, limiter Units, shell clock.Clock) *Peers {
	return &Peers{core: core, streams: set, units: limiter, shell: shell}
}

// Open counts the relays that are open towards this server.
func (r *Peers) Open() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.open)
}

// add adds a relay, and supersedes an older one of the same server. It returns false if p itself is the older one.
func (r *Peers) add(p *Peer) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if other := r.open[p.from]; other != nil {
		if other.process == p.process && other.number > p.number {
			return false
		}
		other.supersede()
		r.given = max(r.given, other.forsake())
	}
	r.all.Add(1)
	if r.open == nil {
		r.open = make(map[uint64]*Peer)
	}
	r.open[p.from] = p
	return true
}

// find returns the relay of another server that a Hello names, nil if it is over or superseded.
func (r *Peers) find(from uint64, hello *relaypb.Hello) *Peer {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if p := r.open[from]; p != nil && p.process == hello.GetProcess() &&
		p.number == hello.GetNumber() {
		return p
	}
	return nil
}

// remove is the counterpart of add.
func (r *Peers) remove(p *Peer) {
	defer r.all.Done()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.given = max(r.given, p.forsake())
	if r.open[p.from] == p {
		delete(r.open, p.from)
	}
}

// SilentFrom returns the moment at which the last permit of all other servers is over, 0 without a permit.
func (r *Peers) SilentFrom() coordination.Instant {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	given := r.given
	for _, p := range r.open {
		p.mutex.Lock()
		given = max(given, p.given)
		p.mutex.Unlock()
	}
	if given == 0 {
		return 0
	}
	return given + coordination.Instant(relayLease)
}

// Hush asks all other servers to drop their permits. The core is quiet, so no further one is given.
func (r *Peers) Hush() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.hushed != nil {
		close(r.hushed)
		r.hushed = nil
	}
}

// whenHushed returns the channel that the next Hush closes.
func (r *Peers) whenHushed() <-chan struct{} {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.hushed == nil {
		r.hushed = make(chan struct{})
	}
	return r.hushed
}

// Wait returns when all relays have ended, or ctx is done.
func (r *Peers) Wait(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.all.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// RelayEnd names one direction of a relay between two members.
type RelayEnd struct {
	Process, Number uint64 // of the server that has opened it
	ToLeader        bool
}

// Count notes the messages on the relay to the leader, if link is one.
func Count(link Link, sent, heard map[RelayEnd]uint64) {
	r, is := link.(*Relay)
	if !is {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sent[RelayEnd{r.process, r.number, true}] = r.sentCount
	heard[RelayEnd{r.process, r.number, false}] = r.heardCount
}

// Count notes the messages on the relays towards this server.
func (r *Peers) Count(sent, heard map[RelayEnd]uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, p := range r.open {
		p.mutex.Lock()
		heard[RelayEnd{p.process, p.number, true}] = p.heardCount
		sent[RelayEnd{p.process, p.number, false}] = p.sentCount
		p.mutex.Unlock()
	}
}
