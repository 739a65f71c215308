package doubles

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/testserver"
)

const (
	// leadership is the time for which a server leads before it hands over.
	leadership = 1500 * time.Millisecond
	// betweenKills is the time for which all servers serve before the next is killed, downtime that until it is back. A
	// short soak has a kill of a leader and one of a follower all the same, in its second half.
	betweenKills = 50 * time.Second
	downtime     = 3 * time.Second
	// settling is the time for which a leader stays after a kill: the next one would restart the timeouts of sessions
	// without a client, and their semaphores stay held. It is longer than the timeout, and a node's grace period, of
	// any SDK that does not come back.
	settling = 35 * time.Second
	// reach is the time after a kill in which the fate of a session is attributed to it: longer than any SDK tries to
	// attach again, and than the servers take to elect, on a starved machine.
	reach = 20 * time.Second
	// faultsPatience bounds how much longer a soak takes on a machine that is too busy for each of them to
	// happen in its time.
	faultsPatience = 2 * time.Minute
)

// kill is a server that was killed.
type kill struct {
	server int
	leader bool
	at     time.Time
}

// faults has leaders change and servers die, and knows of each.
type faults struct {
	servers []*testserver.Server
	up      []atomic.Bool

	mutex     sync.Mutex
	kills     []kill
	back      time.Time // of the last one
	transfers int
}

func newFaults(servers []*testserver.Server) *faults {
	f := &faults{servers: servers, up: make([]atomic.Bool, len(servers))}
	for i := range servers {
		f.up[i].Store(true)
	}
	return f
}

// run brings them about for a time, and until there has been one of each.
func (f *faults) run(t *testing.T, ctx context.Context, lasts time.Duration) {
	every := min(betweenKills, lasts/4)
	due := time.NewTimer(min(betweenKills, lasts/2))
	defer due.Stop()
	change := time.NewTicker(leadership)
	defer change.Stop()
	until := time.Now().Add(lasts)
	for n := 0; ctx.Err() == nil; {
		leaders, followers, transfers := f.count()
		if now := time.Now(); now.After(until) &&
			(min(leaders, followers, transfers) > 0 || now.After(until.Add(faultsPatience))) {
			return
		}
		select {
		case <-ctx.Done():
		case <-due.C:
			if f.killOne(ctx, n%2 == 0, min(downtime, every/4)) {
				n++
			}
			due.Reset(every)
		case <-change.C:
			if time.Since(f.last()) < settling {
				continue
			}
			if err := transferLeader(ctx, f.servers[0]); err == nil {
				f.mutex.Lock()
				f.transfers++
				f.mutex.Unlock()
			} else if ctx.Err() == nil {
				t.Log(err) // there is no leader to hand over during an election
			}
		}
	}
}

// killOne kills the leader, or the follower that has served for longest, and restarts it later. It does nothing without
// a leader.
func (f *faults) killOne(ctx context.Context, ofLeader bool, down time.Duration) bool {
	leader := leader(ctx, f.servers[0])
	if leader < 0 {
		return false
	}
	k := kill{server: leader, leader: ofLeader}
	if !ofLeader {
		k.server = f.oldest(leader)
	}
	f.up[k.server].Store(false)
	f.mutex.Lock()
	k.at = time.Now()
	f.kills = append(f.kills, k)
	f.mutex.Unlock()
	f.servers[k.server].Kill()
	time.Sleep(down) // the fault itself
	f.servers[k.server].Start()
	f.up[k.server].Store(true)
	f.mutex.Lock()
	f.back = time.Now()
	f.mutex.Unlock()
	return true
}

// oldest is the server, but for one, that has not been killed for longest.
func (f *faults) oldest(but int) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	last := make([]time.Time, len(f.servers))
	for _, k := range f.kills {
		last[k.server] = k.at
	}
	found := (but + 1) % len(f.servers)
	if other := (but + 2) % len(f.servers); last[other].Before(last[found]) {
		found = other
	}
	return found
}

// last is the time at which the server that was killed last was back.
func (f *faults) last() time.Time {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.back
}

// killed says whether a server was killed within reach before a moment.
func (f *faults) killed(server int, at time.Time) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.ContainsFunc(f.kills, func(k kill) bool {
		return k.server == server && !at.Before(k.at) && at.Sub(k.at) < reach
	})
}

// count returns the numbers of leaders and followers that were killed, and of leaders that have handed over.
func (f *faults) count() (leaders, followers, transfers int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, k := range f.kills {
		if k.leader {
			leaders++
		} else {
			followers++
		}
	}
	return leaders, followers, f.transfers
}

// way dials a connection's server: home, or the next one while that does not serve.
type way struct {
	faults *faults
	home   int

	mutex sync.Mutex
	been  []stay
}

// stay is a server that a connection went to.
type stay struct {
	server int
	since  time.Time
}

func (w *way) dial(ctx context.Context, _ string) (net.Conn, error) {
	at := w.home
	for i := range w.faults.servers {
		if at = (w.home + i) % len(w.faults.servers); w.faults.up[at].Load() {
			break
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.faults.servers[at].Address)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.been = append(w.been, stay{at, time.Now()})
	return conn, err
}

func (w *way) connect(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///way", grpc.WithContextDialer(w.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err) // in a goroutine of its own
	}
	return conn
}

// away says whether it is elsewhere while its home serves.
func (w *way) away() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.been) > 0 && w.been[len(w.been)-1].server != w.home && w.faults.up[w.home].Load()
}

// moves counts how often it has found another server than the one before.
func (w *way) moves() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return max(0, len(w.been)-1)
}

// struck says whether a server that it has been on, up to a moment, was killed shortly before that.
func (w *way) struck(at time.Time) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i, s := range w.been {
		left := i+1 < len(w.been) && at.Sub(w.been[i+1].since) > reach
		if !left && !s.since.After(at) && w.faults.killed(s.server, at) {
			return true
		}
	}
	return false
}
