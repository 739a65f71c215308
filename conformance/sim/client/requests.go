package client

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// exclusive is the count of an acquire of an ephemeral semaphore that nobody else may share.
const exclusive = math.MaxUint64

// begin sends a request with a new id.
func (s *stream) begin(make func(id uint64) *request) (id uint64, err error) {
	s.client.request++
	id = s.client.request
	s.expect(id)
	return id, s.send(make(id))
}

// call sends a request and waits for its answer, which takes no longer than wait by itself.
func (s *stream) call(wait time.Duration, make func(id uint64) *request) (*response, error) {
	id, err := s.begin(make)
	if err != nil {
		return nil, err
	}
	return s.await(id, wait+answerPatience)
}

func acquiring(name string, count uint64, wait time.Duration, ephemeral bool) func(uint64) *request {
	return func(id uint64) *request {
		return &request{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: id, Name: name, Count: count,
				TimeoutMillis: uint64(wait.Milliseconds()), Ephemeral: ephemeral}}}
	}
}

func releasing(name string) func(uint64) *request {
	return func(id uint64) *request {
		return &request{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
			ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{ReqId: id, Name: name}}}
	}
}

func creating(name string, limit uint64, data []byte) func(uint64) *request {
	return func(id uint64) *request {
		return &request{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: id, Name: name, Limit: limit,
				Data: data}}}
	}
}

func updating(name string, data []byte) func(uint64) *request {
	return func(id uint64) *request {
		return &request{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
			UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: id, Name: name, Data: data}}}
	}
}

func deleting(name string, force bool) func(uint64) *request {
	return func(id uint64) *request {
		return &request{Request: &Ydb_Coordination.SessionRequest_DeleteSemaphore_{
			DeleteSemaphore: &Ydb_Coordination.SessionRequest_DeleteSemaphore{ReqId: id, Name: name, Force: force}}}
	}
}

func describing(name string, owners, watch bool) func(uint64) *request {
	return func(id uint64) *request {
		return &request{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: id, Name: name,
				IncludeOwners: owners, IncludeWaiters: owners, WatchData: watch, WatchOwners: watch && owners}}}
	}
}

// acquire takes tokens, and reports whether it got them.
func (s *stream) acquire(name string, count uint64, wait time.Duration, ephemeral bool) (bool, error) {
	s.client.drops(name) // another count may be taken from now on
	m, err := s.call(wait, acquiring(name, count, wait, ephemeral))
	if err != nil {
		return false, err
	}
	result := m.GetAcquireSemaphoreResult()
	switch {
	case result == nil:
		return false, fmt.Errorf("acquire: %v", m)
	case result.GetAcquired():
		s.client.holds(name, count)
		return true, nil
	}
	return false, refusal(result.GetStatus())
}

// release gives tokens back.
func (s *stream) release(name string) error {
	s.client.drops(name)
	m, err := s.call(0, releasing(name))
	if err == nil && m.GetReleaseSemaphoreResult() == nil {
		err = fmt.Errorf("release: %v", m)
	}
	return err
}

// create makes a semaphore that others may have made before.
func (s *stream) create(name string, limit uint64, data []byte) error {
	m, err := s.call(0, creating(name, limit, data))
	switch {
	case err != nil:
		return err
	case m.GetCreateSemaphoreResult() == nil:
		return fmt.Errorf("create: %v", m)
	}
	switch status := m.GetCreateSemaphoreResult().GetStatus(); status {
	case Ydb.StatusIds_SUCCESS, Ydb.StatusIds_ALREADY_EXISTS:
		return nil
	default: // the state is full
		return fmt.Errorf("create: %w: %v", errRefused, status)
	}
}

// refusal is the error of a status; nil if it is a success or an answer that a client may get at any time.
func refusal(status Ydb.StatusIds_StatusCode) error {
	switch status {
	case Ydb.StatusIds_SUCCESS, Ydb.StatusIds_NOT_FOUND, Ydb.StatusIds_PRECONDITION_FAILED:
		return nil
	}
	return fmt.Errorf("%w: %v", errRefused, status)
}

var errRefused = errors.New("refused")
