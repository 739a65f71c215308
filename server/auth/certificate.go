package auth

import (
	"context"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/listen"
)

// certificateSuffix makes a certificate's name another than any user's without it, as in the reference.
const certificateSuffix = "@cert"

// certificateIdentity is the identity of a caller with a verified client certificate: its common name, or
// where there is none the whole subject. It is nil without one, and if the name cannot be a subject.
func certificateIdentity(ctx context.Context) *Identity {
	state, _ := listen.TLSState(ctx)
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	subject := state.PeerCertificates[0].Subject
	name := subject.CommonName
	if name == "" {
		name = subject.String()
	}
	if name += certificateSuffix; name == certificateSuffix || !scheme.IsSubject(name) {
		return nil
	}
	return &Identity{Name: name, source: fromCertificate}
}
