// Package stub is a server of the Session protocol that keeps semaphores in memory and does nothing else: no
// log, no rings, no timeouts, no rights, no limits. It answers what the loads of conformance/bench ask, with
// the gRPC options of a server of this project, and so says what streams, messages and the client cost by
// themselves. It is for measurements only.
package stub

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/listen"
)

type (
	request  = Ydb_Coordination.SessionRequest
	response = Ydb_Coordination.SessionResponse
)

// New returns a server without listeners.
func New() *grpc.Server {
	options := append(server.TransportOptions(0), listen.ReceiveBuffers())
	s := grpc.NewServer(options...)
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(s,
		&service{semaphores: make(map[string]*semaphore)})
	return s
}

// service is all there is. Every node is the same one.
type service struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer

	mutex      sync.Mutex
	sessions   uint64
	orders     uint64
	semaphores map[string]*semaphore
}

type semaphore struct {
	limit, count uint64
	data         []byte
	owners       []*link
	waiters      []*link // first in, first out
	watches      []watch // of the data
}

// link is a session's acquire of a semaphore.
type link struct {
	session *session
	reqID   uint64
	about   *Ydb_Coordination.SemaphoreSession
}

type watch struct {
	session *session
	reqID   uint64
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
func (*service) CreateNode(context.Context,
	*Ydb_Coordination.CreateNodeRequest) (*Ydb_Coordination.CreateNodeResponse, error) {
	return &Ydb_Coordination.CreateNodeResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_SUCCESS}}, nil
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
	answers := s.answer(of, m)
	for len(answers) > 0 && answers[0].to == of {
		_ = of.rpc.Send(answers[0].m)
		answers = answers[1:]
	}
	of.mutex.Unlock()
	for _, answer := range answers {
		answer.to.say(answer.m)
	}
}

// forget releases what a session has, without telling who gets it: the loads end all sessions at once.
func (s *service) forget(of *session) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	theirs := func(l *link) bool { return l.session == of }
	for _, held := range s.semaphores {
		for _, l := range held.owners {
			if theirs(l) {
				held.count -= l.about.Count
			}
		}
		held.owners = slices.DeleteFunc(held.owners, theirs)
		held.waiters = slices.DeleteFunc(held.waiters, theirs)
		held.watches = slices.DeleteFunc(held.watches, func(w watch) bool { return w.session == of })
	}
}

// answer is what is said because of a message: to its sender first, and to others.
func (s *service) answer(of *session, m *request) []said {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch arm := m.GetRequest().(type) {
	case *Ydb_Coordination.SessionRequest_SessionStart_:
		return []said{{of, &response{Response: &Ydb_Coordination.SessionResponse_SessionStarted_{
			SessionStarted: &Ydb_Coordination.SessionResponse_SessionStarted{SessionId: of.id}}}}}
	case *Ydb_Coordination.SessionRequest_Ping:
		return []said{{of, &response{Response: &Ydb_Coordination.SessionResponse_Pong{
			Pong: &Ydb_Coordination.SessionResponse_PingPong{Opaque: arm.Ping.GetOpaque()}}}}}
	case *Ydb_Coordination.SessionRequest_CreateSemaphore_:
		return []said{{of, s.create(arm.CreateSemaphore)}}
	case *Ydb_Coordination.SessionRequest_UpdateSemaphore_:
		return s.update(of, arm.UpdateSemaphore)
	case *Ydb_Coordination.SessionRequest_AcquireSemaphore_:
		return s.acquire(of, arm.AcquireSemaphore)
	case *Ydb_Coordination.SessionRequest_ReleaseSemaphore_:
		return s.release(of, arm.ReleaseSemaphore)
	case *Ydb_Coordination.SessionRequest_DescribeSemaphore_:
		return []said{{of, s.describe(of, arm.DescribeSemaphore)}}
	}
	return nil
}

// status says whether there is such a semaphore.
func status(is bool) Ydb.StatusIds_StatusCode {
	if is {
		return Ydb.StatusIds_SUCCESS
	}
	return Ydb.StatusIds_NOT_FOUND
}

func (s *service) create(r *Ydb_Coordination.SessionRequest_CreateSemaphore) *response {
	code := Ydb.StatusIds_ALREADY_EXISTS
	if s.semaphores[r.Name] == nil {
		s.semaphores[r.Name] = &semaphore{limit: r.Limit, data: r.Data}
		code = Ydb.StatusIds_SUCCESS
	}
	return &response{Response: &Ydb_Coordination.SessionResponse_CreateSemaphoreResult_{
		CreateSemaphoreResult: &Ydb_Coordination.SessionResponse_CreateSemaphoreResult{ReqId: r.ReqId,
			Status: code}}}
}

func (s *service) update(of *session, r *Ydb_Coordination.SessionRequest_UpdateSemaphore) []said {
	wanted := s.semaphores[r.Name]
	answers := []said{{of, &response{Response: &Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_{
		UpdateSemaphoreResult: &Ydb_Coordination.SessionResponse_UpdateSemaphoreResult{ReqId: r.ReqId,
			Status: status(wanted != nil)}}}}}
	if wanted == nil {
		return answers
	}
	wanted.data = r.Data
	for _, w := range wanted.watches {
		answers = append(answers, said{w.session,
			&response{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_{
				DescribeSemaphoreChanged: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged{ReqId: w.reqID, DataChanged: true}}}})
	}
	wanted.watches = nil
	return answers
}

func (s *service) acquire(of *session, r *Ydb_Coordination.SessionRequest_AcquireSemaphore) []said {
	wanted := s.semaphores[r.Name]
	if wanted == nil {
		return []said{{of, acquired(r.ReqId, Ydb.StatusIds_NOT_FOUND)}}
	}
	s.orders++
	l := &link{of, r.ReqId, &Ydb_Coordination.SemaphoreSession{OrderId: s.orders, SessionId: of.id,
		TimeoutMillis: r.TimeoutMillis, Count: r.Count, Data: r.Data}}
	if granted := wanted.enter(l); granted {
		return []said{{of, acquired(r.ReqId, Ydb.StatusIds_SUCCESS)}}
	}
	return []said{{of, &response{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending_{
		AcquireSemaphorePending: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending{ReqId: r.ReqId}}}}}
}

// enter makes an acquire an owner, or else a waiter.
func (wanted *semaphore) enter(l *link) (granted bool) {
	if len(wanted.waiters) > 0 || wanted.count+l.about.Count > wanted.limit {
		wanted.waiters = append(wanted.waiters, l)
		return false
	}
	wanted.own(l)
	return true
}

func (wanted *semaphore) own(l *link) {
	wanted.count += l.about.Count
	wanted.owners = append(wanted.owners, l)
}

func acquired(reqID uint64, code Ydb.StatusIds_StatusCode) *response {
	return &response{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_{AcquireSemaphoreResult: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult{
		ReqId: reqID, Status: code, Acquired: code == Ydb.StatusIds_SUCCESS}}}
}

func (s *service) release(of *session, r *Ydb_Coordination.SessionRequest_ReleaseSemaphore) []said {
	held := s.semaphores[r.Name]
	at := -1
	if held != nil {
		at = slices.IndexFunc(held.owners, func(l *link) bool { return l.session == of })
	}
	answers := []said{{of, &response{Response: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_{
		ReleaseSemaphoreResult: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult{ReqId: r.ReqId,
			Status: status(held != nil), Released: at >= 0}}}}}
	if at < 0 {
		return answers
	}
	held.count -= held.owners[at].about.Count
	held.owners = slices.Delete(held.owners, at, at+1)
	for len(held.waiters) > 0 && held.count+held.waiters[0].about.Count <= held.limit {
		next := held.waiters[0]
		held.waiters = held.waiters[1:]
		held.own(next)
		answers = append(answers, said{next.session, acquired(next.reqID, Ydb.StatusIds_SUCCESS)})
	}
	return answers
}

func (s *service) describe(of *session, r *Ydb_Coordination.SessionRequest_DescribeSemaphore) *response {
	result := &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult{ReqId: r.ReqId}
	d := s.semaphores[r.Name]
	if result.Status = status(d != nil); d != nil {
		result.WatchAdded = r.WatchData
		result.SemaphoreDescription = &Ydb_Coordination.SemaphoreDescription{Name: r.Name, Data: d.data,
			Count: d.count, Limit: d.limit}
		if r.IncludeOwners {
			result.SemaphoreDescription.Owners = about(d.owners)
		}
		if r.IncludeWaiters {
			result.SemaphoreDescription.Waiters = about(d.waiters)
		}
		if r.WatchData {
			d.watches = append(d.watches, watch{of, r.ReqId})
		}
	}
	return &response{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_{DescribeSemaphoreResult: result}}
}

func about(list []*link) []*Ydb_Coordination.SemaphoreSession {
	sessions := make([]*Ydb_Coordination.SemaphoreSession, len(list))
	for i, l := range list {
		sessions[i] = l.about
	}
	return sessions
}
