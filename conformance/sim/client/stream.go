package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/plan"
)

type (
	request  = Ydb_Coordination.SessionRequest
	response = Ydb_Coordination.SessionResponse
)

// stream is one Session call, on which a session is attached.
type stream struct {
	client *Client
	number int // in the history
	rpc    Ydb_Coordination_V1.CoordinationService_SessionClient
	cancel context.CancelFunc
	over   chan struct{} // closed when nothing more comes
	err    error         // why; set before over is closed
	sends  sync.Mutex
	chance *rand.Rand

	mutex     sync.Mutex
	waiting   map[uint64]chan *response // by request id; 0: the start's answer
	pings     map[uint64]time.Duration  // when those without a pong were sent
	heard     time.Duration             // when the last message came
	changed   int                       // notices of watches
	abandoned bool
}

// attach opens a stream and attaches the client's session, or a new one.
func (c *Client) attach(ctx context.Context, conn *grpc.ClientConn, server int) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	connecting := time.AfterFunc(connectPatience, cancel)
	rpc, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{client: c, chance: rand.New(rand.NewPCG(c.chance.Uint64(), 0)), rpc: rpc, cancel: cancel,
		over: make(chan struct{}), heard: c.now(),
		number:  c.world.History().Open(c.now(), c.number, server, c.path()),
		waiting: map[uint64]chan *response{0: make(chan *response, 1)}, pings: map[uint64]time.Duration{}}
	go s.read()
	c.seqNo++
	asked := c.now()
	start := &Ydb_Coordination.SessionRequest_SessionStart{Path: c.path(), SessionId: c.session, SeqNo: c.seqNo,
		TimeoutMillis: uint64(c.timeout.Milliseconds()), Description: fmt.Sprint("client ", c.number),
		ProtectionKey: []byte(fmt.Sprintf("key of %d", c.number))}
	err = s.send(&request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start}})
	if err != nil {
		return nil, errors.Join(err, s.leave())
	}
	answer, err := s.await(0, answerPatience)
	connecting.Stop()
	if err == nil {
		err = c.attached(answer, asked)
	}
	if err != nil {
		return nil, errors.Join(err, s.leave())
	}
	go s.keepAlive(ctx)
	return s, nil
}

// attached takes the answer to a start.
func (c *Client) attached(answer *response, asked time.Duration) error {
	started := answer.GetSessionStarted()
	if started == nil {
		f := answer.GetFailure()
		if f.GetStatus() == Ydb.StatusIds_PRECONDITION_FAILED { // the state is full: that is an answer, too
			c.steps.Add(1)
		}
		if c.session != 0 && f != nil && f.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
			c.lose()
		}
		return fmt.Errorf("not started: %v", answer)
	}
	if c.session != 0 && started.GetSessionId() != c.session {
		c.world.Violation("client %d attached session %d and got %d", c.number, c.session, started.GetSessionId())
	}
	c.session = started.GetSessionId()
	c.prove(asked)
	return nil
}

// leave cancels the stream, and returns why it ended.
func (s *stream) leave() error {
	s.mutex.Lock()
	s.abandoned = true
	s.mutex.Unlock()
	s.cancel()
	<-s.over
	return s.err
}

// send writes a request down and sends it.
func (s *stream) send(r *request) error {
	s.sends.Lock()
	defer s.sends.Unlock()
	s.client.world.History().Add(s.client.now(), &check.Sent{Client: s.client.number, Stream: s.number, Request: r})
	return s.rpc.Send(r)
}

// read receives until the stream ends.
func (s *stream) read() {
	c := s.client
	for {
		if c.plan.Kind == plan.Mute {
			s.dawdle()
		}
		m, err := s.rpc.Recv()
		if err != nil {
			s.mutex.Lock()
			s.err = err
			abandoned := s.abandoned
			s.mutex.Unlock()
			text := err.Error()
			if errors.Is(err, io.EOF) {
				text = "OK"
			}
			c.world.History().Add(c.now(),
				&check.Ended{Client: c.number, Stream: s.number, Abandoned: abandoned, Text: text})
			close(s.over)
			return
		}
		c.world.History().Add(c.now(), &check.Got{Client: c.number, Stream: s.number, Message: m})
		s.take(m)
	}
}

// dawdle lets messages lie, now and then longer than a session lives.
func (s *stream) dawdle() {
	if s.chance.IntN(50) == 0 {
		time.Sleep(time.Duration(s.chance.Int64N(2 * int64(s.client.timeout))))
	}
}

// take handles a message.
func (s *stream) take(m *response) {
	s.mutex.Lock()
	s.heard = s.client.now()
	s.mutex.Unlock()
	switch {
	case m.GetPing() != nil:
		pong := &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}
		_ = s.send(&request{Request: &Ydb_Coordination.SessionRequest_Pong{Pong: pong}}) // Recv says why it failed
	case m.GetPong() != nil:
		s.mutex.Lock()
		sent, known := s.pings[m.GetPong().GetOpaque()]
		delete(s.pings, m.GetPong().GetOpaque())
		s.mutex.Unlock()
		if known {
			s.client.prove(sent)
		}
	case m.GetDescribeSemaphoreChanged() != nil:
		s.mutex.Lock()
		s.changed++
		s.mutex.Unlock()
	case m.GetAcquireSemaphorePending() != nil: // its result comes later
	default:
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if waits := s.waiting[requestOf(m)]; waits != nil {
			select {
			case waits <- m:
			default: // what was answered once is answered again: the history shows it
			}
		}
	}
}

// requestOf returns the id of the request that a message answers, 0 for an answer to the start, and for a failure.
func requestOf(m *response) uint64 {
	switch {
	case m.GetAcquireSemaphoreResult() != nil:
		return m.GetAcquireSemaphoreResult().GetReqId()
	case m.GetReleaseSemaphoreResult() != nil:
		return m.GetReleaseSemaphoreResult().GetReqId()
	case m.GetDescribeSemaphoreResult() != nil:
		return m.GetDescribeSemaphoreResult().GetReqId()
	case m.GetCreateSemaphoreResult() != nil:
		return m.GetCreateSemaphoreResult().GetReqId()
	case m.GetUpdateSemaphoreResult() != nil:
		return m.GetUpdateSemaphoreResult().GetReqId()
	case m.GetDeleteSemaphoreResult() != nil:
		return m.GetDeleteSemaphoreResult().GetReqId()
	}
	return 0
}

// expect makes room for the answer to a request.
func (s *stream) expect(id uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.waiting[id] = make(chan *response, 1)
}

// await waits for the answer to a request.
func (s *stream) await(id uint64, patience time.Duration) (*response, error) {
	s.mutex.Lock()
	waits := s.waiting[id]
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		delete(s.waiting, id)
		s.mutex.Unlock()
	}()
	select {
	case m := <-waits:
		return m, nil
	case <-s.over:
		select {
		case m := <-waits: // it came before the end
			return m, nil
		default:
			return nil, s.err
		}
	case <-time.After(patience):
		return nil, fmt.Errorf("no answer to request %d in %v", id, patience)
	}
}

// keepAlive pings the server, and gives the stream up when nothing comes any more.
func (s *stream) keepAlive(ctx context.Context) {
	c := s.client
	for opaque := uint64(1); ; opaque++ {
		now := c.now()
		s.mutex.Lock()
		s.pings[opaque] = now
		silence := now - s.heard
		s.mutex.Unlock()
		if silence > c.timeout {
			s.cancel()
			return
		}
		ping := &Ydb_Coordination.SessionRequest_PingPong{Opaque: opaque}
		if s.send(&request{Request: &Ydb_Coordination.SessionRequest_Ping{Ping: ping}}) != nil {
			return
		}
		pause(ctx, c.timeout/5)
		if ctx.Err() != nil {
			return
		}
	}
}
