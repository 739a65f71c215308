package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/serve"
)

// TestDefaults pins the defaults that docs/configuration.md promises.
func TestDefaults(t *testing.T) {
	got := served(t, []string{"HOME=/home/u"}, "serve")
	want := serve.Settings{
		Listen:               "127.0.0.1:2136",
		Database:             "/local",
		DataDir:              "/home/u/.local/state/coordd",
		Reserve:              128 << 20,
		StreamsPerConnection: 100_000,
		LogLevel:             slog.LevelInfo,
		LogFormat:            "text",
		Auth:                 serve.AuthSettings{Mode: "off", LoginLifetime: 12 * time.Hour},
		HTTP:                 serve.HTTPSettings{Listen: "127.0.0.1:8765", Console: "read"},
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// everySource has one value of each option that differs from all others, in each
// of the three sources.
var everySource = []struct {
	name, flag, variable, file string
	get                        func(serve.Settings) string
}{
	{"listen", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", func(s serve.Settings) string { return string(s.Listen) }},
	{"advertise", "a.example", "grpcs://b.example:7", "192.0.2.1",
		func(s serve.Settings) string { return string(s.Advertise) }},
	{"data-dir", "/flag", "/variable", "/file", func(s serve.Settings) string { return string(s.DataDir) }},
	{"database", "/flag", "/variable", "/file/deep", func(s serve.Settings) string { return string(s.Database) }},
	{"listen-tls", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3",
		func(s serve.Settings) string { return string(s.TLS.Listen) }},
	{"advertise-tls", "a.example", "b.example:7", "192.0.2.1",
		func(s serve.Settings) string { return string(s.TLS.Advertise) }},
	{"tls-cert", "/flag", "/variable", "/file", func(s serve.Settings) string { return string(s.TLS.Certificate) }},
	{"tls-key", "/flag", "/variable", "/file", func(s serve.Settings) string { return string(s.TLS.Key) }},
	{"tls-client-ca", "/flag", "/variable", "/file", func(s serve.Settings) string { return string(s.TLS.ClientCA) }},
	{"admin-socket", "/flag", "/variable", "/file", func(s serve.Settings) string { return string(s.Auth.Socket) }},
	{"token-file", "/flag", "/variable", "/file", func(s serve.Settings) string { return string(s.Auth.TokenFile) }},
	{"login-lifetime", "1h0m0s", "2h0m0s", "3h0m0s",
		func(s serve.Settings) string { return s.Auth.LoginLifetime.String() }},
	{"initial-admin", "flag", "variable", "file", func(s serve.Settings) string { return string(s.Auth.Admin) }},
	{"initial-admin-password-file", "/flag", "/variable", "/file",
		func(s serve.Settings) string { return string(s.Auth.AdminPasswordFile) }},
	{"log-level", "error", "warn", "debug",
		func(s serve.Settings) string { return strings.ToLower(s.LogLevel.String()) }},
}

// TestPrecedence wants the flag before the environment before the file, for every
// option and every way to leave sources out.
func TestPrecedence(t *testing.T) {
	for _, option := range everySource {
		file := writeConfig(t, option.name+": "+option.file+"\n")
		inFile := []string{"HOME=/home/u", "COORDD_CONFIG=" + file}
		inBoth := append(inFile, cmdline.Variable(option.name)+"="+option.variable)
		unset := append(inFile, cmdline.Variable(option.name)+"=")
		tests := []struct {
			name        string
			environment []string
			args        []string
			want        string
		}{
			{"file", inFile, nil, option.file},
			{"variable before file", inBoth, nil, option.variable},
			{"flag before variable", inBoth, []string{"--" + option.name, option.flag}, option.flag},
			{"flag before file", inFile, []string{"--" + option.name + "=" + option.flag}, option.flag},
			{"empty variable is none", unset, nil, option.file},
			{"config flag before its variable", append(inFile[:1:1], "COORDD_CONFIG=/nowhere"),
				[]string{"--config", file}, option.file},
		}
		for _, test := range tests {
			t.Run(option.name+"/"+test.name, func(t *testing.T) {
				got := option.get(served(t, test.environment, append([]string{"serve"}, test.args...)...))
				if got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		}
	}
}

// TestAuthSources covers the one option of two values that guards something.
func TestAuthSources(t *testing.T) {
	file := writeConfig(t, "auth: required\n")
	home := []string{"HOME=/home/u"}
	for name, test := range map[string]struct {
		environment []string
		args        []string
		want        string
	}{
		"file":                 {home, []string{"--config", file}, "required"},
		"variable before file": {append(home, "COORDD_AUTH=off"), []string{"--config", file}, "off"},
		"variable":             {append(home, "COORDD_AUTH=required"), nil, "required"},
		"flag before variable": {append(home, "COORDD_AUTH=off"), []string{"--auth=required"}, "required"},
	} {
		if got := served(t, test.environment,
			append([]string{"serve"}, test.args...)...).Auth.Mode; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestTwoValued covers the options that have too few values for TestPrecedence.
func TestTwoValued(t *testing.T) {
	inMemory := writeConfig(t, "in-memory: true\nlog-format: json\n")
	home := []string{"HOME=/home/u"}
	tests := []struct {
		name        string
		environment []string
		args        []string
		inMemory    bool
		logFormat   string
	}{
		{"file", home, []string{"--config", inMemory}, true, "json"},
		{"variable before file", append(home, "COORDD_IN_MEMORY=0", "COORDD_LOG_FORMAT=text"),
			[]string{"--config", inMemory}, false, "text"},
		{"variable", append(home, "COORDD_IN_MEMORY=1", "COORDD_LOG_FORMAT=json"), nil, true, "json"},
		{"flag before variable", append(home, "COORDD_IN_MEMORY=1", "COORDD_LOG_FORMAT=json"),
			[]string{"--in-memory=false", "--log-format=text"}, false, "text"},
		{"flag without value", home, []string{"--in-memory"}, true, "text"},
		{"variable gives a directory that is not used", append(home, "COORDD_DATA_DIR=/data"),
			[]string{"--in-memory"}, true, "text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := served(t, test.environment, append([]string{"serve"}, test.args...)...)
			if got.InMemory != test.inMemory || got.LogFormat != test.logFormat {
				t.Errorf("got in-memory %v, log-format %q, want %v, %q", got.InMemory, got.LogFormat,
					test.inMemory, test.logFormat)
			}
			if got.InMemory == (got.DataDir != "") {
				t.Errorf("in-memory is %v, data-dir %q", got.InMemory, got.DataDir)
			}
		})
	}
}

// TestValues checks what each option allows, at the edges.
func TestValues(t *testing.T) {
	long := strings.Repeat("a", 255)
	counts := []string{"1", "1073741824"}
	noCounts := []string{"", "0", "-1", "1073741825", "many", "1e3"}
	tests := []struct {
		name    string
		allowed []string
		refused []string
	}{
		{"listen",
			[]string{"127.0.0.1:0", ":2136", "0.0.0.0:65535", "[::1]:2136", "[::]:0", "localhost:1",
				"db_1.example:2"},
			[]string{"", "2136", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
				"127.0.0.1:http", "::1:2136:", "grpc://127.0.0.1:1", "a b:1", "-a:1"}},
		{"advertise",
			[]string{"db.example", "db.example:1", "192.0.2.1", "192.0.2.1:65535", "::1", "2001:db8::1",
				"[2001:db8::1]:2136"},
			[]string{"", ":2136", "db.example:0", "db.example:65536", "0.0.0.0", "0.0.0.0:2136", "::",
				"[::]:1", "grpc://db.example", "db.example/local", "db.example:"}},
		{"database",
			[]string{"/local", "/Root/test-1/a_b.c", "/" + long},
			[]string{"", "/", "local", "/local/", "//local", "/a//b", "/a b", "/.", "/a/..", "/...",
				"/" + long + "a", strings.Repeat("/abcdefg", 129)}},
		{"data-dir", []string{"relative", "/a b", "."}, []string{"", "a\x00b"}},
		{"in-memory", []string{"true", "false", "0", "1"}, []string{"", "yes", "TRUE", "2"}},
		{"listen-tls", []string{"127.0.0.1:0", ":2135"},
			[]string{"", "2135", "127.0.0.1:65536", "grpcs://a:1"}},
		{"advertise-tls", []string{"db.example", "[2001:db8::1]:2135"},
			[]string{"", ":2135", "0.0.0.0", "grpcs://db.example"}},
		{"tls-cert", []string{"relative.pem", "/a b"}, []string{"", "a\x00b"}},
		{"tls-key", []string{"relative.pem"}, []string{""}},
		{"tls-client-ca", []string{"relative.pem"}, []string{""}},
		{"tls-client-auth", []string{"optional", "required"}, []string{"", "on", "REQUIRED"}},
		{"auth", []string{"off", "required"}, []string{"", "on", "REQUIRED"}},
		{"admin-socket", []string{"relative"}, []string{""}},
		{"token-file", []string{"relative"}, []string{""}},
		{"login-lifetime", []string{"1m", "90m", "720h"}, []string{"", "0", "59s", "720h1s", "1d", "-1h"}},
		{"initial-admin", []string{"root", "ops@example"}, []string{"", "a b", "a\n", "ä"}},
		{"initial-admin-password-file", []string{"relative"}, []string{""}},
		{"loopback-admin", []string{"true", "false"}, []string{"", "yes"}},
		{"inspect", []string{"off", "local", "on"}, []string{"", "yes", "ON"}},
		{"disk-reserve", []string{"0", "1", "64KiB", "128MiB", "2GiB", "1024TiB"},
			[]string{"", "-1", "1MB", "MiB", "1.5GiB", "1025TiB", "128 MiB", "99999999999999999999"}},
		{"state-limit", []string{"1MiB", "1048576", "384MiB", "1024TiB", "unlimited"},
			[]string{"", "0", "1", "1023KiB", "none", "1025TiB", "384"}},
		{"streams-per-connection", counts, noCounts},
		{"streams", counts, noCounts},
		{"connections-per-address", counts, noCounts},
		{"name", []string{"a", "server-1.example"},
			[]string{"", "a b", "a,b", "a=b", strings.Repeat("a", 65)}},
		{"listen-peer", []string{":2380", "10.0.0.1:1"}, []string{"", "10.0.0.1", "10.0.0.1:0", ":65536"}},
		{"advertise-peer", []string{"10.0.0.1:2380", "a.example:1"},
			[]string{"", ":2380", "a.example", "0.0.0.0:1"}},
		{"initial-cluster", []string{"a=10.0.0.1:2380", "a=h:1,b=h:2,c=h:3"},
			[]string{"", "a", "a=", "a=h", "a=h:1,", "a=h:1,a=h:2", "=h:1"}},
		{"join", []string{"h:1", "h:1,g:2"}, []string{"", "h", "h:1,", "h:0"}},
		{"cluster-token", []string{"x", "two words"}, []string{"", strings.Repeat("a", 1025)}},
		{"peer-cert", []string{"relative.pem"}, []string{""}},
		{"peer-key", []string{"relative.pem"}, []string{""}},
		{"peer-ca", []string{"relative.pem"}, []string{""}},
		{"insecure-peers", []string{"true", "false"}, []string{"", "yes"}},
		{"listen-http", []string{"", "off", "127.0.0.1:0", ":8765"},
			[]string{"8765", "none", "127.0.0.1:65536", "http://a:1"}},
		{"http-tls", []string{"true", "false"}, []string{"", "yes"}},
		{"console", []string{"off", "read", "write"}, []string{"", "on", "READ"}},
		{"http-hosts", []string{"", "coordd", "a.example,b_1"},
			[]string{",", "a,", "a:1", "a b", "http://a"}},
		{"metrics-resource", []string{"", "/local/a=r", "/local/a=r/s,/local/b=r", "/local/x=y=r",
			manyResources(200)}, []string{"r", "/local/a", "/local/a=", "/local/a=/r", "local/a=r",
			"/local/a=r,", "/local/a=r,/local/a=r", manyResources(201)}},
		{"metrics-semaphore", []string{"", "/local/a=s", "/local/a=s/t=u,/local/b=s", manyResources(200)},
			[]string{"s", "/local/a", "/local/a=", "local/a=s", "/local/a=s,", "/local/a=s,/local/a=s",
				"/local/a=\xff", manyResources(201)}},
		{"debug-http", []string{"/run/coordd/debug.sock", "127.0.0.1:0", "[::1]:6060", "127.1.2.3:1"},
			[]string{"", "debug.sock", ":6060", "0.0.0.0:6060", "10.0.0.1:6060", "localhost:6060", "[::]:1",
				"127.0.0.1", "/a\x00b"}},
		{"local-ydb", []string{"true", "false"}, []string{"", "yes"}},
		{"log-level", []string{"debug", "info", "warn", "error"}, []string{"", "loud", "INFO", "warning"}},
		{"log-format", []string{"text", "json"}, []string{"", "xml", "JSON"}},
	}
	for _, test := range tests {
		for _, o := range serve.Options {
			if o.Name != test.name {
				continue
			}
			for _, value := range test.allowed {
				if err := o.Set(&serve.Settings{}, value); err != nil {
					t.Errorf("--%s %q: %v, want it allowed", test.name, value, err)
				}
			}
			for _, value := range test.refused {
				if err := o.Set(&serve.Settings{}, value); err == nil {
					t.Errorf("--%s %q: allowed, want an error", test.name, value)
				}
			}
		}
	}
	if len(tests) != len(serve.Options) {
		t.Errorf("%d options tested of %d", len(tests), len(serve.Options))
	}
}

// TestRelativeDataDir wants a path that does not depend on where the process goes.
func TestRelativeDataDir(t *testing.T) {
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	got := served(t, nil, "serve", "--data-dir", "data").DataDir
	if want := filepath.Join(work, "data"); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// writeConfig writes a config file and returns its path.
func writeConfig(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coordd.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// manyResources is that many values of --metrics-resource.
func manyResources(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("/local/app=r%d", i)
	}
	return strings.Join(all, ",")
}
