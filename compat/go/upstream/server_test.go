package upstream

import (
	"bufio"
	"go/ast"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// connectBy is what the SDK's tests take the connection string from.
const connectBy = "YDB_CONNECTION_STRING="

// way is how the SDK's tests reach coordd.
type way struct {
	kind, name  string
	environment []string    // that the SDK's tests read
	turn        *sync.Mutex // of those who share servers: the tests use the same paths
}

// startWays starts servers for every way: without anything, with TLS, with authentication by password and by
// token, and three servers, through each of them.
func startWays(t *testing.T) []way {
	t.Helper()
	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The user that TestStaticCredentials logs in as.
	users := []string{"--initial-admin=root", "--initial-admin-password-file", write("password", "1234\n")}
	authenticated := append([]string{"--auth=required", "--token-file",
		write("tokens", "token-of-root root\n")}, users...)
	certificates := filepath.Join(directory, "certificates")
	if out, err := exec.Command(coordd(t), "cert", "--dir", certificates).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	plain := start(t, append([]string{"--in-memory", "--listen=127.0.0.1:0"}, users...)...)
	secure := start(t, append([]string{"--in-memory", "--listen=127.0.0.1:0", "--listen-tls=127.0.0.1:0",
		"--tls-cert", filepath.Join(certificates, "cert.pem"), "--tls-key",
		filepath.Join(certificates, "key.pem")}, users...)...)
	guarded := start(t, append([]string{"--in-memory", "--listen=127.0.0.1:0"}, authenticated...)...)
	guardedTurn, clusterTurn := new(sync.Mutex), new(sync.Mutex)
	ways := []way{
		{"plain", "plain", []string{connectBy + plain.grpc}, new(sync.Mutex)},
		{"tls", "tls", []string{connectBy + secure.grpcs, "YDB_CONNECTION_STRING_SECURE=" + secure.grpcs,
			"YDB_SSL_ROOT_CERTIFICATES_FILE=" + filepath.Join(certificates, "ca.pem")}, new(sync.Mutex)},
		{"user", "user", []string{connectBy + strings.Replace(guarded.grpc, "grpc://", "grpc://root:1234@",
			1)}, guardedTurn}, {"token", "token",
			[]string{connectBy + guarded.grpc, "YDB_ACCESS_TOKEN_CREDENTIALS=token-of-root"}, guardedTurn},
	}
	for name, s := range startCluster(t, directory, users) {
		ways = append(ways, way{"servers", name + " of three", []string{connectBy + s.grpc}, clusterTurn})
	}
	return ways
}

// startCluster starts three servers.
func startCluster(t *testing.T, directory string, users []string) iter.Seq2[string, *server] {
	t.Helper()
	names := []string{"a", "b", "c"}
	var members []string
	for _, name := range names {
		members = append(members, name+"="+freeAddress(t))
	}
	servers := make([]*server, len(names))
	for i, name := range names {
		_, peer, _ := strings.Cut(members[i], "=")
		servers[i] = launch(t, append([]string{"--name", name, "--listen=127.0.0.1:0", "--listen-peer", peer,
			"--insecure-peers", "--initial-cluster", strings.Join(members, ","), "--data-dir",
			filepath.Join(directory, name)}, users...)...)
	}
	return func(yield func(string, *server) bool) {
		for i, name := range names {
			servers[i].await()
			if !yield(name, servers[i]) {
				return
			}
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// server is a running coordd.
type server struct {
	t           *testing.T
	command     *exec.Cmd
	ready       chan string // the line that it prints
	log         string
	grpc, grpcs string // connection strings
}

var tlsConnection = regexp.MustCompile(`grpcs://[^\s"]+`)

func start(t *testing.T, args ...string) *server {
	t.Helper()
	s := launch(t, args...)
	s.await()
	return s
}

// launch starts a server, which ends with the test.
func launch(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, ready: make(chan string, 1), log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.command = exec.Command(coordd(t), append([]string{"serve", "--listen-http=off"}, args...)...)
	s.command.Stderr = log
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		s.ready <- strings.TrimSpace(line)
	}()
	t.Cleanup(func() {
		_ = s.command.Process.Signal(syscall.SIGTERM)
		if err := s.command.Wait(); err != nil {
			text, _ := os.ReadFile(s.log)
			t.Logf("coordd %v: %v\n%s", args, err, text)
		}
	})
	return s
}

// await waits until the server serves.
func (s *server) await() {
	s.t.Helper()
	if s.grpc = <-s.ready; s.grpc == "" {
		text, _ := os.ReadFile(s.log)
		s.t.Fatalf("coordd does not start\n%s", text)
	}
	text, _ := os.ReadFile(s.log)
	s.grpcs = string(tlsConnection.Find(text))
}

// coordd is the program that COORDD_BIN names.
func coordd(t *testing.T) string {
	t.Helper()
	path := os.Getenv("COORDD_BIN")
	if path == "" {
		t.Skip("COORDD_BIN names no program: `make compat-upstream` builds it and runs this")
	}
	return path
}

// testsOf are the names of the tests in a file.
func testsOf(file *ast.File) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" &&
				!yield(f.Name.Name) {
				return
			}
		}
	}
}
