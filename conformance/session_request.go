package conformance

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

type sessionRequest = Ydb_Coordination.SessionRequest

// arm names what a request asks for, and so the arm of the answer.
type arm string

// The arms of the six semaphore requests.
const (
	armAcquire  arm = "acquire"
	armRelease  arm = "release"
	armCreate   arm = "create"
	armUpdate   arm = "update"
	armDelete   arm = "delete"
	armDescribe arm = "describe"
)

const (
	defaultSessionTimeoutMillis = 10_000
	// firstOwnReqID is the first number that the runner gives to a request without req=.
	firstOwnReqID = 1 << 40
)

// semaphoreRequest makes one of the six requests; it carries reqID.
func semaphoreRequest(verb arm, reqID uint64, f *fields) (*sessionRequest, error) {
	m := &sessionRequest{}
	name := f.name()
	switch verb {
	case armAcquire:
		m.Request = &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{
				ReqId: reqID, Name: name, Count: f.number("count", 1), TimeoutMillis: f.timeout(0),
				Data: []byte(f.text("data")), Ephemeral: f.flag("ephemeral")}}
	case armRelease:
		m.Request = &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
			ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{
				ReqId: reqID, Name: name}}
	case armCreate:
		m.Request = &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{
				ReqId: reqID, Name: name, Limit: f.number("limit", 0), Data: []byte(f.text("data"))}}
	case armUpdate:
		m.Request = &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
			UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{
				ReqId: reqID, Name: name, Data: []byte(f.text("data"))}}
	case armDelete:
		m.Request = &Ydb_Coordination.SessionRequest_DeleteSemaphore_{
			DeleteSemaphore: &Ydb_Coordination.SessionRequest_DeleteSemaphore{
				ReqId: reqID, Name: name, Force: f.flag("force")}}
	case armDescribe:
		m.Request = &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{
				ReqId: reqID, Name: name, IncludeOwners: f.flag("owners"), IncludeWaiters: f.flag("waiters"),
				WatchData: f.flag("watch_data"), WatchOwners: f.flag("watch_owners")}}
	}
	return m, f.done()
}

// startRequest makes a SessionStart.
func startRequest(f *fields) (*Ydb_Coordination.SessionRequest_SessionStart, error) {
	start := &Ydb_Coordination.SessionRequest_SessionStart{Path: f.run.nodePath()}
	if path, found := f.take("path"); found {
		start.Path = f.path(path)
	}
	if session, found := f.take("session"); found {
		id, err := f.run.names.sessionID(session)
		f.fail(err)
		start.SessionId = id
	}
	start.SeqNo = f.number("seq", 0)
	start.TimeoutMillis = f.timeout(defaultSessionTimeoutMillis)
	start.Description = f.text("description")
	start.ProtectionKey = []byte(f.text("key"))
	return start, f.done()
}

// oddRequest makes what no client should send, as bytes.
func oddRequest(verb string, f *fields) ([]byte, error) {
	switch verb {
	case "empty":
		return nil, f.done()
	case "unknown":
		const field = 1000
		message := protowire.AppendTag(nil, field, protowire.BytesType)
		return protowire.AppendBytes(message, []byte("unknown")), f.done()
	case "unsupported":
		number, err := strconv.Atoi(f.word())
		f.fail(err)
		message := protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType)
		return protowire.AppendBytes(message, nil), f.done()
	case "raw":
		digits, err := parseText(f.word())
		f.fail(err)
		message, err := hex.DecodeString(digits)
		f.fail(err)
		return message, f.done()
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

func encode(m *sessionRequest) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func pingRequest(opaque uint64) *sessionRequest {
	return &sessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
		Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: opaque}}}
}

func pongRequest(opaque uint64) *sessionRequest {
	return &sessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
		Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: opaque}}}
}
