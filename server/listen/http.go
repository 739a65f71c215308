package listen

import (
	"context"
	"crypto/tls"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/netguard"
)

// What a client of the HTTP listener may take. Its clients are probes and monitoring programs, which ask for
// little, and browsers, whose connections have a share of their own: see OfBrowser.
const (
	maxHTTPConnections = 64
	maxBrowsers        = 64
	maxHTTPHeaderBytes = 16 << 10
	// httpHeaderPatience limits the time for a request's headers, httpReadPatience that for the whole request,
	// httpWritePatience that for the response, and httpIdlePatience the wait for the next request.
	httpHeaderPatience = 5 * time.Second
	httpReadPatience   = 10 * time.Second
	httpWritePatience  = 30 * time.Second
	httpIdlePatience   = 10 * time.Second
	// httpEndPatience limits the rest of a request after its connection was closed.
	httpEndPatience = 250 * time.Millisecond
	// debugWritePatience limits a response to a developer: profiles take as long as requested.
	debugWritePatience = 10 * time.Minute
)

// HTTPServer serves requests of monitoring programs on one listener. Where there are too many connections, one of
// the address that has the most makes room for the newest.
type HTTPServer struct {
	server   http.Server
	serving  sync.WaitGroup // the listener's goroutine
	requests sync.WaitGroup
	// most bounds the connections of programs, and of browsers
	most, mostBrowsers int

	mutex   sync.Mutex
	closing bool
	open    map[net.Conn]*httpConn
	noted   uint64 // changes of connections
}

// httpConn is a connection of an HTTPServer.
type httpConn struct {
	address string
	browser bool
	busy    bool   // it has a request
	since   uint64 // the change from when it is so
}

// ServeHTTP begins to serve. Stop is to be called, which closes the listener.
func ServeHTTP(listener net.Listener, handler http.Handler, logger *slog.Logger) *HTTPServer {
	return serveHTTP(listener, handler, logger, maxHTTPConnections, httpHeaderPatience, httpWritePatience)
}

// ServeDebugHTTP is ServeHTTP for developers, whose answers may take long.
func ServeDebugHTTP(listener net.Listener, handler http.Handler, logger *slog.Logger) *HTTPServer {
	return serveHTTP(listener, handler, logger, maxHTTPConnections, httpHeaderPatience, debugWritePatience)
}

func serveHTTP(listener net.Listener, handler http.Handler, logger *slog.Logger, most int, headerPatience,
	writePatience time.Duration) *HTTPServer {
	h := &HTTPServer{most: most, mostBrowsers: maxBrowsers, open: make(map[net.Conn]*httpConn)}
	h.server = http.Server{
		Handler: h.counting(handler), MaxHeaderBytes: maxHTTPHeaderBytes, ReadHeaderTimeout: headerPatience,
		ReadTimeout: httpReadPatience, WriteTimeout: writePatience, IdleTimeout: httpIdlePatience,
		ConnState: h.note,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, browserKey{}, func() { h.ofBrowser(conn) })
		},
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // clients cause its lines
	}
	h.serving.Go(func() {
		if err := h.server.Serve(listener); err != http.ErrServerClosed {
			logger.Error("the HTTP listener has failed; clients are served on", "address",
				listener.Addr().String(), "error", err)
		}
	})
	return h
}

// counting has Stop know of the requests that are under way.
func (h *HTTPServer) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mutex.Lock()
		closing := h.closing
		if !closing {
			h.requests.Add(1)
		}
		h.mutex.Unlock()
		if closing {
			return
		}
		defer h.requests.Done()
		next.ServeHTTP(w, r)
	})
}

// note follows the connections, and evicts one if there are too many.
func (h *HTTPServer) note(conn net.Conn, state http.ConnState) {
	h.mutex.Lock()
	var victim net.Conn
	switch state {
	case http.StateNew:
		h.noted++
		h.open[conn] = &httpConn{address: netguard.Network(conn.RemoteAddr()), since: h.noted}
		victim = h.victim(conn, h.most)
	case http.StateActive, http.StateIdle:
		if c := h.open[conn]; c != nil {
			h.noted++
			c.busy, c.since = state == http.StateActive, h.noted
		}
	case http.StateClosed, http.StateHijacked:
		delete(h.open, conn)
	}
	h.mutex.Unlock()
	if victim != nil {
		cut(victim)
	}
}

// cut closes a connection without a notice to its client. With TLS that notice takes up to 5 s if the client reads
// nothing, and the goroutine that accepts connections cannot wait for it.
func cut(conn net.Conn) {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	_ = conn.Close()
}

type browserKey struct{}

// OfBrowser counts the connection of each request among those of browsers: they make room for each other only, and
// leave room for probes and monitoring programs. A connection counts as a program's until its first request.
func OfBrowser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if count, is := r.Context().Value(browserKey{}).(func()); is {
			count()
		}
		next.ServeHTTP(w, r)
	})
}

func (h *HTTPServer) ofBrowser(conn net.Conn) {
	h.mutex.Lock()
	var victim net.Conn
	if c := h.open[conn]; c != nil && !c.browser {
		c.browser = true
		victim = h.victim(conn, h.mostBrowsers)
	}
	h.mutex.Unlock()
	if victim != nil {
		cut(victim)
	}
}

// victim takes out the connection that makes room for the newest of its kind, nil if there are at most most: of the
// address that has the most, the one that has had no request for longest, or else the one whose request is the oldest.
// The mutex is held.
func (h *HTTPServer) victim(newest net.Conn, most int) (victim net.Conn) {
	has, kind, all := make(map[string]int), h.open[newest].browser, 1
	for conn, c := range h.open {
		if conn != newest && c.browser == kind {
			has[c.address]++
			all++
		}
	}
	if all <= most {
		return nil
	}
	before := func(a, b *httpConn) bool {
		switch {
		case has[a.address] != has[b.address]:
			return has[a.address] > has[b.address]
		case a.busy != b.busy:
			return b.busy
		}
		return a.since < b.since
	}
	for conn, c := range h.open {
		if conn != newest && c.browser == kind && (victim == nil || before(c, h.open[victim])) {
			victim = conn
		}
	}
	delete(h.open, victim)
	return victim
}

// Open counts the open connections.
func (h *HTTPServer) Open() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.open)
}

// Stop closes the listener and all connections, and waits a moment for the requests that were under way: they
// find that their context is done.
func (h *HTTPServer) Stop() {
	h.mutex.Lock()
	h.closing = true
	h.mutex.Unlock()
	_ = h.server.Close()
	h.serving.Wait()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.requests.Wait()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), httpEndPatience)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// GuardHTTP passes only requests that read: GET and HEAD. Their Host must be an IP address, localhost or one of the
// names, since a page in somebody's browser may have its own name resolved to this machine and read the answers then
// (DNS rebinding). The open paths reveal nothing of value, and probes may call them by any name.
func GuardHTTP(names, open []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are served here", http.StatusMethodNotAllowed)
		case r.Method == http.MethodGet && slices.Contains(open, r.URL.Path), HostKnown(r.Host, names):
			next.ServeHTTP(w, r)
		default:
			http.Error(w, WrongHost, http.StatusMisdirectedRequest)
		}
	})
}

const (
	// WrongHost is the refusal where HostKnown does not know the host.
	WrongHost = "this server does not go by the name in the Host header; ask by its IP address, localhost or a name " +
		"that --http-hosts lists"
	// OrderHeader must be set, to any value, in a request that changes something: a page in somebody's browser cannot
	// send it to another origin without permission, and this server grants no origin that permission.
	OrderHeader = "X-Coordd-Standin"
	// maxOrderBytes bounds such a request.
	maxOrderBytes = 1 << 20
)

// GuardOrders lets requests through that change something, as nobody's browser makes them without its user's
// will: POST of JSON, with OrderHeader, and a Host as GuardHTTP wants it.
func GuardOrders(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", "POST")
			http.Error(w, "only POST is served here", http.StatusMethodNotAllowed)
		case !HostKnown(r.Host, names):
			http.Error(w, WrongHost, http.StatusMisdirectedRequest)
		case r.Header.Get(OrderHeader) == "":
			http.Error(w, "the header "+OrderHeader+" is missing", http.StatusForbidden)
		case kind != "application/json":
			http.Error(w, "want application/json", http.StatusUnsupportedMediaType)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxOrderBytes)
			next.ServeHTTP(w, r)
		}
	})
}

// HostKnown reports whether a Host header names this machine for certain.
func HostKnown(header string, names []string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	return strings.EqualFold(host, "localhost") ||
		host != "" && slices.ContainsFunc(names,
			func(name string) bool { return strings.EqualFold(host, strings.TrimSuffix(name, ".")) })
}
