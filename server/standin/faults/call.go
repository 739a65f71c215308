package faults

import (
	"context"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var kindsOfCalls = map[string]Kind{
	Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName:   CreateNode,
	Ydb_Coordination_V1.CoordinationService_AlterNode_FullMethodName:    AlterNode,
	Ydb_Coordination_V1.CoordinationService_DropNode_FullMethodName:     DropNode,
	Ydb_Coordination_V1.CoordinationService_DescribeNode_FullMethodName: DescribeNode,

	Ydb_RateLimiter_V1.RateLimiterService_CreateResource_FullMethodName:   CreateResource,
	Ydb_RateLimiter_V1.RateLimiterService_AlterResource_FullMethodName:    AlterResource,
	Ydb_RateLimiter_V1.RateLimiterService_DropResource_FullMethodName:     DropResource,
	Ydb_RateLimiter_V1.RateLimiterService_DescribeResource_FullMethodName: DescribeResource,
	Ydb_RateLimiter_V1.RateLimiterService_ListResources_FullMethodName:    ListResources,
	Ydb_RateLimiter_V1.RateLimiterService_AcquireResource_FullMethodName:  AcquireResource,
}

// Call is the interceptor for calls. It has to be the innermost.
func (s *Server) Call() grpc.UnaryServerInterceptor { return s.set.call(s.number) }

func (s *Set) call(server int) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any,
		error) {
		kind := kindsOfCalls[info.FullMethod]
		if kind == "" {
			return s.tapped(ctx, request, info, handler)
		}
		q := Request{At: time.Now(), Kind: kind, Server: server, Client: clientOf(ctx), SDK: sdkOf(ctx)}
		q.fillCall(request)
		q.Node = s.Path(q.Node)
		response, err := s.treat(ctx, &q, func() (any, error) { return s.tapped(ctx, request, info, handler) })
		s.messages.answer(&q, response, err)
		return response, err
	}
}

// treat does to a call what the faults say.
func (s *Set) treat(ctx context.Context, q *Request, execute func() (any, error)) (any, error) {
	switch a := s.decide(q); a.what {
	case actRefuse:
		return refused(q.Kind, a.refusal), nil
	case actDelay:
		if err := s.await(ctx, a.delay); err != nil {
			return nil, err
		}
	case actDrop:
		return nil, s.dropCall(q, a.how)
	case actLose, actRepeat:
		if _, err := execute(); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "the answer has been lost by a fault")
	}
	return execute()
}

// tapped executes a call.
func (s *Set) tapped(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	tap := s.tap.Load()
	if tap == nil {
		return handler(ctx, request)
	}
	done := (*tap).Call(ctx, info.FullMethod, request)
	response, err := handler(ctx, request)
	done(response, err)
	return response, err
}

// await returns when d is over on the clock of the faults.
func (s *Set) await(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	stop := s.after(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// dropCall ends a call that is not executed.
func (s *Set) dropCall(q *Request, how Drop) error {
	switch how {
	case Reset:
		s.resetConn(q.Client)
	case Silence, BlackHole:
		s.swallow(q.Client)
	}
	return status.Error(codes.Unavailable, linkFailure)
}

func refused(kind Kind, r Refusal) any {
	operation := &Ydb_Operations.Operation{Ready: true, Status: r.Status, Issues: issues(r)}
	for _, issue := range operation.Issues {
		issue.Severity = 1
	}
	switch kind {
	case CreateNode:
		return &Ydb_Coordination.CreateNodeResponse{Operation: operation}
	case AlterNode:
		return &Ydb_Coordination.AlterNodeResponse{Operation: operation}
	case DropNode:
		return &Ydb_Coordination.DropNodeResponse{Operation: operation}
	case CreateResource:
		return &Ydb_RateLimiter.CreateResourceResponse{Operation: operation}
	case AlterResource:
		return &Ydb_RateLimiter.AlterResourceResponse{Operation: operation}
	case DropResource:
		return &Ydb_RateLimiter.DropResourceResponse{Operation: operation}
	case DescribeResource:
		return &Ydb_RateLimiter.DescribeResourceResponse{Operation: operation}
	case ListResources:
		return &Ydb_RateLimiter.ListResourcesResponse{Operation: operation}
	case AcquireResource:
		return &Ydb_RateLimiter.AcquireResourceResponse{Operation: operation}
	}
	return &Ydb_Coordination.DescribeNodeResponse{Operation: operation}
}
