package server

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
)

// monitoringService is Ydb.Monitoring.V1.MonitoringService (surface.md §5).
type monitoringService struct {
	Ydb_Monitoring_V1.UnimplementedMonitoringServiceServer
	*Server
}

// SelfCheck says GOOD while this server leads or is connected to the leader, EMERGENCY otherwise. The leader says DEGRADED
// while it hears nothing of a server that has a vote.
func (s monitoringService) SelfCheck(ctx context.Context, r *Ydb_Monitoring.SelfCheckRequest) (*Ydb_Monitoring.SelfCheckResponse, error) {
	op, err := s.queryWith(s.group.read, ctx, r.GetOperationParams(), func(*coordination.Machine) (proto.Message, scheme.Outcome) {
		return &Ydb_Monitoring.SelfCheckResult{SelfCheckResult: s.selfCheck()}, scheme.Done()
	})
	return &Ydb_Monitoring.SelfCheckResponse{Operation: op}, err
}

// NodeCheck says the same of this server alone.
func (s monitoringService) NodeCheck(ctx context.Context, r *Ydb_Monitoring.NodeCheckRequest) (*Ydb_Monitoring.NodeCheckResponse, error) {
	answer, err := s.SelfCheck(ctx, &Ydb_Monitoring.SelfCheckRequest{OperationParams: r.GetOperationParams()})
	return &Ydb_Monitoring.NodeCheckResponse{Operation: answer.GetOperation()}, err
}

func (s *Server) selfCheck() Ydb_Monitoring.SelfCheck_Result {
	if !s.streams.led() {
		return Ydb_Monitoring.SelfCheck_EMERGENCY
	}
	if s.streams.localLink() != nil && slices.ContainsFunc(s.store.Members(), func(m raftstore.Member) bool {
		return !m.Learner && !m.Active && m.ID != s.store.Member()
	}) {
		return Ydb_Monitoring.SelfCheck_DEGRADED
	}
	return Ydb_Monitoring.SelfCheck_GOOD
}
