package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/listen"
)

// testAuthority signs the certificates of a test.
type testAuthority struct {
	t           *testing.T
	directory   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *testAuthority {
	t.Helper()
	a := &testAuthority{t: t, directory: t.TempDir()}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.certificate, a.key = a.issue("ca", template)
	return a
}

// issue makes NAME.pem and NAME-key.pem. The first certificate signs itself.
func (a *testAuthority) issue(name string, template *x509.Certificate) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if template.Subject.CommonName == "" {
		template.Subject.CommonName = name
	}
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	writeFile(a.t, a.path(name+"-key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
		Bytes: keyDER})))
	writeFile(a.t, a.path(name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: der})))
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return parsed, key
}

func (a *testAuthority) path(name string) string { return filepath.Join(a.directory, name) }

func (a *testAuthority) server(name string) *x509.Certificate {
	certificate, _ := a.issue(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"coordd.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return certificate
}

// client is a configuration that trusts the authority and shows the named certificate, if any.
func (a *testAuthority) client(name string) *tls.Config {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	config.RootCAs.AddCert(a.certificate)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+"-key.pem"))
		if err != nil {
			a.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func (a *testAuthority) configure(c *Config) {
	a.server("server")
	c.ListenTLS = "127.0.0.1:0"
	c.TLS = listen.TLSFiles{Certificate: a.path("server.pem"), Key: a.path("server-key.pem"),
		ClientCA: a.path("ca.pem")}
}

func dialTLS(t *testing.T, s *Server, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.tls.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func endpointOf(t *testing.T, ctx context.Context, conn *grpc.ClientConn) *Ydb_Discovery.EndpointInfo {
	t.Helper()
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(ctx,
		&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	if err != nil {
		t.Fatal(err)
	}
	var result Ydb_Discovery.ListEndpointsResult
	if err := answer.GetOperation().GetResult().UnmarshalTo(&result); err != nil {
		t.Fatal(err)
	}
	if len(result.GetEndpoints()) != 1 {
		t.Fatalf("got %v", &result)
	}
	return result.GetEndpoints()[0]
}

// TestDiscoveryPerListener: SDKs drop endpoints of the kind that they did not ask by.
func TestDiscoveryPerListener(t *testing.T) {
	a := newAuthority(t)
	s, plain := startTest(t, a.configure)
	if got := endpointOf(t, t.Context(), plain); got.GetSsl() ||
		got.GetPort() != uint32(s.Addr().(*net.TCPAddr).Port) || got.GetAddress() != "127.0.0.1" {
		t.Errorf("plain: got %v", got)
	}
	if got := endpointOf(t, t.Context(), dialTLS(t, s, a.client(""))); !got.GetSsl() ||
		got.GetPort() != uint32(s.tls.Addr().(*net.TCPAddr).Port) || got.GetAddress() != "127.0.0.1" {
		t.Errorf("TLS: got %v", got)
	}
	if want := "grpcs://" + s.tls.Addr().String() + "/local"; s.TLSConnectionString() != want {
		t.Errorf("got %q, want %q", s.TLSConnectionString(), want)
	}
}

// TestClientCertificates covers who is known by one, and who is turned away.
func TestClientCertificates(t *testing.T) {
	a := newAuthority(t)
	g := startGuarded(t, a.configure)
	forClient := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	a.issue("ops", &x509.Certificate{ExtKeyUsage: forClient})
	whoIs := func(ctx context.Context, config *tls.Config) (string, error) {
		t.Helper()
		over := *g
		over.conn = dialTLS(t, g.Server, config)
		who, err := over.whoAmI(ctx)
		return who.GetUser(), err
	}
	if who, err := whoIs(t.Context(), a.client("ops")); err != nil || who != "ops@cert" {
		t.Errorf("a certificate: got %q, %v", who, err)
	}
	if who, err := whoIs(g.as("token-of-alice"), a.client("ops")); err != nil || who != "alice" {
		t.Errorf("a token counts before it: got %q, %v", who, err)
	}
	if _, err := whoIs(g.as("token-of-nobody"), a.client("ops")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a bad token is not made good by it: got %v", err)
	}
	if _, err := whoIs(t.Context(), a.client("")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("no certificate: got %v", err)
	}
	foreign := newAuthority(t)
	foreign.issue("ops", &x509.Certificate{ExtKeyUsage: forClient})
	config := a.client("")
	config.Certificates = foreign.client("ops").Certificates
	if _, err := whoIs(t.Context(), config); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of another authority: got %v", err)
	}
	if _, err := whoIs(t.Context(), a.client("server")); status.Code(err) != codes.Unavailable {
		t.Errorf("a server's certificate: got %v", err)
	}
}

// TestOnlyTLS has a server without a plain listener, whose clients must have a certificate: it lists itself with
// its TLS address, and those without one do not get in.
func TestOnlyTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("ops", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	config := Config{Database: "/local", InMemory: true}
	a.configure(&config)
	config.TLS.ClientRequired = true
	s, _ := serve(t, config)
	if s.Addr() != s.tls.Addr() || s.ConnectionString() != s.TLSConnectionString() {
		t.Errorf("it listens on %s as %s", s.Addr(), s.ConnectionString())
	}
	if got := endpointOf(t, t.Context(), dialTLS(t, s, a.client("ops"))); !got.GetSsl() ||
		got.GetPort() != uint32(s.tls.Addr().(*net.TCPAddr).Port) {
		t.Errorf("got %v", got)
	}
	_, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(dialTLS(t, s, a.client(""))).ListEndpoints(t.Context(),
		&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestTLSVersions wants nothing older than 1.2, and HTTP/2 agreed on.
func TestTLSVersions(t *testing.T) {
	a := newAuthority(t)
	s, _ := startTest(t, a.configure)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false,
		tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := a.client("")
		config.MinVersion, config.MaxVersion = version, version
		conn, err := tls.Dial("tcp", s.tls.Addr().String(), config)
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
				t.Errorf("agreed on %q", got)
			}
			_ = conn.Close()
		}
	}
}

// TestCertificateReload replaces the certificate while a stream is open: new connections get it, the stream
// goes on. A file that is broken changes nothing.
func TestCertificateReload(t *testing.T) {
	a := newAuthority(t)
	s, _ := startTest(t, a.configure)
	stream := openTest(t, t.Context(), dialTLS(t, s, a.client("")), start(600_000))
	receive(t, stream)
	shown := func() *x509.Certificate {
		t.Helper()
		conn, err := tls.Dial("tcp", s.tls.Addr().String(), a.client(""))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	await := func(want *x509.Certificate) {
		t.Helper()
		eventually(t, "the certificate to be taken up", func() bool { return shown().Equal(want) })
	}
	writeFile(t, a.path("server.pem"), "nonsense")
	first := shown()
	next := a.server("server")
	await(next)
	if first.Equal(next) {
		t.Fatal("the test made the same certificate twice")
	}
	receive(t, stream)
	send(t, stream, acquire(1, "lock", nil))
	for {
		m := receive(t, stream)
		if m.GetAcquireSemaphoreResult().GetAcquired() {
			break
		}
		if m.GetFailure() != nil {
			t.Fatalf("got %v", m)
		}
	}
}

func TestConfigValidateSecurity(t *testing.T) {
	good := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, ListenTLS: ":0",
		TLS: listen.TLSFiles{Certificate: "c", Key: "k"}}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"as it is":            {func(*Config) {}, ""},
		"client authority":    {func(c *Config) { c.TLS.ClientCA = "ca" }, ""},
		"required":            {func(c *Config) { c.Auth = AuthRequired }, ""},
		"administrator":       {func(c *Config) { c.InitialAdmin, c.InitialAdminPassword = "a", "p" }, ""},
		"no listener":         {func(c *Config) { c.ListenTLS = "" }, "need an address"},
		"TLS alone":           {func(c *Config) { c.Listen = "" }, ""},
		"neither":             {func(c *Config) { *c = Config{Database: "/local", InMemory: true} }, "listen"},
		"required, of nobody": {func(c *Config) { c.TLS.ClientRequired = true }, "authorities"},
		"no key":              {func(c *Config) { c.TLS.Key = "" }, "certificate and its key"},
		"no port":             {func(c *Config) { c.ListenTLS = "localhost" }, "host:port"},
		"bad port":            {func(c *Config) { c.ListenTLS = ":65536" }, "from 0 to 65535"},
		"proxy and only TLS":  {func(c *Config) { c.Listen, c.Advertise = "", "grpcs://a:1" }, "without TLS"},
		"proxy as TLS":        {func(c *Config) { c.AdvertiseTLS = "grpcs://a:1" }, "advertise"},
		"bad advertisement":   {func(c *Config) { c.AdvertiseTLS = "a:b:c" }, "advertise"},
		"unknown mode":        {func(c *Config) { c.Auth = "on" }, "off or required"},
		"no password":         {func(c *Config) { c.InitialAdmin = "a" }, "password"},
	} {
		c := good
		test.change(&c)
		err := c.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestHTTPWithTLS serves the console with the certificate of the TLS listener, to browsers without one of their own.
func TestHTTPWithTLS(t *testing.T) {
	authority := newAuthority(t)
	s, _ := startTest(t, func(c *Config) {
		withConsole(c)
		authority.configure(c)
		c.AdvertiseTLS = "coordd.example:2135"
		c.TLS.ClientRequired = true
		c.HTTP.Listen, c.HTTP.TLS = "0.0.0.0:0", true
	})
	trust := authority.client("")
	trust.NextProtos, trust.ServerName = nil, "coordd.example"
	browser := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}}
	_, port, _ := net.SplitHostPort(s.HTTPAddr().String())
	answer, err := browser.Post("https://127.0.0.1:"+port+"/api/session", "application/json",
		strings.NewReader(`{"key":"`+s.http.console.NewKey()+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("sign in: %s", answer.Status)
	}
	if answer, err := http.Get("http://127.0.0.1:" + port + "/api/session"); err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("in clear: %s", answer.Status)
		}
	}
	if link := s.ConsoleLink(); !strings.HasPrefix(link, "https://coordd.example:"+port+"/#key=") {
		t.Error(link)
	}
	s.discovery.Advertised.TLS.Host = "server-7" // for which the certificate is not
	if link := s.ConsoleLink(); !strings.HasPrefix(link, "https://127.0.0.1:"+port+"/#key=") {
		t.Error(link)
	}
	config := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, HTTP: HTTP{TLS: true}}
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "http-tls") {
		t.Error(err)
	}
}
