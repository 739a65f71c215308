package group

import (
	"context"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/server/group/relaypb"
)

// relayService is what the servers of a cluster say to each other for their clients.
type relayService struct {
	relaypb.UnimplementedRelayServer
	group *Group
}

// Exchange implements relaypb.RelayServer.
func (s relayService) Exchange(rpc relaypb.Relay_ExchangeServer) error {
	return s.group.relays.Exchange(rpc)
}

// Permit implements relaypb.RelayServer.
func (s relayService) Permit(rpc relaypb.Relay_PermitServer) error {
	return s.group.relays.GivePermit(rpc)
}

// Execute implements relaypb.RelayServer.
func (s relayService) Execute(ctx context.Context, r *relaypb.ExecuteRequest) (*relaypb.ExecuteResponse, error) {
	return s.group.executeForPeer(ctx, r)
}

// Services registers what the servers of a cluster say to each other about the group.
func (g *Group) Services(registrar grpc.ServiceRegistrar) {
	relaypb.RegisterRelayServer(registrar, relayService{group: g})
	relaypb.RegisterDigestsServer(registrar, digestService{group: g})
}
