package discovery

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/listen"
)

// Service serves Ydb.Discovery.V1.DiscoveryService (surface.md §1.4, §5), and announces to the other servers where
// clients reach this one. All its fields are set before the first call.
type Service struct {
	Ydb_Discovery_V1.UnimplementedDiscoveryServiceServer
	*calls.Runner
	Names
	Advertised Addresses
	Database   string
	Store      *raftstore.Store
	Logger     *slog.Logger
	// InCluster reports that other servers may name this one.
	InCluster bool
	// Reached is closed when the server is ready for the first time, Stopped when it stops; Leaving is set before.
	Reached, Stopped <-chan struct{}
	Leaving          *atomic.Bool
	Shuffle          func(n int, swap func(i, j int))
	// ListPatience is in the place of the constant, unless it is 0.
	ListPatience time.Duration
}

// location goes to SDKs whose balancers prefer a near data centre. All servers have the same one, so none is
// preferred.
const location = "local"

// servedNames are the services that an endpoint lists, by the names that the filter of a request uses.
var servedNames = []string{"coordination", "scheme", "discovery", "auth"}

// ListEndpoints names the servers of the cluster, in random order, under the addresses that clients are to
// use to come the way that the question came: SDKs drop the endpoints of another one. It needs no leader. SDKs keep
// a list for a minute or longer, so a server that cannot know all others yet waits before it answers
// (awaitEndpoints).
func (s *Service) ListEndpoints(ctx context.Context,
	r *Ydb_Discovery.ListEndpointsRequest) (*Ydb_Discovery.ListEndpointsResponse, error) {
	answer, result := outcome.Done(), &Ydb_Discovery.ListEndpointsResult{SelfLocation: location}
	switch {
	case !slices.Equal(scheme.SplitLoose(r.GetDatabase()), scheme.SplitLoose(s.Database)):
		answer = outcome.Because(outcome.NotFound, "Unknown database: "+r.GetDatabase())
	case servesAll(r.GetService()):
		s.awaitEndpoints(ctx)
		by := s.wayOf(ctx)
		for _, e := range endpoints(s.Store.Members(), s.Store.Member(), s.addressesFor(ctx), by,
			s.Leaving.Load()) {
			result.Endpoints = append(result.Endpoints, &Ydb_Discovery.EndpointInfo{
				Address: e.at.Host, Port: e.at.Port, Ssl: by != byPlain, NodeId: e.node, Location: location,
				Service: servedNames,
			})
		}
		s.Shuffle(len(result.Endpoints), func(i, j int) {
			result.Endpoints[i], result.Endpoints[j] = result.Endpoints[j], result.Endpoints[i]
		})
	}
	op, err := calls.Operation(answer, result)
	return &Ydb_Discovery.ListEndpointsResponse{Operation: op}, err
}

// wayOf is the way that a call came. A proxy that ends TLS is known by the address that is advertised for it.
func (s *Service) wayOf(ctx context.Context) way {
	switch {
	case cameByTLS(ctx) || s.Listen == "": // the socket comes without
		return byTLS
	case s.Advertised.Proxied != (HostPort{}):
		return byProxy
	}
	return byPlain
}

func servesAll(wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(servedNames, name) })
}

// WhoAmI names the caller, as the reference does: an anonymous one is an error.
func (s *Service) WhoAmI(ctx context.Context,
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

// addressesFor returns the addresses to advertise to the client of a call. A server alone that listens on all addresses
// and has no advertised one cannot know what it is called where the client is: a container is localhost to one client
// and the name of a service to the next. So it answers with the name by which the client has called it, which has just
// worked.
func (s *Service) addressesFor(ctx context.Context) Addresses {
	addresses := s.Advertised
	if s.Advertise != "" || s.InCluster {
		return addresses
	}
	called, ok := calledAs(ctx)
	switch {
	case !ok:
	case !cameByTLS(ctx) && onAllAddresses(s.Listen):
		addresses.Plain = called.orPort(addresses.Plain.Port)
	case cameByTLS(ctx) && onAllAddresses(s.ListenTLS) && s.AdvertiseTLS == "":
		addresses.TLS = called.orPort(addresses.TLS.Port)
	}
	return addresses
}

// cameByTLS reports on which listener a call came.
func cameByTLS(ctx context.Context) bool {
	_, encrypted := listen.TLSState(ctx)
	return encrypted
}

// listPatience bounds how long a call of ListEndpoints waits for a complete list. The SDKs wait 5 s or longer
// for an answer.
const listPatience = 4 * time.Second

// addressPoll is the period of looking at the addresses of other servers, which nobody announces.
const addressPoll = 20 * time.Millisecond

// Publish announces to the other servers where clients reach this one.
func (s *Service) Publish() { s.Store.Peers.SetClientAddress(s.Advertised.Text()) }

// Complete reports whether this server knows the addresses of all servers that it is connected to.
func (s *Service) Complete() bool {
	return !slices.ContainsFunc(s.Store.Members(), func(m raftstore.Member) bool { return m.Awaited })
}

// awaitEndpoints waits until this server has been ready and knows the addresses of all servers that it is
// connected to, but no longer than listPatience or until the caller's deadline.
func (s *Service) awaitEndpoints(ctx context.Context) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, cmp.Or(s.ListPatience, listPatience))
	defer cancel()
	select {
	case <-s.Reached:
		awaitState(ctx, s.Complete)
	case <-ctx.Done():
	case <-s.Stopped:
	}
}

// awaitState waits until holds reports true, and reports whether it did before ctx ended.
func awaitState(ctx context.Context, holds func() bool) bool {
	look := time.NewTicker(addressPoll)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// SendElsewhere announces to the other servers that they must not name this one any more, so that the
// clients whose streams end do not come back.
func (s *Service) SendElsewhere(ctx context.Context) {
	s.Store.Peers.SetClientAddress(raftstore.NoClients)
	if !awaitState(ctx, s.Store.Peers.Announced) {
		s.Logger.Debug("the other servers may not know yet that this one stops")
	}
}
