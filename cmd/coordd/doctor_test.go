package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

// results is what `coordd doctor` finds, by check.
func results(t *testing.T, code exit.Code, args ...string) map[string]string {
	t.Helper()
	got := runBinary(t, nil, append([]string{"doctor", "-o", "json"}, args...)...)
	if got.code != code {
		t.Fatalf("exit code %d, want %d: %s%s", got.code, code, got.stdout, got.stderr)
	}
	byCheck := map[string]string{}
	for _, f := range parsed(t, got.stdout).([]any) {
		byCheck[at(t, f, "check").(string)] = at(t, f, "result").(string) + ": " + at(t, f, "text").(string)
	}
	return byCheck
}

func wantResult(t *testing.T, got map[string]string, check string, parts ...string) {
	t.Helper()
	if got[check] == "" {
		t.Errorf("nothing is said of %s: %v", check, got)
		return
	}
	inOrder(t, got[check], parts)
}

// A machine on which a server can run, one with mistakes, and a server that runs.
func TestDoctor(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	at := func(name string) string { return filepath.Join(place, name) }
	got := results(t, exit.OK, "--data-dir", at("new"), "--listen", "127.0.0.1:0", "--listen-http", "off")
	wantResult(t, got, "data directory", "ok", "will be made")
	wantResult(t, got, "appends to the log", ": one takes", "(write ", "fsync ")
	wantResult(t, got, "free space", "MiB")
	wantResult(t, got, "--listen", "ok", "is free")
	wantResult(t, got, "server", "ok: none runs")
	wantResult(t, got, "clock", ": ")
	wantResult(t, got, "descriptors", ": ")
	if _, err := os.Stat(at("new")); err == nil {
		t.Error("the data directory was made")
	}
	if left, _ := filepath.Glob(at(".doctor-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if made := runBinary(t, nil, "cert", "--dir", at("certs")); made.code != exit.OK {
		t.Fatal(made)
	}
	if err := os.Chmod(at("certs/key.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := serveOn(t, at("data"))
	got = results(t, exit.Failure, "--data-dir", at("data"), "--listen", "127.0.0.1:0", "--listen-http", "off",
		"--listen-tls", "192.0.2.1:2135", "--tls-cert", at("certs/cert.pem"), "--tls-key",
		at("certs/key.pem"), "--token-file", at("none"))
	wantResult(t, got, "--listen-tls", "failure", "192.0.2.1")
	wantResult(t, got, "--tls-cert", "ok", "good until")
	wantResult(t, got, "--tls-key", "warning", "open to others", "0644, want 0600")
	wantResult(t, got, "--token-file", "failure", "no such file")
	wantResult(t, got, "server", ": it serves")
	wantResult(t, got, "cluster", "ok: 1 server")
	server.Kill()
	inOrder(t, runBinary(t, nil, "doctor", "--data-dir", at("data"), "--listen", "127.0.0.1:0",
		"--listen-http", "off").stdout, []string{"CHECK", "RESULT", "FOUND",
		"none runs on the data directory"})
	if wrong := runBinary(t, nil, "doctor", "--listen", "nowhere"); wrong.code != exit.Usage ||
		!strings.Contains(wrong.stderr, "flag --listen") {
		t.Error(wrong)
	}
}

// Certificates are told of before they expire.
func TestDoctorExpiry(t *testing.T) {
	place := t.TempDir()
	if made := runBinary(t, nil, "cert", "--dir", place); made.code != exit.OK {
		t.Fatal(made)
	}
	s := serve.Settings{TLS: serve.TLSSettings{Certificate: serve.File(filepath.Join(place, "cert.pem"))}}
	end, err := serve.CertificateEnd(string(s.TLS.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[time.Duration]string{time.Second: foundWarning,
		expirySoon + time.Hour: foundWell, -time.Second: foundFailure} {
		if got := examineCertificates(s, end.Add(-left)); got[0].Result != want {
			t.Errorf("%v before its end: %v", left, got)
		}
	}
}

// A cluster with an older server, one that is away, states that differ, and no leader.
func TestDoctorCluster(t *testing.T) {
	member := func(name string, version uint64, connected bool) *adminpb.ClusterMember {
		return &adminpb.ClusterMember{Name: name, Version: version, Connected: connected}
	}
	got := examineCluster(&adminpb.ClusterStatus{Diverged: "b differs",
		Members: []*adminpb.ClusterMember{member("a", 2, true), member("b", 1, true), member("c", 0, false)}})
	var said []string
	for _, f := range got {
		said = append(said, f.Check+" "+f.Result+": "+f.Text)
	}
	inOrder(t, strings.Join(said, "\n"), []string{"cluster failure: b differs",
		"cluster failure: no server leads", "members warning", "not connected to c",
		"versions warning: b run"})
	if got := examineCluster(&adminpb.ClusterStatus{Leader: "1",
		Members: []*adminpb.ClusterMember{member("a", 2, true)}}); len(got) != 1 ||
		got[0].Result != foundWell {
		t.Error(got)
	}
}
