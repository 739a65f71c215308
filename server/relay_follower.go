package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/relaypb"
)

const (
	// renewInterval is how often a follower asks the leader for leave to speak.
	renewInterval = 100 * time.Millisecond
	// relayRetry is how long a follower waits after a relay broke.
	relayRetry = 20 * time.Millisecond
)

// relay is a follower's way to the leader: one connection, one stream of batches each way.
type relay struct {
	self    uint64
	streams *streamSet
	voice   *voice
	clock   clock
	ready   func() // called when there is a leader

	mutex   sync.Mutex
	out     *relaypb.ToLeader // not yet sent, nil if nothing is
	wake    chan struct{}     // capacity 1
	renewal uint64            // number of the last request for leave
	asked   map[uint64]coordination.Instant
}

// put implements leaderLink.
func (r *relay) put(s *sessionStream, f coordination.Forward) {
	r.send(func(out *relaypb.ToLeader) { out.Forwards = append(out.Forwards, forwardToPB(s.id, &f)) })
}

func (r *relay) send(add func(*relaypb.ToLeader)) {
	r.mutex.Lock()
	if r.out == nil {
		r.out = new(relaypb.ToLeader)
	}
	add(r.out)
	r.mutex.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run relays until ctx is done or the relay breaks. It opens the exchange, has all streams join, and has them wait for
// the next leader when it ends.
func (r *relay) run(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exchange, err := openExchange(ctx, conn)
	if err != nil {
		return err
	}
	r.send(func(out *relaypb.ToLeader) { out.Hello = &relaypb.Hello{Server: r.self} })
	r.renew()
	var writing sync.WaitGroup
	writing.Go(func() { defer cancel(); r.write(ctx, exchange) })
	joined := false
	for {
		batch, err := exchange.Recv()
		if err == nil && batch.GetGone() {
			err = errLeaderGone
		}
		if err != nil {
			cancel()
			writing.Wait()
			r.streams.leave(r)
			return err
		}
		r.receive(batch)
		if !joined { // the first answer shows that the other side leads
			joined = true
			r.streams.join(r)
			r.ready()
		}
	}
}

func (r *relay) write(ctx context.Context, exchange exchangeClient) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.renew()
		case <-r.wake:
		}
		r.mutex.Lock()
		out := r.out
		r.out = nil
		r.mutex.Unlock()
		if out != nil && exchange.Send(out) != nil {
			return
		}
	}
}

// renew asks for leave. It counts from the moment of asking, whenever the answer comes.
func (r *relay) renew() {
	r.send(func(out *relaypb.ToLeader) {
		r.renewal++
		r.asked[r.renewal] = r.clock.now()
		out.Renew = r.renewal
	})
}

func (r *relay) receive(batch *relaypb.FromLeader) {
	if number := batch.GetRenewed(); number != 0 {
		r.mutex.Lock()
		asked, known := r.asked[number]
		for older := range r.asked {
			if older <= number {
				delete(r.asked, older)
			}
		}
		r.mutex.Unlock()
		if known {
			r.voice.extend(asked + coordination.Instant(relayLease))
		}
	}
	for _, p := range batch.GetMessages() {
		m := messageFromPB(p)
		if s := r.streams.find(m.Stream); s != nil {
			s.deliver(r, &m)
		}
	}
}
