package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/coordd/coordd/scheme"
)

// TestCertificateIdentity: a name that could not be stored or sent as text identifies no caller.
func TestCertificateIdentity(t *testing.T) {
	longest := strings.Repeat("x", scheme.SubjectBytesMax-len(certificateSuffix))
	for name, test := range map[string]struct {
		subject pkix.Name
		want    string // empty: no identity
	}{
		"common name":   {pkix.Name{CommonName: "müller", Organization: []string{"o"}}, "müller@cert"},
		"whole subject": {pkix.Name{Organization: []string{"o"}}, "O=o@cert"},
		"no subject":    {pkix.Name{}, ""},
		"longest":       {pkix.Name{CommonName: longest}, longest + "@cert"},
		"too long":      {pkix.Name{CommonName: longest + "x"}, ""},
		"Latin-1":       {pkix.Name{CommonName: "m\xfcller"}, ""},
	} {
		certificate := &x509.Certificate{Subject: test.subject}
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate},
			VerifiedChains: [][]*x509.Certificate{{certificate}}}
		got := certificateIdentity(peer.NewContext(context.Background(),
			&peer.Peer{AuthInfo: credentials.TLSInfo{State: state}}))
		if (got == nil) != (test.want == "") || got != nil && got.Name != test.want {
			t.Errorf("%s: got %v, want %q", name, got, test.want)
		}
	}
}
