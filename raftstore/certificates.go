package raftstore

import (
	"crypto/x509"
)

// warnOfCertificates warns of members that this one's certificate does not tell apart: it could speak for them, and they,
// where they are on its host, for it.
func (s *Store) warnOfCertificates() {
	if s.cfg.Cluster.TLS == nil {
		return
	}
	own := s.cfg.Cluster.TLS.clientSide().Certificates
	if len(own) == 0 || len(own[0].Certificate) == 0 {
		return
	}
	certificate, err := x509.ParseCertificate(own[0].Certificate[0])
	if err != nil {
		return // the handshake says so
	}
	for _, m := range s.tail.lastConf().Members {
		if m.ID != s.identity.Member && madeFor(certificate, m.Peer) {
			s.cfg.Logger.Warn("the certificate of this server is good for another one too: give each a host name of its own",
				"server", m.Name, "address", m.Peer)
		}
	}
}
