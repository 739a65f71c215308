package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// The commands of clients log in, by TLS, with a password or a token; what the caller may not do is said; and
// a lock outlives the end of all login tokens.
func TestCommandsLogIn(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	app := s.file("app", appPassword+"\n")
	if code, output := s.user(appPassword+"\n", "add", "app"); code != 0 {
		t.Fatal(output)
	}
	byTLS := []string{"--endpoint", s.tls, "--ca-file", s.path("ca.pem")}
	root := append(slices.Clone(byTLS), "--user", "root", "--password-file", s.path("admin"))
	asApp := append(slices.Clone(byTLS), "--user", "app", "--password-file", app)
	machine := append(slices.Clone(byTLS), "--token-file", s.file("token", fileToken+"\n"))
	run := func(args string, as []string, want exit.Code, parts ...string) string {
		t.Helper()
		command, behind, found := strings.Cut(args, " -- ")
		words := append(strings.Fields(command), as...)
		if found {
			words = append(append(words, "--"), strings.Fields(behind)...)
		}
		got := runBinary(t, []string{"PATH=" + os.Getenv("PATH")}, words...)
		if got.code != want {
			t.Fatalf("coordd %s: exit code %d, want %d: %s%s", args, got.code, want, got.stdout, got.stderr)
		}
		inOrder(t, got.stdout+got.stderr, parts)
		return got.stdout
	}
	run("node create app", root, exit.OK, "made /local/app")
	run("node show app", byTLS, exit.Failure, "coordd: ")
	run("lock app x -- true", byTLS, exit.NotRun, "coordd: ")
	run("lock app x -- true", asApp, exit.NotRun, "no access to the coordination node")
	run("grant app app ydb.generic.use", asApp, exit.Failure, "/local/app")
	run("grant app app ydb.granular.describe_schema", root, exit.OK)
	if shown := parsed(t, run("node show app -o json", asApp, exit.OK)); at(t, shown, "history") != nil {
		t.Errorf("a caller that may not read the rows is shown %v", shown)
	}
	run("grant app app ydb.generic.use", root, exit.OK, "app may ydb.generic.use on /local/app")
	run("grant app machine ydb.generic.read", root, exit.OK)
	run("lock app x -- echo in", asApp, exit.OK, "in")
	run("lock app x -- echo in", machine, exit.NotRun, "permission denied")
	run("bench --clients 2 --duration 10ms", root, exit.OK, "pairs/s")
	run("bench --clients 2 --duration 10ms", machine, exit.Failure, "/local/coordd-bench-")
	run("node ls", machine, exit.OK, "/local/app")
	run("node ls", append(slices.Clone(byTLS), "--token-file", s.file("other", badToken)), exit.Failure,
		"coordd: ")
	run("node ls", append(slices.Clone(byTLS), "--user", "app", "--password-file",
		s.file("wrong", wrongPassword)), exit.Failure, "log in as app")

	enough := filepath.Join(t.TempDir(), "enough")
	l := startLock(t, s.tls, append(slices.Clone(asApp[2:]), "app", "x", "--session-timeout", "60s", "--",
		"sh", "-c", untilTheFile, enough)...)
	l.says(t, "ready")
	owner := at(t, parsed(t, run("sem show app x -o json", root, exit.OK)), "owners", 0)
	if at(t, owner, "client", "user") != "app" {
		t.Errorf("the owner is %v", owner)
	}
	if mine := parsed(t, run("session ls app --mine -o json", asApp, exit.OK)).([]any); len(mine) != 1 ||
		at(t, mine, 0, "client", "user") != "app" {
		t.Errorf("app has %v", mine)
	}
	if mine := parsed(t, run("session ls --mine -o json", root, exit.OK)).([]any); len(mine) != 0 {
		t.Errorf("root has %v", mine)
	}
	run("session ls --mine", byTLS, exit.Failure, "Authentication is required")
	if code, output := s.user("", "rotate-key"); code != 0 {
		t.Fatal(output)
	}
	again := regexp.MustCompile(fmt.Sprintf(`session: start.* user=app .* session=%d `,
		int(at(t, owner, "session").(float64))))
	waitFor(t, "the lock's session to come back by another stream",
		func() bool { return again.MatchString(s.server.Logged()) })
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.wantCode(t, exit.OK)
	for _, secret := range []string{appPassword, adminPassword, fileToken, wrongPassword} {
		if strings.Contains(l.Logged(), secret) {
			t.Errorf("a secret is in %q", l.Logged())
		}
	}
}
