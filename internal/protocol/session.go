package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The protocol's own bounds.
const (
	TimeoutMost     = 30 * time.Minute // of a session
	DescriptionMost = 1024             // bytes
	NameMost        = 1024             // bytes of a semaphore's name
	DataMost        = 1 << 20          // bytes of a semaphore's, an owner's or a waiter's
	WaitMost        = 24 * time.Hour   // of an acquire, unless it is Forever
)

const (
	// pingsPerTimeout is the number of pings of a session within its timeout.
	pingsPerTimeout = 6
	// silencesPerTimeout is which part of the timeout a server may be silent before another one is tried.
	silencesPerTimeout = 3
	// attachMost bounds one try to attach.
	attachMost = 5 * time.Second
	// pauseLeast and pauseMost are the pauses between tries.
	pauseLeast = 20 * time.Millisecond
	pauseMost  = 500 * time.Millisecond
	// discoverMost bounds a question for the other servers.
	discoverMost = 2 * time.Second
	// discoverFirst is the pause before the second of them. Each is twice as long as the last one, up to
	// discoverPause.
	discoverFirst = 200 * time.Millisecond
	discoverPause = 30 * time.Second
)

// SessionConfig configures a new session.
type SessionConfig struct {
	Node        string
	Timeout     time.Duration // how long it lives on without a client
	Description string
	// Impatient gives up a start that a server with a full disk has refused, instead of trying again.
	Impatient bool

	// ID and Key are those of an existing session: it is attached to, and taken from its present client. They are zero
	// for a new one.
	ID  uint64
	Key []byte
}

type (
	toServer   = Ydb_Coordination.SessionRequest
	fromServer = Ydb_Coordination.SessionResponse
)

// Session is a session of a coordination node. It holds what it holds until it is closed or lost.
type Session struct {
	client *Client
	config SessionConfig
	key    []byte
	end    context.CancelFunc
	ended  chan struct{} // nothing of it runs any more
	lost   chan struct{} // closed when it is lost, or closed; why says it

	mu       sync.Mutex
	id       uint64
	begun    bool          // it was attached once
	attaches uint64        // and thereby the sequence number of the next
	alive    time.Duration // when what was answered last was sent
	why      error
	stream   *attachment // nil: none at the moment
	calls    []*call     // not yet answered, in the order in which they were made
	watches  map[uint64]chan struct{}
	lastID   uint64 // of requests and of pings
	stopping bool
	refusals int // of the token, one after the other
}

// attachment is a stream that the session is attached to.
type attachment struct {
	outbox chan *toServer // what is to be sent
	cut    context.CancelCauseFunc
	pings  []ping // that are not answered, the oldest first
}

type ping struct {
	id   uint64
	sent time.Duration
}

const (
	// callsMost bounds the requests of a session that wait for their answers.
	callsMost = 256
	// outboxMost bounds the messages that wait to be sent. A server that lets more pile up is not reading.
	outboxMost = 2 * callsMost
)

// send never waits: it is called with the session's lock.
func (a *attachment) send(m *toServer) {
	select {
	case a.outbox <- m:
	default:
		a.cut(ErrSilent)
	}
}

// keyBytes is the length of the keys of sessions.
const keyBytes = 16

// ping is called with the session's lock.
func (a *attachment) ping(id uint64) {
	a.pings = append(a.pings, ping{id, now()})
	a.send(&toServer{Request: &Ydb_Coordination.SessionRequest_Ping{
		Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: id}}})
}

// Open starts a session, or attaches to one that is there. It tries again while servers say that they cannot,
// until ctx ends, and gives up at once where nobody is reached.
func (c *Client) Open(ctx context.Context, config SessionConfig) (*Session, error) {
	s := &Session{client: c, config: config, id: config.ID, key: config.Key, ended: make(chan struct{}),
		lost: make(chan struct{}), watches: make(map[uint64]chan struct{})}
	if s.id != 0 {
		// above those of the client before: they count from 1, or do as this
		s.attaches = uint64(time.Now().UnixMicro())
	} else {
		s.key = make([]byte, keyBytes)
		if _, err := rand.Read(s.key); err != nil {
			return nil, err
		}
	}
	life, end := context.WithCancel(context.Background())
	s.end = end
	tries := make(chan try)
	go s.run(life, tries)
	var last error
	for {
		select {
		case t := <-tries:
			switch {
			case t.err == nil:
				return s, nil
			case t.mayPass && ctx.Err() == nil && !(config.Impatient && Full(t.err)):
				last = t.err
				continue
			}
			s.Abandon()
			return nil, t.err
		case <-ctx.Done():
			s.Abandon()
			if last == nil {
				last = ctx.Err()
			}
			return nil, last
		}
	}
}

// Full reports whether a server refuses everything new, perhaps for hours.
func Full(err error) bool {
	return StatusOf(err) == Ydb.StatusIds_UNAVAILABLE && strings.Contains(err.Error(), "nearly full")
}

// try is the result of one attempt to start a session.
type try struct {
	err     error
	mayPass bool // another one may do better
}

// passes reports whether what a server says as the answer to a start may be otherwise a little later.
func passes(err error) bool {
	return StatusOf(err) != Ydb.StatusIds_STATUS_CODE_UNSPECIFIED ||
		status.Code(err) == codes.ResourceExhausted || status.Code(err) == codes.Unauthenticated
}

// ID is its number within the node.
func (s *Session) ID() uint64 { return s.id }

// Key is the key with which another client can attach to the session.
func (s *Session) Key() []byte { return s.key }

// Left is the time for which the session lives for certain. It is zero or less where it may be over.
func (s *Session) Left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return 0
	}
	return s.alive + s.config.Timeout - now()
}

// Lost is closed when the session is the caller's no longer. Err says why.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Err is why the session was lost.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Close ends the session: its semaphores go to the next waiters. If no server confirms it before ctx ends, the session
// ends after its timeout instead, and the result is an error.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	if s.stream != nil {
		s.stream.send(stopRequest)
	}
	s.mu.Unlock()
	var err error
	select {
	case <-s.lost:
	case <-ctx.Done():
		err = fmt.Errorf("end session %d: %w", s.id, ctx.Err())
	}
	s.end()
	<-s.ended
	if err == nil && !errors.Is(s.Err(), errClosed) {
		err = s.Err()
	}
	return err
}

// Abandon ends the stream and not the session, which lives on for its timeout.
func (s *Session) Abandon() {
	s.end()
	<-s.ended
}

var (
	stopRequest = &toServer{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
		SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}}
	errClosed = fmt.Errorf("%w: it was closed", ErrLost)
	// ErrSilent is the error of a server that takes requests and does not answer: it may have no leader.
	ErrSilent = errors.New("the server does not answer")
)

// lose ends the session, unless it has ended before. The waiting calls get the error.
func (s *Session) lose(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return
	}
	s.why = why
	close(s.lost)
	for id, watch := range s.watches {
		close(watch)
		delete(s.watches, id)
	}
}

// run keeps the session attached until it is lost or life ends. It reports its tries until one has succeeded.
func (s *Session) run(life context.Context, tries chan<- try) {
	defer close(s.ended)
	defer s.lose(errClosed)
	address, pause, tried := s.client.config.Address, pauseLeast, 0
	for life.Err() == nil {
		err := s.attend(life, address, func(first bool) {
			pause, tried = pauseLeast, 0
			if first {
				tell(life, tries, try{})
			}
		})
		final := s.judge(err)
		if !s.begun {
			tell(life, tries, try{err, final == nil && passes(err)})
		}
		if final != nil {
			s.lose(final)
			return
		}
		if tried++; tried%s.client.servers() == 0 { // all have been asked
			rest := time.NewTimer(pause)
			select {
			case <-rest.C:
			case <-life.Done():
				rest.Stop()
			}
			pause = min(2*pause, pauseMost)
		}
		address = s.client.following(address)
	}
}

func tell(life context.Context, tries chan<- try, t try) {
	select {
	case tries <- t:
	case <-life.Done():
	}
}

// judge returns the consequence of a stream's end for the session: nil, or the reason why it is lost. A session that is
// not yet there cannot be lost, but a start may be refused for good.
func (s *Session) judge(err error) error {
	lost := fmt.Errorf("%w: %w", ErrLost, err)
	switch StatusOf(err) {
	case Ydb.StatusIds_SESSION_EXPIRED:
		if s.closing() {
			return errClosed
		}
		return lost
	case Ydb.StatusIds_NOT_FOUND, Ydb.StatusIds_BAD_REQUEST, Ydb.StatusIds_PRECONDITION_FAILED:
		return lost
	case Ydb.StatusIds_UNAUTHORIZED:
		if !s.begun {
			return lost
		}
	case Ydb.StatusIds_BAD_SESSION:
		if !s.begun && s.id != 0 { // it was attached to by somebody whose clock is ahead
			return lost
		}
		// the node was made anew, and the session is somebody else's
		if strings.Contains(err.Error(), "key mismatch") {
			return lost
		}
	}
	switch {
	case errors.Is(err, errClosed):
		return errClosed
	case status.Code(err) == codes.Unauthenticated:
		s.client.refuseToken()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refusals++; !s.begun && (s.client.config.Login == nil || s.refusals > 2) {
			return lost
		}
	case status.Code(err) == codes.Unimplemented && !s.begun:
		return lost
	}
	return nil
}

func (s *Session) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// attend attaches the session by a stream of one server and serves it until it ends. The result says why it
// did.
func (s *Session) attend(life context.Context, address string, started func(first bool)) error {
	conn, err := s.client.conn(address)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(life)
	defer cut(nil)
	patience := time.AfterFunc(min(attachMost,
		max(s.config.Timeout/silencesPerTimeout, 100*time.Millisecond)), func() { cut(ErrSilent) })
	defer patience.Stop()
	// so that the owner of a session has other servers to try
	if s.client.config.Discover && s.attaches == 0 {
		s.discover(ctx, conn, s.config.Timeout/pingsPerTimeout)
	}
	with, err := s.client.With(ctx, conn)
	if err != nil {
		return s.cause(ctx, err)
	}
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(with)
	if err != nil {
		return s.cause(ctx, err)
	}
	s.attaches++
	sent := now()
	if err := stream.Send(&toServer{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{
			Path: s.config.Node, SessionId: s.id, TimeoutMillis: uint64(s.config.Timeout.Milliseconds()),
			Description: s.config.Description,
			// what came instead is read below
			SeqNo: s.attaches, ProtectionKey: s.key}}}); err != nil && !errors.Is(err, io.EOF) {
		return s.cause(ctx, err)
	}
	answer, err := stream.Recv()
	if err != nil {
		return s.cause(ctx, err)
	}
	id := answer.GetSessionStarted().GetSessionId()
	if id == 0 {
		if failure := answer.GetFailure(); failure != nil {
			return Answered(failure.GetStatus(), failure.GetIssues())
		}
		return fmt.Errorf("the server answers a start with %T", answer.GetResponse())
	}
	patience.Stop()
	first := !s.begun
	a := &attachment{outbox: make(chan *toServer, outboxMost), cut: cut}
	s.resume(a, id, sent)
	started(first)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cut(nil)
	defer s.detach()
	helpers.Go(func() { write(ctx, stream, a) })
	helpers.Go(func() { s.ask(ctx, a) })
	if s.client.config.Discover {
		helpers.Go(func() { s.learn(ctx, conn) })
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return s.cause(ctx, err)
		}
		if err := s.handle(a, m); err != nil {
			return err
		}
	}
}

// cause is why a stream ended that this side may have cut.
func (s *Session) cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		return cause
	}
	return err
}

// write sends what waits to be sent.
func write(ctx context.Context, stream Ydb_Coordination_V1.CoordinationService_SessionClient, a *attachment) {
	for {
		select {
		case m := <-a.outbox:
			if stream.Send(m) != nil {
				return // the reader gets the reason
			}
		case <-ctx.Done():
			return
		}
	}
}

// ask sends pings, and gives up a server that does not answer them while there is time left to try another
// one.
func (s *Session) ask(ctx context.Context, a *attachment) {
	every := time.NewTicker(max(s.config.Timeout/pingsPerTimeout, 10*time.Millisecond))
	defer every.Stop()
	for {
		s.mu.Lock()
		if len(a.pings) > 0 && now()-a.pings[0].sent > s.config.Timeout/silencesPerTimeout {
			a.cut(ErrSilent)
		} else {
			s.lastID++
			a.ping(s.lastID)
		}
		s.mu.Unlock()
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// learn keeps up with which servers there are. A server that has just started may not yet know of the others.
func (s *Session) learn(ctx context.Context, conn *grpc.ClientConn) {
	for pause := discoverFirst; ; pause = min(2*pause, discoverPause) {
		rest := time.NewTimer(pause)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		s.discover(ctx, conn, discoverMost)
	}
}

func (s *Session) discover(ctx context.Context, conn *grpc.ClientConn, most time.Duration) {
	asking, cancel := context.WithTimeout(ctx, min(most, discoverMost))
	defer cancel()
	s.client.discover(asking, conn)
}

// resume has a new stream go on where the last one ended.
func (s *Session) resume(a *attachment, id uint64, sent time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.begun, s.stream, s.refusals = id, true, a, 0
	s.alive = max(s.alive, sent)
	for _, c := range s.calls {
		c.dispatch(a)
	}
	if s.stopping {
		a.send(stopRequest)
	}
}

// detach handles the end of a stream: a call that must not be repeated fails with an unknown outcome, and the watches
// are gone.
func (s *Session) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
	kept := s.calls[:0]
	for _, c := range s.calls {
		if c.again || !c.dispatched {
			kept = append(kept, c)
			continue
		}
		c.reply <- reply{err: ErrInterrupted}
	}
	clear(s.calls[len(kept):])
	s.calls = kept
	for id, watch := range s.watches {
		close(watch)
		delete(s.watches, id)
	}
}
