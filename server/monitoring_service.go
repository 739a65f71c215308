package server

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/discovery"
)

// monitoringService is Ydb.Monitoring.V1.MonitoringService (surface.md §5).
type monitoringService struct {
	Ydb_Monitoring_V1.UnimplementedMonitoringServiceServer
	*Server
}

// SelfCheck says how things stand as this server sees them: GOOD, or the worst of what is in the issue log. A
// server that cannot serve says EMERGENCY.
func (s monitoringService) SelfCheck(ctx context.Context,
	r *Ydb_Monitoring.SelfCheckRequest) (*Ydb_Monitoring.SelfCheckResponse, error) {
	op, err := s.calls.Operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			// does it still go on?
			answer, err := s.group.Read(ctx,
				func(*coordination.Machine) outcome.Outcome { return outcome.Done() })
			if err != nil {
				return nil, answer, err
			}
			return s.selfCheck(), answer, nil
		})
	return &Ydb_Monitoring.SelfCheckResponse{Operation: op}, err
}

// NodeCheck says the same of this server alone.
func (s monitoringService) NodeCheck(ctx context.Context,
	r *Ydb_Monitoring.NodeCheckRequest) (*Ydb_Monitoring.NodeCheckResponse, error) {
	answer, err := s.SelfCheck(ctx, &Ydb_Monitoring.SelfCheckRequest{OperationParams: r.GetOperationParams()})
	return &Ydb_Monitoring.NodeCheckResponse{Operation: answer.GetOperation()}, err
}

// selfCheck gives the issues the form of the reference: the colour of each, and the id made from colour and
// content.
func (s *Server) selfCheck() *Ydb_Monitoring.SelfCheckResult {
	result := &Ydb_Monitoring.SelfCheckResult{SelfCheckResult: Ydb_Monitoring.SelfCheck_GOOD}
	nodes := discovery.NodeNumbers(s.store.Members())
	for _, i := range s.issues() {
		if colour := gravityOf[i.gravity]; colour.result > result.SelfCheckResult {
			result.SelfCheckResult = colour.result
		}
		colour := gravityOf[i.gravity].status
		id := fnv.New32a()
		fmt.Fprint(id, i.kind, i.member)
		result.IssueLog = append(result.IssueLog, &Ydb_Monitoring.IssueLog{
			Id: fmt.Sprintf("%s-%08x", colour, id.Sum32()), Status: colour, Message: i.text,
			Type: string(i.kind), Level: 1,
			Location: &Ydb_Monitoring.Location{
				Compute:  &Ydb_Monitoring.LocationCompute{Node: &Ydb_Monitoring.LocationNode{Id: nodes[i.member]}},
				Database: &Ydb_Monitoring.LocationDatabase{Name: s.config.Database},
			},
		})
	}
	return result
}

var gravityOf = map[gravity]struct {
	status Ydb_Monitoring.StatusFlag_Status
	result Ydb_Monitoring.SelfCheck_Result
}{
	noteworthy: {Ydb_Monitoring.StatusFlag_YELLOW, Ydb_Monitoring.SelfCheck_DEGRADED},
	serious:    {Ydb_Monitoring.StatusFlag_ORANGE, Ydb_Monitoring.SelfCheck_MAINTENANCE_REQUIRED},
	fatal:      {Ydb_Monitoring.StatusFlag_RED, Ydb_Monitoring.SelfCheck_EMERGENCY},
}
