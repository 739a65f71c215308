package check

import (
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/model"
)

// requestOf returns a client's message in the model's terms, except pings and reserved arms.
func requestOf(m *Ydb_Coordination.SessionRequest) model.Request {
	switch arm := m.GetRequest().(type) {
	case *Ydb_Coordination.SessionRequest_SessionStart_:
		r := arm.SessionStart
		return model.Request{Kind: model.Start, Path: r.GetPath(), Session: r.GetSessionId(),
			TimeoutMillis: r.GetTimeoutMillis(), Description: r.GetDescription(), SeqNo: r.GetSeqNo(),
			ProtectionKey: string(r.GetProtectionKey())}
	case *Ydb_Coordination.SessionRequest_SessionStop_:
		return model.Request{Kind: model.Stop}
	case *Ydb_Coordination.SessionRequest_CreateSemaphore_:
		r := arm.CreateSemaphore
		return model.Request{Kind: model.Create, ReqID: r.GetReqId(), Name: r.GetName(), Limit: r.GetLimit(),
			Data: string(r.GetData())}
	case *Ydb_Coordination.SessionRequest_UpdateSemaphore_:
		r := arm.UpdateSemaphore
		return model.Request{Kind: model.Update, ReqID: r.GetReqId(), Name: r.GetName(), Data: string(r.GetData())}
	case *Ydb_Coordination.SessionRequest_DeleteSemaphore_:
		r := arm.DeleteSemaphore
		return model.Request{Kind: model.Delete, ReqID: r.GetReqId(), Name: r.GetName(), Force: r.GetForce()}
	case *Ydb_Coordination.SessionRequest_AcquireSemaphore_:
		r := arm.AcquireSemaphore
		return model.Request{Kind: model.Acquire, ReqID: r.GetReqId(), Name: r.GetName(),
			TimeoutMillis: r.GetTimeoutMillis(), Count: r.GetCount(), Data: string(r.GetData()),
			Ephemeral: r.GetEphemeral()}
	case *Ydb_Coordination.SessionRequest_ReleaseSemaphore_:
		r := arm.ReleaseSemaphore
		return model.Request{Kind: model.Release, ReqID: r.GetReqId(), Name: r.GetName()}
	case *Ydb_Coordination.SessionRequest_DescribeSemaphore_:
		r := arm.DescribeSemaphore
		return model.Request{Kind: model.Describe, ReqID: r.GetReqId(), Name: r.GetName(),
			IncludeOwners: r.GetIncludeOwners(), IncludeWaiters: r.GetIncludeWaiters(),
			WatchData: r.GetWatchData(), WatchOwners: r.GetWatchOwners()}
	}
	return model.Request{}
}
