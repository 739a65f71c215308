package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/exit"
)

// await asks again and again until the answer to an order matches.
func (r *standInRun) await(t *testing.T, pattern string, order ...string) []string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	for late := time.Now().Add(waitMax); ; time.Sleep(10 * time.Millisecond) {
		answer := r.ctl(t, exit.OK, order...)
		if found := wanted.FindStringSubmatch(answer); found != nil {
			return found
		}
		if time.Now().After(late) {
			t.Fatalf("waiting for %s:\n%s", pattern, answer)
		}
	}
}

// The clients of --demo hold locks and wait for them, go on after a fault, and are in a recording that is ordered
// meanwhile. Nothing is left of them in the end.
func TestDemo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Setenv("TMPDIR", "/nowhere") // as in the image, which has no folder for such files
	r := beginStandIn(t, "--demo")
	for _, name := range []string{"nightly-report", "leader"} {
		r.await(t, `"`+name+`".*\n    owner: .*\n    waiter: `, "dump")
	}
	r.await(t, `"connections": 4 of 4\n`, "dump")
	r.ctl(t, exit.OK, "record")
	r.ctl(t, exit.Usage, "record")
	r.await(t, `"recording": true`, "recording")
	session := r.await(t, `"leader".*\n    owner: session (\d+),`, "dump")[1]
	r.ctl(t, exit.OK, "expire-session", "node=demo", "session="+session)
	r.await(t, `"leader".*\n    owner: `, "dump")
	r.await(t, `"what": "failure",[^}]*"session": `+session+`,[^}]*"status": "SESSION_EXPIRED"`, "messages")
	r.await(t, `"from": "client",\s+"what": "start"[^}]*"description": "scheduler-`, "messages", "after="+
		r.await(t, `"number": (\d+),[^}]*"what": "failure"`, "messages")[1])
	text := r.ctl(t, exit.OK, "save-recording")
	if _, err := conformance.Parse("recording", text); err != nil || !strings.Contains(text, "scheduler-") {
		t.Errorf("%v\n%s", err, text)
	}
	r.ctl(t, exit.Usage, "save-recording")
	r.ctl(t, exit.OK, "restart", "empty=true") // the clients make anew whatever they need
	r.await(t, `"connections": 4 of 4\n`, "dump")
	r.ctl(t, exit.OK, "record") // the end of the stand-in ends it
	r.stop(t)
	refused := begin(nil, "--demo", "--auth", "required")
	if code := refused.wait(t); code != exit.Usage || !strings.Contains(refused.log.String(), "--demo") {
		t.Errorf("with users: exit code %d: %s", code, refused.log.String())
	}
}
