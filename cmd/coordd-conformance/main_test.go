package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/testserver"
)

// runs carries out a command line in the test's process and returns all output.
func runs(all builtIn, args ...string) (exit.Code, string) {
	var out testlog.Buffer
	env := cmdline.Env{Stdout: &out, Stderr: &out, Signals: func() <-chan os.Signal { return nil }}
	code := run(&env, all, args)
	return code, out.String()
}

// replays runs one script of the test's own.
func replays(endpoint, name, script string) (exit.Code, string) {
	return runs(func() ([]*conformance.Script, error) {
		parsed, err := conformance.Parse(name, script)
		return []*conformance.Script{parsed}, err
	}, "--endpoint", endpoint)
}

// TestConformance runs some scripts on the server's binary: they must find nothing and leave nothing behind.
func TestConformance(t *testing.T) {
	endpoint := testserver.Serve(t, "--in-memory").Endpoint()
	reports := t.TempDir()
	junit, json := filepath.Join(reports, "junit.xml"), filepath.Join(reports, "results.json")
	code, out := runs(conformance.Scripts, "--endpoint", endpoint, "--tag", "watch,race", "--junit", junit,
		"--json", json)
	if code != exit.OK {
		t.Errorf("exit code %d, want 0:\n%s", code, out)
	} else if !strings.Contains(out, "same     watch/both") || !strings.Contains(out, "skipped  race/") ||
		!strings.Contains(out, "because the script needs hold") {
		t.Errorf("progress or summary is missing:\n%s", out)
	}
	for _, file := range []string{junit, json} {
		if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), "watch/both") {
			t.Errorf("report %s: %v\n%s", file, err, content)
		}
	}
	if code, out := replays(endpoint, "nothing_left", "# Nothing is left.\n# rule: surface §4.1 x\n\n"+
		"scheme ls {db}\n----\nscheme <- SUCCESS\n"+
		"  self ...\n  child name=conformance-... type=DIRECTORY...\n"); code != exit.OK {
		t.Errorf("more than one directory is there, or none:\n%s", out)
	}
}

// TestConformanceDiffers shows what a user sees when a server differs from a script.
func TestConformanceDiffers(t *testing.T) {
	code, out := replays(testserver.Serve(t, "--in-memory").Endpoint(), "wrong",
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

// TestConformanceSecured runs the program where a connection needs TLS and a user.
func TestConformanceSecured(t *testing.T) {
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		if content == "" {
			return path
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	testserver.Run(t, "cert", "--dir", directory)
	const token, password = "a-token-of-a-machine-9ba7", "correct horse battery"
	admin := file("admin", password)
	s := testserver.Serve(t, "--in-memory", "--listen-tls", "127.0.0.1:0", "--tls-cert", file("cert.pem", ""),
		"--tls-key", file("key.pem", ""), "--auth=required", "--token-file", file("tokens", token+" machine"),
		"--initial-admin=root", "--initial-admin-password-file", admin)
	// The log has it before the server prints that it is ready.
	endpoint := regexp.MustCompile(`connection=(grpcs://\S+)`).FindStringSubmatch(s.Logged())
	if endpoint == nil {
		t.Fatalf("no TLS connection string in the log:\n%s", s.Logged())
	}
	for _, test := range []struct {
		flags []string
		code  exit.Code
		want  string
	}{
		{[]string{"--user=root", "--password-file", admin}, exit.OK, "same     watch/both"},
		{[]string{"--user=root", "--password-file", file("wrong", "no")}, exit.Failure, "log in as root"},
		{[]string{"--token-file", file("token", token)}, exit.Failure, "UNAUTHORIZED"},
		{[]string{"--token-file", file("bad", "none-of-ours-77a1")}, exit.Failure, "Unauthenticated"},
	} {
		args := append(test.flags, "--endpoint", endpoint[1], "--ca-file", file("ca.pem", ""), "--run", "^watch/both$")
		if code, out := runs(conformance.Scripts, args...); code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", test.flags, code, test.code, test.want, out)
		}
	}
}

// TestConformanceRefuses flags that are wrong or do not go together, files that are no scripts, and a server that is
// not there: that is one error, not a hundred differences.
func TestConformanceRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code exit.Code
		want string
	}{
		{"--endpoint http://h:1/local", exit.Usage, "grpc://HOST:PORT/DATABASE"},
		{"--endpoint grpc://127.0.0.1:1/local", exit.NotServing, "no server at 127.0.0.1:1"},
		{"--endpoint grpc://127.0.0.1:1?database=/local --user u --password-file " + os.DevNull, exit.NotServing,
			"log in as u: no server at 127.0.0.1:1"},
		{"--endpoint grpcs://h:1/local --ca-file " + empty, exit.Config, "no certificate"},
		{"--token-file t --user u", exit.Usage, "--user and --token-file"},
		{"--user u", exit.Usage, "--password-file"},
		{"--token-file /nowhere/t", exit.Config, "flag --token-file: open /nowhere/t"},
		{"--run (", exit.Usage, `flag --run: value "("`},
		{"--tag none", exit.Usage, `no script matches`},
		{"--junit /nowhere/x.xml", exit.Config, "flag --junit: open /nowhere/x.xml"},
		{"--file " + empty + " --run x", exit.Usage, "flag --file: not together"},
		{"--file " + empty, exit.Config, "flag --file"},
		{"here", exit.Usage, `argument "here" is not allowed`},
	} {
		if code, out := runs(conformance.Scripts, strings.Fields(test.args)...); code != test.code ||
			!strings.Contains(out, test.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", test.args, code, test.code, test.want, out)
		}
	}
}

// TestServersLinkNoTestTools wants the suite, and the libraries of tests, to stay out of the released programs, and the
// server out of the suite's.
func TestServersLinkNoTestTools(t *testing.T) {
	for program, tools := range map[string][]string{
		"../coordd":         {"go.uber.org/goleak", "/conformance", "/internal/testserver"},
		"../coordd-standin": {"go.uber.org/goleak", "/conformance/model", "/conformance/raw", "/internal/testserver"},
		".":                 {"/server", "/raftstore"},
	} {
		output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", program).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		for dependency := range strings.FieldsSeq(string(output)) {
			for _, tool := range tools {
				path := strings.TrimPrefix(dependency, "github.com/coordd/coordd")
				if path == tool || strings.HasPrefix(path, tool+"/") {
					t.Errorf("%s links %s", program, dependency)
				}
			}
		}
	}
}
