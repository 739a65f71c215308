package faults

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
)

// Request is a client's request as it reached the stand-in. Pings and pongs are not listed.
type Request struct {
	At     time.Time `json:"at"`
	Kind   Kind      `json:"kind"`
	Server int       `json:"server"`
	// Stream numbers the Session streams of the stand-in, from 1; 0: it is a call.
	Stream uint64 `json:"stream,omitempty"`
	// Client is the client's address, and SDK what it says it is.
	Client string `json:"client"`
	SDK    string `json:"sdk,omitempty"`
	// Node is the path, with one slash before each of its parts, and Session the session. That of a start is
	// the one that the client wants back, 0 for a new one.
	Node    string `json:"node"`
	Session uint64 `json:"session,omitempty"`

	Description    string `json:"description,omitempty"` // of the session, with its start
	ReqID          uint64 `json:"req_id,omitempty"`
	Name           string `json:"name,omitempty"` // of the semaphore, or the path of the resource
	Data           []byte `json:"data,omitempty"`
	Count          uint64 `json:"count,omitempty"` // also of units, required or used
	Limit          uint64 `json:"limit,omitempty"`
	TimeoutMillis  uint64 `json:"timeout_millis,omitempty"`
	SeqNo          uint64 `json:"seq_no,omitempty"`
	Ephemeral      bool   `json:"ephemeral,omitempty"`
	Force          bool   `json:"force,omitempty"`
	IncludeOwners  bool   `json:"include_owners,omitempty"`
	IncludeWaiters bool   `json:"include_waiters,omitempty"`
	WatchData      bool   `json:"watch_data,omitempty"`
	WatchOwners    bool   `json:"watch_owners,omitempty"`
	// Used marks units that were used already. Otherwise TimeoutMillis limits the wait for them.
	Used bool `json:"used,omitempty"`
}

// fillCall takes over what a call says; Node is as the client has it.
func (q *Request) fillCall(request any) {
	if named, is := request.(interface{ GetPath() string }); is {
		q.Node = named.GetPath()
	}
	if named, is := request.(interface{ GetCoordinationNodePath() string }); is {
		q.Node = named.GetCoordinationNodePath()
	}
	switch r := request.(type) {
	case interface {
		GetResource() *Ydb_RateLimiter.Resource
	}:
		q.Name = r.GetResource().GetResourcePath()
	case interface{ GetResourcePath() string }:
		q.Name = r.GetResourcePath()
	}
	if acquire, is := request.(*Ydb_RateLimiter.AcquireResourceRequest); is {
		_, q.Used = acquire.GetUnits().(*Ydb_RateLimiter.AcquireResourceRequest_Used)
		q.Count = max(acquire.GetRequired(), acquire.GetUsed())
		q.TimeoutMillis = uint64(
			max(acquire.GetOperationParams().GetOperationTimeout().AsDuration().Milliseconds(), 0))
	}
}

// fill copies the fields of a message, except for the protection key. The Node of a start stays as the client wrote it.
func (q *Request) fill(m *Ydb_Coordination.SessionRequest) {
	switch r := m.GetRequest().(type) {
	case *Ydb_Coordination.SessionRequest_SessionStart_:
		a := r.SessionStart
		q.Node, q.Session = a.GetPath(), a.GetSessionId()
		q.SeqNo, q.TimeoutMillis, q.Description = a.GetSeqNo(), a.GetTimeoutMillis(), a.GetDescription()
	case *Ydb_Coordination.SessionRequest_AcquireSemaphore_:
		a := r.AcquireSemaphore
		q.Count, q.TimeoutMillis, q.Data, q.Ephemeral = a.GetCount(), a.GetTimeoutMillis(), a.GetData(),
			a.GetEphemeral()
	case *Ydb_Coordination.SessionRequest_CreateSemaphore_:
		q.Limit, q.Data = r.CreateSemaphore.GetLimit(), r.CreateSemaphore.GetData()
	case *Ydb_Coordination.SessionRequest_UpdateSemaphore_:
		q.Data = r.UpdateSemaphore.GetData()
	case *Ydb_Coordination.SessionRequest_DeleteSemaphore_:
		q.Force = r.DeleteSemaphore.GetForce()
	case *Ydb_Coordination.SessionRequest_DescribeSemaphore_:
		d := r.DescribeSemaphore
		q.IncludeOwners, q.IncludeWaiters, q.WatchData, q.WatchOwners = d.GetIncludeOwners(),
			d.GetIncludeWaiters(), d.GetWatchData(), d.GetWatchOwners()
	}
}

const (
	// maxLogBytes bounds the remembered requests. The oldest make room for others.
	maxLogBytes = 1 << 20
	// maxLoggedData bounds the remembered data of one.
	maxLoggedData = 4 << 10
	// requestBytes is charged for a request besides its texts.
	requestBytes = 256
)

func (q *Request) bytes() int {
	return requestBytes + len(
		q.Client) + len(q.SDK) + len(q.Node) + len(q.Name) + len(q.Description) + len(q.Data)
}

// requestLog is the latest requests.
type requestLog struct {
	mutex    sync.Mutex
	requests []Request // the oldest first, from position first
	first    int
	bytes    int
	dropped  uint64
}

func (l *requestLog) add(q *Request) {
	kept := *q
	kept.Data = bytes.Clone(kept.Data[:min(len(kept.Data), maxLoggedData)])
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.requests = append(l.requests, kept)
	for l.bytes += kept.bytes(); l.bytes > maxLogBytes; l.dropped++ {
		l.bytes -= l.requests[l.first].bytes()
		l.requests[l.first] = Request{}
		l.first++
	}
	if l.first > len(l.requests)/2 {
		l.requests = append(l.requests[:0], l.requests[l.first:]...)
		clear(l.requests[len(l.requests):cap(l.requests)])
		l.first = 0
	}
}

// Requests returns the clients' requests, the oldest first: the latest 1 MiB of it, and 4 KiB of the data of each.
func (s *Set) Requests() []Request {
	s.log.mutex.Lock()
	defer s.log.mutex.Unlock()
	return slices.Clone(s.log.requests[s.log.first:])
}

// ForgetRequests empties what Requests returns.
func (s *Set) ForgetRequests() {
	s.log.mutex.Lock()
	defer s.log.mutex.Unlock()
	s.log.requests, s.log.first, s.log.bytes, s.log.dropped = nil, 0, 0, 0
}

// RequestsDropped counts the requests that have made room for others since the last ForgetRequests.
func (s *Set) RequestsDropped() uint64 {
	s.log.mutex.Lock()
	defer s.log.mutex.Unlock()
	return s.log.dropped
}
