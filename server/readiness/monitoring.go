package readiness

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/discovery"
)

// SelfCheck returns the health as this server sees it: GOOD, or the worst issue in the issue log, which is EMERGENCY
// for a server that cannot serve.
func (w *Watch) SelfCheck(ctx context.Context,
	r *Ydb_Monitoring.SelfCheckRequest) (*Ydb_Monitoring.SelfCheckResponse, error) {
	op, err := w.Operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			// does it still go on?
			answer, err := w.Group.Read(ctx,
				func(*coordination.Machine) outcome.Outcome { return outcome.Done() })
			if err != nil {
				return nil, answer, err
			}
			return w.selfCheck(), answer, nil
		})
	return &Ydb_Monitoring.SelfCheckResponse{Operation: op}, err
}

// NodeCheck says the same of this server alone.
func (w *Watch) NodeCheck(ctx context.Context,
	r *Ydb_Monitoring.NodeCheckRequest) (*Ydb_Monitoring.NodeCheckResponse, error) {
	answer, err := w.SelfCheck(ctx, &Ydb_Monitoring.SelfCheckRequest{OperationParams: r.GetOperationParams()})
	return &Ydb_Monitoring.NodeCheckResponse{Operation: answer.GetOperation()}, err
}

// selfCheck gives the issues the form of the reference: the colour of each, and the id made from colour and
// content.
func (w *Watch) selfCheck() *Ydb_Monitoring.SelfCheckResult {
	result := &Ydb_Monitoring.SelfCheckResult{SelfCheckResult: Ydb_Monitoring.SelfCheck_GOOD}
	nodes := discovery.NodeNumbers(w.Store.Members())
	for _, i := range w.Issues() {
		if colour := gravityOf[i.Gravity]; colour.result > result.SelfCheckResult {
			result.SelfCheckResult = colour.result
		}
		colour := gravityOf[i.Gravity].status
		id := fnv.New32a()
		fmt.Fprint(id, i.Kind, i.Member)
		result.IssueLog = append(result.IssueLog, &Ydb_Monitoring.IssueLog{
			Id: fmt.Sprintf("%s-%08x", colour, id.Sum32()), Status: colour, Message: i.Text,
			Type: string(i.Kind), Level: 1,
			Location: &Ydb_Monitoring.Location{
				Compute:  &Ydb_Monitoring.LocationCompute{Node: &Ydb_Monitoring.LocationNode{Id: nodes[i.Member]}},
				Database: &Ydb_Monitoring.LocationDatabase{Name: w.Database},
			},
		})
	}
	return result
}

var gravityOf = map[Gravity]struct {
	status Ydb_Monitoring.StatusFlag_Status
	result Ydb_Monitoring.SelfCheck_Result
}{
	noteworthy: {Ydb_Monitoring.StatusFlag_YELLOW, Ydb_Monitoring.SelfCheck_DEGRADED},
	serious:    {Ydb_Monitoring.StatusFlag_ORANGE, Ydb_Monitoring.SelfCheck_MAINTENANCE_REQUIRED},
	Fatal:      {Ydb_Monitoring.StatusFlag_RED, Ydb_Monitoring.SelfCheck_EMERGENCY},
}
