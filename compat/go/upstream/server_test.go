package upstream

import (
	"go/ast"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coordd/coordd/compat/go/upstream/internal/testserver"
)

// connectBy is the variable of the connection string for the SDK's tests.
const connectBy = "YDB_CONNECTION_STRING="

// way is a way from the SDK's tests to coordd.
type way struct {
	kind, name  string
	environment []string    // that the SDK's tests read
	turn        *sync.Mutex // of ways that share servers: the tests use the same paths
}

// startWays starts servers for every way: without anything, with TLS, with authentication by password and by
// token, and three servers, through each of them.
func startWays(t *testing.T) []way {
	t.Helper()
	if os.Getenv("COORDD_BIN") == "" {
		t.Skip("COORDD_BIN names no program: `make compat-upstream` builds it and runs this")
	}
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
	testserver.Run(t, "cert", "--dir", certificates)

	plain := testserver.Serve(t, append([]string{"--in-memory"}, users...)...)
	secure := testserver.Serve(t, append([]string{"--in-memory", "--listen-tls=127.0.0.1:0", "--tls-cert",
		filepath.Join(certificates, "cert.pem"), "--tls-key", filepath.Join(certificates, "key.pem")}, users...)...)
	guarded := testserver.Serve(t, append([]string{"--in-memory"}, authenticated...)...)
	encrypted := "grpcs://" + secure.TLSAddress() + "/local"
	guardedTurn, clusterTurn := new(sync.Mutex), new(sync.Mutex)
	ways := []way{
		{"plain", "plain", []string{connectBy + plain.Endpoint()}, new(sync.Mutex)},
		{"tls", "tls", []string{connectBy + encrypted, "YDB_CONNECTION_STRING_SECURE=" + encrypted,
			"YDB_SSL_ROOT_CERTIFICATES_FILE=" + filepath.Join(certificates, "ca.pem")}, new(sync.Mutex)},
		{"user", "user", []string{connectBy + strings.Replace(guarded.Endpoint(), "grpc://", "grpc://root:1234@",
			1)}, guardedTurn}, {"token", "token",
			[]string{connectBy + guarded.Endpoint(), "YDB_ACCESS_TOKEN_CREDENTIALS=token-of-root"}, guardedTurn},
	}
	for _, s := range testserver.StartCluster(t, []string{"a", "b", "c"}, users...) {
		ways = append(ways, way{"servers", s.Name + " of three", []string{connectBy + s.Endpoint()}, clusterTurn})
	}
	return ways
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
