package peers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// lane is a bounded queue of messages and the goroutine that sends them.
type lane struct {
	p      *Transport
	to     *peer
	urgent bool
	bell   turn.Bell
	reach  reach // last reported state; owned by run

	mu         sync.Mutex
	queue      []*pb.Message
	bytes      int
	held       *pb.Message                     // see hold
	stream     context.CancelFunc              // ends the open stream; nil without one
	conn       atomic.Pointer[grpc.ClientConn] // under the open stream; nil without one
	up         atomic.Bool                     // the other member takes this one's messages
	tried      atomic.Bool                     // it was up, or could not be connected, at least once
	sentClient atomic.Pointer[string]          // the client address in the last header sent
	announcing bool                            // the header has changed
	dialing    time.Time                       // since when the stream is being opened; zero: it is not
	anew       bool                            // the stream was ended to be opened again
	shut       bool                            // the stream was ended, and is not opened for now
}

func newLane(p *Transport, to *peer, urgent bool) *lane {
	return &lane{p: p, to: to, urgent: urgent, bell: turn.NewBell()}
}

// MessageBytes returns the size of a message in a queue.
func MessageBytes(m *pb.Message) int {
	n := messageOverhead
	for _, e := range m.GetEntries() {
		n += len(e.GetData()) + entryOverhead
	}
	return n
}

// add queues a message unless the queue is full. Raft sends again what it needs.
func (l *lane) add(m *pb.Message) {
	size := MessageBytes(m)
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

// hold keeps back a message without entries, which carries little more than the commit index: the next one with entries
// carries it too. The message goes by itself with the next tick, or when the other side asks for the commit index. That
// halves the cost of a lone client's requests to the cluster.
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
		bytes += MessageBytes(l.queue[n])
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

// redial repeats a dial that hangs: it waits for an address that the member may no longer have.
func (l *lane) redial() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dialing.IsZero() && time.Since(l.dialing) >= dialHangs {
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
		pause = min(2*pause, ReconnectPauseMax)
	}
}

// connected opens a stream and sends on it until it breaks.
func (l *lane) connected(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	if l.stream, l.dialing = cancel, time.Now(); l.shut {
		cancel()
	}
	l.mu.Unlock()
	header := l.p.self.Header(l.to.id, l.urgent)
	l.sentClient.Store(&header.ClientAddress)
	out, err := l.p.network.Messages(ctx, l.to.address, header)
	l.mu.Lock()
	l.dialing = time.Time{}
	l.mu.Unlock()
	if err != nil {
		return false, err
	}
	defer out.Close()
	l.conn.Store(out.Conn())
	defer l.conn.Store(nil)
	defer func() {
		select {
		case <-out.Accepted():
			accepted = true
		default:
		}
	}()
	grace := time.NewTimer(acceptGrace)
	defer grace.Stop()
	defer l.up.Store(false)
	welcome := out.Accepted()
	for {
		for batch, announces := l.take(); len(batch) > 0 || announces; batch, announces = l.take() {
			f := &peerpb.Frame{Messages: make([][]byte, 0, len(batch))}
			if announces {
				f.Header = l.p.self.Header(l.to.id, l.urgent)
			}
			for _, m := range batch {
				b, err := proto.Marshal(m)
				if err != nil {
					return false, err
				}
				f.Messages = append(f.Messages, b)
			}
			if err := out.Send(f); err != nil {
				return false, err
			}
			if announces {
				l.sentClient.Store(&f.Header.ClientAddress)
			}
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-out.Ended():
			if err = out.Send(&peerpb.Frame{}); err == nil { // it says why
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

// failed reports to raft that messages were lost. A final refusal makes the store ask other members: only a majority
// ends it.
func (l *lane) failed(err error) {
	if errors.Is(err, ErrRemoved) || errors.Is(err, ErrEmptied) {
		l.p.self.Refused()
	}
	l.tellReach(err)
	l.unreachable()
}

func (l *lane) unreachable() {
	l.p.self.Unreachable(l.to.id)
}

// announce makes the lane send the member's header again.
func (l *lane) announce() {
	l.mu.Lock()
	l.announcing = true
	l.mu.Unlock()
	l.bell.Ring()
}
