package listen

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestHTTPHosts(t *testing.T) {
	guarded := GuardHTTP([]string{"coordd.example.net", "Peer-A."}, []string{"/open"},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}))
	const served, other, not = http.StatusNoContent, http.StatusMisdirectedRequest,
		http.StatusMethodNotAllowed
	for _, test := range []struct {
		method, path, host string
		code               int
	}{
		{"GET", "/metrics", "127.0.0.1:8765", served},
		{"GET", "/metrics", "127.0.0.1", served},
		{"GET", "/metrics", "[::1]:8765", served},
		{"GET", "/metrics", "[::1]", served},
		{"GET", "/metrics", "10.1.2.3:1", served},
		{"GET", "/metrics", "localhost:8765", served},
		{"GET", "/metrics", "LocalHost", served},
		{"GET", "/metrics", "localhost.", served},
		{"HEAD", "/metrics", "coordd.example.NET:80", served},
		{"GET", "/metrics", "peer-a", served},
		{"GET", "/metrics", "evil", other},
		{"GET", "/metrics", "evil.example.net:8765", other},
		{"GET", "/metrics", "127.0.0.1.evil.net", other},
		{"GET", "/metrics", "localhost.evil.net", other},
		{"GET", "/metrics", "", other},
		{"GET", "/metrics", ":8765", other},
		{"GET", "/open", "evil", served},
		{"HEAD", "/open", "evil", other},
		{"GET", "/open/more", "evil", other},
		{"POST", "/open", "evil", not},
		{"POST", "/metrics", "127.0.0.1", not},
		{"DELETE", "/metrics", "localhost", not},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Host = test.host
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		if w.Code != test.code {
			t.Errorf("%s %s of %q: %d, want %d", test.method, test.path, test.host, w.Code, test.code)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s of %q: headers %v", test.method, test.path, test.host, w.Header())
		}
	}
}

// serveTest serves a handler with room for two connections.
func serveTest(t *testing.T, handler http.HandlerFunc, headerPatience time.Duration) (*HTTPServer, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := serveHTTP(listener, handler, slog.New(slog.DiscardHandler), 2, headerPatience, httpWritePatience)
	t.Cleanup(h.Stop)
	return h, listener.Addr().String()
}

func dialHTTP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get asks on a connection that stays open, and returns the status.
func get(t *testing.T, conn net.Conn) int {
	t.Helper()
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// closedByServer waits for the end of a connection.
func closedByServer(t *testing.T, conn net.Conn) {
	t.Helper()
	_, _ = io.Copy(io.Discard, conn)
}

// TestHTTPNewestGetsIn has all connections held by one address, without a request or with one that does not end:
// the newest one is served each time, and there is room again when others are gone.
func TestHTTPNewestGetsIn(t *testing.T) {
	begun, goesOn := make(chan struct{}), make(chan struct{})
	h, address := serveTest(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-goesOn
		}
	}, time.Minute)
	until := func(open, busy int) {
		for {
			has := 0
			h.mutex.Lock()
			for _, c := range h.open {
				if c.busy {
					has++
				}
			}
			reached := len(h.open) == open && has == busy
			h.mutex.Unlock()
			if reached {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	idle := dialHTTP(t, address)
	until(1, 0)
	silent := dialHTTP(t, address)
	until(2, 0)
	get(t, idle)
	until(2, 0)
	get(t, dialHTTP(t, address))
	closedByServer(t, silent)
	until(2, 0)
	var slow [2]net.Conn
	for i := range slow {
		slow[i] = dialHTTP(t, address)
		if _, err := fmt.Fprint(slow[i], "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	closedByServer(t, idle)
	third := dialHTTP(t, address)
	get(t, third)
	closedByServer(t, slow[0])
	_ = third.Close()
	close(goesOn)
	_ = slow[1].Close()
	until(0, 0)
}

// TestHTTPAddressesShare has connections of two addresses: the one that has more makes room.
func TestHTTPAddressesShare(t *testing.T) {
	h := &HTTPServer{most: 3, open: make(map[net.Conn]*httpConn)}
	var all []*placeConn
	enter := func(from string) {
		all = append(all, &placeConn{from: from})
		h.note(all[len(all)-1], http.StateNew)
	}
	enter("192.0.2.1:1")
	enter("192.0.2.2:1")
	enter("192.0.2.2:2")
	h.note(all[1], http.StateActive)
	enter("192.0.2.2:3")
	enter("192.0.2.2:4")
	for i, want := range []bool{false, false, true, true, false} {
		if all[i].closed != want {
			t.Errorf("connection %d is closed: %v", i, all[i].closed)
		}
	}
}

// Who does not send a request is not waited for.
func TestHTTPHeadersAreWaitedForInVain(t *testing.T) {
	_, address := serveTest(t, func(http.ResponseWriter, *http.Request) {}, 10*time.Millisecond)
	conn := dialHTTP(t, address)
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	closedByServer(t, conn)
}

// A stop ends requests that are under way, by their context.
func TestHTTPStopEndsRequests(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	h, address := serveTest(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}, time.Minute)
	conn := dialHTTP(t, address)
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-began
	h.Stop()
	if err := <-ended; err == nil {
		t.Error("the request ended without a reason")
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the listener is still open")
	}
}

// TestBrowsersLeaveRoom: browsers make room for each other, and neither read slowly nor in numbers do they take the
// room of probes.
func TestBrowsersLeaveRoom(t *testing.T) {
	goesOn := make(chan struct{})
	defer close(goesOn)
	page := OfBrowser(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goesOn }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	h := serveHTTP(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			begun <- struct{}{}
			page.ServeHTTP(w, r)
		}
	}), slog.New(slog.DiscardHandler), 1, time.Minute, httpWritePatience)
	t.Cleanup(h.Stop)
	address := listener.Addr().String()
	var browsers []net.Conn
	for range maxBrowsers + 2 {
		conn := dialHTTP(t, address)
		browsers = append(browsers, conn)
		if _, err := fmt.Fprint(conn, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
		for ofBrowsers := 0; ofBrowsers < min(len(browsers), maxBrowsers); {
			h.mutex.Lock()
			ofBrowsers = 0
			for _, c := range h.open {
				if c.browser {
					ofBrowsers++
				}
			}
			h.mutex.Unlock()
		}
	}
	closedByServer(t, browsers[0])
	closedByServer(t, browsers[1])
	if code := get(t, dialHTTP(t, address)); code != http.StatusOK {
		t.Errorf("a probe beside them: %d", code)
	}
	if n := h.Open(); n != maxBrowsers+1 {
		t.Errorf("%d connections are open", n)
	}
}

// deafConn is a connection on which nothing can be written any more once deaf is set, until it is closed.
type deafConn struct {
	net.Conn
	deaf   *atomic.Bool
	closed chan struct{}
	close  func()
}

func (c deafConn) Write(b []byte) (int, error) {
	if c.deaf.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c deafConn) Close() error {
	c.close()
	return c.Conn.Close()
}

// deafListener makes the connections deaf that are accepted first.
type deafListener struct {
	net.Listener
	deaf  atomic.Bool
	first atomic.Bool
}

func (l *deafListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.first.Swap(true) {
		return conn, err
	}
	closed := make(chan struct{})
	return deafConn{conn, &l.deaf, closed, sync.OnceFunc(func() { close(closed) })}, nil
}

// TestHTTPDeafMakesRoom: a connection with TLS whose client reads nothing makes room at once. Others do not wait until
// its end was written to it.
func TestHTTPDeafMakesRoom(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deaf := &deafListener{Listener: tcp}
	h := serveHTTP(tls.NewListener(deaf, &tls.Config{Certificates: certified.TLS.Certificates}),
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), slog.New(slog.DiscardHandler), 1, time.Minute,
		httpWritePatience)
	t.Cleanup(h.Stop)
	dial := func() net.Conn {
		return tls.Client(dialHTTP(t, tcp.Addr().String()), &tls.Config{InsecureSkipVerify: true})
	}
	if code := get(t, dial()); code != http.StatusOK {
		t.Fatalf("the first: %d", code)
	}
	deaf.deaf.Store(true)
	if code := get(t, dial()); code != http.StatusOK {
		t.Errorf("the next one: %d", code)
	}
}
