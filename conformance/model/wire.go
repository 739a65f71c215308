package model

import (
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
)

// This file translates between the model's messages and those of the protocol.

// Proto returns a client's message as the protocol has it.
func (r Request) Proto() *Ydb_Coordination.SessionRequest {
	m := &Ydb_Coordination.SessionRequest{}
	switch r.Kind {
	case Start:
		m.Request = &Ydb_Coordination.SessionRequest_SessionStart_{
			SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{
				Path: r.Path, SessionId: r.Session, TimeoutMillis: r.TimeoutMillis, Description: r.Description,
				SeqNo:         r.SeqNo,
				ProtectionKey: []byte(r.ProtectionKey)}}
	case Stop:
		m.Request = &Ydb_Coordination.SessionRequest_SessionStop_{
			SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}
	case Ping:
		m.Request = &Ydb_Coordination.SessionRequest_Ping{
			Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: r.Opaque}}
	case Pong:
		m.Request = &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: r.Opaque}}
	case Unsupported:
		m.Request = &Ydb_Coordination.SessionRequest_Unsupported_5{Unsupported_5: &Ydb_Coordination.Unsupported{}}
	case Create:
		m.Request = &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{
				ReqId: r.ReqID, Name: r.Name, Limit: r.Limit, Data: []byte(r.Data)}}
	case Update:
		m.Request = &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
			UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{
				ReqId: r.ReqID, Name: r.Name, Data: []byte(r.Data)}}
	case Delete:
		m.Request = &Ydb_Coordination.SessionRequest_DeleteSemaphore_{
			DeleteSemaphore: &Ydb_Coordination.SessionRequest_DeleteSemaphore{
				ReqId: r.ReqID, Name: r.Name, Force: r.Force}}
	case Acquire:
		m.Request = &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{
				ReqId: r.ReqID, Name: r.Name, TimeoutMillis: r.TimeoutMillis, Count: r.Count,
				Data: []byte(r.Data), Ephemeral: r.Ephemeral}}
	case Release:
		m.Request = &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
			ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{
				ReqId: r.ReqID, Name: r.Name}}
	case Describe:
		m.Request = &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{
				ReqId: r.ReqID, Name: r.Name, IncludeOwners: r.IncludeOwners, IncludeWaiters: r.IncludeWaiters,
				WatchData: r.WatchData, WatchOwners: r.WatchOwners}}
	}
	return m // with no arm for Empty
}

// ReplyOf returns a server's message in the model's terms, except pings.
func ReplyOf(m *Ydb_Coordination.SessionResponse) Reply {
	result := func(to Kind, r interface {
		GetReqId() uint64
		GetStatus() Ydb.StatusIds_StatusCode
		GetIssues() []*Ydb_Issue.IssueMessage
	}) Reply {
		return Reply{Kind: Result, To: to, ReqID: r.GetReqId(), Status: Status(r.GetStatus()),
			Text: issueText(r.GetIssues())}
	}
	switch arm := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_SessionStarted_:
		return Reply{Kind: Started, Session: arm.SessionStarted.GetSessionId()}
	case *Ydb_Coordination.SessionResponse_SessionStopped_:
		return Reply{Kind: Stopped, Session: arm.SessionStopped.GetSessionId()}
	case *Ydb_Coordination.SessionResponse_Failure_:
		return Reply{Kind: Failure, Status: Status(arm.Failure.GetStatus()),
			Text: issueText(arm.Failure.GetIssues())}
	case *Ydb_Coordination.SessionResponse_Pong:
		return Reply{Kind: PongOut, Opaque: arm.Pong.GetOpaque()}
	case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
		return Reply{Kind: Pending, ReqID: arm.AcquireSemaphorePending.GetReqId()}
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_:
		c := arm.DescribeSemaphoreChanged
		return Reply{Kind: ChangedBy, ReqID: c.GetReqId(), DataChanged: c.GetDataChanged(),
			OwnersChanged: c.GetOwnersChanged()}
	case *Ydb_Coordination.SessionResponse_CreateSemaphoreResult_:
		return result(Create, arm.CreateSemaphoreResult)
	case *Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_:
		return result(Update, arm.UpdateSemaphoreResult)
	case *Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_:
		return result(Delete, arm.DeleteSemaphoreResult)
	case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
		r := result(Acquire, arm.AcquireSemaphoreResult)
		r.Done = arm.AcquireSemaphoreResult.GetAcquired()
		return r
	case *Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_:
		r := result(Release, arm.ReleaseSemaphoreResult)
		r.Done = arm.ReleaseSemaphoreResult.GetReleased()
		return r
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_:
		r := result(Describe, arm.DescribeSemaphoreResult)
		r.WatchAdded = arm.DescribeSemaphoreResult.GetWatchAdded()
		r.Description = protoDescription(arm.DescribeSemaphoreResult.GetSemaphoreDescription())
		return r
	}
	return Reply{Kind: ReplyKind(m.String())}
}

// issueText is the text of the only issue; several are shown as what they are.
func issueText(issues []*Ydb_Issue.IssueMessage) string {
	text := ""
	for _, issue := range issues {
		text += issue.GetMessage()
	}
	return text
}

func protoDescription(d *Ydb_Coordination.SemaphoreDescription) *Description {
	if d == nil {
		return nil
	}
	return &Description{Name: d.GetName(), Data: string(d.GetData()), Count: d.GetCount(),
		Limit: d.GetLimit(), Ephemeral: d.GetEphemeral(), Owners: protoLinks(d.GetOwners()),
		Waiters: protoLinks(d.GetWaiters())}
}

func protoLinks(links []*Ydb_Coordination.SemaphoreSession) []LinkDescription {
	var list []LinkDescription
	for _, l := range links {
		list = append(list, LinkDescription{Order: l.GetOrderId(), Session: l.GetSessionId(),
			TimeoutMillis: l.GetTimeoutMillis(), Count: l.GetCount(), Data: string(l.GetData())})
	}
	return list
}
