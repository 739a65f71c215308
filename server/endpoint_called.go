package server

import (
	"context"
	"net"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"
)

// addressesFor is the advertised addresses as the client of a call has to be told. A server alone that listens on all
// addresses and has no advertised one cannot know what it is called where the client is: a container is
// localhost to one client and the name of a service to the next. So it answers with the name by which the
// client has called it, which has just worked.
func (s *Server) addressesFor(ctx context.Context) clientAddresses {
	addresses := s.advertised
	if s.config.Advertise != "" || s.config.Cluster.Name != "" {
		return addresses
	}
	called, ok := calledAs(ctx)
	switch {
	case !ok:
	case !cameByTLS(ctx) && onAllAddresses(s.config.Listen):
		addresses.plain = called.orPort(addresses.plain.port)
	case cameByTLS(ctx) && onAllAddresses(s.config.ListenTLS) && s.config.AdvertiseTLS == "":
		addresses.tls = called.orPort(addresses.tls.port)
	}
	return addresses
}

// calledAs is the host and, where the client gives one, the port that a call was sent to.
func calledAs(ctx context.Context) (hostPort, bool) {
	headers, _ := metadata.FromIncomingContext(ctx)
	authority := headers.Get(":authority")
	if len(authority) != 1 || len(authority[0]) > authorityBytesMax || !utf8.ValidString(authority[0]) {
		return hostPort{}, false
	}
	host, port, err := splitAdvertise(authority[0])
	if err != nil || host == "" {
		return hostPort{}, false
	}
	return hostPort{host, uint32(port)}, true
}

// authorityBytesMax is more than a host name and a port have.
const authorityBytesMax = 300

func (a hostPort) orPort(port uint32) hostPort {
	if a.port == 0 {
		a.port = port
	}
	return a
}

// onAllAddresses reports whether a listener is on all addresses of its machine.
func onAllAddresses(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
