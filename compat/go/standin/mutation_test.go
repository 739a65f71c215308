package standin_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// check is a scheduler's check before it runs a job. Without it nothing else changes, and all seems well as long as no
// leader loses its lead.
const check = `			if err := confirm(ctx, session, token); err != nil {
				return err
			}
`

// TestForgottenCheck has the scheduler forget the check: a plain test does not find that, one with a fault
// does.
func TestForgottenCheck(t *testing.T) {
	t.Parallel()
	const source = "../examples/scheduler/scheduler.go"
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), check) != 1 {
		t.Fatalf("the check is not in %s", source)
	}
	dir := t.TempDir()
	forgetful, overlay := filepath.Join(dir, "scheduler.go"), filepath.Join(dir, "overlay.json")
	// which keeps it for the next time
	program := filepath.Join(cmp.Or(os.Getenv("COORDD_BUILT"), dir), "forgetful.test")
	original, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: forgetful}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, replace)
	write(t, forgetful, bytes.Replace(text, []byte(check), nil, 1))
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", program},
		builtWith()...)
	run := func(name string, args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("go", append(args, ".")...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	if out, err := run(program, "-test.run", "^TestScheduler$"); err != nil {
		t.Errorf("the plain test fails: %v\n%s", err, out)
	}
	out, err := run(program, "-test.run", "^TestSchedulerThroughFaults$/^expire-session$")
	if err == nil || !strings.Contains(out, "first runs the job with token") {
		t.Errorf("the test with a fault does not find it: %v\n%s", err, out)
	}
}

// builtWith are flags with which this test was built, so that most of what they make is there already.
func builtWith() (flags []string) {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" || s.Key == "-gcflags" {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
