package raftstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// newPeerTLS makes an authority of its own and one certificate of it for loopback.
func newPeerTLS(t testing.TB) *peers.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "members"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return &peers.TLS{
		Server: &tls.Config{Certificates: own, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
		Client: &tls.Config{Certificates: own, RootCAs: pool, ServerName: "127.0.0.1"},
	}
}

// forStranger returns the TLS of a caller with a certificate of the same authority, but for a host that no member has.
func forStranger(t testing.TB, p *peers.TLS) *peers.TLS {
	t.Helper()
	authority := p.Server.Certificates[0]
	issuer, err := x509.ParseCertificate(authority.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "stranger"},
		NotBefore: issuer.NotBefore, NotAfter: issuer.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 9)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: issuer.ExtKeyUsage,
	}, issuer, key.Public(), authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	stranger := &peers.TLS{Server: p.Server.Clone(), Client: p.Client.Clone()}
	stranger.Client.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return stranger
}

func TestMembersWithCertificates(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	c.put("over TLS")
	c.settle()
	s := c.leader().store
	withoutCertificate := own.Client.Clone()
	withoutCertificate.Certificates = nil
	stranger := newPeerTLS(t)
	strange := own.Client.Clone()
	strange.Certificates = stranger.Client.Certificates
	for name, side := range map[string]*peers.TLS{
		"plain text":             nil,
		"without a certificate":  {Client: withoutCertificate},
		"of another authority":   {Client: strange},
		"that does not trust us": stranger,
	} {
		_, err := (&peers.GRPC{TLS: side}).Hello(testContext(t), s.cfg.Cluster.address(),
			&peerpb.HelloRequest{})
		if err == nil {
			t.Errorf("a connection %s got an answer", name)
		}
	}
}

// The certificate of a sender has to name the host that the members know. An unknown sender is refused, whatever header
// it sends.
func TestCertificateOfTheSender(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	m := c.leader()
	c.waitPublished(m)
	s, other := m.store, c.nodes[others(c.names, m.name)[0]].store
	here, elsewhere := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		&x509.Certificate{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}
	header := func(change func(h *peerpb.Header)) *peerpb.Header {
		h := endpointOf(other).Header(s.Member(), true)
		if change != nil {
			change(h)
		}
		return h
	}
	moved := func(h *peerpb.Header) { h.Address = "192.0.2.1:2380" }
	stranger := func(h *peerpb.Header) { h.From++; moved(h) }
	for name, tc := range map[string]struct {
		header      *peerpb.Header
		certificate *x509.Certificate
		good        bool
	}{
		"a member":                                {header(nil), here, true},
		"a member without a certificate":          {header(nil), nil, false},
		"a member with another's":                 {header(nil), elsewhere, false},
		"a stranger who says that he is a member": {header(moved), elsewhere, false},
		"a member that moves":                     {header(moved), here, true},
		"an unknown member":                       {header(stranger), elsewhere, false},
		"an unknown member with another's":        {header(stranger), here, false},
		"an address that is none": {
			header(func(h *peerpb.Header) { h.From++; h.Address = "nonsense" }), here, false},
	} {
		if err := endpointOf(s).judgeHeader(tc.header, tc.certificate); (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
		calls := endpointOf(s).Judge(tc.header, tc.certificate, false)
		if (calls == nil) != tc.good {
			t.Errorf("%s may call: %v", name, calls)
		}
	}
	c.settle()
}

// A server warns when its certificate is good for another member too.
func TestSharedCertificateIsWarnedOf(t *testing.T) {
	c := newGRPCCluster(t, 3, newPeerTLS(t))
	c.leader()
	c.kill("a")
	var log said
	c.configure("a", func(cfg *Config) { cfg.Logger = log.logger() })
	c.start("a")
	if n := log.count("good for another one too"); n != 2 {
		t.Errorf("%d warnings", n)
	}
	c.settle()
}

// Failed handshakes of peer connections are logged with address and reason, at a limited rate.
func TestFailedPeerHandshakesAreTold(t *testing.T) {
	t.Parallel()
	var log said
	address := testserver.Address(t)
	network := &peers.GRPC{Address: address, TLS: newPeerTLS(t), Logger: log.logger()}
	closeListener, err := network.Listen(endpoint{})
	if err != nil {
		t.Fatal(err)
	}
	strange := newPeerTLS(t).Client.Clone()
	strange.InsecureSkipVerify = true
	const calls = 30
	for range calls {
		conn, err := tls.Dial("tcp", address, strange)
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // the server judges after the client
			_ = conn.Close()
		}
		if err == nil {
			t.Error("the caller does not notice")
		}
	}
	if conn, err := net.Dial("tcp", address); err == nil { // as a server that is stopped while it connects
		_ = conn.Close()
	}
	closeListener()
	if n := log.count("a TLS handshake with another server has failed"); n < 1 || n > 8 ||
		log.count("remote=127.0.0.1:") != n || log.count("unknown authority") != n {
		t.Errorf("told %d times of %d calls", n, calls)
	}
}
