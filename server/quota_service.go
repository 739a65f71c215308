package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
)

var errNotQuotaAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may see and set quotas: "+auth.AsAdministrator)

// administerQuotas refuses callers who may not see and set quotas.
func (s clusterService) administerQuotas(ctx context.Context) error {
	err := s.administerNow(ctx)
	if errors.Is(err, errNotClusterAdministrator) {
		return errNotQuotaAdministrator
	}
	return err
}

// Quotas implements adminpb.ClusterServer.
func (s clusterService) Quotas(ctx context.Context, r *adminpb.QuotasRequest) (*adminpb.QuotasStatus, error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.administerQuotas(ctx); err != nil {
		return nil, err
	}
	return s.quotasOf(ctx, scheme.SplitLoose(r.GetPath()))
}

// SetQuota implements adminpb.ClusterServer.
func (s clusterService) SetQuota(ctx context.Context, r *adminpb.SetQuotaRequest) (*adminpb.QuotasStatus,
	error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.administerQuotas(ctx); err != nil {
		return nil, err
	}
	path := scheme.SplitLoose(r.GetPath())
	answer, err := s.calls.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetQuota{CallID: call, Caller: s.administrator(ctx), Path: path,
			Quota: scheme.Quota{Bytes: r.GetBytes(), Entries: r.GetEntries()}}
	})
	if err := calls.GRPCStatus(ctx, answer, err); err != nil {
		return nil, err
	}
	return s.quotasOf(ctx, path)
}

// quotasOf is the quotas that bound a path.
func (s clusterService) quotasOf(ctx context.Context, path scheme.Path) (*adminpb.QuotasStatus, error) {
	if err := s.group.CatchUp(ctx); err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	answer, found := new(adminpb.QuotasStatus), false
	_, err := s.group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		_, found = m.Tree().Lookup(path)
		for _, a := range m.Tree().Accounts(path) {
			answer.Quotas = append(answer.Quotas, &adminpb.Quota{Path: a.Path, Bytes: a.Bytes, Entries: a.Entries,
				UsedBytes: a.Used.Bytes, UsedEntries: a.Used.Entries})
		}
		return outcome.Done()
	})
	switch {
	case err != nil:
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	case !found:
		return nil, status.Error(codes.NotFound, "Path does not exist")
	}
	return answer, nil
}
