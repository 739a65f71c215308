package raftstore

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore/peers"
)

// errCertificate refuses a certificate that is good and belongs to somebody else.
var errCertificate = status.Error(codes.Unauthenticated,
	"the certificate is not that of a member of this cluster")

// warnOfCertificates warns of members that this one's certificate does not tell apart: it could speak for
// them, and they, where they are on its host, for it.
func (s *Store) warnOfCertificates() {
	if s.cfg.Cluster.TLS == nil {
		return
	}
	own := s.cfg.Cluster.TLS.ClientSide().Certificates
	if len(own) == 0 || len(own[0].Certificate) == 0 {
		return
	}
	certificate, err := x509.ParseCertificate(own[0].Certificate[0])
	if err != nil {
		return // the handshake says so
	}
	for _, m := range s.admission.list.Load().Conf.Members {
		if m.ID != s.identity.Member && peers.MadeFor(certificate, m.Peer) {
			s.cfg.Logger.Warn("the certificate of this server is good for another one too: give each a host name of "+
				"its own", "server", m.Name, "address", m.Peer)
		}
	}
}

// Identify refuses a caller of one of the server's own services (Cluster.Services) that says it is the member
// of an id and is not, as far as the members and the caller's certificate tell.
func (s *Store) Identify(ctx context.Context, id uint64) error {
	if s.admission == nil {
		return errUnknownHere
	}
	_, err := s.admission.identify(id, peers.CertificateOf(ctx))
	return err
}
