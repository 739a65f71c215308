package server

import (
	"context"

	"google.golang.org/grpc"
)

// The values of HTTP.Console.
const (
	ConsoleOff   = "off"
	ConsoleRead  = "read"
	ConsoleWrite = "write" // it may end sessions, delete semaphores and hand over the leadership
)

// interceptors are those of calls with one request, the outermost first.
type interceptors []grpc.UnaryServerInterceptor

// call calls a handler through all of them, as gRPC does.
func (i interceptors) call(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if len(i) == 0 {
		return handler(ctx, request)
	}
	return i[0](ctx, request, info, func(ctx context.Context, request any) (any, error) {
		return i[1:].call(ctx, request, info, handler)
	})
}
