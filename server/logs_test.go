package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/listen"
)

// logger writes everything, also what is for debugging.
func (l *logText) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with counts the lines that have all of the parts.
func (l *logText) with(parts ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

// TestRefusedCallersAreTold expects callers that try passwords and tokens in the log, with the address, and however
// often they try, only a few lines, with the number of suppressed ones.
func TestRefusedCallersAreTold(t *testing.T) {
	log := &logText{}
	g := startGuarded(t, func(c *Config) { c.Logger = log.logger() })
	login := func(user, password string) {
		t.Helper()
		answer, err := Ydb_Auth_V1.NewAuthServiceClient(g.conn).Login(t.Context(),
			&Ydb_Auth.LoginRequest{User: user, Password: password})
		if err != nil || answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
			t.Fatalf("got %v, %v", answer, err)
		}
	}
	login("root", "a wrong word")
	if log.with("level=WARN", "a login was refused", "user=root", "remote=127.0.0.1:", `why="wrong password"`,
		`"not told before"=0`) != 1 {
		t.Errorf("log:\n%s", log.String())
	}
	const attempts = 200
	for range attempts {
		login("a password in the wrong place\nlevel=ERROR", "a wrong word")
	}
	if n := log.with("a login was refused"); n > 10 {
		t.Errorf("told %d times of %d logins", n, attempts)
	}
	scheme := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn)
	for token, want := range map[string]string{"a-bad-token": "Access denied",
		"": "Authentication is required"} {
		for range attempts {
			_, err := scheme.ListDirectory(g.as(token), &Ydb_Scheme.ListDirectoryRequest{Path: "/local"})
			if status.Code(err) != codes.Unauthenticated {
				t.Fatalf("%q, %s: %v", token, want, err)
			}
		}
	}
	if n := log.with("a caller was refused", "remote=127.0.0.1:", "why=", `"not told before"=`); n < 1 ||
		n > 10 {
		t.Errorf("told %d times of callers:\n%s", n, log.String())
	}
	for _, secret := range []string{"a wrong word", "a password in the wrong place", "a-bad-token"} {
		if log.has(secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// TestPermissionsAreAudited wants each change of permissions in the log, with who made it, also what was
// refused.
func TestPermissionsAreAudited(t *testing.T) {
	log := &logText{}
	g := startGuarded(t, func(c *Config) { c.Logger = log.logger() })
	g.permit(testNode, granting("alice", "ydb.generic.read"))
	if log.with("level=INFO", "msg=administration ", "act=SchemeService/ModifyPermissions",
		"target=\""+testNode+": grant alice ydb.generic.read\"", "user=root", "from=127.0.0.1:") != 1 {
		t.Errorf("log:\n%s", log.String())
	}
	const attempts = 100
	for range attempts {
		answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).ModifyPermissions(g.as("token-of-bob"),
			&Ydb_Scheme.ModifyPermissionsRequest{
				Path: testNode, Actions: []*Ydb_Scheme.PermissionsAction{granting("bob",
					strings.Repeat("x", 1000))}})
		if err != nil || answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
			t.Fatalf("got %v, %v", answer, err)
		}
	}
	if n := log.with("level=WARN", "msg=\"administration ", "user=bob", "grant bob",
		`"not told before"=`); n < 1 || n > 10 {
		t.Errorf("told %d times of %d refusals:\n%s", n, attempts, log.String())
	}
	if log.has(strings.Repeat("x", 129)) {
		t.Error("what a client has chosen is not cut")
	}
}

// TestRepeatedActsAreThinned has a user who may grant change the same permissions again and again, and an
// administrator fail again and again: neither can fill the log.
func TestRepeatedActsAreThinned(t *testing.T) {
	log := &logText{}
	g := startGuarded(t, func(c *Config) { c.Logger = log.logger() })
	g.permit(testNode, granting("bob", "ydb.generic.use"))
	const attempts = 100
	change := func(token, path string, want Ydb.StatusIds_StatusCode) {
		t.Helper()
		for i := range attempts {
			action := granting("carol", "ydb.generic.read")
			if i%2 == 1 {
				action = revoking("carol", "ydb.generic.read")
			}
			answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).ModifyPermissions(g.as(token),
				&Ydb_Scheme.ModifyPermissionsRequest{Path: path, Actions: []*Ydb_Scheme.PermissionsAction{action}})
			if err != nil || answer.GetOperation().GetStatus() != want {
				t.Fatalf("got %v, %v", answer, err)
			}
		}
	}
	change("token-of-bob", testNode, Ydb.StatusIds_SUCCESS)
	change("token-of-root", "/local/none", Ydb.StatusIds_SCHEME_ERROR)
	for _, user := range []string{"bob", "root"} {
		if n := log.with("act=SchemeService/ModifyPermissions", "carol", "user="+user); n < 2 || n > 20 {
			t.Errorf("%d lines of %d acts of %s", n, attempts, user)
		}
	}
}

// TestFailedHandshakesAreTold has clients that speak plain text, or do not trust the certificate, and one
// that says nothing.
func TestFailedHandshakesAreTold(t *testing.T) {
	log := &logText{}
	authority := newAuthority(t)
	authority.server("server")
	s, _ := startTest(t, func(c *Config) {
		c.Logger, c.ListenTLS = log.logger(), "127.0.0.1:0"
		c.TLS = listen.TLSFiles{Certificate: authority.path("server.pem"),
			Key: authority.path("server-key.pem")}
	})
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", s.tls.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	silent := dial()
	_ = silent.Close()
	eventually(t, "the one that said nothing", func() bool {
		return log.with("level=DEBUG", "a TLS handshake has failed", "remote="+silent.LocalAddr().String(),
			"the client closed the connection") == 1
	})
	plain := dial()
	fmt.Fprint(plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_, _ = io.ReadAll(plain)
	eventually(t, "the one with plain text", func() bool {
		return log.with("level=WARN", "a TLS handshake has failed", "remote="+plain.LocalAddr().String(),
			"the client speaks plain text, as with grpc:// in the place of grpcs://") == 1
	})
	const attempts = 50
	for range attempts {
		conn := tls.Client(dial(), &tls.Config{ServerName: "localhost"})
		if err := conn.HandshakeContext(context.Background()); err == nil {
			t.Fatal("the certificate was trusted")
		}
		_ = conn.Close()
	}
	if n := log.with("a TLS handshake has failed"); n > 10 {
		t.Errorf("told %d times of %d handshakes", n, attempts)
	}
}
