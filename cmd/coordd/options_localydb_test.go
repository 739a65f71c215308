package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// TestLocalYDB is the table of local-ydb's variables and what they become.
func TestLocalYDB(t *testing.T) {
	const on = "COORDD_LOCAL_YDB=true"
	directory := t.TempDir()
	tests := []struct {
		name        string
		environment []string
		args        []string
		want        func(*serve.Settings)
	}{
		{"off", []string{"GRPC_PORT=1", "YDB_USE_IN_MEMORY_PDISKS=1", "YDB_DEFAULT_LOG_LEVEL=ERROR"}, nil,
			func(s *serve.Settings) {
				s.Listen, s.HTTP.Listen = "127.0.0.1:2136", "127.0.0.1:8765"
			}},
		{"nothing else", []string{on, "YDB_GRPC_ENABLE_TLS=0"}, nil, func(s *serve.Settings) { s.LocalYDB = true }},
		{"by flag", []string{"YDB_GRPC_ENABLE_TLS=false"}, []string{"--local-ydb"},
			func(s *serve.Settings) { s.LocalYDB = true }},
		{"ports and storage", []string{on, "GRPC_PORT=2135", "GRPC_TLS_PORT=2136",
			"YDB_GRPC_TLS_DATA_PATH=" + directory, "YDB_USE_IN_MEMORY_PDISKS=True"}, nil, func(s *serve.Settings) {
			s.LocalYDB, s.Listen, s.InMemory, s.DataDir = true, ":2135", true, ""
			s.TLS = serve.TLSSettings{Listen: ":2136", Certificate: serve.File(directory + "/cert.pem"),
				Key: serve.File(directory + "/key.pem")}
		}},
		{"log", []string{on, "YDB_GRPC_ENABLE_TLS=0", "YDB_DEFAULT_LOG_LEVEL=crit"}, nil,
			func(s *serve.Settings) { s.LocalYDB, s.LogLevel = true, slog.LevelError }},
		{"monitoring", []string{on, "YDB_GRPC_ENABLE_TLS=0", "MON_PORT=1"}, nil,
			func(s *serve.Settings) { s.LocalYDB, s.HTTP.Listen = true, ":1" }},
		{"log unknown", []string{on, "YDB_GRPC_ENABLE_TLS=0", "YDB_DEFAULT_LOG_LEVEL=5"}, nil,
			func(s *serve.Settings) { s.LocalYDB = true }},
		{"ours win", []string{on, "YDB_GRPC_ENABLE_TLS=0", "GRPC_PORT=1", "COORDD_LISTEN=:2",
			"YDB_USE_IN_MEMORY_PDISKS=1"}, []string{"--in-memory=false"}, func(s *serve.Settings) {
			s.LocalYDB, s.Listen = true, ":2"
		}},
		{"our certificate", []string{on, "COORDD_TLS_CERT=/c", "COORDD_TLS_KEY=/k"}, nil, func(s *serve.Settings) {
			s.LocalYDB, s.TLS = true, serve.TLSSettings{Listen: ":2135", Certificate: "/c", Key: "/k"}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := served(t, []string{"HOME=/home/u"}, "serve")
			want.Listen, want.HTTP.Listen = ":2136", ":8765"
			test.want(&want)
			got := served(t, append([]string{"HOME=/home/u"}, test.environment...),
				append([]string{"serve"}, test.args...)...)
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestLocalYDBRefusals(t *testing.T) {
	for environment, want := range map[string][]string{
		"COORDD_LOCAL_YDB=perhaps":               {"variable COORDD_LOCAL_YDB", "true or false"},
		"COORDD_LOCAL_YDB=1 GRPC_PORT=many":      {"variable GRPC_PORT", `":many"`},
		"COORDD_LOCAL_YDB=1 GRPC_TLS_PORT=65536": {"variable GRPC_TLS_PORT", `":65536"`},
	} {
		r := newRun(newFakeServer(), append(strings.Fields(environment), "HOME=/home/u")...)
		r.begin("serve")
		if code := r.wait(t); code != exit.Config {
			t.Errorf("%s: exit code %d", environment, code)
		}
		for _, part := range want {
			if !strings.Contains(r.log.String(), part) {
				t.Errorf("%s: %q without %q", environment, r.log.String(), part)
			}
		}
	}
}

// TestLocalYDBCertificates wants certificates to be made where there are none, the authority kept, and
// nobody's own files touched.
func TestLocalYDBCertificates(t *testing.T) {
	directory := t.TempDir()
	start := func() serve.Settings {
		return served(t, []string{"HOME=/home/u", "COORDD_LOCAL_YDB=1",
			"YDB_GRPC_TLS_DATA_PATH=" + directory}, "serve")
	}
	read := func(name string) []byte {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	if s := start(); string(s.TLS.Certificate) != filepath.Join(directory, "cert.pem") ||
		string(s.TLS.Key) != filepath.Join(directory, "key.pem") || s.TLS.Listen != ":2135" {
		t.Errorf("TLS settings %+v", s.TLS)
	}
	authority, certificate := read("ca.pem"), read("cert.pem")
	start()
	if !bytes.Equal(authority, read("ca.pem")) || bytes.Equal(certificate, read("cert.pem")) {
		t.Error("the second start must keep the authority and renew the certificate")
	}
	certificate = read("cert.pem")
	if err := os.Remove(filepath.Join(directory, "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	if s := start(); s.TLS.Listen != ":2135" || !bytes.Equal(certificate, read("cert.pem")) {
		t.Error("without the authority's key the files are somebody's own, and must stay")
	}
}

// TestLocalYDBWithoutAPlace wants a server without TLS where certificates cannot be made.
func TestLocalYDBWithoutAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := served(t, []string{"HOME=/home/u", "COORDD_LOCAL_YDB=1", "YDB_GRPC_TLS_DATA_PATH=" + file},
		"serve"); s.TLS != (serve.TLSSettings{}) {
		t.Errorf("TLS settings %+v, want none", s.TLS)
	}
}

// TestLocalYDBHealth wants `coordd health` to find the port as the server does.
func TestLocalYDBHealth(t *testing.T) {
	got, err := localEndpoint(new(connectionFlags).served(),
		cmdline.Environment{"COORDD_LOCAL_YDB=1", "GRPC_PORT=2135"})
	if err != nil || got != "grpc://127.0.0.1:2135/local" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLocalYDBPage wants every variable that counts in the table of docs/local-ydb.md, and no other.
func TestLocalYDBPage(t *testing.T) {
	names := func(pattern, text string) []string {
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return found
	}
	counting := names(`localYDBGiven\(env, "([A-Z_]+)"`, readFile(t, "internal/serve/localydb.go"))
	listed := names("(?m)^\\| `([A-Z_]+)` \\| ", readFile(t, "docs/local-ydb.md"))
	if len(counting) == 0 || !slices.Equal(counting, listed) {
		t.Errorf("the program reads %v, docs/local-ydb.md lists %v", counting, listed)
	}
}
