//go:build linux

package crash

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
)

// stepPause keeps the clients from taking the processors away from the servers, and in the short form from
// other tests.
var stepPause = inLongForm(3*time.Millisecond, 30*time.Millisecond)

// How long clients wait. In the long form faults take longer than that. The short one has to pass on a
// machine that is busy with other things, where a server that is well may be slow; but whoever waits for a
// lock of a client behind a server that is paused waits until that client moves.
var (
	// sessionTimeout is short enough in the long form that a session which nobody keeps alive runs out within
	// one fault.
	sessionTimeout = inLongForm(8*time.Second, 16*time.Second)
	// silenceMost is how long a client waits for a sign of life before it looks for another server. Servers
	// ping every third of the session's timeout.
	silenceMost = inLongForm(4*time.Second, 6*time.Second)
	// attachPatience is how long a client waits for the answer to its start at one server.
	attachPatience = inLongForm(2*time.Second, 10*time.Second)
)

func inLongForm(long, otherwise time.Duration) time.Duration {
	if longForm {
		return long
	}
	return otherwise
}

// runner lets one client work on the server that is its home, and moves its session to another server when it
// loses its stream.
type runner struct {
	*client
	cluster    *cluster
	conns      []*grpc.ClientConn // one to each server
	home, at   int                // servers
	violations *violations
	// fallible servers are those whose clients may lose their streams at this time.
	fallible *serverSet
	// gate is held for reading during each step: whoever holds it for writing has the clients rest.
	gate *sync.RWMutex

	stop     context.CancelFunc // ends the stream
	attached atomic.Bool
	gaveUp   atomic.Bool // the client ended its last stream itself, on which nothing came any more
	steps    atomic.Int64
	moves    atomic.Int64 // streams lost
	expired  atomic.Int64 // sessions lost
	gaps     gapMeter
}

// serverSet is a set of servers that changes while clients work.
type serverSet struct{ bits atomic.Uint64 }

func (s *serverSet) set(members ...int) {
	bits := uint64(0)
	for _, m := range members {
		bits |= 1 << m
	}
	s.bits.Store(bits)
}

func (s *serverSet) add(member int) { s.bits.Or(1 << member) }

func (s *serverSet) has(member int) bool { return s.bits.Load()&(1<<member) != 0 }

// gapMeter measures the longest time between two answers while it is on.
type gapMeter struct {
	mutex   sync.Mutex
	on      bool
	last    time.Time
	longest time.Duration
}

func (g *gapMeter) answer() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := time.Now()
	if g.on && !g.last.IsZero() {
		g.longest = max(g.longest, now.Sub(g.last))
	}
	g.last = now
}

func (g *gapMeter) start() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.on, g.longest = true, 0
}

func (g *gapMeter) result() time.Duration {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.on = false
	return g.longest
}

// run works until ctx is done.
func (r *runner) run(ctx context.Context) {
	pause := time.NewTicker(stepPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		r.gate.RLock()
		r.turn(ctx)
		r.gate.RUnlock()
	}
}

// turn makes one step, or one attempt to attach.
func (r *runner) turn(ctx context.Context) {
	if !r.attached.Load() {
		r.reattach(ctx)
		return
	}
	r.gaps.answer()
	if err := r.step(); err != nil {
		r.lost(ctx, err)
		return
	}
	r.gaps.answer()
	r.steps.Add(1)
}

// lost deals with an error of a step: a stream that broke, or an answer that cannot be right.
func (r *runner) lost(ctx context.Context, err error) {
	r.attached.Store(false)
	r.stop()
	if ctx.Err() != nil {
		return
	}
	r.moves.Add(1)
	// Three servers beside many busy processes may be without a leader for longer than a client waits.
	excused := r.fallible.has(r.at) || !longForm && r.gaveUp.Load()
	if !excused || wrongAnswer(err) {
		r.violations.add("client %d, session %d on server %d: %v", r.number, r.id, r.at, err)
	}
	r.at = (r.at + 1) % servers
}

// wrongAnswer tells an answer that contradicts an earlier one from a stream that broke.
func wrongAnswer(err error) bool {
	text := err.Error()
	return !strings.Contains(text, "rpc error") && !strings.Contains(text, "failure:") &&
		!strings.Contains(text, "EOF")
}

// reattach gives the client's session a new stream, at the next server if this one does not answer.
func (r *runner) reattach(ctx context.Context) {
	streamContext, stop := context.WithCancel(ctx)
	giveUp := time.AfterFunc(attachPatience, stop)
	heard := r.pulse.last.Load()
	err := r.attach(streamContext, r.conns[r.at])
	if !giveUp.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		stop()
		if strings.Contains(err.Error(), "SESSION_EXPIRED") {
			r.sessionLost(heard)
		}
		r.at = (r.at + 1) % servers
		return
	}
	r.stop = stop
	r.gaveUp.Store(false)
	go r.watch(streamContext, stop)
	if err := r.describeAll(); err != nil {
		r.lost(ctx, err)
		return
	}
	r.attached.Store(true)
}

// sessionLost starts over with a new session. The old one must not have ended before its time.
func (r *runner) sessionLost(heard int64) {
	r.expired.Add(1)
	if silence := time.Duration(monotonic() - heard); silence < r.pulse.timeout {
		r.violations.add("session %d of client %d expired %v after its client had heard from it", r.id,
			r.number, silence)
	}
	r.endTenures()
	r.id, r.seqNo = 0, 0
	for _, b := range append(r.shared, &r.own) {
		b.possible, b.count, b.order = []relation{none}, nil, 0
	}
}

// watch ends a stream on which nothing comes any more.
func (r *runner) watch(ctx context.Context, stop context.CancelFunc) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if r.pulse.silence() > silenceMost {
				r.gaveUp.Store(true)
				stop()
				return
			}
		}
	}
}

// goHome moves the client back to its home, as an SDK does when it balances its connections. The gate is
// held.
func (r *runner) goHome(ctx context.Context) {
	if r.attached.Load() && r.at != r.home {
		r.attached.Store(false)
		r.stop()
		r.at = r.home
		r.reattach(ctx)
	}
}

func newRunner(c *cluster, number int, seed uint64, v *violations, fallible *serverSet,
	gate *sync.RWMutex) (*runner, error) {
	r := &runner{client: newClient(number, seed), cluster: c, home: number % servers, at: number % servers,
		violations: v, fallible: fallible, gate: gate}
	r.pulse.timeout = sessionTimeout
	for _, address := range c.listen {
		conns, err := raw.Dial(address, 1)
		if err != nil {
			return nil, err
		}
		r.conns = append(r.conns, conns...)
	}
	return r, nil
}
