package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
)

func withConsole(config *Config) {
	withHTTP(config)
	config.HTTP.Console = ConsoleWrite
}

// browser asks a server as a page of the console does.
type browser struct {
	t     *testing.T
	s     *Server
	token string
	// header are further headers of its requests; Host is the Host header.
	header http.Header
	method string // "": POST
}

// ask makes a request. No answer may set a cookie.
func (b *browser) ask(path, body string) (*http.Response, string) {
	b.t.Helper()
	method := http.MethodPost
	if b.method != "" {
		method = b.method
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.s.HTTPAddr().String()+path,
		strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if b.token != "" {
		request.Header.Set("Authorization", "Bearer "+b.token)
	}
	for name := range b.header {
		request.Header.Set(name, b.header.Get(name))
	}
	request.Host, request.Close = b.header.Get("Host"), true
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(answer.Header["Set-Cookie"]) > 0 {
		b.t.Errorf("%s sets a cookie", path)
	}
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff"} {
		if got := answer.Header.Get(name); got != want {
			b.t.Errorf("%s: %s is %q", path, name, got)
		}
	}
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") ||
		!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		b.t.Errorf("%s: the policy is %q", path, policy)
	}
	return answer, string(text)
}

// want makes a request that has to be answered with a status and a text.
func (b *browser) want(path, body string, code int, text string) (got string) {
	b.t.Helper()
	answer, got := b.ask(path, body)
	if answer.StatusCode != code || !strings.Contains(got, text) {
		b.t.Errorf("%s %s: got %d %q, want %d and %q", path, body, answer.StatusCode, got, code, text)
	}
	return got
}

// call calls a method of gRPC.
func (b *browser) call(method string, request, into proto.Message) {
	b.t.Helper()
	body, err := protojson.Marshal(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := protojson.Unmarshal([]byte(b.want("/api"+method, string(body), http.StatusOK, "")), into); err != nil {
		b.t.Error(err)
	}
}

// signedIn returns a browser of an administrator.
func signedIn(t *testing.T, s *Server) *browser {
	t.Helper()
	b := &browser{t: t, s: s}
	b.signIn(`{"key":"` + s.http.console.NewKey() + `"}`)
	return b
}

func (b *browser) signIn(body string) (rights []string, until time.Time) {
	b.t.Helper()
	var session struct {
		Token, User string
		Rights      []string
		Until       time.Time
	}
	if err := json.Unmarshal([]byte(b.want("/api/session", body, http.StatusOK, `"token"`)), &session); err != nil {
		b.t.Fatal(err)
	}
	b.token = session.Token
	return session.Rights, session.Until
}

// TestConsoleOfAnAdministrator signs in by a key, which is good once, looks, and signs out.
func TestConsoleOfAnAdministrator(t *testing.T) {
	s, conn := startTest(t, withConsole)
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	send(t, stream, acquire(1, "lock", nil))
	next(t, stream)
	b := &browser{t: t, s: s}
	list := "/api" + adminpb.Inspect_List_FullMethodName
	b.want(list, `{"kind":"SEMAPHORES"}`, http.StatusUnauthorized, "not signed in")
	key := `{"key":"` + s.http.console.NewKey() + `"}`
	rights, until := b.signIn(key)
	if strings.Join(rights, " ") != "administrator act" || time.Until(until) < 11*time.Hour {
		t.Errorf("%v until %s", rights, until)
	}
	b.want("/api/session", key, http.StatusUnauthorized, "was used before")
	b.want("/api/session", "{}", http.StatusOK, `"user":""`)
	page := &adminpb.Page{}
	b.call(adminpb.Inspect_List_FullMethodName, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES}, page)
	if len(page.GetSemaphores()) != 1 || string(page.GetSemaphores()[0].GetName()) != "lock" {
		t.Errorf("got %v", page)
	}
	b.call(adminpb.Cluster_Status_FullMethodName, &adminpb.ClusterStatusRequest{}, &adminpb.ClusterStatus{})
	b.method = http.MethodDelete
	b.want("/api/session", "", http.StatusNoContent, "")
	b.method = ""
	b.want(list, `{}`, http.StatusUnauthorized, "not signed in")
}

// TestConsoleAnswersChangesOnly: a page that has the newest version gets no body.
func TestConsoleAnswersChangesOnly(t *testing.T) {
	s, conn := startTest(t, withConsole)
	b := signedIn(t, s)
	list, request := "/api"+adminpb.Inspect_List_FullMethodName, `{"kind":"SEMAPHORES"}`
	answer, _ := b.ask(list, request)
	b.header = http.Header{"X-Coordd-Have": {answer.Header.Get("X-Coordd-Version")}}
	if text := b.want(list, request, http.StatusNotModified, ""); text != "" {
		t.Errorf("nothing has changed: %q", text)
	}
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	send(t, stream, acquire(1, "lock", nil))
	next(t, stream)
	b.want(list, request, http.StatusOK, "semaphores")
}
