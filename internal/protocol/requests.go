package protocol

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
)

// Forever is the wait of an acquire that never runs out.
const Forever = time.Duration(math.MaxInt64)

// call is a request that is not yet answered.
type call struct {
	id         uint64
	build      func(id uint64) *toServer // anew for each stream
	again      bool                      // it may be sent anew by another stream
	dispatched bool
	sent       time.Duration
	pending    func() // called when it waits; may be nil
	reply      chan reply
}

type reply struct {
	message *fromServer
	err     error
}

func (c *call) dispatch(a *attachment) {
	c.dispatched, c.sent = true, now()
	a.send(c.build(c.id))
}

// do sends a request and waits for its answer. If ctx ends first the request may be carried out all the same.
func (s *Session) do(ctx context.Context, c *call) (*fromServer, error) {
	c.reply = make(chan reply, 1)
	s.mu.Lock()
	switch {
	case s.why != nil:
		defer s.mu.Unlock()
		return nil, s.why
	case len(s.calls) == callsMost:
		defer s.mu.Unlock()
		return nil, fmt.Errorf("%w: %d requests of session %d wait for their answers", ErrBusy, callsMost, s.id)
	}
	s.lastID++
	c.id = s.lastID
	s.calls = append(s.calls, c)
	if s.stream != nil {
		c.dispatch(s.stream)
	}
	s.mu.Unlock()
	select {
	case r := <-c.reply:
		return r.message, r.err
	case <-s.lost:
		select {
		case r := <-c.reply:
			return r.message, r.err
		default:
			return nil, s.Err()
		}
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.take(c.id)
		return nil, ctx.Err()
	}
}

// take removes a call from those that wait.
func (s *Session) take(id uint64) *call {
	at := slices.IndexFunc(s.calls, func(c *call) bool { return c.id == id })
	if at < 0 {
		return nil
	}
	c := s.calls[at]
	s.calls = slices.Delete(s.calls, at, at+1)
	return c
}

// handle does what a message asks for. An error ends the stream.
func (s *Session) handle(a *attachment, m *fromServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch arm := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_Ping:
		a.send(&toServer{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: arm.Ping.GetOpaque()}}})
	case *Ydb_Coordination.SessionResponse_Pong:
		if at := slices.IndexFunc(a.pings,
			func(p ping) bool { return p.id == arm.Pong.GetOpaque() }); at >= 0 {
			s.alive = max(s.alive, a.pings[at].sent)
			a.pings = slices.Delete(a.pings, 0, at+1)
		}
	case *Ydb_Coordination.SessionResponse_Failure_:
		return Answered(arm.Failure.GetStatus(), arm.Failure.GetIssues())
	case *Ydb_Coordination.SessionResponse_SessionStopped_:
		return errClosed
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_:
		if watch := s.watches[arm.DescribeSemaphoreChanged.GetReqId()]; watch != nil {
			close(watch)
			delete(s.watches, arm.DescribeSemaphoreChanged.GetReqId())
		}
	case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
		id := arm.AcquireSemaphorePending.GetReqId()
		if at := slices.IndexFunc(s.calls, func(c *call) bool { return c.id == id }); at >= 0 {
			s.alive = max(s.alive, s.calls[at].sent)
			if pending := s.calls[at].pending; pending != nil {
				pending()
			}
		}
	default:
		s.settle(m)
	}
	return nil
}

// settle gives an answer to the call that waits for it.
func (s *Session) settle(m *fromServer) {
	id, status, issues := resultIn(m)
	c := s.take(id)
	if c == nil {
		return
	}
	s.alive = max(s.alive, c.sent)
	if described := m.GetDescribeSemaphoreResult(); described.GetWatchAdded() {
		s.watches[id] = make(chan struct{}) // before anything else is read: a change may be the next message
	}
	c.reply <- reply{m, Answered(status, issues)}
}

// resultIn returns the common fields of a result.
func resultIn(m *fromServer) (id uint64, status Ydb.StatusIds_StatusCode, issues []*Ydb_Issue.IssueMessage) {
	type result interface {
		GetReqId() uint64
		GetStatus() Ydb.StatusIds_StatusCode
		GetIssues() []*Ydb_Issue.IssueMessage
	}
	var r result
	switch arm := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
		r = arm.AcquireSemaphoreResult
	case *Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_:
		r = arm.ReleaseSemaphoreResult
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_:
		r = arm.DescribeSemaphoreResult
	case *Ydb_Coordination.SessionResponse_CreateSemaphoreResult_:
		r = arm.CreateSemaphoreResult
	case *Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_:
		r = arm.UpdateSemaphoreResult
	case *Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_:
		r = arm.DeleteSemaphoreResult
	default:
		return 0, Ydb.StatusIds_STATUS_CODE_UNSPECIFIED, nil // of a later version
	}
	return r.GetReqId(), r.GetStatus(), r.GetIssues()
}

// Acquisition describes an acquire.
type Acquisition struct {
	Name      string
	Count     uint64
	Wait      time.Duration // how long to wait in the queue; 0: not at all
	Data      []byte
	Ephemeral bool
	Waiting   func() // called when it has a place in the queue, also of each new stream; it must not wait
}

// Acquire acquires a semaphore, or raises no count that the session has. acquired is false if that could not
// be in time. If ctx ends first the session may have it, or get it, all the same.
func (s *Session) Acquire(ctx context.Context, what Acquisition) (acquired bool, err error) {
	begun := now()
	m, err := s.do(ctx, &call{again: true, pending: what.Waiting, build: func(id uint64) *toServer {
		millis := uint64(math.MaxUint64)
		if what.Wait != Forever {
			millis = uint64(max(what.Wait-(now()-begun), 0).Milliseconds())
		}
		return &toServer{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{
				ReqId: id, Name: what.Name, Count: what.Count, TimeoutMillis: millis, Data: what.Data,
				Ephemeral: what.Ephemeral}}}
	}})
	return m.GetAcquireSemaphoreResult().GetAcquired(), err
}

// Release gives a semaphore back, or the place in its queue. released is false if the session had neither, or if a
// repetition of the request came too late for the result.
func (s *Session) Release(ctx context.Context, name string) (released bool, err error) {
	m, err := s.do(ctx, &call{again: true, build: func(id uint64) *toServer {
		return &toServer{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
			ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{ReqId: id, Name: name}}}
	}})
	return m.GetReleaseSemaphoreResult().GetReleased(), err
}

// Create makes a persistent semaphore.
func (s *Session) Create(ctx context.Context, name string, limit uint64, data []byte) error {
	_, err := s.do(ctx, &call{build: func(id uint64) *toServer {
		return &toServer{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: id, Name: name, Limit: limit,
				Data: data}}}
	}})
	return err
}

// Update replaces the data of a semaphore.
func (s *Session) Update(ctx context.Context, name string, data []byte) error {
	_, err := s.do(ctx, &call{again: true, build: func(id uint64) *toServer {
		return &toServer{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
			UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: id, Name: name, Data: data}}}
	}})
	return err
}

// Delete deletes a persistent semaphore, with force also one that is held or waited for.
func (s *Session) Delete(ctx context.Context, name string, force bool) error {
	_, err := s.do(ctx, &call{build: func(id uint64) *toServer {
		return &toServer{Request: &Ydb_Coordination.SessionRequest_DeleteSemaphore_{
			DeleteSemaphore: &Ydb_Coordination.SessionRequest_DeleteSemaphore{ReqId: id, Name: name, Force: force}}}
	}})
	return err
}

// Wanted selects what Describe returns of a semaphore, and what it watches.
type Wanted struct {
	Owners, Waiters        bool // to list
	WatchData, WatchOwners bool
}

// Description is a semaphore.
type Description = Ydb_Coordination.SemaphoreDescription

// Describe describes a semaphore. changed is closed at the next change, and also when the watch is lost: it is a reason
// to describe anew, and no more than that. It is nil if the server watches nothing. A session has one watch of a
// semaphore.
func (s *Session) Describe(
	ctx context.Context,
	name string,
	wanted Wanted,
) (d *Description, changed <-chan struct{}, err error) {
	c := &call{again: true, build: func(id uint64) *toServer {
		return &toServer{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{
				ReqId: id, Name: name, IncludeOwners: wanted.Owners, IncludeWaiters: wanted.Waiters,
				WatchData: wanted.WatchData, WatchOwners: wanted.WatchOwners}}}
	}}
	m, err := s.do(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, watch := m.GetDescribeSemaphoreResult().GetSemaphoreDescription(), s.watches[c.id]
	switch {
	case !m.GetDescribeSemaphoreResult().GetWatchAdded():
		return d, nil, nil
	case watch == nil: // it has fired already
		over := make(chan struct{})
		close(over)
		return d, over, nil
	}
	return d, watch, nil
}
