package server

import (
	"context"

	"google.golang.org/grpc"
)

// method describes a unary method of a service of our own for gRPC.
func method[Service, Request, Response any](service, name string,
	serve func(Service, context.Context, *Request) (*Response, error)) grpc.MethodDesc {
	handler := func(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		request := new(Request)
		if err := decode(request); err != nil {
			return nil, err
		}
		call := func(ctx context.Context, request any) (any, error) {
			return serve(server.(Service), ctx, request.(*Request))
		}
		if interceptor == nil { // the listener for other servers has none
			return call(ctx, request)
		}
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + service + "/" + name}
		return interceptor(ctx, request, info, call)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}
