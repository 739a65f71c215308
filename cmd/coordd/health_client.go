package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// serving asks the health service, which needs no token, and then the monitoring service for the issues. It
// reports whether the server serves, and the issues in spite of which it serves, or because of which it does not.
// An error is a reason, too: the server gave no answer.
func (c *caller) serving(ctx context.Context) (serves bool, issues []string, err error) {
	conn, err := c.Conn()
	if err != nil {
		return false, nil, err
	}
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return false, nil, c.whyNoAnswer(ctx, err)
	}
	up := health.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	check, told, err := c.selfCheck(ctx)
	switch {
	case err != nil && up:
		return false, nil, fmt.Errorf("self-check: %w", err)
	case err != nil || !told && !up:
		return false, []string{"the server says so, without a reason"}, nil
	case !told:
		return true, nil, nil
	}
	issues = issuesOf(check)
	if up && check.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_EMERGENCY {
		return true, issues, nil
	}
	if len(issues) == 0 {
		issues = []string{resultWord(check)}
	}
	return false, issues, nil
}

// selfCheck asks the monitoring service. told is false if the server does not tell this to a caller without a
// token.
func (c *caller) selfCheck(ctx context.Context) (check *Ydb_Monitoring.SelfCheckResult, told bool, err error) {
	operation, err := c.Operate(ctx, Ydb_Monitoring_V1.MonitoringService_SelfCheck_FullMethodName,
		&Ydb_Monitoring.SelfCheckRequest{
			OperationParams: &Ydb_Operations.OperationParams{OperationMode: Ydb_Operations.OperationParams_SYNC}})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return nil, false, nil
	default:
		return nil, false, c.whyNoAnswer(ctx, err)
	}
	switch operation.GetStatus() {
	case Ydb.StatusIds_SUCCESS:
		check = new(Ydb_Monitoring.SelfCheckResult)
		return check, true, operation.GetResult().UnmarshalTo(check)
	case Ydb.StatusIds_UNAUTHORIZED:
		return nil, false, nil
	default:
		words := []string{operation.GetStatus().String()}
		for _, issue := range operation.GetIssues() {
			words = append(words, issue.GetMessage())
		}
		return nil, false, errors.New(strings.Join(words, ": "))
	}
}

// issuesOf lists everything that a self-check has found wrong.
func issuesOf(check *Ydb_Monitoring.SelfCheckResult) (issues []string) {
	for _, issue := range check.GetIssueLog() {
		if issue.GetMessage() != "" {
			issues = append(issues, strings.Join(strings.Fields(issue.GetMessage()), " "))
		}
	}
	if result := check.GetSelfCheckResult(); len(issues) == 0 && result != Ydb_Monitoring.SelfCheck_GOOD &&
		result != Ydb_Monitoring.SelfCheck_UNSPECIFIED {
		issues = []string{resultWord(check)}
	}
	return issues
}

func resultWord(check *Ydb_Monitoring.SelfCheckResult) string {
	return strings.ToLower(check.GetSelfCheckResult().String())
}

// errNoAnswer is the reason of a server that took too long.
var errNoAnswer = errors.New("no answer in time")

// whyNoAnswer puts an error of a call into few words.
func (c *caller) whyNoAnswer(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return errNoAnswer
	case codes.Unimplemented:
		return errors.New("the server has no health service")
	default:
		if ctx.Err() != nil {
			return errNoAnswer
		}
		return c.at.unreached(plain(err))
	}
}
