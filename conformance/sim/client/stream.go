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
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/plan"
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
	waiting   map[uint64]chan model.Reply // by request id; 0: the start's answer
	heard     time.Duration               // when the last message came
	abandoned bool
}

func (c *Client) now() time.Duration { return c.world.Trace().Now() }

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
		waiting: map[uint64]chan model.Reply{0: make(chan model.Reply, 1)}}
	go s.read()
	c.seqNo++
	err = s.send(model.Request{Kind: model.Start, Path: c.path(), Session: c.session, SeqNo: c.seqNo,
		TimeoutMillis: uint64(c.timeout.Milliseconds()), Description: fmt.Sprint("client ", c.number),
		ProtectionKey: fmt.Sprint("key of ", c.number)})
	if err != nil {
		return nil, errors.Join(err, s.leave())
	}
	answer, err := s.await(0, answerPatience)
	connecting.Stop()
	if err == nil {
		err = c.attached(&answer)
	}
	if err != nil {
		return nil, errors.Join(err, s.leave())
	}
	go s.keepAlive(ctx)
	return s, nil
}

// attached takes the answer to a start.
func (c *Client) attached(answer *model.Reply) error {
	if answer.Kind != model.Started {
		if answer.Kind == model.Failure && answer.Status != model.Unavailable {
			c.lose()
		}
		if answer.Status == model.PreconditionFailed {
			return errNoRoom
		}
		return fmt.Errorf("not started: %+v", *answer)
	}
	if c.session != 0 && answer.Session != c.session {
		c.world.Violation("client %d attached session %d and got %d", c.number, c.session, answer.Session)
	}
	c.session = answer.Session
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
func (s *stream) send(r model.Request) error {
	s.sends.Lock()
	defer s.sends.Unlock()
	m := r.Proto()
	s.client.world.History().Add(s.client.now(), &check.Sent{Client: s.client.number, Stream: s.number, Request: m})
	return s.rpc.Send(m)
}

// read receives until the stream ends.
func (s *stream) read() {
	c := s.client
	for {
		if c.plan.Kind == plan.Mute && s.chance.IntN(50) == 0 { // now and then longer than a session lives
			time.Sleep(time.Duration(s.chance.Int64N(2 * int64(c.timeout))))
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
		if m.GetPing() != nil {
			// Recv returns why this failed.
			_ = s.send(model.Request{Kind: model.Pong, Opaque: m.GetPing().GetOpaque()})
		}
		s.take(model.ReplyOf(m))
	}
}

// take hands an answer to the goroutine that waits for it.
func (s *stream) take(r model.Reply) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.heard = s.client.now()
	switch r.Kind {
	case model.Started, model.Stopped, model.Failure, model.Result:
		select {
		case s.waiting[r.ReqID] <- r: // nil if nothing waits
		default: // what was answered once is answered again: the history shows it
		}
	}
}

// begin sends a request with a new id.
func (s *stream) begin(r model.Request) (id uint64, err error) {
	s.client.request++
	r.ReqID = s.client.request
	s.mutex.Lock()
	s.waiting[r.ReqID] = make(chan model.Reply, 1)
	s.mutex.Unlock()
	return r.ReqID, s.send(r)
}

// await waits for the answer to a request.
func (s *stream) await(id uint64, patience time.Duration) (model.Reply, error) {
	s.mutex.Lock()
	waits := s.waiting[id]
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		delete(s.waiting, id)
		s.mutex.Unlock()
	}()
	select {
	case r := <-waits:
		return r, nil
	case <-s.over:
		select {
		case r := <-waits: // it came before the end
			return r, nil
		default:
			return model.Reply{}, s.err
		}
	case <-time.After(patience):
		return model.Reply{}, fmt.Errorf("no answer to request %d in %v", id, patience)
	}
}

// all sends requests and waits for all answers.
func (s *stream) all(wait time.Duration, list []model.Request) error {
	var ids []uint64
	for _, r := range list {
		id, err := s.begin(r)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := s.await(id, wait+answerPatience); err != nil {
			return err
		}
	}
	return nil
}

// call sends a request and waits for its answer. A status that a client does not get at any time is an error.
func (s *stream) call(r model.Request) (model.Reply, error) {
	id, err := s.begin(r)
	if err != nil {
		return model.Reply{}, err
	}
	wait := time.Duration(0)
	if r.Kind == model.Acquire {
		wait = time.Duration(r.TimeoutMillis) * time.Millisecond
	}
	answer, err := s.await(id, wait+answerPatience)
	switch {
	case err != nil:
	case answer.Kind != model.Result || answer.To != r.Kind:
		err = fmt.Errorf("%s: %+v", r.Kind, answer)
	case answer.Status == model.Success, answer.Status == model.NotFound, answer.Status == model.PreconditionFailed,
		answer.Status == model.AlreadyExists && r.Kind == model.Create:
	default:
		err = fmt.Errorf("%s: %w: %v", r.Kind, errRefused, answer.Status)
	}
	return answer, err
}

var errRefused = errors.New("refused")

// acquire takes tokens, and reports whether it got them.
func (s *stream) acquire(r model.Request) (bool, error) {
	r.Kind = model.Acquire
	delete(s.client.held, r.Name) // another count may be taken from now on
	answer, err := s.call(r)
	if err == nil && answer.Done {
		s.client.held[r.Name] = r.Count
	}
	return answer.Done, err
}

// release gives tokens back.
func (s *stream) release(name string) error {
	delete(s.client.held, name)
	_, err := s.call(model.Request{Kind: model.Release, Name: name})
	return err
}

// keepAlive pings the server, and gives the stream up when nothing comes any more.
func (s *stream) keepAlive(ctx context.Context) {
	c := s.client
	for opaque := uint64(1); ctx.Err() == nil; opaque++ {
		s.mutex.Lock()
		silence := c.now() - s.heard
		s.mutex.Unlock()
		if silence > c.timeout || c.plan.Stays && silence > c.timeout/2 { // in time to save its session
			s.cancel()
			return
		}
		if s.send(model.Request{Kind: model.Ping, Opaque: opaque}) != nil {
			return
		}
		pause(ctx, c.timeout/5)
	}
}
