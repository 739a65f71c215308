package services

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/wire"
)

// Limiter serves Ydb.RateLimiter.V1.RateLimiterService (ratelimiter.md).
type Limiter struct {
	Ydb_RateLimiter_V1.UnimplementedRateLimiterServiceServer
	*calls.Runner
}

// ofLimiter is a request of the service.
type ofLimiter interface {
	GetOperationParams() *Ydb_Operations.OperationParams
	GetCoordinationNodePath() string
}

// CreateResource is ratelimiter.md §4.
func (s Limiter) CreateResource(ctx context.Context,
	r *Ydb_RateLimiter.CreateResourceRequest) (*Ydb_RateLimiter.CreateResourceResponse, error) {
	properties, answer := s.properties(ctx, r, r.GetResource())
	op, err := s.change(ctx, r, answer,
		func(call coordination.CallID, path scheme.Path) coordination.Command {
			return &coordination.CreateResource{CallID: call, Caller: s.Caller(ctx), Path: path,
				Resource: r.GetResource().GetResourcePath(), ResourceProperties: properties}
		})
	return &Ydb_RateLimiter.CreateResourceResponse{Operation: op}, err
}

// AlterResource replaces all properties.
func (s Limiter) AlterResource(ctx context.Context,
	r *Ydb_RateLimiter.AlterResourceRequest) (*Ydb_RateLimiter.AlterResourceResponse, error) {
	properties, answer := s.properties(ctx, r, r.GetResource())
	op, err := s.change(ctx, r, answer,
		func(call coordination.CallID, path scheme.Path) coordination.Command {
			return &coordination.AlterResource{CallID: call, Caller: s.Caller(ctx), Path: path,
				Resource: r.GetResource().GetResourcePath(), ResourceProperties: properties}
		})
	return &Ydb_RateLimiter.AlterResourceResponse{Operation: op}, err
}

// DropResource removes a resource without children.
func (s Limiter) DropResource(ctx context.Context,
	r *Ydb_RateLimiter.DropResourceRequest) (*Ydb_RateLimiter.DropResourceResponse, error) {
	op, err := s.change(ctx, r, checkPaths(ctx, r, r.GetResourcePath()),
		func(call coordination.CallID, path scheme.Path) coordination.Command {
			return &coordination.DropResource{CallID: call, Caller: s.Caller(ctx), Path: path,
				Resource: r.GetResourcePath()}
		})
	return &Ydb_RateLimiter.DropResourceResponse{Operation: op}, err
}

// DescribeResource shows a resource's own properties.
func (s Limiter) DescribeResource(ctx context.Context,
	r *Ydb_RateLimiter.DescribeResourceRequest) (*Ydb_RateLimiter.DescribeResourceResponse, error) {
	op, err := s.look(ctx, r, r.GetResourcePath(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			properties, answer, err := s.Group.DescribeResource(ctx, s.Caller(ctx),
				scheme.SplitLoose(r.GetCoordinationNodePath()), r.GetResourcePath())
			return &Ydb_RateLimiter.DescribeResourceResult{Resource: wire.Resource(r.GetResourcePath(),
				properties)}, answer, err
		})
	return &Ydb_RateLimiter.DescribeResourceResponse{Operation: op}, err
}

// ListResources lists roots, or a resource, or all below them too. The paths are sorted.
func (s Limiter) ListResources(ctx context.Context,
	r *Ydb_RateLimiter.ListResourcesRequest) (*Ydb_RateLimiter.ListResourcesResponse, error) {
	op, err := s.look(ctx, r, r.GetResourcePath(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			paths, answer, err := s.Group.ListResources(ctx, s.Caller(ctx), coordination.ResourceListing{
				Path: scheme.SplitLoose(r.GetCoordinationNodePath()), Resource: r.GetResourcePath(),
				Recursive: r.GetRecursive()})
			slices.Sort(paths)
			return &Ydb_RateLimiter.ListResourcesResult{ResourcePaths: paths}, answer, err
		})
	return &Ydb_RateLimiter.ListResourcesResponse{Operation: op}, err
}

// change runs a command of a request whose paths have been checked.
func (s Limiter) change(ctx context.Context, r ofLimiter, checked outcome.Outcome,
	build func(coordination.CallID, scheme.Path) coordination.Command) (*Ydb_Operations.Operation, error) {
	if checked.OK() && r.GetCoordinationNodePath() == "" {
		checked = emptyNodePath
	}
	return s.Command(ctx, r.GetOperationParams(), checked, func(call coordination.CallID) coordination.Command {
		return build(call, scheme.SplitLoose(r.GetCoordinationNodePath()))
	})
}

// look carries out a request that changes nothing.
func (s Limiter) look(ctx context.Context, r ofLimiter, resource string,
	do func(context.Context) (proto.Message, outcome.Outcome, error)) (*Ydb_Operations.Operation, error) {
	checked := checkPaths(ctx, r, resource)
	if checked.OK() && r.GetCoordinationNodePath() == "" {
		checked = emptyNodePath
	}
	if !checked.OK() {
		return calls.Operation(checked, nil)
	}
	return s.Operate(ctx, r.GetOperationParams(), do)
}

// properties returns the requested properties of a resource, or the reason to refuse the request early.
func (Limiter) properties(ctx context.Context, r ofLimiter,
	resource *Ydb_RateLimiter.Resource) (coordination.ResourceProperties, outcome.Outcome) {
	answer := checkPaths(ctx, r, resource.GetResourcePath())
	properties, are := wire.ResourceProperties(resource)
	if answer.OK() && !are {
		answer = outcome.Because(outcome.BadRequest, "No resource properties.")
	}
	return properties, answer
}

var (
	badResourcePath = outcome.Because(outcome.BadRequest, "Bad resource path.")
	emptyNodePath   = outcome.Because(outcome.BadRequest, "Empty path.")
)

// checkPaths is the first two checks of every call (§4). Like older servers of YDB it compares texts, not
// elements; a relative path has been resolved before.
func checkPaths(ctx context.Context, r ofLimiter, resource string) outcome.Outcome {
	path := r.GetCoordinationNodePath()
	if current, _ := calls.Database(ctx); !strings.HasPrefix(path, current) && !strings.HasPrefix(path, "/"+current) {
		return outcome.Because(outcome.BadRequest,
			fmt.Sprintf("Coordination node path: %s does not belong to current database: %s.",
				scheme.Shown(path), scheme.Shown(current)))
	}
	if !coordination.CanonicalResourcePath(resource) {
		return badResourcePath
	}
	return outcome.Done()
}
