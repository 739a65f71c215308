package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// ran is what the binary said and ended with.
type ran struct {
	code           exit.Code
	stdout, stderr string
}

// runBinary runs the binary to its end, with an environment of its own in which the home and the data directory are
// the test's: what a server on this machine has left in root's says nothing here.
func runBinary(t *testing.T, environment []string, args ...string) ran {
	t.Helper()
	place := t.TempDir()
	command := exec.Command(binary, args...)
	command.Env = append([]string{"HOME=" + place, "COORDD_DATA_DIR=" + filepath.Join(place, "data")},
		environment...)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{exit.Code(command.ProcessState.ExitCode()), stdout.String(), stderr.String()}
}

// TestWrongInput is what people get wrong when they start a server or ask one, with the binary that they
// have: the last line says which setting it is, what is allowed or what helps, and the exit code is of the
// right kind.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	at := func(name string) string { return filepath.Join(place, name) }
	for name, content := range map[string]string{
		"password": "secret\n", "tab.yaml": "listen: :1\n\tadvertise: a\n", "letter.txt": "dear\n",
		"port.yaml": "listen: 127.0.0.1:1\n",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := runBinary(t, nil, "cert", "--dir", at("certs")); got.code != exit.OK ||
		!strings.Contains(got.stdout, at("certs/cert.pem")) ||
		!strings.Contains(got.stdout, at("certs/ca.pem")) {
		t.Fatalf("certificates: %+v", got)
	}
	const serve = "serve --listen 127.0.0.1:0 --in-memory"
	tests := []struct {
		name, args  string
		environment []string
		code        exit.Code
		want        []string // of stderr, in this order
	}{
		{"both listeners at one port",
			"serve --in-memory --listen 127.0.0.1:2999 --listen-tls 127.0.0.1:2999 --tls-cert CERTS/cert.pem " +
				"--tls-key CERTS/key.pem", nil, exit.Config, []string{"flag --listen-tls: ",
				"127.0.0.1:2999 is the address of --listen", "another port, 2135"}},
		{"TLS without files", serve + " --listen-tls 127.0.0.1:0", nil, exit.Config,
			[]string{"flag --listen-tls: ", "--tls-cert and --tls-key", "coordd cert"}},
		{"files without TLS", serve, []string{"COORDD_TLS_CERT=" + at("certs/cert.pem")}, exit.Config,
			[]string{"variable COORDD_TLS_CERT: ", "--listen-tls HOST:PORT"}},
		{"administrator without a password", serve + " --initial-admin root", nil, exit.Config,
			[]string{"flag --initial-admin: ", "--initial-admin-password-file"}},
		{"password without an administrator", serve + " --initial-admin-password-file PLACE/password", nil,
			exit.Config, []string{"flag --initial-admin-password-file: ", "--initial-admin"}},
		{"no token file", serve + " --token-file PLACE/nosuch", nil, exit.Config,
			[]string{"flag --token-file: ", at("nosuch"), "no such file"}},
		{"no certificate",
			serve + " --listen-tls 127.0.0.1:0 --tls-cert PLACE/nosuch --tls-key CERTS/key.pem", nil,
			exit.Config, []string{"flag --tls-cert: ", at("nosuch"), "no such file"}},
		{"a certificate that is none", serve +
			" --listen-tls 127.0.0.1:0 --tls-cert PLACE/letter.txt --tls-key CERTS/key.pem", nil, exit.Config,
			[]string{at("letter.txt"), "PEM"}},
		{"a cluster in memory",
			serve + " --name a --listen-peer 127.0.0.1:2998 --initial-cluster a=127.0.0.1:1 --insecure-peers",
			nil, exit.Config, []string{"flag --in-memory: ", "--data-dir"}},
		{"two members at one address", "serve --initial-cluster a=h:1,b=h:1", nil, exit.Usage,
			[]string{"flag --initial-cluster: ", `"a" and "b"`, "same address"}},
		{"check of another directory", "check --data-dir PLACE", nil, exit.Config,
			[]string{"flag --data-dir", "not a data directory"}},
		{"server in another directory", "serve --listen 127.0.0.1:0 --data-dir PLACE", nil, exit.Config,
			[]string{"flag --data-dir", "not a data directory"}},
		{"restore from nothing", "cluster restore --data-dir PLACE/new --from PLACE/nosuch", nil, exit.Config,
			[]string{"coordd: flag --from: open " + at("nosuch")}},
		{"restore what is no backup", "cluster restore --data-dir PLACE/new --from PLACE/letter.txt", nil,
			exit.Damaged, []string{"coordd: flag --from: " + at("letter.txt"), "not a coordd backup"}},
		{"a word like none", "put", nil, exit.Usage, []string{`unknown command "put"; known are`}},
		{"a command of a group", "get", nil, exit.Usage,
			[]string{`unknown command "get"; did you mean 'coordd config get'?`}},
		{"a slip", "serve --lisen :1", nil, exit.Usage,
			[]string{"unknown flag --lisen; did you mean --listen?"}},
		{"nobody there", "user list -e 127.0.0.1:1", nil, exit.NotServing,
			[]string{"coordd: no server at 127.0.0.1:1 (connection refused)\n"}},
		{"nobody there, by default", "cluster status", []string{"COORDD_LISTEN=127.0.0.1:1"}, exit.NotServing,
			[]string{"coordd: no server at 127.0.0.1:1 (connection refused); --endpoint names another\n"}},
		{"nobody there, by the file", "user list", []string{"COORDD_CONFIG=" + at("port.yaml")},
			exit.NotServing, []string{"coordd: no server at 127.0.0.1:1 "}},
		{"nobody there, by the file of a flag", "cluster status --config PLACE/port.yaml",
			[]string{"COORDD_CONFIG=/nowhere/c"}, exit.NotServing,
			[]string{"coordd: no server at 127.0.0.1:1 "}},
		{"nobody to inspect, by the file of a flag", "node ls --config PLACE/port.yaml", nil, exit.NotServing,
			[]string{"coordd: no server at 127.0.0.1:1 "}},
		{"nobody healthy, by the file of a flag", "health --config PLACE/port.yaml", nil, exit.NotServing,
			[]string{"coordd: not serving: no server at 127.0.0.1:1 "}},
		{"no file to find the server by", "user list --config /nowhere/c", nil, exit.Config,
			[]string{"coordd: flag --config: ", "/nowhere/c"}},
		{"nobody there, by a variable", "cluster status",
			[]string{"COORDD_ENDPOINT=grpc://127.0.0.1:1/?database=/local"}, exit.NotServing,
			[]string{"coordd: no server at 127.0.0.1:1 "}},
		{"nobody there, to inspect", "node ls --endpoint 127.0.0.1:1", nil, exit.NotServing,
			[]string{"coordd: no server at 127.0.0.1:1 "}},
		{"nobody there, by the directory", "cluster status --data-dir PLACE/nosuch", nil, exit.NotServing,
			[]string{"coordd: flag --data-dir: no server runs there"}},
		{"nobody healthy there", "health --endpoint grpc://127.0.0.1:1", nil, exit.NotServing,
			[]string{"coordd: not serving: no server at 127.0.0.1:1 (connection refused)\n"}},
		{"a tab", "serve --config PLACE/tab.yaml", nil, exit.Config,
			[]string{"flag --config: ", "line 2", "begins with a tab; YAML wants spaces"}},
		{"too few arguments", "cluster add d", nil, exit.Usage,
			[]string{"coordd cluster add takes NAME PEER-HOST:PORT, 1 argument given"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := strings.NewReplacer("PLACE", place, "CERTS", at("certs")).Replace(test.args)
			got := runBinary(t, test.environment, strings.Fields(args)...)
			if got.code != test.code || got.stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", got.code, test.code, got.stdout)
			}
			message := got.stderr[strings.LastIndex("\n"+got.stderr, "\ncoordd: "):] // behind the log
			inOrder(t, message, test.want)
		})
	}
}

// TestFormsOfEndpoints wants a server found by each way of naming it, with plain text and TLS told apart for
// who mixes them up.
func TestFormsOfEndpoints(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	plain := strings.TrimSuffix(strings.TrimPrefix(s.plain, "grpc://"), "/local")
	secured := strings.TrimSuffix(strings.TrimPrefix(s.tls, "grpcs://"), "/local")
	ca := " --ca-file " + s.path("ca.pem")
	tests := []struct {
		flags string
		code  exit.Code
		want  string
	}{
		{"-e " + plain, exit.OK, ""},
		{"-e " + plain + " -d /local", exit.OK, ""},
		{"-e " + plain + " -d local/", exit.OK, ""},
		{"--endpoint grpc://" + plain, exit.OK, ""},
		{"--endpoint grpc://" + plain + "/", exit.OK, ""},
		{"--endpoint grpc://" + plain + "/local", exit.OK, ""},
		{"--endpoint grpc://" + plain + "/?database=/local", exit.OK, ""},
		{"--endpoint grpc://" + plain + "?database=local", exit.OK, ""},
		{"-e grpcs://" + secured + ca, exit.OK, ""},
		{"-e " + secured + ca, exit.OK, ""},
		{"-e grpc://" + plain + " -d /nosuch", exit.Failure, "/nosuch"},
		{"-e grpcs://" + plain + ca, exit.NotServing, plain + " speaks plain text: use grpc://, not grpcs://"},
		{"-e grpc://" + secured, exit.NotServing,
			secured + " does not answer in plain text; if it speaks TLS, use grpcs://, not grpc://"},
		{"-e grpcs://" + secured, exit.NotServing, "the certificate of " + secured + " is not trusted: "},
		{"-e grpcs://" + secured, exit.NotServing,
			"signed by unknown authority; give --ca-file (`coordd cert` wrote it as ca.pem)"},
	}
	for _, test := range tests {
		t.Run(test.flags, func(t *testing.T) {
			got := runBinary(t, nil, strings.Fields("user list --user root --password-file "+s.path("admin")+
				" "+test.flags)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit code %d, want %d; %q, want %q", got.code, test.code, got.stderr, test.want)
			}
			if test.code == exit.OK && got.stdout != "NAME  ROLE\nroot  administrator\n" {
				t.Errorf("got %q", got.stdout)
			}
		})
	}
}

// TestClearPasswordsAreWarnedOf names servers near and far: a password in clear text is for this machine alone.
func TestClearPasswordsAreWarnedOf(t *testing.T) {
	for endpoint, want := range map[string]bool{"grpc://127.0.0.1:2136": false, "localhost:2136": false,
		"[::1]:2136": false, "grpc://192.0.2.1:2136/local": true, "db.example:2136": true,
		"grpcs://db.example:2135": false} {
		at, err := parseEndpoint(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(newFakeServer())
		at.warnOfClearText(&r.Env)
		if got := strings.Contains(r.log.String(), "in clear text"); got != want {
			t.Errorf("%s: warned %v", endpoint, got)
		}
	}
}

// TestDoneIsSaid wants each command about users to say what it did, and one that finds nothing to say that.
func TestDoneIsSaid(t *testing.T) {
	t.Parallel()
	s := &secured{t: t, directory: t.TempDir()}
	server := s.besides()
	server.ready(t)
	s.steps(
		step{"", "user list", 0, "no users\n"},
		step{"", "node ls", 0, "no coordination nodes\n"},
		step{adminPassword + "\n", "user add root", 0, "added root, an administrator\n"},
		step{appPassword + "\n", "user add app", 0, "added app\n"},
		step{newPassword + "\n", "user passwd app", 0,
			"app has another password now; the tokens from before are void\n"},
		step{"", "user rotate-key", 0, "all login tokens are void; tokens are signed with a new key now\n"},
		step{"", "user remove app", 0, "removed app\n"},
	)
	// The socket is enough for `coordd health`, wherever the server listens.
	if code, output := s.run("", "health", "--data-dir", s.path("data")); code != 0 || output != "serving\n" {
		t.Errorf("health: exit code %d, %q", code, output)
	}
	server.Command.Process.Signal(syscall.SIGTERM)
	server.exit(t)
}

// TestEmptiedServer wants a server of a cluster whose disk was wiped to be told how it comes back.
func TestEmptiedServer(t *testing.T) {
	t.Parallel()
	servers := startThree(t)
	var initial []string
	for _, server := range servers {
		initial = append(initial, server.name+"="+server.peer)
	}
	b := servers[1]
	for seen := false; !seen; { // by the cluster: which data directory it has is in the log then
		for _, m := range servers[0].status(t).Members {
			seen = seen || m.Name == "b" && m.Version > 0
		}
	}
	b.Command.Process.Kill()
	b.exit(t)
	if err := os.RemoveAll(b.directory); err != nil {
		t.Fatal(err)
	}
	b.start(t, "--initial-cluster", strings.Join(initial, ","))
	code, _ := b.exit(t) // where the others take too long to answer, it starts, and is told then
	if code != exit.Config {
		t.Errorf("exit code %d, want %d", code, exit.Config)
	}
	inOrder(t, b.Logged(), []string{"the cluster knows this member with an earlier data directory",
		"its data is gone", "coordd cluster remove NAME", "coordd cluster add NAME HOST:PORT", "--join"})
}

// TestDirectoryOfAnotherUser wants it said who would have to own a directory that cannot be used: in a
// container nobody knows.
func TestDirectoryOfAnotherUser(t *testing.T) {
	values := map[string]serve.Given{serve.DataDirName: {Origin: "flag --data-dir"}}
	err := serve.AboutDataDir(serve.Coded(&fs.PathError{Op: "open", Path: "/data/LOCK", Err: syscall.EACCES}), "/data",
		values)
	if exit.Of(err) != exit.Config {
		t.Errorf("exit code %d", exit.Of(err))
	}
	inOrder(t, err.Error(),
		[]string{"data directory /data (flag --data-dir): open /data/LOCK: permission denied",
			fmt.Sprintf("this process runs as user %d", os.Geteuid())})
}
