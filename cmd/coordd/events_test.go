package main

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/exit"
)

// whatHappened is a row of the table in docs/operations.md.
type whatHappened struct {
	args []string
	want *regexp.Regexp
}

func questionsOfThePage(t *testing.T, directory string) (rows []whatHappened) {
	t.Helper()
	for _, row := range regexp.MustCompile(
		"(?m)^\\| [^|]+ \\| `coordd ([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(
		readFile(t, "docs/operations.md"), -1) {
		want := regexp.MustCompile(`\b(TIME|ADDRESS|NUMBER|NAME)\b`).ReplaceAllString(regexp.QuoteMeta(row[2]), `\S+`)
		args := strings.Fields(strings.ReplaceAll(row[1], "DIRECTORY", directory))
		rows = append(rows, whatHappened{args, regexp.MustCompile(want)})
	}
	if len(rows) != 11 {
		t.Fatalf("docs/operations.md has %d questions", len(rows))
	}
	return rows
}

// TestQuestionsAtNight asks the questions of docs/operations.md of three servers, then of two while one is down, and of
// all after each was started anew.
func TestQuestionsAtNight(t *testing.T) {
	servers := startThree(t)
	waitFor(t, "a leader, and the version that all can read", func() bool {
		now := servers[0].status(t)
		return now.Leader != "" && now.FormatVersion >= 6
	})
	at := func(s *clusterProcess, args ...string) []string { return append(args, "--endpoint", s.endpoint) }
	run := func(args ...string) { t.Helper(); coordd(t, exit.OK, at(servers[1], args...)) }
	run("node", "create", "app")
	run("node", "create", "doomed")
	first := openLockSession(t, servers[1].endpoint, "/local/app", "worker-7", 3000)
	if !first.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatal("not acquired")
	}
	first.die()
	waitFor(t, "the end of the first session", func() bool {
		found := coordd(t, exit.OK, at(servers[0], "events", "app"))
		return strings.Contains(found, `lost "nightly-report"`)
	})
	held := regexp.MustCompile(`before  session 1, order id 1, for \S+ until \S+, its session expired`)
	second := openLockSession(t, servers[0].endpoint, "/local/app", "worker-8", 600_000)
	if !second.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatal("not acquired")
	}
	history := coordd(t, exit.OK, at(servers[2], "semaphore", "show", "app", "nightly-report", "--history"))
	if !held.MatchString(history) {
		t.Errorf("the history of the lock:\n%s", history)
	}
	run("session", "kill", "app", "2", "--reason", "it hangs")
	for _, s := range servers { // the lock is free now, so there is no semaphore
		free := coordd(t, exit.OK, at(s, "semaphore", "show", "app", "nightly-report", "--history"))
		if !strings.Contains(free, `"nightly-report" held by nobody, 0 owners`) || !held.MatchString(free) {
			t.Errorf("the history of a free lock:\n%s", free)
		}
		coordd(t, exit.NotFound, at(s, "semaphore", "show", "app", "nightly-report"))
		coordd(t, exit.NotFound, at(s, "semaphore", "show", "app", "never", "--history"))
	}
	doomed := openLockSession(t, servers[2].endpoint, "/local/doomed", "worker-9", 600_000)
	if !doomed.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatal("not acquired")
	}
	run("node", "drop", "doomed")
	run("config", "set", "app", "flags", "1")
	run("config", "set", "app", "flags", "22")
	run("semaphore", "create", "app", "old", "--limit", "1")
	run("semaphore", "delete", "app", "old")
	run("node", "alter", "app", "--session-grace-period", "7s")
	run("grant", "app", "alice", "ydb.generic.read")

	ask := func(s *clusterProcess, when string) {
		t.Helper()
		for _, q := range questionsOfThePage(t, servers[2].directory) {
			args := q.args
			switch {
			case strings.Contains(strings.Join(args, " "), "--data-dir"):
				if when != "while one is down" {
					continue
				}
			default:
				args = at(s, args...)
			}
			waitFor(t, when+": "+strings.Join(args, " "), func() bool {
				p := spawn(t, args...)
				_, lines := p.exit(t)
				return q.want.MatchString(strings.Join(lines, "\n") + p.Logged())
			})
		}
	}
	ask(servers[0], "with all")
	follows, shows := goOn(t, at(servers[2], "events", "-f")...)
	top, looks := goOn(t, at(servers[2], "top", "--every", "100ms", "-o", "jsonl")...)
	waitFor(t, "both to look", func() bool { return shows.String() != "" && looks.String() != "" })
	servers[2].Kill()
	servers[2].exit(t)
	run("config", "set", "app", "flags", "333")
	lost := "coordd: no answer from " + strings.TrimSuffix(strings.TrimPrefix(servers[2].endpoint, "grpc://"), "/local")
	waitFor(t, "what happens at the others", func() bool {
		_, after, moved := strings.Cut(looks.String(), lost)
		return moved && strings.Count(after, "\n") > 2 && strings.Contains(shows.String(), "from 2 bytes to 3")
	})
	for _, p := range []*exec.Cmd{follows, top} {
		_ = p.Process.Signal(syscall.SIGINT)
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	for _, said := range []string{shows.String(), looks.String()} {
		if strings.Count(said, "no answer from") != 1 {
			t.Errorf("a server that is gone is reported more than once:\n%s", said)
		}
	}
	ask(servers[1], "while one is down")
	out := coordd(t, exit.OK, at(servers[0], "events", "--kind", "expired", "-o", "jsonl"))
	var shown eventShown
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n{", 2)[0]), &shown); err != nil ||
		shown.Client == nil || shown.Description != "worker-7" || shown.Held != 1 {
		t.Errorf("%v: %s", err, out)
	}
	servers[2].start(t)
	servers[2].ready(t)
	for _, s := range servers[:2] {
		_ = s.Command.Process.Signal(syscall.SIGTERM)
		s.exit(t)
		s.start(t)
		s.ready(t)
	}
	for _, s := range servers {
		ask(s, "after a rolling restart")
	}
	coordd(t, exit.Usage, at(servers[0], "events", "--kind", "none"), "flag --kind", "expired")
	coordd(t, exit.Usage, at(servers[0], "events", "--since", "-1s"), "flag --since")
}

// goOn starts a command that goes on, with its output and its errors.
func goOn(t *testing.T, args ...string) (*exec.Cmd, *testlog.Buffer) {
	t.Helper()
	command, said := exec.CommandContext(t.Context(), binary, args...), new(testlog.Buffer)
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command, said
}

// openLockSession opens a session and asks for the lock.
func openLockSession(t *testing.T, endpoint, node, description string, timeoutMillis uint64) *lockClient {
	t.Helper()
	return openLockClientAt(t, endpoint, &Ydb_Coordination.SessionRequest_SessionStart{Path: node,
		TimeoutMillis: timeoutMillis, Description: description})
}
