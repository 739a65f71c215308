package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
)

// tampering is the pure target with a fault: fault sees every event and returns what comes in its place.
type tampering struct {
	Pure
	fault func(Event) []Event
}

func (t *tampering) Open(ctx context.Context, name string, limits coordination.Limits) (Environment, error) {
	env, err := t.Pure.Open(ctx, name, limits)
	return &tamperingEnvironment{Environment: env, fault: t.fault}, err
}

type tamperingEnvironment struct {
	Environment
	fault func(Event) []Event
	ready []Event
}

func (e *tamperingEnvironment) Next(ctx context.Context) (Event, bool) {
	for len(e.ready) == 0 {
		event, ok := e.Environment.Next(ctx)
		if !ok {
			return Event{}, false
		}
		e.ready = e.fault(event)
	}
	event := e.ready[0]
	e.ready = e.ready[1:]
	return event, true
}

const tamperedScript = head + `s1: start
s2: start

s1: create door limit=1
s1: acquire door
s2: acquire door timeout=inf req=5
----
s1 <- created
s1 <- acquired
s2 <- pending req=5

s1: describe door owners
s1: ping 3
s1: release door
----
s1 <- described door count=1 limit=1
  owner order=#1 session=s1 count=1
s1 <- pong 3
s1 <- released
s2 <- acquired req=5

s1: stop
s2: empty
----
s1 <- stopped
s2 <- failure BAD_REQUEST "Empty request"
`

// TestRunSeesFaults shows that the runner reports what a server does wrong.
func TestRunSeesFaults(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault func(Event) []Event
		want  string // in the diff; empty: no diff
	}{
		{"none", func(e Event) []Event { return []Event{e} }, ""},
		{"a message is missing", func(e Event) []Event {
			if e.Message.GetAcquireSemaphorePending() != nil {
				return nil
			}
			return []Event{e}
		}, "-s2 <- pending req=5\n"},
		{"a message comes twice", func(e Event) []Event {
			if e.Message.GetCreateSemaphoreResult() != nil {
				return []Event{e, e}
			}
			return []Event{e}
		}, "+s1 <- created\n"},
		{"no ping behind the start", func(e Event) []Event {
			if e.Message.GetPing() != nil {
				return nil
			}
			return []Event{e}
		}, "+s1 <- no ping behind the start\n"},
		{"a ping without a number", func(e Event) []Event {
			if p := e.Message.GetPing(); p != nil {
				p.Opaque = 0
			}
			return []Event{e}
		}, "+s1 <- ping without a number\n"},
		{"a ping before the start", func(e Event) []Event {
			if e.Message.GetSessionStarted() != nil {
				ping := &sessionReply{Response: &Ydb_Coordination.SessionResponse_Ping{
					Ping: &Ydb_Coordination.SessionResponse_PingPong{Opaque: 1}}}
				return []Event{{Stream: e.Stream, Message: ping}, e}
			}
			return []Event{e}
		}, "+s1 <- ping before the start\n+s1 <- not the first message: started session=s1\n"},
		{"a timeout in the start", func(e Event) []Event {
			if s := e.Message.GetSessionStarted(); s != nil {
				s.TimeoutMillis = 10_000
			}
			return []Event{e}
		}, "+s1 <- started session=s1 timeout=10s\n"},
		{"another request is answered", func(e Event) []Event {
			if r := e.Message.GetAcquireSemaphoreResult(); r.GetReqId() == 5 {
				r.ReqId = 6
			}
			return []Event{e}
		}, "+s2 <- acquired req=6 (never sent)\n"},
		{"an issue is of another shape", func(e Event) []Event {
			if f := e.Message.GetFailure(); f != nil {
				f.Issues[0].Severity, f.Issues[0].IssueCode = 1, 7
				f.Issues[0].Issues = []*Ydb_Issue.IssueMessage{{}}
			}
			return []Event{e}
		}, "+s2 <- failure BAD_REQUEST [7] \"Empty request\" severity=1 nested=1\n"},
		{"a stream ends with an error", func(e Event) []Event {
			if e.Message == nil {
				e.Status = status.New(codes.Internal, "oops")
			}
			return []Event{e}
		}, "+s1 <- end INTERNAL \"oops\"\n"},
		{"a stream does not end", func(e Event) []Event {
			if e.Message == nil {
				return nil
			}
			return []Event{e}
		}, "+s1 <- the stream goes on\n"},
		{"a stream ends by itself", func(e Event) []Event {
			if e.Message.GetPong() != nil {
				return []Event{e, {Stream: e.Stream, Status: status.New(codes.OK, "")}}
			}
			return []Event{e}
		}, "+s1 <- end OK\n"},
		{"an owner's session is another one", func(e Event) []Event {
			for _, owner := range e.Message.GetDescribeSemaphoreResult().GetSemaphoreDescription().GetOwners() {
				owner.SessionId = 2
			}
			return []Event{e}
		}, "+  owner order=#1 session=s2 count=1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			script, err := Parse("tampered", tamperedScript)
			if err != nil {
				t.Fatal(err)
			}
			outcome, err := Run(t.Context(), &tampering{fault: test.fault}, script)
			switch {
			case err != nil:
				t.Error(err)
			case test.want == "" && outcome.Diff != "":
				t.Error(outcome.Diff)
			case !strings.Contains(outcome.Diff, test.want):
				t.Errorf("the difference does not say %q:\n%s", test.want, outcome.Diff)
			}
		})
	}
}

// endless is a target that keeps expecting something in vain.
type endless struct {
	tampering
	awaited int // times
}

func (e *endless) Open(ctx context.Context, name string, limits coordination.Limits) (Environment, error) {
	env, err := e.tampering.Open(ctx, name, limits)
	return &endlessEnvironment{env, e}, err
}

type endlessEnvironment struct {
	Environment
	target *endless
}

func (e *endlessEnvironment) Patience() time.Duration { return time.Hour }

func (e *endlessEnvironment) Next(ctx context.Context) (Event, bool) {
	event, ok := e.Environment.Next(ctx)
	if _, bounded := ctx.Deadline(); !ok && bounded && ctx.Err() == nil {
		e.target.awaited++
	}
	return event, ok
}

// TestRunAwaitsNothingOfTheDead shows that the runner does not wait for what is missing of a stream that has ended.
func TestRunAwaitsNothingOfTheDead(t *testing.T) {
	ended := false
	target := &endless{tampering: tampering{fault: func(e Event) []Event {
		switch {
		case ended && e.Message == nil, e.Message.GetSessionStopped() != nil:
			return nil
		case e.Message.GetAcquireSemaphoreResult() != nil:
			ended = true
			return []Event{{Stream: e.Stream, Status: status.New(codes.OK, "")}}
		}
		return []Event{e}
	}}}
	script, err := Parse("ended", head+`s1: start
s1: create door limit=1
+ s1: acquire door
+ s1: stop
----
s1 <- created
s1 <- acquired
s1 <- stopped
`)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Run(t.Context(), target, script)
	if err != nil || !strings.Contains(outcome.Diff, "-s1 <- stopped\n") {
		t.Errorf("got %v, %s", err, outcome.Diff)
	}
	if target.awaited > 0 {
		t.Errorf("awaited %d times what cannot come", target.awaited)
	}
}

// TestRunComparesStreamsApart shows that the order between streams does not matter, and that within a stream
// it does.
func TestRunComparesStreamsApart(t *testing.T) {
	run := func(expected string) Outcome {
		t.Helper()
		script, err := Parse("order", head+"s1: start\ns2: start\ns1: ping 1\ns2: ping 2\ns1: ping 3\n"+
			expected)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := Run(t.Context(), &Pure{}, script)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	if diff := run("----\ns2 <- pong 2\ns1 <- pong 1\ns1 <- pong 3\n").Diff; diff != "" {
		t.Errorf("another order between streams is a difference:\n%s", diff)
	}
	if diff := run("---- in any order\ns1 <- pong 3\ns2 <- pong 2\ns1 <- pong 1\n").Diff; diff != "" {
		t.Errorf("any order is a difference:\n%s", diff)
	}
	if run("----\ns1 <- pong 3\ns2 <- pong 2\ns1 <- pong 1\n").Diff == "" {
		t.Error("another order within a stream is no difference")
	}
	if outcome := run(""); !strings.HasSuffix(outcome.Text,
		"s1: ping 3\n----\ns1 <- pong 1\ns2 <- pong 2\ns1 <- pong 3\n") {
		t.Errorf("what came is not written down:\n%s", outcome.Text)
	}
}

func TestRunSkips(t *testing.T) {
	script, err := Parse("skipped", strings.Replace(head, "\n\n", "\n# needs: wire\n\n", 1)+"s1: start\n")
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Run(t.Context(), &Pure{}, script)
	if err != nil || outcome.Skipped != "needs wire (a real connection)" {
		t.Errorf("got %+v, %v", outcome, err)
	}
}

func TestMapErrors(t *testing.T) {
	if _, err := ruleMap([]*Script{{Name: "x", Rules: []string{"coordination §99"}}}); err == nil ||
		!strings.Contains(err.Error(), "§99") {
		t.Errorf("a rule that is not listed: %v", err)
	}
	rules, err := parseRuleList("# comment\na §1: first\na §2: second (later: no way)\n" +
		"a §3: third (test: p.A, q.B)\na §4: fourth (x) (never: gone)\n")
	if err != nil || len(rules) != 4 || rules[3].Never != "gone" || rules[3].Text != "fourth (x)" ||
		len(rules[2].Tests) != 2 || rules[1].Later != "no way" || rules[1].Text != "second" {
		t.Errorf("got %+v, %v", rules, err)
	}
	if _, err := parseRuleList("a §1 first\n"); err == nil {
		t.Error("a line without a colon is accepted")
	}
	var b strings.Builder
	rules[0].Scripts = []string{"x/y"}
	if err := printRuleMap(&b, rules); err != nil ||
		b.String() != "a §1: first\n    x/y\na §2: second\n    later: no way\na §3: third\n    p.A, q.B\n"+
			"a §4: fourth (x)\n    never: gone\n" {
		t.Errorf("printed %q, %v", b.String(), err)
	}
}
