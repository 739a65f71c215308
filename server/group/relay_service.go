package group

import (
	"context"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/server/group/relaypb"
)

// The relay service: what the servers of a cluster say to each other for their clients. Exchange carries all client
// streams of one server to the leader and back; Execute runs one command about the path tree on the leader.
const (
	relayServiceName  = "coordd.relay.v1.Relay"
	relayExchangeName = "/" + relayServiceName + "/Exchange"
	relayExecuteName  = "/" + relayServiceName + "/Execute"
)

type (
	exchangeServer = grpc.BidiStreamingServer[relaypb.ToLeader, relaypb.FromLeader]
	exchangeClient = grpc.BidiStreamingClient[relaypb.ToLeader, relaypb.FromLeader]
)

type relayHandler interface {
	exchange(exchangeServer) error
	executeForPeer(context.Context, *relaypb.ExecuteRequest) (*relaypb.ExecuteResponse, error)
}

var exchangeDesc = grpc.StreamDesc{StreamName: "Exchange", ServerStreams: true, ClientStreams: true,
	Handler: func(srv any, stream grpc.ServerStream) error {
		return srv.(relayHandler).exchange(&grpc.GenericServerStream[relaypb.ToLeader, relaypb.FromLeader]{ServerStream: stream})
	}}

var relayServiceDesc = grpc.ServiceDesc{
	ServiceName: relayServiceName,
	HandlerType: (*relayHandler)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Execute",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			r := new(relaypb.ExecuteRequest)
			if err := decode(r); err != nil {
				return nil, err
			}
			return srv.(relayHandler).executeForPeer(ctx, r)
		}}},
	Streams: []grpc.StreamDesc{exchangeDesc},
}

func openExchange(ctx context.Context, conn *grpc.ClientConn) (exchangeClient, error) {
	stream, err := conn.NewStream(ctx, &exchangeDesc, relayExchangeName)
	if err != nil {
		return nil, err
	}
	return &grpc.GenericClientStream[relaypb.ToLeader, relaypb.FromLeader]{ClientStream: stream}, nil
}

// Services registers what the servers of a cluster say to each other about the group.
func (g *Group) Services(registrar grpc.ServiceRegistrar) {
	registrar.RegisterService(&relayServiceDesc, g)
}
