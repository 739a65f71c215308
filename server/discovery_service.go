package server

import (
	"context"
	"slices"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
)

// discoveryService is Ydb.Discovery.V1.DiscoveryService (surface.md §1.4, §5).
type discoveryService struct {
	Ydb_Discovery_V1.UnimplementedDiscoveryServiceServer
	*Server
}

// location is told to SDKs whose balancers prefer a near data centre. All servers tell the same, so none is
// preferred.
const location = "local"

// servedNames are the services that an endpoint lists, by the names that the filter of a request uses.
var servedNames = []string{"coordination", "scheme", "discovery", "auth"}

// ListEndpoints names the servers of the cluster, in random order, under the addresses that clients are to
// use to come the way that the question came: SDKs drop the endpoints of another one. It needs no leader. SDKs keep a list for a minute or longer, so a server that cannot know all others yet waits
// before it answers (awaitEndpoints).
func (s discoveryService) ListEndpoints(ctx context.Context,
	r *Ydb_Discovery.ListEndpointsRequest) (*Ydb_Discovery.ListEndpointsResponse, error) {
	answer, result := outcome.Done(), &Ydb_Discovery.ListEndpointsResult{SelfLocation: location}
	switch {
	case !slices.Equal(scheme.SplitLoose(r.GetDatabase()), scheme.SplitLoose(s.config.Database)):
		answer = outcome.Because(outcome.NotFound, "Unknown database: "+r.GetDatabase())
	case servesAll(r.GetService()):
		s.awaitEndpoints(ctx)
		by := s.wayOf(ctx)
		for _, e := range endpoints(s.store.Members(), s.store.Member(), s.addressesFor(ctx), by,
			s.leaving.Load()) {
			result.Endpoints = append(result.Endpoints, &Ydb_Discovery.EndpointInfo{
				Address: e.at.host, Port: e.at.port, Ssl: by != byPlain, NodeId: e.node, Location: location,
				Service: servedNames,
			})
		}
		s.config.hooks.Shuffle(len(result.Endpoints), func(i, j int) {
			result.Endpoints[i], result.Endpoints[j] = result.Endpoints[j], result.Endpoints[i]
		})
	}
	op, err := calls.Operation(answer, result)
	return &Ydb_Discovery.ListEndpointsResponse{Operation: op}, err
}

// wayOf is the way that a call came. A proxy that ends TLS is known by the address that is advertised for it.
func (s *Server) wayOf(ctx context.Context) way {
	switch {
	case cameByTLS(ctx) || s.listener == nil: // the socket comes without
		return byTLS
	case s.advertised.proxied != (hostPort{}):
		return byProxy
	}
	return byPlain
}

func servesAll(wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(servedNames, name) })
}

// WhoAmI names the caller, as the reference does: an anonymous one is an error.
func (s discoveryService) WhoAmI(ctx context.Context,
	r *Ydb_Discovery.WhoAmIRequest) (*Ydb_Discovery.WhoAmIResponse, error) {
	answer, result := outcome.Done(), &Ydb_Discovery.WhoAmIResult{User: auth.Of(ctx).Name}
	if result.User == "" {
		answer = outcome.Because(outcome.GenericError, "No token provided")
	} else if r.GetIncludeGroups() {
		result.Groups = []string{scheme.AllUsers}
	}
	op, err := calls.Operation(answer, result)
	return &Ydb_Discovery.WhoAmIResponse{Operation: op}, err
}
