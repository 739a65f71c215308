package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/relaypb"
)

const (
	// renewInterval is the pause between two questions of a follower for a permit.
	renewInterval = 100 * time.Millisecond
	// relaySilence bounds the time that a follower goes on asking without an answer. Then the members connect anew: a
	// connection that a firewall forgot, or that lost bytes in a network that was cut, stays silent for much longer
	// than the cut.
	relaySilence = 1500 * time.Millisecond
	// relayRetry is the pause of a follower after a relay broke, or a stream of permits.
	relayRetry = 20 * time.Millisecond
)

// Relay is a follower's way to the leader: one stream of batches each way.
type Relay struct {
	process   uint64 // of this server, and number of this relay, as in relaypb.Hello
	number    uint64
	streams   *Set
	limiter   Units                   // nil in tests
	shell     clock.Clock             // not the clock of the rings
	ready     func()                  // called when there is a leader
	reconnect func()                  // called when the leader is silent: the connection may be dead
	urgent    func() *grpc.ClientConn // the connection to the leader that carries no data; nil without one
	permit    atomic.Int64            // coordination.Instant until which the leader's permit to speak is good
	day       atomic.Int64            // the same by the time of day, which a machine that slept notices

	mutex   sync.Mutex
	out     []*relaypb.Forward   // not yet sent
	bell    turn.Bell            // the writing goroutine listens
	renewal uint64               // number of the last request for a permit
	last    uint64               // of the last one over the relay itself
	asking  bool                 // that one is not sent yet
	asked   map[uint64]moment    // requests for a permit without an answer
	heard   coordination.Instant // of the last batch; at first, of the opening
	// sentCount counts the messages put, and heardCount those delivered, see Stillness.
	sentCount, heardCount uint64
	demands               []*relaypb.Demand // of the limiter, not yet sent
	cut                   pieces            // of a message that goes before those in out
	counted               uint64            // bytes of all descriptions that have come
	offered               uint64            // room that was offered to the leader, as ToLeader.room

	coming pieces // of a message of the leader; of receive
}

// moment is a moment by the clock and by the time of day.
type moment struct {
	at  coordination.Instant
	day int64
}

// put implements Link. It ends a stream with more open requests than a leader change can carry, and one whose texts
// cannot be encoded.
func (r *Relay) put(s *Stream, f coordination.Forward) {
	forward := relaypb.EncodeForward(s.id, &f)
	if f.Roster != nil && proto.Size(forward) > maxRosterBytes || !encodable(forward) {
		go s.End(coordination.LinkFailure)
		return
	}
	r.mutex.Lock()
	r.out = append(r.out, forward)
	r.sentCount++
	r.mutex.Unlock()
	r.bell.Ring()
}

// encodable reports whether all texts of a forward are UTF-8; any other would break the relay of all streams.
func encodable(f *relaypb.Forward) bool {
	if f.GetAttach() == nil && f.GetRoster() == nil { // the common case
		return utf8.ValidString(f.GetRequest().GetName())
	}
	_, err := proto.Marshal(f)
	return err == nil
}

// MaySpeak implements Link.
func (r *Relay) MaySpeak() bool {
	return r.shell.Now() < coordination.Instant(r.permit.Load()) && r.shell.TimeOfDay() < r.day.Load()
}

// run relays until ctx is done or the relay breaks. All streams join it with the leader's first answer, which is a
// permit as a rule, and wait for the next leader when it ends.
func (r *Relay) run(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exchange, err := peers.Open[relaypb.ToLeader, relaypb.FromLeader](ctx, conn, relayStream)
	if err != nil {
		return err
	}
	r.heard = r.shell.Now()
	r.streams.Copies.OnRelease(r.freed)
	defer r.streams.Copies.OnRelease(nil)
	r.renew()
	var writing sync.WaitGroup
	writing.Go(func() { defer cancel(); r.write(ctx, exchange) })
	writing.Go(func() { r.askForPermit(ctx, r.urgent) })
	joined := false
	for {
		batch, err := exchange.Recv()
		if err == nil {
			err = r.receive(batch)
		}
		if err != nil {
			cancel()
			writing.Wait()
			r.streams.unfollow(r)
			return err
		}
		if !joined { // the first answer shows that the other side leads
			joined = true
			r.streams.join(r)
			r.ready()
		}
	}
}

func (r *Relay) hello() *relaypb.Hello {
	return &relaypb.Hello{Process: r.process, Number: r.number}
}

func (r *Relay) write(ctx context.Context, exchange grpc.BidiStreamingClient[relaypb.ToLeader, relaypb.FromLeader]) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	hello := r.hello()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if r.silent() {
				r.reconnect()
				return
			}
			r.renew()
		case <-r.bell:
		}
		for out := r.take(); out != nil; out = r.take() {
			out.Hello, hello = hello, nil
			if exchange.Send(out) != nil {
				return
			}
		}
	}
}

// take returns what is to be sent next, nil if nothing is.
func (r *Relay) take() *relaypb.ToLeader {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	out := new(relaypb.ToLeader)
	if r.asking {
		out.Renew, r.asking = r.last, false
	}
	if len(r.cut) == 0 && len(r.out) > 0 && proto.Size(r.out[0]) > relayBatchBytes {
		r.cut, _ = proto.Marshal(r.out[0]) // it cannot fail: put has judged it
		r.out[0] = nil
		r.out = r.out[1:]
	}
	// streams keep their order: a start must find the stream that it wants to replace
	if out.Piece = r.cut.next(); out.Piece == nil {
		out.Forwards, r.out = firstOf(r.out)
	}
	n := min(len(r.demands), maxRelayedDemands)
	out.Demands, r.demands = r.demands[:n:n], r.demands[n:]
	if room := r.counted + uint64(r.streams.Copies.Free()); room > r.offered &&
		(r.offered == 0 || out.Renew != 0 || room-r.offered >= roomStep) {
		out.Room, r.offered = room, room
	}
	if out.Renew == 0 && len(out.Forwards) == 0 && out.Piece == nil && out.Room == 0 && n == 0 {
		return nil
	}
	return out
}

// roomStep is the additional room that is offered to the leader at once. Less is offered with the next request for a
// permit.
const roomStep = 1 << 20

// freed is called when descriptions have left this server.
func (r *Relay) freed() {
	r.mutex.Lock()
	worth := r.counted+uint64(r.streams.Copies.Free()) >= r.offered+roomStep
	r.mutex.Unlock()
	if worth {
		r.bell.Ring()
	}
}

// silent reports whether nothing has come from the leader for too long.
func (r *Relay) silent() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.shell.Now()-r.heard > coordination.Instant(relaySilence)
}

// renew asks for a permit, which counts from now, whenever the answer comes.
func (r *Relay) renew() {
	r.mutex.Lock()
	r.last = r.ask()
	r.asking = true
	r.mutex.Unlock()
	r.bell.Ring()
}

func (r *Relay) receive(batch *relaypb.FromLeader) error {
	r.mutex.Lock()
	r.heard = r.shell.Now()
	r.mutex.Unlock()
	defer r.count(batch.GetCounted())
	if number := batch.GetRenewed(); number != 0 {
		r.granted(number)
	}
	for _, p := range batch.GetMessages() {
		r.deliver(p)
	}
	if q := batch.GetQuanta(); q != nil && r.limiter != nil {
		r.limiter.Received(r, q.GetTerm(), int(q.GetTicks()), quantaFromPB(q.GetQuanta()))
		r.mutex.Lock()
		r.heardCount++
		r.mutex.Unlock()
	}
	if piece := batch.GetPiece(); piece != nil {
		p := new(relaypb.Message)
		whole, err := r.coming.add(piece, p)
		if err != nil {
			return err
		}
		if whole {
			r.deliver(p)
		}
	}
	return nil
}

// count adds the bytes of descriptions that have come, after their streams have got them.
func (r *Relay) count(bytes uint64) {
	if bytes == 0 {
		return
	}
	r.mutex.Lock()
	r.counted += bytes
	r.mutex.Unlock()
	r.freed() // if their streams are gone
}

func (r *Relay) deliver(p *relaypb.Message) {
	m := relaypb.DecodeMessage(p)
	if s := r.streams.Find(m.Stream); s != nil {
		s.deliver(r, &m)
	}
	r.mutex.Lock()
	r.heardCount++
	r.mutex.Unlock()
}

// granted notes a permit, by the number of the request. It may come over either connection.
func (r *Relay) granted(number uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	asked, known := r.asked[number]
	for older := range r.asked {
		if older <= number {
			delete(r.asked, older)
		}
	}
	if until := int64(asked.at + coordination.Instant(relayPermit)); known && until > r.permit.Load() {
		// first: a reader that sees one of the two sees the shorter permit
		r.day.Store(asked.day + int64(relayPermit))
		r.permit.Store(until)
	}
}
