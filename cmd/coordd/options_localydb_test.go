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
)

// TestLocalYDB is the table of local-ydb's variables and what they become.
func TestLocalYDB(t *testing.T) {
	const on = "COORDD_LOCAL_YDB=true"
	directory := t.TempDir()
	tests := []struct {
		name        string
		environment []string
		args        []string
		want        func(*settings)
	}{
		{"off", []string{"GRPC_PORT=1", "YDB_USE_IN_MEMORY_PDISKS=1", "YDB_DEFAULT_LOG_LEVEL=ERROR"}, nil,
			func(s *settings) {
				s.listen, s.http.listen = "127.0.0.1:2136", "127.0.0.1:8765"
			}},
		{"nothing else", []string{on, "YDB_GRPC_ENABLE_TLS=0"}, nil, func(s *settings) { s.localYDB = true }},
		{"by flag", []string{"YDB_GRPC_ENABLE_TLS=false"}, []string{"--local-ydb"},
			func(s *settings) { s.localYDB = true }},
		{"ports and storage", []string{on, "GRPC_PORT=2135", "GRPC_TLS_PORT=2136",
			"YDB_GRPC_TLS_DATA_PATH=" + directory, "YDB_USE_IN_MEMORY_PDISKS=True"}, nil, func(s *settings) {
			s.localYDB, s.listen, s.inMemory, s.dataDir = true, ":2135", true, ""
			s.tls = tlsSettings{listen: ":2136", certificate: directory + "/cert.pem",
				key: directory + "/key.pem"}
		}},
		{"log", []string{on, "YDB_GRPC_ENABLE_TLS=0", "YDB_DEFAULT_LOG_LEVEL=crit"}, nil,
			func(s *settings) { s.localYDB, s.logLevel = true, slog.LevelError }},
		{"monitoring", []string{on, "YDB_GRPC_ENABLE_TLS=0", "MON_PORT=1"}, nil,
			func(s *settings) { s.localYDB, s.http.listen = true, ":1" }},
		{"log unknown", []string{on, "YDB_GRPC_ENABLE_TLS=0", "YDB_DEFAULT_LOG_LEVEL=5"}, nil,
			func(s *settings) { s.localYDB = true }},
		{"ours win", []string{on, "YDB_GRPC_ENABLE_TLS=0", "GRPC_PORT=1", "COORDD_LISTEN=:2",
			"YDB_USE_IN_MEMORY_PDISKS=1"}, []string{"--in-memory=false"}, func(s *settings) {
			s.localYDB, s.listen = true, ":2"
		}},
		{"our certificate", []string{on, "COORDD_TLS_CERT=/c", "COORDD_TLS_KEY=/k"}, nil, func(s *settings) {
			s.localYDB, s.tls = true, tlsSettings{listen: ":2135", certificate: "/c", key: "/k"}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := served(t, []string{"HOME=/home/u"}, "serve")
			want.listen, want.http.listen = ":2136", ":8765"
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
		if code := r.wait(t); code != exitConfig {
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
	start := func() settings {
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
	if s := start(); s.tls.certificate != filepath.Join(directory, "cert.pem") ||
		s.tls.key != filepath.Join(directory, "key.pem") || s.tls.listen != ":2135" {
		t.Errorf("TLS settings %+v", s.tls)
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
	if s := start(); s.tls.listen != ":2135" || !bytes.Equal(certificate, read("cert.pem")) {
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
		"serve"); s.tls != (tlsSettings{}) {
		t.Errorf("TLS settings %+v, want none", s.tls)
	}
}

// TestLocalYDBHealth wants `coordd health` to find the port as the server does.
func TestLocalYDBHealth(t *testing.T) {
	got, err := localEndpoint(new(connectionFlags).served(),
		environment{"COORDD_LOCAL_YDB=1", "GRPC_PORT=2135"})
	if err != nil || got != "grpc://127.0.0.1:2135/local" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLocalYDBPage wants every variable that counts in the table of docs/docker.md, and no other.
func TestLocalYDBPage(t *testing.T) {
	names := func(pattern, text string) []string {
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return found
	}
	counting := names(`localYDBGiven\(env, "([A-Z_]+)"`, readFile(t, "cmd/coordd/options_localydb.go"))
	listed := names("(?m)^\\| `([A-Z_]+)` \\| ", readFile(t, "docs/docker.md"))
	if len(counting) == 0 || !slices.Equal(counting, listed) {
		t.Errorf("the program reads %v, docs/docker.md lists %v", counting, listed)
	}
}
