package server

import (
	"context"
	"net/url"
	"slices"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"

	"github.com/coordd/coordd/scheme"
)

// discoveryService is Ydb.Discovery.V1.DiscoveryService (surface.md §1.4, §5).
type discoveryService struct {
	Ydb_Discovery_V1.UnimplementedDiscoveryServiceServer
	*Server
}

const (
	// location is told to SDKs whose balancers prefer a near data centre. All servers tell the same, so none is preferred.
	location = "local"
	// discoveredNodeID is this server's number among the endpoints: not 0, and each endpoint's own.
	discoveredNodeID = 1
)

// servedNames are the services that an endpoint lists, by the names that the filter of a request uses.
var servedNames = []string{"coordination", "scheme", "discovery", "auth"}

// ListEndpoints names this server, under the address that clients are to use for the listener on which the question
// came: SDKs drop the endpoints of the other kind.
func (s discoveryService) ListEndpoints(ctx context.Context, r *Ydb_Discovery.ListEndpointsRequest) (*Ydb_Discovery.ListEndpointsResponse, error) {
	outcome, result := scheme.Done(), &Ydb_Discovery.ListEndpointsResult{SelfLocation: location}
	switch {
	case !slices.Equal(scheme.SplitLoose(r.GetDatabase()), scheme.SplitLoose(s.config.Database)):
		outcome = refuse(scheme.NotFound, "Unknown database: "+r.GetDatabase())
	case servesAll(r.GetService()):
		host, port, ssl := s.advertisedHost, s.advertisedPort, cameByTLS(ctx)
		if ssl {
			host, port = s.tls.host, s.tls.port
		}
		result.Endpoints = []*Ydb_Discovery.EndpointInfo{{
			Address: host, Port: port, Ssl: ssl, NodeId: discoveredNodeID, Location: location, Service: servedNames,
		}}
	}
	op, err := operation(outcome, result)
	return &Ydb_Discovery.ListEndpointsResponse{Operation: op}, err
}

func servesAll(wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(servedNames, name) })
}

// WhoAmI names the caller, as the reference does: an anonymous one is an error.
func (s discoveryService) WhoAmI(ctx context.Context, r *Ydb_Discovery.WhoAmIRequest) (*Ydb_Discovery.WhoAmIResponse, error) {
	outcome, result := scheme.Done(), &Ydb_Discovery.WhoAmIResult{User: identityOf(ctx).name}
	if result.User == "" {
		outcome = refuse(scheme.GenericError, "No token provided")
	} else if r.GetIncludeGroups() {
		result.Groups = []string{scheme.AllUsers}
	}
	op, err := operation(outcome, result)
	return &Ydb_Discovery.WhoAmIResponse{Operation: op}, err
}

// unquote undoes the percent-encoding that the C++ SDK gives to a database name; other SDKs send names as they are.
func unquote(value string) string {
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}
