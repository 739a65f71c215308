package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// Secrets of these tests. Each is a word of its own, so that it can be looked for.
const (
	adminPassword = "admin-password-8c1f"
	appPassword   = "app-password-77d2"
	newPassword   = "new-password-40be"
	wrongPassword = "wrong-password-e5a9"
	fileToken     = "file-token-913c"
	badToken      = "bad-token-0d6b"
	sessionKey    = "session-key-5f3a"
)

// secured is a running binary with TLS, users and tokens, and the commands that talk to it.
type secured struct {
	t         *testing.T
	server    *process
	directory string // certificates, passwords, tokens
	plain     string // connection string
	tls       string // the same by TLS
	output    bytes.Buffer
	env       []string // further variables of the commands
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{t: t, directory: t.TempDir()}
	if code, output := s.run("", "cert", "--dir", s.directory); code != 0 {
		t.Fatalf("cert: exit code %d, %s", code, output)
	}
	s.server = spawn(t, "serve", "--listen=127.0.0.1:0", "--listen-tls=127.0.0.1:0", "--data-dir",
		filepath.Join(s.directory, "data"), "--tls-cert", s.path("cert.pem"), "--tls-key", s.path("key.pem"),
		"--tls-client-ca", s.path("ca.pem"), "--auth=required", "--token-file",
		s.file("tokens", fileToken+" machine\n"), "--initial-admin=root", "--initial-admin-password-file",
		s.file("admin", adminPassword+"\n"), "--log-level=debug")
	s.plain = s.server.ready(t)
	s.tls = tlsConnection(t, s.server)
	return s
}

// tlsConnection waits for the TLS connection string in the log, which is written before the ready line but is
// read by another goroutine.
func tlsConnection(t *testing.T, p *process) string {
	t.Helper()
	named := regexp.MustCompile(`connection=(grpcs://\S+)`)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.After(waitMax)
	for {
		if found := named.FindStringSubmatch(p.Logged()); found != nil {
			return found[1]
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("no TLS connection string in the log:\n%s", p.Logged())
		}
	}
}

func (s *secured) path(name string) string { return filepath.Join(s.directory, name) }

func (s *secured) file(name, content string) string {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.path(name)
}

// run runs the binary to its end and returns its exit code and all it wrote.
func (s *secured) run(stdin string, args ...string) (int, string) {
	s.t.Helper()
	command := exec.Command(binary, args...)
	command.Env, command.Stdin = append([]string{"HOME=" + s.directory}, s.env...), strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		s.t.Fatal(err)
	}
	s.output.Write(output)
	return command.ProcessState.ExitCode(), string(output)
}

// user runs `coordd user` as the administrator.
func (s *secured) user(stdin string, args ...string) (int, string) {
	s.t.Helper()
	args = append([]string{"user"}, args...)
	return s.run(stdin, append(args, "--endpoint", s.tls, "--ca-file", s.path("ca.pem"), "--user=root",
		"--password-file", s.path("admin"))...)
}

func (s *secured) connect() *grpc.ClientConn {
	s.t.Helper()
	security, err := protocol.Trust(s.path("ca.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	at, err := parseEndpoint(s.tls)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := grpc.NewClient(at.address, grpc.WithTransportCredentials(security))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// TestSecretsStayOut runs a server through everything that handles a secret, with the log at its most
// talkative, and looks for the secrets in all that it and the commands have written.
func TestSecretsStayOut(t *testing.T) {
	s := startSecured(t)
	for _, step := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{appPassword + "\n", []string{"add", "app"}, 0, ""},
		{appPassword + "\n", []string{"add", "app"}, 1, "already exists"},
		{newPassword + "\n", []string{"passwd", "app"}, 0, ""},
		{"", []string{"list"}, 0, "NAME  ROLE\napp   user\nroot  administrator\n"},
		{"", []string{"passwd", "app"}, 1, "no password"},
		{"", []string{"rotate-key"}, 0, ""},
	} {
		code, output := s.user(step.stdin, step.args...)
		if code != step.code || !strings.Contains(output, step.want) {
			t.Errorf("user %q: exit code %d, output %q; want %d, %q", step.args, code, output, step.code,
				step.want)
		}
	}
	conn := s.connect()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	login := func(password string) *Ydb_Auth.LoginResponse {
		answer, err := Ydb_Auth_V1.NewAuthServiceClient(conn).Login(ctx,
			&Ydb_Auth.LoginRequest{User: "app", Password: password})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var answers []string
	for _, password := range []string{wrongPassword, appPassword} {
		answer := login(password)
		if answer.GetOperation().GetStatus() != Ydb.StatusIds_UNAUTHORIZED {
			t.Errorf("got %v", answer)
		}
		answers = append(answers, answer.String())
	}
	var result Ydb_Auth.LoginResult
	if err := login(newPassword).GetOperation().GetResult().UnmarshalTo(&result); err != nil {
		t.Fatal(err)
	}
	answers = append(answers, s.useTokens(ctx, conn, result.GetToken())...)
	if code, output := s.user("", "remove", "app"); code != 0 {
		t.Errorf("remove: %d, %s", code, output)
	}
	s.server.Command.Process.Signal(syscall.SIGTERM)
	code, lines := s.server.exit(t)
	if code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	written := map[string]string{"log": s.server.Logged(), "stdout": strings.Join(lines, "\n"),
		"commands": s.output.String(), "answers": strings.Join(answers, "\n")}
	s.wantNoSecret(written, result.GetToken())
}

// useTokens makes calls with tokens good and bad, and returns what the server answered.
func (s *secured) useTokens(ctx context.Context, conn *grpc.ClientConn, loginToken string) []string {
	t := s.t
	t.Helper()
	var answers []string
	discovery := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn)
	for token, user := range map[string]string{loginToken: "app", fileToken: "machine", badToken: "",
		loginToken + "x": ""} {
		answer, err := discovery.WhoAmI(metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", token),
			&Ydb_Discovery.WhoAmIRequest{})
		if user == "" {
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("a bad token: got %v", err)
			}
			answers = append(answers, err.Error())
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(answer.GetOperation().GetResult().GetValue()), user) {
			t.Errorf("got %v, want %s", answer, user)
		}
	}
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(
		conn).Session(metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", fileToken))
	if err != nil {
		t.Fatal(err)
	}
	start := &Ydb_Coordination.SessionRequest_SessionStart{Path: "/local", ProtectionKey: []byte(sessionKey)}
	if err := stream.Send(&Ydb_Coordination.SessionRequest{
		Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start}}); err != nil {
		t.Fatal(err)
	}
	failure, err := stream.Recv()
	if err != nil || failure.GetFailure() == nil {
		t.Fatalf("got %v, %v", failure, err)
	}
	return append(answers, failure.String())
}

func (s *secured) wantNoSecret(written map[string]string, loginToken string) {
	s.t.Helper()
	key, err := os.ReadFile(s.path("key.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	secrets := []string{adminPassword, appPassword, newPassword, wrongPassword, fileToken, badToken,
		sessionKey, "$argon2id", strings.Split(loginToken, ".")[2], strings.Split(string(key), "\n")[1]}
	for where, text := range written {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				s.t.Errorf("%s: %q is in it", where, secret)
			}
		}
	}
	if len(written["log"]) == 0 || !strings.Contains(written["log"], "level=DEBUG") {
		s.t.Errorf("the log is not at its most talkative: %q", written["log"])
	}
}

// besides runs a server whose data is where the commands of s look for it, with further flags.
func (s *secured) besides(flags ...string) *process {
	s.t.Helper()
	// root's default is another directory than anybody else's
	s.env = []string{"COORDD_DATA_DIR=" + s.path("data")}
	args := []string{"serve", "--listen=127.0.0.1:0", "--auth=required", "--data-dir", s.path("data")}
	return spawn(s.t, append(args, flags...)...)
}

// step is a command, what it reads, and how it has to end.
type step struct {
	stdin string
	args  string
	code  int
	want  string
}

func (s *secured) steps(steps ...step) {
	s.t.Helper()
	for _, step := range steps {
		if code, output := s.run(step.stdin, strings.Fields(step.args)...); code != step.code ||
			!strings.Contains(output, step.want) {
			s.t.Errorf("%s: exit code %d, %s; want %d, %s", step.args, code, output, step.code, step.want)
		}
	}
}

// TestFirstUserByCommand is the way of docs/security.md, without --initial-admin: the owner of the data directory is
// the administrator, and nobody else on the machine is.
func TestFirstUserByCommand(t *testing.T) {
	s := &secured{t: t, directory: t.TempDir()}
	server := s.besides()
	endpoint := server.ready(t)
	s.steps(
		step{adminPassword + "\n", "user add root --endpoint " + endpoint, 1,
			"Only administrators may manage users: log in"},
		step{adminPassword + "\n", "user add root", 0, ""},
		step{appPassword + "\n", "user add eve --endpoint " + endpoint, 1, "Only administrators"},
		step{adminPassword + "\n" + appPassword + "\n", "user add app --user=root", 0, ""},
		step{wrongPassword + "\n", "user list --user=root --endpoint " + endpoint, 1,
			"Invalid user or password"},
		step{appPassword + "\n", "user list --user=app", 1, "Only administrators"},
		step{appPassword + "\n", "node quota /local --user=app", 1,
			"Only administrators may see and set quotas: log in"},
		step{appPassword + "\n" + newPassword + "\n", "user passwd app --user=app --endpoint " + endpoint, 0, ""},
		step{appPassword + "\n", "user list --user=app", 1, "Invalid user or password"},
		step{"", "user list", 0, "NAME  ROLE\napp   user\nroot  administrator\n"},
		step{"", "user list -o json", 0,
			"[\n" + `{"name":"app","administrator":false}` + ",\n" + `{"name":"root","administrator":true}` + "\n]\n"},
		step{"", "user list -o jsonl", 0,
			`{"name":"app","administrator":false}` + "\n" + `{"name":"root","administrator":true}` + "\n"},
		step{"", "user rotate-key --data-dir " + s.path("data"), 0, ""},
		step{"", "cluster status", 0, "leader"},
		step{"", "cluster status --endpoint " + endpoint, 1, "Authentication is required"},
		step{"", "cluster snapshot --to " + s.path("backup"), 0, "everything up to entry"},
		step{"", "cluster status --data-dir " + s.path("nowhere"), int(exit.NotServing),
			"no server runs there"}, step{"", "cluster status --endpoint " + endpoint + " --data-dir x", 2,
			"give one of them"},
	)
	if info, err := os.Lstat(s.path("data/admin.sock")); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	server.Kill()
	server.exit(t)
	s.steps(step{"", "user list", int(exit.NotServing),
		"no server at the socket " + s.path("data/admin.sock") + " (connection refused)"})
	server = s.besides()
	server.ready(t)
	s.steps(step{"", "user list", 0, "NAME  ROLE\napp   user\n"})
	server.Command.Process.Signal(syscall.SIGTERM)
	if code, _ := server.exit(t); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	if left, err := filepath.Glob(s.path("data/*admin*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestAudit wants one line in the log for each administrative act, with who did it, and none for what changes
// nothing.
func TestAudit(t *testing.T) {
	s := &secured{t: t, directory: t.TempDir()}
	server := s.besides()
	endpoint := server.ready(t)
	s.steps(
		step{adminPassword + "\n", "user add root", 0, ""},
		step{adminPassword + "\n" + appPassword + "\n",
			"user add app --user root --administrator --endpoint " + endpoint, 0, ""},
		step{adminPassword + "\n" + appPassword + "\n", "user add app --user root", 1, "exists"},
		step{appPassword + "\n" + newPassword + "\n", "user passwd app --user=app", 0, ""},
		step{"", "user list", 0, ""},
		step{"", "cluster status", 0, ""},
		step{appPassword + "\n", "user add eve --endpoint " + endpoint, 1, "Only administrators"},
		step{"", "user rotate-key", 0, ""},
		step{"", "cluster snapshot --to " + s.path("backup"), 0, ""},
		step{"", "cluster add b 127.0.0.1:1", 1, ""},
		step{"", "user remove app", 0, ""},
	)
	server.Command.Process.Signal(syscall.SIGTERM)
	server.exit(t)
	var acts []string
	for _, line := range strings.Split(server.Logged(), "\n") {
		if strings.Contains(line, "administration") {
			_, act, _ := strings.Cut(line, " act=")
			act, _, _ = strings.Cut(act, " from=")
			acts = append(acts, act)
		}
	}
	const socket = ` user="(administrator's socket)"`
	want := []string{
		"Users/Add target=root" + socket,
		`Users/Add target="app, an administrator" user=root`,
		"Users/Add target=app user=root",
		"Users/SetPassword target=app user=app",
		"Users/Add target=eve user=(nobody)",
		`Users/RotateKey target=""` + socket,
		`Cluster/Snapshot target=""` + socket,
		`Cluster/Add target="b at 127.0.0.1:1"` + socket,
		"Users/Remove target=app" + socket,
	}
	if got, want := strings.Join(acts, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, password := range []string{adminPassword, appPassword, newPassword} {
		if strings.Contains(server.Logged(), password) {
			t.Errorf("%s is in the log", password)
		}
	}
}

// TestLoopbackAdmin is the rule of older versions, for those who ask for it: it is warned of.
func TestLoopbackAdmin(t *testing.T) {
	s := &secured{t: t, directory: t.TempDir()}
	server := spawn(t, "serve", "--listen=127.0.0.1:0", "--in-memory", "--auth=required", "--loopback-admin")
	endpoint := server.ready(t)
	s.steps(
		step{adminPassword + "\n", "user add root --endpoint " + endpoint, 0, ""},
		step{appPassword + "\n", "user add eve --endpoint " + endpoint, 1, "Only administrators"},
		step{adminPassword + "\n", "cluster status --user root --endpoint " + endpoint, 0, "leader"},
	)
	inOrder(t, server.Logged(), []string{"level=WARN", "--loopback-admin goes away"})
	open := spawn(t, "serve", "--listen=127.0.0.1:0", "--in-memory", "--loopback-admin")
	endpoint = open.ready(t)
	s.steps(
		step{adminPassword + "\n", "user add root --endpoint " + endpoint, 0, ""},
		step{appPassword + "\n", "user add app --endpoint " + endpoint, 0, ""},
		step{"", "cluster status --endpoint " + endpoint, 0, "leader"},
	)
}

// TestInsecurePeersAreWarnedOf at each start where others can reach the port.
func TestInsecurePeersAreWarnedOf(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:2380": false, "[::1]:2380": false,
		"localhost:2380": false, ":2380": true, "0.0.0.0:2380": true, "10.0.0.1:2380": true,
		"a.example:2380": true} {
		for _, insecure := range []string{"true", "false"} {
			r := newRun(newFakeServer())
			r.in <- syscall.SIGTERM
			r.begin("serve", "--in-memory", "--name=a", "--listen-peer", address,
				"--insecure-peers="+insecure)
			if code := r.wait(t); code != exit.OK {
				t.Fatalf("exit code %d, %s", code, r.log.String())
			}
			if got := strings.Contains(r.log.String(),
				`level=WARN msg="whoever reaches the port for the other servers`); got != (want &&
				insecure == "true") {
				t.Errorf("%s, --insecure-peers=%s: warned is %v\n%s", address, insecure, got, r.log.String())
			}
		}
	}
}

// TestSecurityConfiguration wants mistakes told before anything is served.
func TestSecurityConfiguration(t *testing.T) {
	s := &secured{t: t, directory: t.TempDir()}
	if code, output := s.run("", "cert", "--dir", s.directory); code != 0 {
		t.Fatalf("exit code %d, %s", code, output)
	}
	tokens := s.file("tokens", "good user\n"+fileToken+"\n")
	for name, test := range map[string]struct {
		args []string
		code exit.Code
		want []string
	}{
		"no certificate": {[]string{"--listen-tls=127.0.0.1:0"}, exit.Config,
			[]string{"flag --listen-tls", "--tls-cert and --tls-key", "coordd cert"}},
		"no listener": {[]string{"--tls-cert", s.path("cert.pem")}, exit.Config,
			[]string{"flag --tls-cert", "--listen-tls"}},
		"no way in": {[]string{"--listen=off"}, exit.Config, []string{"flag --listen:", "--listen-tls"}},
		"no way to it for a proxy": {[]string{"--listen=off", "--listen-tls=127.0.0.1:0", "--tls-cert",
			s.path("cert.pem"),
			"--tls-key", s.path("key.pem"), "--advertise=grpcs://a:1"}, exit.Config,
			[]string{"flag --advertise", "--listen HOST:PORT", "proxy"}},
		"certificates of nobody": {[]string{"--listen-tls=127.0.0.1:0", "--tls-cert", s.path("cert.pem"), "--tls-key",
			s.path("key.pem"), "--tls-client-auth=required"}, exit.Config,
			[]string{"flag --tls-client-auth", "--tls-client-ca"}},
		"no administrator": {[]string{"--initial-admin-password-file", s.path("key.pem")}, exit.Config,
			[]string{"flag --initial-admin-password-file", "--initial-admin,"}},
		"no key file": {[]string{"--listen-tls=127.0.0.1:0", "--tls-cert", s.path("cert.pem"), "--tls-key",
			s.path("none")}, exit.Config, []string{"flag --tls-key", "no such file"}},
		"one address": {[]string{"--listen=127.0.0.1:9", "--listen-tls=127.0.0.1:9", "--tls-cert",
			s.path("cert.pem"), "--tls-key", s.path("key.pem")}, exit.Config,
			[]string{"flag --listen-tls", "127.0.0.1:9", "--listen already"}},
		"member in memory": {[]string{"--name=a", "--listen-peer=127.0.0.1:9", "--insecure-peers"},
			exit.Config, []string{"flag --in-memory", "--data-dir"}},
		"no password": {[]string{"--initial-admin=root"}, exit.Config,
			[]string{"flag --initial-admin:", "--initial-admin-password-file", "password"}},
		"no password file": {[]string{"--initial-admin=root", "--initial-admin-password-file",
			s.path("none")}, exit.Config, []string{"flag --initial-admin-password-file", "no such file"}},
		"no token file": {[]string{"--token-file", s.path("none")}, exit.Config,
			[]string{"flag --token-file", "no such file"}},
		"bad token file": {[]string{"--token-file", tokens}, exit.Config, []string{"token file " + tokens, "line 2",
			"want a token, a space"}},
		"key of another": {[]string{"--listen-tls=127.0.0.1:0", "--tls-cert", s.path("cert.pem"), "--tls-key",
			s.path("ca-key.pem")}, exit.Config, []string{"TLS certificate", "cert.pem", "ca-key.pem"}},
		"no client authority": {[]string{"--listen-tls=127.0.0.1:0", "--tls-cert", s.path("cert.pem"), "--tls-key",
			s.path("key.pem"), "--tls-client-ca", s.path("key.pem")}, exit.Config,
			[]string{"TLS client authorities", "no certificate in it"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := spawn(t, append([]string{"serve", "--listen=127.0.0.1:0", "--in-memory"}, test.args...)...)
			p.wantExit(t, test.code, test.want...)
			if strings.Contains(p.Logged(), fileToken) {
				t.Error("a token is in the error")
			}
		})
	}
}

// TestCertificates covers what the certificates are good for, and that the authority is kept.
func TestCertificates(t *testing.T) {
	s := &secured{t: t, directory: filepath.Join(t.TempDir(), "a", "certs")}
	certificate := func(name string) *x509.Certificate {
		t.Helper()
		content, err := os.ReadFile(s.path(name))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(content)
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	make := func(args ...string) {
		t.Helper()
		command := newRun(newFakeServer())
		if code := command.run(append([]string{"cert", "--dir", s.directory},
			args...)); code != exit.OK {
			t.Fatalf("exit code %d, %s", code, command.log.String())
		}
	}
	make("--host", "coordd.example.net, 192.0.2.7")
	ca, first := certificate("ca.pem"), certificate("cert.pem")
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "coordd.example.net", "192.0.2.7"} {
		if _, err := first.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := first.Verify(x509.VerifyOptions{Roots: roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("the server's certificate is good for a client")
	}
	make("--client", "ops")
	client := certificate("ops.pem")
	if _, err := client.Verify(x509.VerifyOptions{Roots: roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil ||
		client.Subject.CommonName != "ops" {
		t.Errorf("client %v: %v", client.Subject, err)
	}
	make("--peer", "a", "--host", "a.example")
	peer := certificate("a.pem")
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := peer.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.example",
			KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Errorf("peer: %v", err)
		}
	}
	if peer.VerifyHostname("localhost") == nil {
		t.Error("the peer's certificate is good for another host")
	}
	make("--peer", "b")
	if err := certificate("b.pem").VerifyHostname("127.0.0.1"); err != nil {
		t.Errorf("peer on this machine: %v", err)
	}
	make()
	if again := certificate("ca.pem"); !again.Equal(ca) || certificate("cert.pem").Equal(first) {
		t.Error("want the authority kept and the server's certificate made anew")
	}
	for _, name := range []string{"ca-key.pem", "key.pem", "ops-key.pem"} {
		info, err := os.Stat(s.path(name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if first.NotAfter.Before(time.Now().Add(300 * 24 * time.Hour)) {
		t.Errorf("good until %v", first.NotAfter)
	}
	s.file("ca-key.pem", "nonsense")
	command := newRun(newFakeServer())
	if code := command.run([]string{"cert", "--dir", s.directory}); code != exit.Failure {
		t.Errorf("a broken authority: exit code %d, %s", code, command.log.String())
	}
}
