package standin

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// order carries out an order as HTTP has it, and returns its answer as JSON, or its error.
func order(t *testing.T, s *Server, name string, values ...string) string {
	t.Helper()
	arguments := make(map[string]any)
	for i := 0; i < len(values); i += 2 {
		arguments[values[i]] = values[i+1]
	}
	result, err := s.Controls().Do(t.Context(), name, arguments)
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each order is a method, and each method that is a fault an order: what can be done from Go can be done in
// any language.
func TestOrdersAreMethods(t *testing.T) {
	s := Start(t)
	var orders []string
	help, err := s.Controls().Do(t.Context(), "help", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name := range help.(map[string]string) {
		orders = append(orders, strings.ReplaceAll(name, "-", ""))
	}
	// What is for Go alone: it takes functions or gives what lives in the test's process, is a part of dump,
	// or waits.
	notOrdered := []string{"onrequest", "faults", "controls", "in", "client", "connectionstring",
		"certificateauthority", "stop", "owners", "waiters", "sessions", "data", "awaitowners",
		"awaitwaiters", "awaitnosession", "restartempty"}
	noMethods := []string{"help", "forgetrequests", "pending", "rules", "kinds", "messages"} // of Faults
	kind := reflect.TypeOf(s)
	var methods []string
	for i := range kind.NumMethod() {
		methods = append(methods, strings.ToLower(kind.Method(i).Name))
	}
	for _, m := range methods {
		if !slices.Contains(orders, m) && !slices.Contains(notOrdered, m) {
			t.Errorf("method %s cannot be ordered", m)
		}
	}
	for _, o := range orders {
		if !slices.Contains(methods, o) && !slices.Contains(noMethods, o) {
			t.Errorf("order %s is no method", o)
		}
	}
	page, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range maps.Keys(help.(map[string]string)) {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/faults.md has nothing of %s", name)
		}
	}
}

// An order that needs several servers, a disk or a clock that stands still is refused without them, with a text that
// names the remedy.
func TestOrdersThatCannotBe(t *testing.T) {
	s := Start(t)
	for name, want := range map[string]string{
		"partition a=1 b=2": "there is one server", "full-disk": "there is no disk",
		"slow-disk d=1s":     "there is no disk",
		"full-disk server=2": "no server has been started", "advance d=1s": "--fake-time",
		"advance d=soon": "invalid duration", "restart empty=perhaps": "invalid syntax", "load text=x": "",
		"load": "", "restart all=true": "nobody wants all",
	} {
		words := strings.Fields(name)
		var values []string
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			values = append(values, key, value)
		}
		if said := order(t, s, words[0], values...); !strings.Contains(said, want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestOrders for all of a stand-in do what the methods do.
func TestOrders(t *testing.T) {
	s, _ := began(t, FakeTime())
	c := s.Client(node)
	c.Acquire("lock", Exclusive)
	c.Vanish()
	eventually(t, "the client to be gone", func() bool { return !s.Sessions(node)[0].Attached })
	if got, want := order(t, s, "dump"), s.Dump(); !strings.Contains(got, `semaphore \"lock\": all of all`) ||
		want == "" {
		t.Errorf("dump %s", got)
	}
	got := order(t, s, "advance", "d", "1m")
	for _, part := range []string{`"elapsed":"1m0s"`, `{"kind":"session expired","after":"`,
		`"node":"/local/locks","session":1`} {
		if !strings.Contains(got, part) {
			t.Errorf("advance without %s: %s", part, got)
		}
	}
	if got := order(t, s, "advance", "d", "1s"); got != `{"elapsed":"1m1s","events":[]}` {
		t.Errorf("advance: %s", got)
	}
	if got := order(t, s, "events"); !strings.Contains(got, `"semaphore":"lock"`) {
		t.Errorf("events: %s", got)
	}
	if got := order(t, s, "load", "text", "workers\n  semaphore \"leader\": 0 of 1\n"); got != "null" ||
		!strings.Contains(s.Dump(), "/local/workers") {
		t.Errorf("load: %s", got)
	}
	if got := order(t, s, "restart"); got != "null" || !strings.Contains(s.Dump(), "/local/workers") {
		t.Errorf("restart: %s", got)
	}
	if got := order(t, s, "restart", "empty", "true"); got != "null" || s.Dump() != "" {
		t.Errorf("restart empty: %s", got)
	}
}

// TestOrdersOfSeveral are the faults that one server alone cannot have.
func TestOrdersOfSeveral(t *testing.T) {
	s, conn := began(t, Servers(3))
	for _, words := range [][]string{{"partition", "a", "1", "b", "2"}, {"heal"}, {"slow-disk", "d", "1ms"},
		{"slow-disk", "server", "3", "d", "0s"},
		{"full-disk", "server", "2"}, {"full-disk", "server", "2", "full", "false"}, {"reset"}} {
		if got := order(t, s, words[0], words[1:]...); got != "null" {
			t.Errorf("%v: %s", words, got)
		}
	}
	open(t, conn, node, long, 0).locked("lock")
}

// TestRestartAfterTheEnd is refused.
func TestRestartAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	s, err := Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	controls := s.Controls()
	s.Stop()
	if _, err := controls.Do(ctx, "restart", nil); err == nil ||
		!strings.Contains(err.Error(), errStopped.Error()) {
		t.Errorf("restarted: %v", err)
	}
}
