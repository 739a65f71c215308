package wire

import (
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
)

type (
	clientMessage = Ydb_Coordination.SessionRequest
	serverMessage = Ydb_Coordination.SessionResponse
)

// FromClient translates a message of the Session stream. An arm that is set but empty counts as its zero
// value.
func FromClient(m *clientMessage) coordination.ClientMessage {
	switch arm := m.GetRequest().(type) {
	case *Ydb_Coordination.SessionRequest_Ping:
		return coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: arm.Ping.GetOpaque()}
	case *Ydb_Coordination.SessionRequest_Pong:
		return coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: arm.Pong.GetOpaque()}
	case *Ydb_Coordination.SessionRequest_SessionStart_:
		start := arm.SessionStart
		return coordination.ClientMessage{Kind: coordination.ClientStart, Start: &coordination.AttachRequest{
			Path: start.GetPath(), Session: coordination.SessionID(start.GetSessionId()),
			SeqNo:         start.GetSeqNo(),
			TimeoutMillis: start.GetTimeoutMillis(), Description: start.GetDescription(),
			ProtectionKey: string(start.GetProtectionKey()),
		}}
	case *Ydb_Coordination.SessionRequest_SessionStop_:
		return coordination.ClientMessage{Kind: coordination.ClientStop}
	case *Ydb_Coordination.SessionRequest_AcquireSemaphore_:
		a := arm.AcquireSemaphore
		return request(a.GetReqId(), coordination.Request{Kind: coordination.RequestAcquire,
			Name: a.GetName(), Count: a.GetCount(), TimeoutMillis: a.GetTimeoutMillis(), Data: a.GetData(),
			Ephemeral: a.GetEphemeral()})
	case *Ydb_Coordination.SessionRequest_ReleaseSemaphore_:
		r := arm.ReleaseSemaphore
		return request(r.GetReqId(), coordination.Request{Kind: coordination.RequestRelease,
			Name: r.GetName()})
	case *Ydb_Coordination.SessionRequest_DescribeSemaphore_:
		d := arm.DescribeSemaphore
		return request(d.GetReqId(), coordination.Request{Kind: coordination.RequestDescribe,
			Name: d.GetName(), IncludeOwners: d.GetIncludeOwners(), IncludeWaiters: d.GetIncludeWaiters(),
			WatchData: d.GetWatchData(), WatchOwners: d.GetWatchOwners()})
	case *Ydb_Coordination.SessionRequest_CreateSemaphore_:
		c := arm.CreateSemaphore
		return request(c.GetReqId(), coordination.Request{Kind: coordination.RequestCreate, Name: c.GetName(),
			Limit: c.GetLimit(), Data: c.GetData()})
	case *Ydb_Coordination.SessionRequest_UpdateSemaphore_:
		u := arm.UpdateSemaphore
		return request(u.GetReqId(), coordination.Request{Kind: coordination.RequestUpdate, Name: u.GetName(),
			Data: u.GetData()})
	case *Ydb_Coordination.SessionRequest_DeleteSemaphore_:
		d := arm.DeleteSemaphore
		return request(d.GetReqId(), coordination.Request{Kind: coordination.RequestDelete, Name: d.GetName(),
			Force: d.GetForce()})
	case nil:
		return coordination.ClientMessage{Kind: coordination.ClientEmpty}
	}
	return coordination.ClientMessage{Kind: coordination.ClientUnsupported}
}

func request(reqID uint64, r coordination.Request) coordination.ClientMessage {
	return coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: reqID, Request: &r}
}

// ToClient translates a reply of the Front.
func ToClient(r *coordination.Reply) *serverMessage {
	switch r.Kind {
	case coordination.ReplyStarted:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_SessionStarted_{
			SessionStarted: &Ydb_Coordination.SessionResponse_SessionStarted{SessionId: uint64(r.Session)}}}
	case coordination.ReplyStopped:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_SessionStopped_{
			SessionStopped: &Ydb_Coordination.SessionResponse_SessionStopped{SessionId: uint64(r.Session)}}}
	case coordination.ReplyFailure:
		status, issues := verdict(r.Refusal)
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_Failure_{
			Failure: &Ydb_Coordination.SessionResponse_Failure{Status: status, Issues: issues}}}
	case coordination.ReplyPing:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_Ping{
			Ping: &Ydb_Coordination.SessionResponse_PingPong{Opaque: r.Opaque}}}
	case coordination.ReplyPong:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_Pong{
			Pong: &Ydb_Coordination.SessionResponse_PingPong{Opaque: r.Opaque}}}
	case coordination.ReplyPending:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending_{
			AcquireSemaphorePending: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending{ReqId: r.ReqID}}}
	case coordination.ReplyChanged:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_{
			DescribeSemaphoreChanged: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged{
				ReqId: r.ReqID, DataChanged: r.DataChanged, OwnersChanged: r.OwnersChanged}}}
	}
	return result(r)
}

// result answers a semaphore request in its own arm.
func result(r *coordination.Reply) *serverMessage {
	status, issues := verdict(r.Refusal)
	switch r.Request {
	case coordination.RequestAcquire:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_{
			AcquireSemaphoreResult: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult{
				ReqId: r.ReqID, Status: status, Issues: issues, Acquired: r.Done}}}
	case coordination.RequestRelease:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_{
			ReleaseSemaphoreResult: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult{
				ReqId: r.ReqID, Status: status, Issues: issues, Released: r.Done}}}
	case coordination.RequestCreate:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_CreateSemaphoreResult_{
			CreateSemaphoreResult: &Ydb_Coordination.SessionResponse_CreateSemaphoreResult{
				ReqId: r.ReqID, Status: status, Issues: issues}}}
	case coordination.RequestUpdate:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_{
			UpdateSemaphoreResult: &Ydb_Coordination.SessionResponse_UpdateSemaphoreResult{
				ReqId: r.ReqID, Status: status, Issues: issues}}}
	case coordination.RequestDelete:
		return &serverMessage{Response: &Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_{
			DeleteSemaphoreResult: &Ydb_Coordination.SessionResponse_DeleteSemaphoreResult{
				ReqId: r.ReqID, Status: status, Issues: issues}}}
	}
	return &serverMessage{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_{
		DescribeSemaphoreResult: &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult{
			ReqId: r.ReqID, Status: status, Issues: issues, WatchAdded: r.WatchAdded,
			SemaphoreDescription: description(r.Description)}}}
}

func description(d *coordination.SemaphoreDescription) *Ydb_Coordination.SemaphoreDescription {
	if d == nil {
		return nil
	}
	return &Ydb_Coordination.SemaphoreDescription{
		Name: d.Name, Data: d.Data, Count: d.Count, Limit: d.Limit, Ephemeral: d.Ephemeral,
		Owners: links(&d.Owners), Waiters: links(&d.Waiters),
	}
}

func links(list *coordination.Links) []*Ydb_Coordination.SemaphoreSession {
	if list.Len() == 0 {
		return nil
	}
	values := make([]Ydb_Coordination.SemaphoreSession, list.Len())
	sessions := make([]*Ydb_Coordination.SemaphoreSession, 0, list.Len())
	for l := range list.All() {
		v := &values[len(sessions)]
		v.OrderId, v.SessionId, v.TimeoutMillis, v.Count, v.Data = uint64(l.Order), uint64(l.Session),
			l.TimeoutMillis, l.Count, l.Data
		sessions = append(sessions, v)
	}
	return sessions
}

// verdict is status and issues of a coordination answer: one issue with nothing but its text (coordination.md
// §0.4).
func verdict(refusal *coordination.Refusal) (Ydb.StatusIds_StatusCode, []*Ydb_Issue.IssueMessage) {
	if refusal == nil {
		return Ydb.StatusIds_SUCCESS, nil
	}
	return Ydb.StatusIds_StatusCode(refusal.Status), []*Ydb_Issue.IssueMessage{{Message: refusal.Text}}
}

// Issues translates the issues of a unary call.
func Issues(list []outcome.Issue) []*Ydb_Issue.IssueMessage {
	messages := make([]*Ydb_Issue.IssueMessage, len(list))
	for i, issue := range list {
		messages[i] = &Ydb_Issue.IssueMessage{Message: issue.Message, IssueCode: issue.Code,
			Severity: issue.Severity}
	}
	return messages
}
