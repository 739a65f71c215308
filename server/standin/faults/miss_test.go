package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/server/standin/faults"
)

// Every fault that names a node finds it by its path below the database, and with it.
func TestRelativePaths(t *testing.T) {
	for _, path := range []string{"dir/node", "local/dir/node", "/local/dir/node", "dir//node/", "./dir/node"} {
		t.Run(path, func(t *testing.T) {
			r := start(t)
			c := r.attach(0)
			c.send(create(1, "config"))
			c.next()
			f := faults.Filter{Node: path}
			if _, err := r.FailNext(faults.Describe, 1, Ydb.StatusIds_UNAUTHORIZED, "", faults.Where(f)); err != nil {
				t.Fatal(err)
			}
			c.send(describe(2, "config", true))
			if got := c.next().GetDescribeSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_UNAUTHORIZED {
				t.Errorf("the rule did not meet %v", got)
			}
			c.send(describe(3, "config", true))
			c.next()
			if n, err := r.SpuriousNotice(f, "config"); n != 1 || err != nil {
				t.Errorf("noticed %d: %v", n, err)
			}
			c.next()
			if n, err := r.DropStreams(f, faults.Clean); n != 1 || err != nil {
				t.Errorf("dropped %d: %v", n, err)
			}
			c.failed()
			again := r.attach(c.session)
			if err := r.ExpireSession(t.Context(), path, again.session); err != nil {
				t.Error(err)
			}
			again.failed()
			if err := r.DropNode(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
}

// A fault that meets nothing is an error that lists what it could have met, unless it may miss.
func TestFaultsThatMiss(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	elsewhere := faults.Filter{Node: "/local/jobs"}
	for name, order := range map[string]func(...faults.Option) error{
		"drop": func(more ...faults.Option) error {
			_, err := r.DropStreams(elsewhere, faults.Clean, more...)
			return err
		},
		"notice": func(more ...faults.Option) error {
			_, err := r.SpuriousNotice(elsewhere, "", more...)
			return err
		},
		"detach": func(more ...faults.Option) error { return r.DetachSession("jobs", 1, more...) },
	} {
		err := order()
		if !errors.Is(err, faults.ErrMissed) || !strings.Contains(err.Error(), "session 1 of "+node) {
			t.Errorf("%s: %v", name, err)
		}
		if err := order(faults.MayMiss()); err != nil {
			t.Errorf("%s, which may miss: %v", name, err)
		}
	}
	if err := r.ExpireSession(t.Context(), node, 77); !errors.Is(err, faults.ErrMissed) {
		t.Errorf("expire: %v", err)
	}
	if err := r.ExpireSession(t.Context(), "jobs", c.session); !errors.Is(err, faults.ErrMissed) {
		t.Errorf("expire elsewhere: %v", err)
	}
	if err := r.DropNode(t.Context(), "jobs"); !errors.Is(err, faults.ErrMissed) {
		t.Errorf("drop a node: %v", err)
	}
}

// Reset names the rules that no request has met, and what came instead. A rule that has met one of several requests,
// or whose chance has never come up, has met something.
func TestRulesThatMiss(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	add := func(troubled string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add(r.FailNext(faults.Release, 2, Ydb.StatusIds_UNAUTHORIZED, ""))
	add(r.FailSome(faults.Release, 0, 1))
	add(r.FailNext(faults.Release, 1, Ydb.StatusIds_UNAUTHORIZED, "",
		faults.Where(faults.Filter{Node: "jobs", Server: 1})))
	add(r.FailNext(faults.Stop, 1, Ydb.StatusIds_UNAVAILABLE, "", faults.MayMiss()))
	c.send(release(1, "lock"))
	c.next()
	r.OnRequest(nil)
	c.send(release(2, "lock"))
	c.next()
	c.send(release(3, "lock"))
	c.next()
	missed := r.Reset()
	if len(missed) != 1 || missed[0] != "fail-next kind=release node=/local/jobs server=1 has met no request; "+
		"of this kind came: session 1 of "+node {
		t.Errorf("missed: %q", missed)
	}
	if missed := r.Reset(); missed != nil {
		t.Errorf("missed once more: %q", missed)
	}
}

// Over HTTP what has met nothing is 404, and reset answers with the rules that have met nothing.
func TestOrdersThatMiss(t *testing.T) {
	r := start(t)
	for _, order := range []string{
		`{"do":"drop-streams","how":"clean","node":"jobs"}`, `{"do":"spurious-notice","node":"jobs"}`,
		`{"do":"detach-session","node":"jobs","session":1}`, `{"do":"expire-session","node":"jobs","session":1}`,
		`{"do":"drop-node","node":"jobs"}`,
	} {
		if code, said := r.post(order); code != http.StatusNotFound || !strings.Contains(said.Error, "/local/jobs") {
			t.Errorf("%s: %d %+v", order, code, said)
		}
	}
	if code, said := r.post(`{"do":"drop-streams","how":"clean","may_miss":true}`); code != http.StatusOK {
		t.Errorf("which may miss: %d %+v", code, said)
	}
	r.post(`{"do":"fail-next","kind":"describe","status":"UNAUTHORIZED","node":"jobs"}`)
	if _, said := r.post(`{"do":"reset"}`); len(said.Result.Missed) != 1 {
		t.Errorf("reset: %+v", said)
	}
}

// said is the answer to an order.
type said struct {
	Error  string
	Result struct{ Missed []string }
}

func (r *rig) post(order string) (code int, answer said) {
	r.Helper()
	recorder := httptest.NewRecorder()
	r.Controls().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/faults", strings.NewReader(order)))
	text := recorder.Body.Bytes()
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&answer); err != nil && recorder.Code != http.StatusOK {
		r.Fatalf("%s: %v", text, err)
	}
	return recorder.Code, answer
}
