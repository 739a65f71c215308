package faults_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/server/standin/faults"
)

// lineOf shortens a message to the fields that a chart shows.
func lineOf(m faults.Message) string {
	words := []string{string(m.From), m.What}
	for _, word := range []string{m.Name, m.Text, m.Status, m.Fault, m.Error, string(m.Result)} {
		if word != "" {
			words = append(words, word)
		}
	}
	if m.Lost {
		words = append(words, "lost")
	}
	return strings.Join(words, " ")
}

func (r *rig) briefly(after uint64) (list []string) {
	for _, m := range r.Messages(after) {
		list = append(list, lineOf(m))
	}
	return list
}

// The messages of both sides are listed in their order, with the orders between them, and the rules with what each has
// met.
func TestMessages(t *testing.T) {
	r := start(t)
	orders := r.Set.Controls()
	order := func(name string, values map[string]any) {
		t.Helper()
		_, err := orders.Do(t.Context(), name, values)
		if err != nil && !errors.Is(err, faults.ErrMissed) {
			t.Fatal(err)
		}
	}
	c := r.attach(0)
	order("fail-next", map[string]any{"kind": "release", "status": "UNAUTHORIZED"})
	order("pending", nil) // a look is no message
	c.send(release(1, "lock"))
	c.next()
	order("answer-lost", map[string]any{"kind": "release"})
	c.send(release(2, "lock"))
	for range c.got {
	}
	order("delay-next", map[string]any{"kind": "create", "d": "1s", "node": "/local/other"})
	order("reset", nil)
	order("drop-streams", map[string]any{"how": "clean", "node": "/local/other"})
	trouble := `{"troubled":"Rust: the session ends; Go: no error"}`
	want := []string{"client start", "server started",
		"order fail-next kind=release status=UNAUTHORIZED " + trouble, "client release lock fail-next",
		"server not released lock UNAUTHORIZED", "order answer-lost kind=release", "client release lock answer-lost",
		"server released lock lost", "server end the answer has been lost by a fault Unavailable",
		"order delay-next d=1s kind=create node=/local/other"}
	got := r.briefly(0)
	if !slices.Equal(got[:min(len(got), len(want))], want) {
		t.Errorf("messages:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, what := range []string{"order reset {\"missed\":",
		"order drop-streams how=clean node=/local/other a stream "} {
		if at := len(want) + i; at >= len(got) || !strings.HasPrefix(got[at], what) {
			t.Errorf("message %d of\n%s\nwant %s…", at, strings.Join(got, "\n"), what)
		}
	}
	var rules []string
	for _, rule := range r.Rules() {
		rules = append(rules,
			fmt.Sprintf("%s %s left %d hits %d %v", rule.Order, rule.Text, rule.Left, rule.Hits, rule.Over))
	}
	if want := []string{"fail-next kind=release n=1 status=UNAUTHORIZED left 0 hits 1 true",
		"answer-lost kind=release n=1 left 0 hits 1 true",
		"delay-next kind=create n=1 d=1s node=/local/other left 1 hits 0 true"}; !slices.Equal(rules, want) {
		t.Errorf("rules:\n%s\nwant\n%s", strings.Join(rules, "\n"), strings.Join(want, "\n"))
	}
}

// The messages are bounded, and so are the rules that are over.
func TestMessagesAreBounded(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	if list := r.Messages(0); len(list) != 0 { // nobody has looked so far, and there are no orders
		t.Errorf("unwatched messages are remembered: %v", list)
	}
	for i := range uint64(150) {
		if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_UNAUTHORIZED, ""); err != nil {
			t.Fatal(err)
		}
		c.send(release(i+1, strings.Repeat("x", 1000)))
		c.next()
	}
	list := r.Messages(0)
	if len(list) != 200 || list[0].Number+199 != list[199].Number || len(list[0].Name) > 300 {
		t.Errorf("%d messages, from %+v to %+v", len(list), list[0], list[len(list)-1])
	}
	if rest := r.Messages(list[196].Number); len(rest) != 3 || rest[0].Number != list[197].Number {
		t.Errorf("after %d: %v", list[196].Number, rest)
	}
	if rules := r.Rules(); len(rules) != 51 {
		t.Errorf("%d rules", len(rules))
	}
}
