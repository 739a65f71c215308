package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/server/listen"
)

// askHTTP is a question of a monitoring program to a server.
func askHTTP(t *testing.T, s *Server, path, host string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+s.HTTPAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host, request.Close = host, true
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func withHTTP(config *Config) { config.HTTP.Listen = "127.0.0.1:0" }

func TestHTTPListener(t *testing.T) {
	s, _ := startTest(t, func(config *Config) {
		withHTTP(config)
		config.Advertise = "coordd.example.net"
		config.HTTP.Metrics = func(*Server) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				answerText(w, http.StatusOK, "figures")
			})
		}
	})
	for _, test := range []struct {
		path, host string
		code       int
		body       string
	}{
		{HealthzPath, "evil.net", http.StatusOK, "ok\n"},
		{ReadyzPath, "evil.net", http.StatusOK, "ready\n"},
		{MetricsPath, "evil.net", http.StatusMisdirectedRequest, ""},
		{MetricsPath, "127.0.0.1:8765", http.StatusOK, "figures\n"},
		{MetricsPath, "coordd.example.net:8765", http.StatusOK, "figures\n"},
		{"/", "127.0.0.1", http.StatusNotFound, ""},
		{"/debug/pprof/", "127.0.0.1", http.StatusNotFound, ""},
	} {
		if code, body := askHTTP(t, s, test.path, test.host); code != test.code || test.body != "" &&
			body != test.body {
			t.Errorf("%s as %s: %d %q", test.path, test.host, code, body)
		}
	}
	s.fail(errors.New("the disk is gone"))
	if code, body := askHTTP(t, s, HealthzPath, "x"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "the disk is gone") {
		t.Errorf("a server that has failed: %d %q", code, body)
	}
}

// /readyz and the health service of gRPC say the same, in every state that a server goes through.
func TestReadyzAgreesWithHealth(t *testing.T) {
	c := startClusterWith(t, 3, withHTTP)
	agree := func(state string, s *Server, code int, text string) {
		t.Helper()
		var got int
		var body string
		c.eventually(state, func() bool {
			before := s.readiness.Shown()
			health, err := s.health.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			got, body = askHTTP(t, s, ReadyzPath, "x")
			if after := s.readiness.Shown(); after == before &&
				(got == http.StatusOK) != (health.GetStatus() == serving) {
				t.Fatalf("%s: readyz %d %q, health %v", state, got, body, health.GetStatus())
			}
			return got == code && strings.Contains(body, text)
		})
	}
	agree("ready", c.servers[0], http.StatusOK, "ready\n")
	c.stop(1)
	c.stop(2)
	agree("no majority", c.servers[0], http.StatusServiceUnavailable, "not ready: no leader")
}

// A server that waits for a leader reports that before it has started.
func TestReadyzBeforeReady(t *testing.T) {
	var address string
	c := newCluster(t, 2, func(config *Config) {
		if config.Cluster.Name == "server-0" {
			config.HTTP.Listen = address
		}
	})
	address = testserver.Address(t)
	started := make(chan error, 2)
	go func() { started <- c.start(0) }()
	var body string
	c.eventually("a reason", func() bool {
		answer, err := http.Get("http://" + address + ReadyzPath)
		if err != nil {
			return false // it does not listen yet
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if body = string(text); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %q", answer.Status, body)
		}
		return strings.Contains(body, "not ready: no leader")
	})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	go func() { started <- c.start(1) }()
	for range 2 {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
}

// A server that stops reports that as long as it can be reached, and its listener goes with it.
func TestHTTPWhileStopping(t *testing.T) {
	s, conn := startTest(t, withHTTP)
	openTest(t, t.Context(), conn, start(10_000))
	address := s.HTTPAddr().String()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = s.Stop(context.Background())
	}()
	<-stopped
	if s.readiness.Shown().Reason != "stopping" {
		t.Errorf("shown: %+v", s.readiness.Shown())
	}
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after the stop: %v", err)
	}
}

// An address that is taken ends the start, unless the server can do without.
func TestHTTPAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true,
		HTTP: HTTP{Listen: taken.Addr().String()}}
	if s, err := Start(t.Context(), config); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, %v", s, err)
	}
	s, _ := startTest(t, func(c *Config) { c.HTTP = HTTP{Listen: taken.Addr().String(), Optional: true} })
	if s.HTTPAddr() != nil {
		t.Errorf("listens on %v", s.HTTPAddr())
	}
	config.HTTP.Listen = "nonsense"
	if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), "listen-http") {
		t.Error(err)
	}
}

// Profiles are for programs on this machine, and never on the listener for monitoring programs.
func TestDebugHTTP(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "debug.sock")
	debug := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerText(w, http.StatusOK, "profile")
	})
	for _, where := range []string{socket, "127.0.0.1:0"} {
		s, _ := startTest(t, func(config *Config) {
			withHTTP(config)
			config.HTTP.ListenDebug, config.HTTP.Debug = where, debug
		})
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if where == socket {
					return listen.DialSocket(ctx, socket)
				}
				return new(net.Dialer).DialContext(ctx, "tcp", s.DebugAddr().String())
			}}}
		for host, want := range map[string]int{"localhost": http.StatusOK,
			"evil.net": http.StatusMisdirectedRequest} {
			answer, err := client.Get("http://" + host + "/debug/pprof/")
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s as %s: %s", where, host, answer.Status)
			}
		}
		if code, _ := askHTTP(t, s, "/debug/pprof/", "localhost"); code != http.StatusNotFound {
			t.Errorf("profiles beside the metrics: %d", code)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	config := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true,
		HTTP: HTTP{ListenDebug: socket, Debug: debug}}
	if _, err := Start(t.Context(), config); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server on one socket: %v", err)
	}
	for _, where := range []string{"0.0.0.0:0", ":0", "10.0.0.1:1", "localhost:0", "relative.sock"} {
		config.HTTP.ListenDebug = where
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "debug-http") {
			t.Errorf("%s: %v", where, err)
		}
	}
}
