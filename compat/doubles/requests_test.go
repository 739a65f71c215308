package doubles

import (
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// Infinite is the acquire timeout that never runs out.
const Infinite = 1<<64 - 1

const (
	methodAcquire  = "acquire_semaphore"
	methodRelease  = "release_semaphore"
	methodDescribe = "describe_semaphore"
)

func pingOf(opaque uint64) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_Ping{Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: opaque}}}
}

// Create asks for a semaphore.
func Create(name string, limit uint64) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{Name: name, Limit: limit}}}
}

// Update asks for other data of a semaphore.
func Update(name, data string) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
		UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{Name: name, Data: []byte(data)}}}
}

// Delete asks for a semaphore's end.
func Delete(name string) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_DeleteSemaphore_{
		DeleteSemaphore: &Ydb_Coordination.SessionRequest_DeleteSemaphore{Name: name, Force: true}}}
}

// Acquire asks for a token of a semaphore.
func Acquire(name string, timeoutMillis uint64) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{Name: name, Count: 1,
			TimeoutMillis: timeoutMillis}}}
}

// Lock asks for an ephemeral semaphore, alone.
func Lock(name string, timeoutMillis uint64) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{Name: name, Count: 1<<64 - 1,
			Ephemeral: true, TimeoutMillis: timeoutMillis}}}
}

// Release gives a semaphore back.
func Release(name string) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{Name: name}}}
}

// Describe asks for a semaphore, and with watch for one notice when it has changed.
func Describe(name string, watch bool) *Request {
	return &Request{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{Name: name, IncludeOwners: true,
			IncludeWaiters: true, WatchData: watch, WatchOwners: watch}}}
}
