package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/exit"
)

// TestConformance runs some scripts on the binary, with the binary: they must find nothing and leave nothing
// behind.
func TestConformance(t *testing.T) {
	server := spawn(t, "serve", "--in-memory", "--listen", "127.0.0.1:0")
	endpoint := server.ready(t)
	reports := t.TempDir()
	junit, json := filepath.Join(reports, "junit.xml"), filepath.Join(reports, "results.json")
	client := spawn(t, "conformance", "--endpoint", endpoint, "--tag", "watch,race", "--junit", junit,
		"--json", json)
	if code, lines := client.exit(t); code != exit.OK {
		t.Errorf("exit code %d, want 0:\n%s", code, strings.Join(lines, "\n"))
	} else if out := strings.Join(lines, "\n"); !strings.Contains(out, "same     watch/both") ||
		!strings.Contains(out, "skipped  race/") ||
		!strings.Contains(out, "because the script needs hold") {
		t.Errorf("progress or summary is missing:\n%s", out)
	}
	for _, file := range []string{junit, json} {
		if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), "watch/both") {
			t.Errorf("report %s: %v\n%s", file, err, content)
		}
	}
	if out, code := inProcess(t, endpoint, "nothing_left", "# Nothing is left.\n# rule: surface §4.1 x\n\n"+
		"scheme ls {db}\n----\nscheme <- SUCCESS\n"+
		"  self ...\n  child name=conformance-... type=DIRECTORY...\n"); code != exit.OK {
		t.Errorf("more than one directory is there, or none:\n%s", out)
	}
}

// TestConformanceDiffers shows what a user sees when a server differs from a script.
func TestConformanceDiffers(t *testing.T) {
	server := spawn(t, "serve", "--in-memory", "--listen", "127.0.0.1:0")
	out, code := inProcess(t, server.ready(t), "wrong",
		"# Wrong.\n# rule: coordination §2.6 x\n# differs: Not really.\n\n"+
			"s1: start\ns1: ping 3\n----\ns1 <- pong 4\n")
	if code != exit.Differs {
		t.Errorf("exit code %d, want %d", code, exit.Differs)
	}
	for _, part := range []string{"DIFFERS  wrong: Wrong.\nknown difference from YDB: Not really.\n",
		"-s1 <- pong 4\n+s1 <- pong 3\n", "1 of 1 scripts differ"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output does not say %q:\n%s", part, out)
		}
	}
}

// TestConformanceUnreachable wants an error, not a hundred differences, where there is no server.
func TestConformanceUnreachable(t *testing.T) {
	out, code := inProcess(t, "grpc://127.0.0.1:1/local", "any",
		"# Any.\n# rule: coordination §2.6 x\n\ns1: start\n")
	if code != exit.NotServing || !strings.Contains(out, "no server at 127.0.0.1:1 (connection refused)") {
		t.Errorf("exit code %d, want %d:\n%s", code, exit.NotServing, out)
	}
}

// TestBinaryHoldsNoTestTools wants the suite's own test libraries to stay out of the program.
func TestBinaryHoldsNoTestTools(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for dependency := range strings.FieldsSeq(string(output)) {
		for _, tool := range []string{"go.uber.org/goleak", "github.com/coordd/coordd/conformance/model",
			"github.com/coordd/coordd/conformance/raw", "github.com/coordd/coordd/internal/testserver"} {
			if dependency == tool {
				t.Errorf("the program contains %s", dependency)
			}
		}
	}
}

// inProcess runs one script of the test's own and returns all output.
func inProcess(t *testing.T, endpoint, name, text string) (string, exit.Code) {
	t.Helper()
	r := newRun(newFakeServer())
	r.scripts = func() ([]*conformance.Script, error) {
		script, err := conformance.Parse(name, text)
		return []*conformance.Script{script}, err
	}
	r.begin("conformance", "--endpoint", endpoint)
	code := r.wait(t)
	return r.out.String() + r.log.String(), code
}

// TestConformanceSecured runs the command where a connection needs TLS and a user.
func TestConformanceSecured(t *testing.T) {
	s := startSecured(t)
	args := []string{"conformance", "--endpoint", s.tls, "--ca-file", s.path("ca.pem"), "--run",
		"^watch/both$"}
	if code, output := s.run("", append(args, "--user=root", "--password-file",
		s.path("admin"))...); code != int(exit.OK) {
		t.Errorf("as the administrator: exit code %d\n%s", code, output)
	}
	if code, output := s.run("", append(args, "--token-file",
		s.file("token", fileToken+"\n"))...); code != int(exit.Failure) ||
		!strings.Contains(output, "UNAUTHORIZED") {
		t.Errorf("with a token that may not make a directory: exit code %d\n%s", code, output)
	}
	if code, output := s.run("", append(args, "--token-file",
		s.file("token", badToken+"\n"))...); code != int(exit.Failure) ||
		!strings.Contains(output, "Unauthenticated") {
		t.Errorf("with a bad token: exit code %d\n%s", code, output)
	}
}

// TestConformanceRefusesFiles that are no scripts, and choices among scripts that are not built in.
func TestConformanceRefusesFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]exit.Code{
		"--file " + empty + " --run x": exit.Usage,
		"--file " + empty:              exit.Config,
	} {
		r := newRun(nil)
		r.begin(append([]string{"conformance"}, strings.Fields(args)...)...)
		if code := r.wait(t); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, r.log.String())
		}
	}
}
