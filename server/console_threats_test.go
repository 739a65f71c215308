package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/adminpb"
)

const (
	listPath    = "/api" + adminpb.Inspect_List_FullMethodName
	endPath     = "/api" + adminpb.Inspect_EndSession_FullMethodName
	sessionPage = "/api/session"
)

// TestConsoleThreats makes requests as pages of others, and broken ones, with a token that is good.
func TestConsoleThreats(t *testing.T) {
	s, _ := startTest(t, withConsole)
	for name, test := range map[string]struct {
		header     http.Header
		method     string
		path, body string
		code       int
		text       string
	}{
		"rebinding": {header: http.Header{"Host": {"evil.example"}}, path: listPath,
			code: http.StatusMisdirectedRequest, text: "does not go by the name"},
		"rebinding of the page": {header: http.Header{"Host": {"evil.example"}}, method: http.MethodGet, path: "/",
			code: http.StatusMisdirectedRequest},
		"another origin": {header: http.Header{"Origin": {"https://evil.example"}}, path: endPath, body: "{}",
			code: http.StatusForbidden},
		"another site": {header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, path: endPath, body: "{}",
			code: http.StatusForbidden},
		"another port of this machine": {header: http.Header{"Origin": {"http://127.0.0.1:1"}}, path: sessionPage,
			body: "{}", code: http.StatusForbidden},
		"a form": {header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, path: endPath,
			code: http.StatusUnsupportedMediaType},
		"a text": {header: http.Header{"Content-Type": {"text/plain"}}, path: endPath, body: "{}",
			code: http.StatusUnsupportedMediaType},
		"a link":         {method: http.MethodGet, path: listPath, code: http.StatusMethodNotAllowed},
		"a large body":   {path: listPath, body: strings.Repeat(" ", 64<<10+1), code: http.StatusRequestEntityTooLarge},
		"a broken body":  {path: listPath, body: `{"kind":`, code: http.StatusBadRequest, text: "InvalidArgument"},
		"a wrong field":  {path: listPath, body: `{"knid":1}`, code: http.StatusBadRequest, text: "knid"},
		"no such method": {path: "/api/grpc.health.v1.Health/Check", body: "{}", code: http.StatusNotFound},
		"a method of gRPC alone": {path: "/api" + adminpb.Users_List_FullMethodName, body: "{}",
			code: http.StatusNotFound},
		"no reason": {path: endPath, body: `{"path":"/local/node","session":"1","reason":" "}`,
			code: http.StatusBadRequest, text: "reason: want a text"},
		"a reason that nobody sees": {path: endPath,
			body: `{"path":"/local/node","session":"1","reason":"\u200b\u202e"}`,
			code: http.StatusBadRequest, text: "reason: want a text"},
		"a reason that the log would cut": {path: endPath, body: `{"path":"/local/node","session":"1","reason":"` +
			strings.Repeat("ж", 65) + `"}`, code: http.StatusBadRequest, text: "at most 128 bytes"},
		"the page": {method: http.MethodGet, path: "/", code: http.StatusOK, text: "<!doctype html>"},
	} {
		t.Run(name, func(t *testing.T) {
			b := signedIn(t, s)
			b.header, b.method = test.header, test.method
			b.want(test.path, test.body, test.code, test.text)
		})
	}
}

// TestConsoleFilesAreCached: a browser asks whether it has the newest files.
func TestConsoleFilesAreCached(t *testing.T) {
	s, _ := startTest(t, withConsole)
	b := &browser{t: t, s: s, method: http.MethodGet}
	answer, _ := b.ask("/console/main.mjs", "")
	if got := answer.Header.Get("Cache-Control") + answer.Header.Get("Content-Type"); answer.StatusCode !=
		http.StatusOK || got != "no-cachetext/javascript; charset=utf-8" {
		t.Errorf("%s %q", answer.Status, got)
	}
	b.header = http.Header{"If-None-Match": {answer.Header.Get("ETag")}}
	b.want("/console/main.mjs", "", http.StatusNotModified, "")
	b.want("/console/other.mjs", "", http.StatusNotFound, "")
}

// TestConsoleOfAUser signs in by a password. The token is good for the console alone, for what the user may see, and
// until the password is another one.
func TestConsoleOfAUser(t *testing.T) {
	g := startGuarded(t, withConsole)
	b := &browser{t: t, s: g.Server}
	b.want(sessionPage, `{"user":"root","password":"wrong"}`, http.StatusUnauthorized, "Invalid user or password")
	b.want(sessionPage, `{"user":"nobody","password":"wrong"}`, http.StatusUnauthorized, "Invalid user or password")
	b.want(sessionPage, `{"name":"root"}`, http.StatusBadRequest, "session: want")
	rights, _ := b.signIn(`{"user":"root","password":"` + rootPassword + `"}`)
	if strings.Join(rights, " ") != "administrator act" {
		t.Errorf("rights: %v", rights)
	}
	b.want(listPath, `{"kind":"NODES"}`, http.StatusOK, testNode)

	users := adminpb.NewUsersClient(g.conn)
	if _, err := users.List(g.as(b.token), &adminpb.ListRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a token of the console in gRPC: %v", err)
	}
	login, err := Ydb_Auth_V1.NewAuthServiceClient(g.conn).Login(t.Context(),
		&Ydb_Auth.LoginRequest{User: "root", Password: rootPassword})
	var result Ydb_Auth.LoginResult
	if err != nil || login.GetOperation().GetResult().UnmarshalTo(&result) != nil {
		t.Fatal(login, err)
	}
	foreign := &browser{t: t, s: g.Server, token: result.GetToken()}
	foreign.want(listPath, `{"kind":"NODES"}`, http.StatusUnauthorized, "not signed in")
	foreign.token = "token-of-root"
	foreign.want(listPath, `{"kind":"NODES"}`, http.StatusUnauthorized, "not signed in")

	as := func() context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "x-ydb-auth-ticket", "token-of-root")
	}
	if _, err := users.Add(as(), &adminpb.AddRequest{Name: "eve", Password: "eve's password"}); err != nil {
		t.Fatal(err)
	}
	eve := &browser{t: t, s: g.Server}
	if rights, _ := eve.signIn(`{"user":"eve","password":"eve's password"}`); strings.Join(rights, " ") != "act" {
		t.Errorf("rights: %v", rights)
	}
	eve.want(listPath, `{"kind":"NODES"}`, http.StatusOK, "{}")
	eve.want(endPath, `{"path":"`+testNode+`","session":"1","reason":"because"}`, http.StatusNotFound, "")
	eve.want("/api"+adminpb.Cluster_TransferLeader_FullMethodName, `{"reason":"because"}`, http.StatusForbidden,
		"Only administrators")
	other := &browser{t: t, s: g.Server}
	other.signIn(`{"user":"eve","password":"eve's password"}`)
	other.method = http.MethodDelete
	other.want(sessionPage, "", http.StatusNoContent, "")
	other.method = ""
	other.want(listPath, `{"kind":"NODES"}`, http.StatusUnauthorized, "not signed in")
	if _, err := users.Remove(as(), &adminpb.RemoveRequest{Name: "eve"}); err != nil {
		t.Fatal(err)
	}
	eve.want(listPath, `{"kind":"NODES"}`, http.StatusUnauthorized, "not signed in")
	if _, err := users.SetPassword(as(), &adminpb.SetPasswordRequest{Name: "root", Password: "another password",
		OwnPassword: rootPassword}); err != nil {
		t.Fatal(err)
	}
	b.want(listPath, `{"kind":"NODES"}`, http.StatusUnauthorized, "not signed in")
}

// TestConsoleIsNotForGuessing: after a few wrong passwords of a user the source has to wait.
func TestConsoleIsNotForGuessing(t *testing.T) {
	g := startGuarded(t, withConsole)
	b := &browser{t: t, s: g.Server}
	for i := range 5 { // a browser names no other source
		other := fmt.Sprint("192.0.2.", i)
		b.header = http.Header{"X-Forwarded-For": {other}, "X-Real-IP": {other}, "Forwarded": {"for=" + other}}
		b.want(sessionPage, `{"user":"root","password":"wrong"}`, http.StatusUnauthorized, "Invalid user or password")
	}
	b.want(sessionPage, `{"user":"root","password":"`+rootPassword+`"}`, http.StatusTooManyRequests, "try again")
	b.want(sessionPage, `{"key":"guessed"}`, http.StatusUnauthorized, "was used before")
}

// TestConsoleInClear: secrets do not cross a network unencrypted.
func TestConsoleInClear(t *testing.T) {
	s, _ := startTest(t, func(config *Config) {
		withConsole(config)
		config.HTTP.Listen = "0.0.0.0:0"
	})
	b := &browser{t: t, s: s}
	for host, code := range map[string]int{"192.0.2.1:8765": http.StatusForbidden,
		"[2001:db8::1]:8765": http.StatusForbidden, "10.0.0.1": http.StatusForbidden,
		"localhost:8765": http.StatusOK, "127.0.0.1:9": http.StatusOK, "[::1]:8765": http.StatusOK} {
		b.header = http.Header{"Host": {host}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"localhost"}}
		if got, text := b.ask(sessionPage, `{"key":"`+s.http.console.NewKey()+`"}`); got.StatusCode != code ||
			code == http.StatusForbidden && !strings.Contains(text, "--http-tls") {
			t.Errorf("%s: %s %s", host, got.Status, text)
		}
	}
}

// TestReadOnlyConsole: without --console=write nothing is changed, whatever the user's rights.
func TestReadOnlyConsole(t *testing.T) {
	s, _ := startTest(t, func(config *Config) {
		withHTTP(config)
		config.HTTP.Console = ConsoleRead
	})
	b := signedIn(t, s)
	for _, method := range []string{adminpb.Inspect_EndSession_FullMethodName,
		adminpb.Inspect_DeleteSemaphore_FullMethodName, adminpb.Cluster_TransferLeader_FullMethodName} {
		b.want("/api"+method, `{"reason":"because"}`, http.StatusForbidden, "--console=write")
	}
	off, _ := startTest(t, withHTTP)
	if code, _ := askHTTP(t, off, "/", "localhost"); code != http.StatusNotFound || off.ConsoleLink() != "" {
		t.Errorf("a server without a console answers %d, %q", code, off.ConsoleLink())
	}
}

// TestReasonIsWholeInTheLog: the reason of an act is in the log to its end, however long the path is.
func TestReasonIsWholeInTheLog(t *testing.T) {
	var log logText
	s, _ := startTest(t, func(config *Config) {
		withConsole(config)
		config.Logger = log.logger()
	})
	reason := strings.Repeat("because ", 15) + "it hangs"
	signedIn(t, s).want(endPath, fmt.Sprintf(`{"path":"/local/%s","session":"1","reason":%q}`,
		strings.Repeat("long/", 20), reason), http.StatusNotFound, "")
	if text := log.String(); !strings.Contains(text, reason) {
		t.Errorf("the log has no reason, or a part of it:\n%s", text)
	}
}
