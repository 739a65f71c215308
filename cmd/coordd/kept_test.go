package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// keptLines is the variables that `coordd lock --keep` prints.
func keptLines(t *testing.T, text string) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "=")
		value, found := strings.CutSuffix(rest, "; export "+name+";")
		if !found {
			t.Fatalf("got %q", line)
		}
		variables[name] = value
	}
	return variables
}

// A lock is kept when its command has ended, and given back by another one, once.
func TestKeep(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	kept := keptLines(t, does(t, endpoint, "lock app deploy --keep --session-timeout 30m --data me"))
	owner := described(t, s, "deploy").GetOwners()[0]
	if fmt.Sprint(owner.GetSessionId()) != kept["COORDD_SESSION_ID"] ||
		fmt.Sprint(owner.GetOrderId()) != kept["COORDD_FENCING_TOKEN"] || string(owner.GetData()) != "me" {
		t.Errorf("the owner is %v, and %v was printed", owner, kept)
	}
	coordd(t, exit.Conflict, []string{"lock", "app", "deploy", "-n", "-e", endpoint, "--", "/bin/sh"},
		"is held by session "+kept["COORDD_SESSION_ID"]+` "me", coordd lock on `)
	release := func(value, name string, want exit.Code, parts ...string) {
		t.Helper()
		r := newRun(newFakeServer(), keptVariable+"="+value)
		r.begin("semaphore", "release", "app", name, "-e", endpoint)
		if code := r.wait(t); code != want {
			t.Errorf("exit code %d, want %d: %s%s", code, want, r.out.String(), r.log.String())
		}
		inOrder(t, r.out.String()+r.log.String(), parts)
		if parts := strings.Split(value, ":"); len(parts) == 3 && len(parts[1]) > 8 &&
			strings.Contains(r.log.String(), parts[1]) {
			t.Errorf("the key is in %q", r.log.String())
		}
	}
	mine := kept[keptVariable]
	release("", "deploy", exit.Usage, "variable COORDD_KEPT_SESSION", "no value given", "coordd lock --keep")
	for _, wrong := range []string{"5", "a:00:1", "5:xy:1", "5:00:x", "0:00:1", "5:00:9999999999"} {
		release(wrong, "deploy", exit.Config, "variable COORDD_KEPT_SESSION", "coordd lock --keep")
	}
	release(kept["COORDD_SESSION_ID"]+":00112233445566778899aabbccddeeff:1000", "deploy", exit.Lost, "is over",
		"key mismatch")
	release(mine, "another", exit.Lost, `does not hold "another"`)
	if d := described(t, s, "deploy"); len(d.GetOwners()) != 1 {
		t.Fatalf("a mistake has cost the lock: %v", d)
	}
	release(mine, "deploy", exit.OK, `gave back "deploy"`)
	if d := described(t, s, "deploy"); d != nil {
		t.Errorf("it is held: %v", d)
	}
	release(mine, "deploy", exit.Lost, `"deploy" was lost before`, "Session does not exist")

	if err := s.Create(t.Context(), "pool", 2, nil); err != nil {
		t.Fatal(err)
	}
	kept = keptLines(t, does(t, endpoint, "lock app pool --keep --shared --session-timeout 30m"))
	if d := described(t, s, "pool"); d.GetCount() != 1 {
		t.Errorf("it is %v", d)
	}
	if err := s.Delete(t.Context(), "pool", true); err != nil {
		t.Fatal(err)
	}
	release(kept[keptVariable], "pool", exit.Lost, `does not hold "pool"`, "taken away")
}

// TestKillDetached ends the sessions that no client has, as far as none has had them for long, and no other one.
func TestKillDetached(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	kept := keptLines(t, does(t, endpoint, "lock app deploy --keep --session-timeout 30m"))
	waitFor(t, "the server to notice that the command has ended", func() bool {
		return strings.Contains(does(t, endpoint, "session show app "+kept["COORDD_SESSION_ID"]+" -o json"),
			`"attached": false`)
	})
	does(t, endpoint, "session kill app --detached --older 1h", "ended 0 sessions of /local/app")
	if d := described(t, s, "deploy"); len(d.GetOwners()) != 1 {
		t.Errorf("the session that a client has had lately is gone: %v", d)
	}
	does(t, endpoint, "session kill app --detached", "ended 1 session of /local/app")
	if d := described(t, s, "deploy"); d != nil {
		t.Errorf("it is held: %v", d)
	}
}

// Whoever takes a lock over ends the session that holds it. Where that is not his to do he leaves the queue.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	l := startLock(t, endpoint, "app", "deploy", "--", "sh", "-c", runsOn)
	l.says(t, "ready")
	holder := described(t, s, "deploy").GetOwners()[0].GetSessionId()
	kept := keptLines(t, coordd(t, exit.OK, []string{"sem", "take-over", "app", "deploy", "--session-timeout",
		"30m", "--reason", "it hangs", "-e", endpoint}, fmt.Sprint("ended session ", holder)))
	l.wantCode(t, exit.Lost, "is lost")
	if owner := described(t, s,
		"deploy").GetOwners()[0]; fmt.Sprint(owner.GetSessionId()) != kept["COORDD_SESSION_ID"] {
		t.Errorf("the owner is %v, and %v was printed", owner, kept)
	}
	keptLines(t, does(t, endpoint, "sem take-over app free --session-timeout 3s")) // nobody has it

	shut := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--inspect", "off", "--listen-http",
		"off").ready(t)
	other := sessionOf(t, nodeOf(t, shut))
	if got, err := other.Acquire(t.Context(),
		protocol.Acquisition{Name: "deploy", Count: 1 << 63, Ephemeral: true}); !got || err != nil {
		t.Fatal(got, err)
	}
	coordd(t, exit.Failure, []string{"sem", "take-over", "app", "deploy", "--session-timeout", "3s", "-e",
		shut}, fmt.Sprint("end session ", other.ID()), "does not show this to you")
	if d := described(t, other, "deploy"); len(d.GetOwners()) != 1 || len(d.GetWaiters()) != 0 {
		t.Errorf("it is %v", d)
	}
}
