package calls

import (
	"context"
	"log/slog"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/auth"
)

// Debug returns an interceptor that logs calls with one request, their results, and durations, at debug level.
func Debug(logger *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if !logger.Enabled(ctx, slog.LevelDebug) {
			return handler(ctx, request)
		}
		begun := time.Now()
		answer, err := handler(ctx, request)
		fields := append([]any{"method", info.FullMethod}, auth.LogFields(ctx)...)
		if about, ok := request.(interface{ GetPath() string }); ok {
			fields = append(fields, "path", lograte.Cut(about.GetPath()))
		}
		text := status.Code(err).String()
		if operation, ok := OperationIn(answer); ok && err == nil {
			if text = operation.GetStatus().String(); operation.GetStatus() != Ydb.StatusIds_SUCCESS &&
				len(operation.GetIssues()) > 0 {
				fields = append(fields, "why", lograte.Cut(operation.GetIssues()[0].GetMessage()))
			}
		}
		logger.Debug("call", append(fields, "status", text, "took", time.Since(begun))...)
		return answer, err
	}
}
