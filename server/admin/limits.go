package admin

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/statelimit"
)

var errNotQuotaAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may see and set quotas: "+auth.AsAdministrator)

// administerQuotas refuses callers who may not see and set quotas.
func (s *Cluster) administerQuotas(ctx context.Context) error {
	err := s.administerNow(ctx)
	if errors.Is(err, errNotClusterAdministrator) {
		return errNotQuotaAdministrator
	}
	return err
}

// Quotas implements adminpb.ClusterServer.
func (s *Cluster) Quotas(ctx context.Context, r *adminpb.QuotasRequest) (*adminpb.QuotasStatus, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.administerQuotas(ctx); err != nil {
		return nil, err
	}
	return s.quotasOf(ctx, scheme.SplitLoose(r.GetPath()))
}

// SetQuota implements adminpb.ClusterServer.
func (s *Cluster) SetQuota(ctx context.Context, r *adminpb.SetQuotaRequest) (*adminpb.QuotasStatus, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.administerQuotas(ctx); err != nil {
		return nil, err
	}
	path := scheme.SplitLoose(r.GetPath())
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetQuota{CallID: call, Caller: s.administrator(ctx), Path: path,
			Quota: scheme.Quota{Bytes: r.GetBytes(), Entries: r.GetEntries()}}
	})
	if err := calls.GRPCStatus(ctx, answer, err); err != nil {
		return nil, err
	}
	return s.quotasOf(ctx, path)
}

// quotasOf is the quotas that bound a path.
func (s *Cluster) quotasOf(ctx context.Context, path scheme.Path) (*adminpb.QuotasStatus, error) {
	if err := s.Group.CatchUp(ctx); err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	answer, found := new(adminpb.QuotasStatus), false
	_, err := s.Group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
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

// Limits implements adminpb.ClusterServer.
func (s *Cluster) Limits(ctx context.Context, _ *adminpb.LimitsRequest) (*adminpb.LimitsStatus, error) {
	if err := s.administer(ctx); err != nil {
		return nil, err
	}
	return s.limitsStatus(), nil
}

// SetLimits implements adminpb.ClusterServer.
func (s *Cluster) SetLimits(ctx context.Context, r *adminpb.SetLimitsRequest) (*adminpb.LimitsStatus, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	if bytes := r.GetStateBytes(); bytes != 0 && bytes < statelimit.Min {
		return nil, status.Errorf(codes.InvalidArgument, "The limit of the state is %s at least",
			statelimit.SizeText(statelimit.Min))
	}
	by := s.administrator(ctx)
	limits := coordination.StateLimits{State: r.GetStateBytes()}
	if s.Group.FormatVersion() >= codec.VersionQuotas {
		limits.Reserve = coordination.ReserveOf(limits.State)
	}
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetLimits{CallID: call, Caller: by, Limits: limits}
	})
	if err := calls.GRPCStatus(ctx, answer, err); err != nil {
		return nil, err
	}
	s.Logger.Info("the limit of the state was set", "limit", statelimit.Text(s.StateLimit.Now()), "by",
		by.Subject)
	return s.limitsStatus(), nil
}

// administrator is the caller of a command that administer has let through.
func (s *Cluster) administrator(ctx context.Context) coordination.Caller {
	return coordination.Caller{Subject: auth.Of(ctx).Name, Enforced: !s.isOwner(ctx)}
}

func (s *Cluster) limitsStatus() *adminpb.LimitsStatus {
	used, now := s.Group.StateSize()
	answer := &adminpb.LimitsStatus{StateLimitBytes: now.State, StateUsedBytes: used,
		NodeLimitBytes: now.NodeBytes, ServerName: s.Name,
		ConfiguredBytes: s.StateLimit.Configured.State, MemoryBytes: s.StateLimit.Memory.Bytes,
		MemorySource: s.StateLimit.Memory.Source, ReserveBytes: now.Reserve}
	if answer.NodeLimitBytes == 0 {
		answer.NodeLimitBytes = coordination.MaxNodeBytes
	}
	return answer
}
