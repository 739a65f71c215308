// Package raw is a client of the Session stream without an SDK in between: every message is seen as it comes.
// It serves measurements and fault tests, where an SDK's own retries would hide what the server did.
package raw

import (
	"context"
	"fmt"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Shorter names of the protocol's messages.
type (
	Request  = Ydb_Coordination.SessionRequest
	Response = Ydb_Coordination.SessionResponse
	Start    = Ydb_Coordination.SessionRequest_SessionStart
	Stream   = Ydb_Coordination_V1.CoordinationService_SessionClient
)

// Infinite is the acquire timeout that never runs out.
const Infinite = 1<<64 - 1

// Dial makes n connections to a plaintext address.
func Dial(address string, n int) ([]*grpc.ClientConn, error) {
	conns := make([]*grpc.ClientConn, n)
	for i := range conns {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		conns[i] = conn
	}
	return conns, nil
}

// Close closes connections.
func Close(conns []*grpc.ClientConn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// CreateNode makes a coordination node in database /local.
func CreateNode(ctx context.Context, conn *grpc.ClientConn, path string) error {
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(ctx,
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil {
		return err
	}
	if s := answer.GetOperation().GetStatus(); s != Ydb.StatusIds_SUCCESS {
		return fmt.Errorf("create %s: %v", path, s)
	}
	return nil
}

// DescribeNode asks for a coordination node, as every server shows it once it has caught up.
func DescribeNode(ctx context.Context, conn *grpc.ClientConn, path string) error {
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DescribeNode(ctx,
		&Ydb_Coordination.DescribeNodeRequest{Path: path})
	if err != nil {
		return err
	}
	if s := answer.GetOperation().GetStatus(); s != Ydb.StatusIds_SUCCESS {
		return fmt.Errorf("describe %s: %v", path, s)
	}
	return nil
}

// Session is a stream with an attached session. Its methods are for one goroutine at a time, except that one
// may receive while another sends.
type Session struct {
	ID uint64
	// Late, if set, is called with the results of earlier acquires that come while the answer to another
	// request is waited for.
	Late func(*Response)
	// Heard, if set, is called for every message that comes, pings included, before anything is done with it.
	Heard  func()
	stream Stream
	reqID  uint64
}

// Open opens a stream and attaches a session.
func Open(ctx context.Context, conn *grpc.ClientConn, start *Start) (*Session, error) {
	return new(Session).Open(ctx, conn, start)
}

// Open is the function Open for a session whose fields are set: they count for the answer to the start as well.
func (s *Session) Open(ctx context.Context, conn *grpc.ClientConn, start *Start) (*Session, error) {
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		return nil, err
	}
	s.stream = stream
	if err := stream.Send(
		&Request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start}}); err != nil {
		return nil, err
	}
	answer, err := s.Receive()
	if err != nil {
		return nil, err
	}
	s.ID = answer.GetSessionStarted().GetSessionId()
	if s.ID == 0 {
		return nil, fmt.Errorf("first answer: %v", answer)
	}
	return s, nil
}

// Receive returns the next message that is not a ping. A Failure is an error.
func (s *Session) Receive() (*Response, error) {
	for {
		answer, err := s.stream.Recv()
		if err != nil {
			return nil, err
		}
		if s.Heard != nil {
			s.Heard()
		}
		switch arm := answer.GetResponse().(type) {
		case *Ydb_Coordination.SessionResponse_Failure_:
			return nil, fmt.Errorf("failure: %v", arm.Failure)
		case *Ydb_Coordination.SessionResponse_Ping:
			pong := &Ydb_Coordination.SessionRequest_PingPong{Opaque: arm.Ping.GetOpaque()}
			if err := s.stream.Send(
				&Request{Request: &Ydb_Coordination.SessionRequest_Pong{Pong: pong}}); err != nil {
				return nil, err
			}
		default:
			return answer, nil
		}
	}
}

// LastRequest is the id of the last request sent.
func (s *Session) LastRequest() uint64 { return s.reqID }

// Create makes a semaphore. An existing one is no error.
func (s *Session) Create(name string, limit uint64) error {
	s.reqID++
	err := s.stream.Send(&Request{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: s.reqID, Name: name,
			Limit: limit}}})
	if err != nil {
		return err
	}
	answer, err := s.result()
	if err != nil {
		return err
	}
	switch got := answer.GetCreateSemaphoreResult().GetStatus(); got {
	case Ydb.StatusIds_SUCCESS, Ydb.StatusIds_ALREADY_EXISTS:
		return nil
	default:
		return fmt.Errorf("create %s: %v", name, got)
	}
}

// StartAcquire asks for tokens and returns the first answer: a Pending or a result.
func (s *Session) StartAcquire(name string, count uint64) (*Response, error) {
	s.reqID++
	err := s.stream.Send(&Request{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: s.reqID, Name: name,
			Count: count, TimeoutMillis: Infinite}}})
	if err != nil {
		return nil, err
	}
	return s.Receive()
}

// Acquire waits until the session owns the semaphore.
func (s *Session) Acquire(name string, count uint64) error {
	answer, err := s.StartAcquire(name, count)
	if err == nil && answer.GetAcquireSemaphorePending() != nil {
		answer, err = s.Receive()
	}
	if err == nil && !answer.GetAcquireSemaphoreResult().GetAcquired() {
		err = fmt.Errorf("acquire %s: %v", name, answer)
	}
	return err
}

// Hold is Acquire of one token that is free, with data.
func (s *Session) Hold(name string, data []byte) error {
	s.reqID++
	err := s.stream.Send(&Request{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: s.reqID, Name: name,
			Count: 1, Data: data}}})
	if err != nil {
		return err
	}
	answer, err := s.Receive()
	if err == nil && !answer.GetAcquireSemaphoreResult().GetAcquired() {
		err = fmt.Errorf("hold %s: %v", name, answer)
	}
	return err
}

// Release gives the semaphore back.
func (s *Session) Release(name string) error {
	released, err := s.TryRelease(name)
	if err == nil && !released {
		err = fmt.Errorf("release %s: not released", name)
	}
	return err
}

// TryRelease gives the semaphore back, or leaves its queue, and reports whether there was anything to give
// back.
func (s *Session) TryRelease(name string) (bool, error) {
	s.reqID++
	err := s.stream.Send(&Request{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{ReqId: s.reqID, Name: name}}})
	if err != nil {
		return false, err
	}
	answer, err := s.result()
	if err != nil {
		return false, err
	}
	result := answer.GetReleaseSemaphoreResult()
	if result.GetStatus() != Ydb.StatusIds_SUCCESS {
		return false, fmt.Errorf("release %s: %v", name, answer)
	}
	return result.GetReleased(), nil
}

// result returns the next message that is not about an older acquire: a grant may come at any time.
func (s *Session) result() (*Response, error) {
	for {
		answer, err := s.Receive()
		if err != nil || answer.GetAcquireSemaphoreResult() == nil {
			return answer, err
		}
		if s.Late != nil {
			s.Late(answer)
		}
	}
}

// Update replaces a semaphore's data.
func (s *Session) Update(name string, data []byte) error {
	s.reqID++
	err := s.stream.Send(&Request{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
		UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: s.reqID, Name: name,
			Data: data}}})
	if err != nil {
		return err
	}
	answer, err := s.result()
	if err == nil && answer.GetUpdateSemaphoreResult().GetStatus() != Ydb.StatusIds_SUCCESS {
		err = fmt.Errorf("update %s: %v", name, answer)
	}
	return err
}

// Describe reads a semaphore with its owners and waiters; with watch, its data is watched from then on.
func (s *Session) Describe(name string, watch bool) (*Ydb_Coordination.SemaphoreDescription, error) {
	s.reqID++
	err := s.stream.Send(&Request{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: s.reqID, Name: name,
			IncludeOwners: true, IncludeWaiters: true, WatchData: watch}}})
	if err != nil {
		return nil, err
	}
	answer, err := s.result()
	if err != nil {
		return nil, err
	}
	result := answer.GetDescribeSemaphoreResult()
	if result.GetStatus() != Ydb.StatusIds_SUCCESS {
		return nil, fmt.Errorf("describe %s: %v", name, answer)
	}
	return result.GetSemaphoreDescription(), nil
}
