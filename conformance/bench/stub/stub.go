// Package stub is a server of the Session protocol that keeps semaphores in memory and does nothing else: no raft, no
// rings, no timeouts, no rights, no limits. It answers the requests of the loads in conformance/bench, with the gRPC
// options of this project's server, and with its log where it is given one: so it measures the cost of streams,
// messages, durable writes and the client alone. It is for measurements only.
package stub

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/raftstore/wal"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/listen"
)

type (
	request  = pb.SessionRequest
	response = pb.SessionResponse
)

// New returns a server without listeners. With a log, it answers a change of a semaphore when the log has it; nil is
// none.
func New(log *wal.Log) *grpc.Server {
	options := append(server.TransportOptions(0), listen.ReceiveBuffers())
	s := grpc.NewServer(options...)
	all := &service{semaphores: make(map[string]*semaphore)}
	if log != nil {
		all.writer = newWriter(log)
	}
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(s, all)
	return s
}

// service is all there is. Every node is the same one.
type service struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer

	writer     *writer // nil without a log
	mutex      sync.Mutex
	sessions   uint64
	orders     uint64
	semaphores map[string]*semaphore
}

type semaphore struct {
	limit, count uint64
	data         []byte
	owners       []link
	waiters      []link // first in, first out
	watches      []link // of the data
}

// link is a session's acquire or watch of a semaphore.
type link struct {
	session *session
	reqID   uint64
	about   *pb.SemaphoreSession
}

// session is a stream. Another one's goroutine may send on it.
type session struct {
	id    uint64
	rpc   Ydb_Coordination_V1.CoordinationService_SessionServer
	mutex sync.Mutex
}

// say sends a message of another one's goroutine. If it cannot be sent, the reader notices as well.
func (s *session) say(m *response) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_ = s.rpc.Send(m)
}

// said is a message for a session, to be sent when the service's mutex is free again.
type said struct {
	to *session
	m  *response
}

// CreateNode implements CoordinationServiceServer.
func (*service) CreateNode(context.Context, *pb.CreateNodeRequest) (*pb.CreateNodeResponse, error) {
	return &pb.CreateNodeResponse{Operation: &Ydb_Operations.Operation{Ready: true, Status: success}}, nil
}

// Session implements CoordinationServiceServer.
func (s *service) Session(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	s.mutex.Lock()
	s.sessions++
	of := &session{id: s.sessions, rpc: rpc}
	s.mutex.Unlock()
	defer s.forget(of)
	for {
		m, err := rpc.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		s.serve(of, m)
	}
}

// serve answers a message. Nobody else can say anything to its sender in between: a grant comes behind the
// word that it is waited for.
func (s *service) serve(of *session, m *request) {
	of.mutex.Lock()
	s.mutex.Lock()
	answer, others := s.answer(of, m)
	if name := changed(m); name != "" && s.writer != nil {
		s.writer.add(name, append([]said{{of, answer}}, others...)...)
		answer, others = nil, nil
	}
	s.mutex.Unlock()
	if answer != nil {
		_ = of.rpc.Send(answer)
	}
	of.mutex.Unlock()
	for _, other := range others {
		other.to.say(other.m)
	}
}

// changed returns the semaphore that a message changes, "" for other messages.
func changed(m *request) string {
	switch arm := m.GetRequest().(type) {
	case *pb.SessionRequest_CreateSemaphore_:
		return arm.CreateSemaphore.Name
	case *pb.SessionRequest_UpdateSemaphore_:
		return arm.UpdateSemaphore.Name
	case *pb.SessionRequest_AcquireSemaphore_:
		return arm.AcquireSemaphore.Name
	case *pb.SessionRequest_ReleaseSemaphore_:
		return arm.ReleaseSemaphore.Name
	}
	return ""
}

// forget releases a session's tokens, without notifying the next owners: the loads end all sessions at once.
func (s *service) forget(of *session) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	theirs := func(l link) bool { return l.session == of }
	for _, held := range s.semaphores {
		for _, l := range held.owners {
			if theirs(l) {
				held.count -= l.about.Count
			}
		}
		held.owners = slices.DeleteFunc(held.owners, theirs)
		held.waiters = slices.DeleteFunc(held.waiters, theirs)
		held.watches = slices.DeleteFunc(held.watches, theirs)
	}
}

// answer returns the answer to a message, and messages to other sessions because of it.
func (s *service) answer(of *session, m *request) (*response, []said) {
	switch arm := m.GetRequest().(type) {
	case *pb.SessionRequest_SessionStart_:
		return &response{Response: &pb.SessionResponse_SessionStarted_{
			SessionStarted: &pb.SessionResponse_SessionStarted{SessionId: of.id}}}, nil
	case *pb.SessionRequest_Ping:
		return &response{Response: &pb.SessionResponse_Pong{
			Pong: &pb.SessionResponse_PingPong{Opaque: arm.Ping.GetOpaque()}}}, nil
	case *pb.SessionRequest_CreateSemaphore_:
		return s.create(arm.CreateSemaphore), nil
	case *pb.SessionRequest_UpdateSemaphore_:
		return s.update(arm.UpdateSemaphore)
	case *pb.SessionRequest_AcquireSemaphore_:
		return s.acquire(of, arm.AcquireSemaphore), nil
	case *pb.SessionRequest_ReleaseSemaphore_:
		return s.release(of, arm.ReleaseSemaphore)
	case *pb.SessionRequest_DescribeSemaphore_:
		return s.describe(of, arm.DescribeSemaphore), nil
	}
	return nil, nil
}

const (
	success  = Ydb.StatusIds_SUCCESS
	notFound = Ydb.StatusIds_NOT_FOUND
)

func (s *service) create(r *pb.SessionRequest_CreateSemaphore) *response {
	code := Ydb.StatusIds_ALREADY_EXISTS
	if s.semaphores[r.Name] == nil {
		s.semaphores[r.Name] = &semaphore{limit: r.Limit, data: r.Data}
		code = success
	}
	return &response{Response: &pb.SessionResponse_CreateSemaphoreResult_{
		CreateSemaphoreResult: &pb.SessionResponse_CreateSemaphoreResult{ReqId: r.ReqId, Status: code}}}
}

func (s *service) update(r *pb.SessionRequest_UpdateSemaphore) (*response, []said) {
	result := &pb.SessionResponse_UpdateSemaphoreResult{ReqId: r.ReqId, Status: notFound}
	var others []said
	if wanted := s.semaphores[r.Name]; wanted != nil {
		result.Status, wanted.data = success, r.Data
		for _, w := range wanted.watches {
			others = append(others, said{w.session, &response{Response: &pb.SessionResponse_DescribeSemaphoreChanged_{
				DescribeSemaphoreChanged: &pb.SessionResponse_DescribeSemaphoreChanged{ReqId: w.reqID, DataChanged: true}}}})
		}
		wanted.watches = nil
	}
	return &response{Response: &pb.SessionResponse_UpdateSemaphoreResult_{UpdateSemaphoreResult: result}}, others
}

func (s *service) acquire(of *session, r *pb.SessionRequest_AcquireSemaphore) *response {
	wanted := s.semaphores[r.Name]
	if wanted == nil {
		return acquired(r.ReqId, notFound)
	}
	s.orders++
	l := link{of, r.ReqId, &pb.SemaphoreSession{OrderId: s.orders, SessionId: of.id,
		TimeoutMillis: r.TimeoutMillis, Count: r.Count, Data: r.Data}}
	if len(wanted.waiters) > 0 || wanted.count+r.Count > wanted.limit {
		wanted.waiters = append(wanted.waiters, l)
		return &response{Response: &pb.SessionResponse_AcquireSemaphorePending_{
			AcquireSemaphorePending: &pb.SessionResponse_AcquireSemaphorePending{ReqId: r.ReqId}}}
	}
	wanted.own(l)
	return acquired(r.ReqId, success)
}

func (wanted *semaphore) own(l link) {
	wanted.count += l.about.Count
	wanted.owners = append(wanted.owners, l)
}

func acquired(reqID uint64, code Ydb.StatusIds_StatusCode) *response {
	return &response{Response: &pb.SessionResponse_AcquireSemaphoreResult_{
		AcquireSemaphoreResult: &pb.SessionResponse_AcquireSemaphoreResult{ReqId: reqID, Status: code,
			Acquired: code == success}}}
}

func (s *service) release(of *session, r *pb.SessionRequest_ReleaseSemaphore) (*response, []said) {
	result := &pb.SessionResponse_ReleaseSemaphoreResult{ReqId: r.ReqId, Status: notFound}
	var others []said
	if held := s.semaphores[r.Name]; held != nil {
		result.Status = success
		if at := slices.IndexFunc(held.owners, func(l link) bool { return l.session == of }); at >= 0 {
			result.Released = true
			held.count -= held.owners[at].about.Count
			held.owners = slices.Delete(held.owners, at, at+1)
		}
		for len(held.waiters) > 0 && held.count+held.waiters[0].about.Count <= held.limit {
			next := held.waiters[0]
			held.waiters = held.waiters[1:]
			held.own(next)
			others = append(others, said{next.session, acquired(next.reqID, success)})
		}
	}
	return &response{Response: &pb.SessionResponse_ReleaseSemaphoreResult_{ReleaseSemaphoreResult: result}}, others
}

func (s *service) describe(of *session, r *pb.SessionRequest_DescribeSemaphore) *response {
	result := &pb.SessionResponse_DescribeSemaphoreResult{ReqId: r.ReqId, Status: notFound}
	if d := s.semaphores[r.Name]; d != nil {
		result.Status, result.WatchAdded = success, r.WatchData
		result.SemaphoreDescription = &pb.SemaphoreDescription{Name: r.Name, Data: d.data, Count: d.count,
			Limit: d.limit, Owners: about(d.owners), Waiters: about(d.waiters)}
		if r.WatchData {
			d.watches = append(d.watches, link{session: of, reqID: r.ReqId})
		}
	}
	return &response{Response: &pb.SessionResponse_DescribeSemaphoreResult_{DescribeSemaphoreResult: result}}
}

func about(list []link) []*pb.SemaphoreSession {
	sessions := make([]*pb.SemaphoreSession, len(list))
	for i, l := range list {
		sessions[i] = l.about
	}
	return sessions
}
