package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
)

const (
	// UnlimitedState is the state limit that there is no limit.
	UnlimitedState = math.MaxUint64
	// MinStateLimit is the least state limit that an operator may set: with less nothing can be done at all.
	MinStateLimit = 1 << 20
	// memoryPerByte is how many bytes of memory a server may take for each that its state counts: the garbage
	// collector lets the heap grow to twice what is in use.
	memoryPerByte = 2
	// roomPerByte is how much a cluster that is there already gets for each byte that is used, where the
	// default is less.
	roomPerByte = 2
	// nearlyFullPercent is how much of the limit is used when a server says so.
	nearlyFullPercent = 90
)

// stateLimit is what a server knows and has told of the limit of the state. The limit itself is part of the
// replicated state: what a server was started with counts only where the cluster has no limit yet.
type stateLimit struct {
	memory  memoryLimit
	told    atomic.Uint64 // the limit that was logged last
	refused atomic.Bool   // the first proposal was, and that was logged
}

// firstLimits is what a server sets where the cluster has no limits and so much is used. A cluster that was
// there before its limit must not come to a halt with it, unless that was asked for.
func firstLimits(configured coordination.Limits, used uint64) coordination.StateLimits {
	limits := configured.Proposed()
	if limits.State == 0 {
		limits.State = max(coordination.DefaultStateBytes, roomPerByte*used)
		limits.Reserve = coordination.ReserveOf(limits.State)
	}
	limits.Links = cmp.Or(limits.Links, coordination.MaxLinks)
	return limits
}

// setFirstLimits gives a cluster the limits that it has not, if this server leads. They are set once, by
// whichever server comes first: no server replaces what another one, or an operator, has set, so servers that
// were started with different limits cannot take turns. Before every server of the cluster can read such a
// command nothing happens.
func (s *Server) setFirstLimits(ctx context.Context) {
	used, now := s.group.StateSize()
	if !s.group.Leads() {
		return
	}
	limits := firstLimits(s.config.Limits, used)
	switch readable := s.group.FormatVersion() >= codec.VersionQuotas; {
	case now == coordination.StateLimits{}:
		if !readable {
			limits.Reserve, limits.Links = 0, 0
		}
	case !readable:
		return
	case now.State != 0 && now.Reserve == 0: // set by servers of an older version
		limits = coordination.StateLimits{Reserve: coordination.ReserveOf(now.State)}
	case now.Links == 0:
		limits = coordination.StateLimits{Links: limits.Links}
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, calls.Patience)
	defer cancel()
	answer, err := s.calls.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetLimits{CallID: call, Limits: limits,
			OnlyFirst: limits.State != 0 || limits.Links != 0}
	})
	if err == nil && !answer.OK() && len(answer.Issues) > 0 && !s.stateLimit.refused.Swap(true) {
		s.config.Logger.Info("the limit of the state is not set yet", "reason", answer.Issues[0].Message)
	}
}

// tellStateLimit logs the limit when it is known and when it has changed, and what an operator should know of
// it.
func (s *Server) tellStateLimit() {
	used, now := s.group.StateSize()
	if now.State == 0 || s.stateLimit.told.Swap(now.State) == now.State {
		return
	}
	logger, own := s.config.Logger, s.config.Limits.State
	logger.Info("limit of the state", "limit", stateLimitText(now.State), "used", sizeText(used))
	if own != 0 && own != now.State {
		logger.Warn(
			"this server was started with another --state-limit than the cluster has; the cluster's counts, "+
				"and `coordd cluster limits --state` changes it", "cluster", stateLimitText(now.State),
			"this_server", stateLimitText(own))
	}
	if text := s.memoryIssue(); text != "" {
		logger.Warn(text)
	}
}

// memoryIssue says that this server may run out of memory before the state reaches its limit; empty if it may
// not, as far as it knows.
func (s *Server) memoryIssue() string {
	memory, limit := s.stateLimit.memory, s.stateLimitNow()
	if limit == 0 || memory.bytes == 0 || limit <= memory.bytes/memoryPerByte {
		return ""
	}
	return fmt.Sprintf("the state may take more memory than this server has: its limit is %s, twice that may be needed, and there are %s (%s)",
		stateLimitText(limit), sizeText(memory.bytes), memory.source)
}

// fullnessIssue says that the state is nearly as large as it may be; empty if it is not.
func (s *Server) fullnessIssue() string {
	used, now := s.group.StateSize()
	if now.State == 0 || used < now.State/100*nearlyFullPercent {
		return ""
	}
	return fmt.Sprintf("the state is nearly full: %s of %s are used, and beyond that nothing new is accepted",
		sizeText(used), stateLimitText(now.State))
}

func (s *Server) stateLimitNow() uint64 {
	_, now := s.group.StateSize()
	return now.State
}

// Limits implements adminpb.ClusterServer.
func (s clusterService) Limits(ctx context.Context, _ *adminpb.LimitsRequest) (*adminpb.LimitsStatus, error) {
	if err := s.administer(ctx); err != nil {
		return nil, err
	}
	return s.limitsStatus(), nil
}

// SetLimits implements adminpb.ClusterServer.
func (s clusterService) SetLimits(ctx context.Context, r *adminpb.SetLimitsRequest) (*adminpb.LimitsStatus,
	error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	if bytes := r.GetStateBytes(); bytes != 0 && bytes < MinStateLimit {
		return nil, status.Errorf(codes.InvalidArgument, "The limit of the state is %s at least",
			sizeText(MinStateLimit))
	}
	by := s.administrator(ctx)
	limits := coordination.StateLimits{State: r.GetStateBytes()}
	if s.group.FormatVersion() >= codec.VersionQuotas {
		limits.Reserve = coordination.ReserveOf(limits.State)
	}
	answer, err := s.calls.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetLimits{CallID: call, Caller: by, Limits: limits}
	})
	if err := calls.GRPCStatus(ctx, answer, err); err != nil {
		return nil, err
	}
	s.config.Logger.Info("the limit of the state was set", "limit", stateLimitText(s.stateLimitNow()), "by",
		by.Subject)
	return s.limitsStatus(), nil
}

// administrator is the caller of a command that administer has let through.
func (s clusterService) administrator(ctx context.Context) coordination.Caller {
	return coordination.Caller{Subject: auth.Of(ctx).Name, Enforced: !s.isOwner(ctx)}
}

func (s *Server) limitsStatus() *adminpb.LimitsStatus {
	used, now := s.group.StateSize()
	answer := &adminpb.LimitsStatus{StateLimitBytes: now.State, StateUsedBytes: used,
		NodeLimitBytes: now.NodeBytes, ServerName: s.config.Cluster.Name,
		ConfiguredBytes: s.config.Limits.State, MemoryBytes: s.stateLimit.memory.bytes,
		MemorySource: s.stateLimit.memory.source, ReserveBytes: now.Reserve}
	if answer.NodeLimitBytes == 0 {
		answer.NodeLimitBytes = coordination.MaxNodeBytes
	}
	return answer
}

func stateLimitText(bytes uint64) string {
	if bytes == UnlimitedState {
		return "unlimited"
	}
	return sizeText(bytes)
}
