package faults_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin/faults"
)

// startHTTP is start of a stand-in that takes orders.
func startHTTP(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, Set: faults.New("/local", nil)}
	s, err := server.StartWith(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local",
		InMemory: true, HTTP: server.HTTP{Listen: "127.0.0.1:0", Faults: r.Set.Controls()}},
		hooks.Hooks{Faults: r.Set.Server(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	r.server, r.conn = s, dial(t, s)
	if got := r.createNode(node); got != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %s", got)
	}
	return r
}

// post makes a request that a stand-in takes, but for what change does to it.
func post(t *testing.T, s *server.Server, body string, change func(*http.Request)) (code int, text string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+s.HTTPAddr().String()+server.FaultsPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Coordd-Standin", "1")
	if change != nil {
		change(q)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if allowed := answer.Header.Get("Access-Control-Allow-Origin"); allowed != "" {
		t.Errorf("pages of %s may ask", allowed)
	}
	return answer.StatusCode, string(said)
}

func TestOrders(t *testing.T) {
	r := startHTTP(t)
	c := r.attach(0)
	code, text := post(t, r.server,
		`{"do":"fail-next","kind":"acquire","n":1,"status":"not_found","node":"/local/dir/node"}`, nil)
	if code != http.StatusOK || !strings.Contains(text, "Rust") {
		t.Fatal(code, text)
	}
	c.send(acquire(1, "lock"))
	if got := c.next().GetAcquireSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("got %v", got)
	}
	_, text = post(t, r.server, `{"do":"requests"}`, nil)
	var listed struct {
		Result struct{ Requests []faults.Request }
	}
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed.Result.Requests) != 3 ||
		listed.Result.Requests[2].Name != "lock" {
		t.Errorf("%v in %s", err, text)
	}
	if code, text := post(t, r.server, `{"do":"drop-streams","how":"clean","session":"1"}`,
		nil); code != http.StatusOK || text != "{\"result\":1}\n" {
		t.Error(code, text)
	}
	c.failed()
	for _, each := range []string{
		`{"do":"help"}`, `{"do":"pending"}`, `{"do":"forget-requests"}`,
		`{"do":"fail-some","kind":"update","p":0.5,"seed":3}`,
		`{"do":"delay-next","kind":"stop","d":"1s"}`, `{"do":"answer-lost","kind":"start"}`,
		`{"do":"repeat-next","kind":"create"}`,
		`{"do":"detach-session","node":"/local/dir/node","session":1,"may_miss":true}`,
		`{"do":"spurious-notice","may_miss":true}`,
		`{"do":"reset"}`,
	} {
		if code, text := post(t, r.server, each, nil); code != http.StatusOK {
			t.Error(each, code, text)
		}
	}
	if n := r.Pending(); n != 0 {
		t.Errorf("%d faults are left", n)
	}
}

// Orders that cannot be understood change nothing, and say why.
func TestWrongOrders(t *testing.T) {
	r := startHTTP(t)
	for order, want := range map[string]string{
		``:                   "EOF",
		`[]`:                 "array",
		`{}`:                 "want an object",
		`{"do":"fail"}`:      "there are answer-lost",
		`{"do":"fail-next"}`: "no requests of kind",
		`{"do":"fail-next","kind":"acquire","status":"BUSY"}`:                        "no status",
		`{"do":"fail-next","kind":"acquire","status":"OVERLOADED"}`:                  "never fails with",
		`{"do":"fail-next","kind":"acquire","status":"NOT_FOUND","n":0}`:             "at least 1",
		`{"do":"fail-next","kind":"acquire","status":"NOT_FOUND","n":"x"}`:           "n:",
		`{"do":"fail-next","kind":"acquire","status":"NOT_FOUND","sesion":4}`:        "nobody wants sesion",
		`{"do":"fail-next","kind":"acquire","status":"NOT_FOUND","session":{"a":1}}`: "want a text",
		`{"do":"drop-streams","how":"softly"}`:                                       "no way to drop",
		`{"do":"delay-next","kind":"stop","d":"-1s"}`:                                "more than 0",
		`{"do":"reset","all":true}`:                                                  "nobody wants all",
	} {
		code, text := post(t, r.server, order, nil)
		if code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %q without %q", order, code, text, want)
		}
	}
	if n := r.Pending(); n != 0 {
		t.Errorf("%d faults", n)
	}
}

// No page in anybody's browser can give orders, whatever name it has given this machine.
func TestOrdersOfOthers(t *testing.T) {
	r := startHTTP(t)
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"by GET": {func(q *http.Request) { q.Method = http.MethodGet },
			http.StatusMethodNotAllowed},
		"a preflight": {func(q *http.Request) {
			q.Method = http.MethodOptions
			q.Header.Set("Origin", "http://evil")
		}, http.StatusMethodNotAllowed},
		"without the header": {func(q *http.Request) { q.Header.Del("X-Coordd-Standin") },
			http.StatusForbidden}, "as a form": {func(q *http.Request) {
			q.Header.Set("Content-Type", "text/plain")
		}, http.StatusUnsupportedMediaType},
		"by another name": {func(q *http.Request) { q.Host = "evil.example" },
			http.StatusMisdirectedRequest},
		"by the machine's": {func(q *http.Request) { q.Host = "localhost:8765" }, http.StatusOK},
		"on another path":  {func(q *http.Request) { q.URL.Path += "/reset" }, http.StatusMethodNotAllowed},
		"far too long": {func(q *http.Request) {
			q.Body, q.ContentLength, q.GetBody = io.NopCloser(strings.NewReader(`{"do":"`+strings.Repeat("x",
				2<<20)+`"}`)), -1, nil
		}, http.StatusBadRequest},
	} {
		if code, text := post(t, r.server, `{"do":"reset"}`, c.change); code != c.want {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

// A server that serves in earnest takes no orders.
func TestNoOrdersInEarnest(t *testing.T) {
	s, err := server.Start(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local",
		InMemory: true, HTTP: server.HTTP{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if code, text := post(t, s, `{"do":"reset"}`, nil); code != http.StatusMethodNotAllowed {
		t.Error(code, text)
	}
	if code, text := post(t, s, "",
		func(q *http.Request) { q.Method = http.MethodGet }); code != http.StatusNotFound {
		t.Error(code, text)
	}
}
