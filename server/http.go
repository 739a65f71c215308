package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/coordd/coordd/server/console"
	"github.com/coordd/coordd/server/discovery"
	"github.com/coordd/coordd/server/listen"
)

// HTTP configures the HTTP service for monitoring programs.
type HTTP struct {
	// Listen is the address, host:port; empty: none. There are HealthzPath, ReadyzPath, and MetricsPath if
	// there are Metrics.
	Listen string
	// Optional makes a server continue, with a warning, if it cannot listen on the address.
	Optional bool
	// Hosts are names by which programs may ask for more than HealthzPath and ReadyzPath, besides those that
	// the server listens on and advertises.
	Hosts []string
	// Metrics makes what is served as MetricsPath. It is called once, before the server is open.
	Metrics func(*Server) http.Handler
	// TLS encrypts what is served, with the certificate of the TLS listener.
	TLS bool
	// Console limits the console: ConsoleOff (or empty), ConsoleRead or ConsoleWrite.
	Console string
	// Faults takes the orders for a stand-in's faults, as FaultsPath. A real server has no such handler, and nothing
	// in this package makes one.
	Faults http.Handler
	// ListenDebug is where Debug is served, to programs on this machine alone: the path of a Unix socket,
	// which is made for the process's user, or a loopback address, ip:port. Empty: nowhere.
	ListenDebug string
	Debug       http.Handler
}

// The paths of the HTTP listener, besides those of package console.
const (
	// HealthzPath answers 200 as long as the process is not about to end because it has failed.
	HealthzPath = "/healthz"
	// ReadyzPath answers 200 while the server can serve clients, as gRPC's health service does, and says why
	// not.
	ReadyzPath  = "/readyz"
	MetricsPath = "/metrics" // see HTTP.Metrics
	FaultsPath  = "/faults"  // see HTTP.Faults
)

func (h HTTP) validate() error {
	if h.ListenDebug != "" && h.debugSocket() == "" && !isLoopback(h.ListenDebug) {
		return fmt.Errorf("debug-http %q: want the absolute path of a Unix socket, or an address of this machine alone such as 127.0.0.1:6060", h.ListenDebug)
	}
	switch h.Console {
	case "", ConsoleOff, ConsoleRead, ConsoleWrite:
	default:
		return fmt.Errorf("console %q: want %s, %s or %s", h.Console, ConsoleOff, ConsoleRead, ConsoleWrite)
	}
	if h.Listen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(h.Listen)
	if err == nil {
		err = listen.ValidPort(port, 0)
	}
	if err != nil {
		return fmt.Errorf("listen-http %q: want host:port: %w", h.Listen, err)
	}
	return nil
}

// debugSocket is the path of the socket that ListenDebug names, empty if it names none.
func (h HTTP) debugSocket() string {
	if filepath.IsAbs(h.ListenDebug) {
		return h.ListenDebug
	}
	return ""
}

// isLoopback reports whether an address, which is ip:port, is of this machine alone. No name is looked up:
// what it stands for may change.
func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// httpListeners serve HTTP, from before the group is opened until the last client is gone.
type httpListeners struct {
	server    *listen.HTTPServer // nil without
	debug     *listen.HTTPServer // the same
	addr      net.Addr
	debugAddr net.Addr
	opened    atomic.Bool // the group is there, and the readiness is watched

	console *console.Console
	// methods with one request, and interceptors, are those of the gRPC server
	methods      map[string]console.Method
	interceptors interceptors
}

func (h *httpListeners) stop() {
	for _, server := range []*listen.HTTPServer{h.server, h.debug} {
		if server != nil {
			server.Stop()
		}
	}
}

// HTTPAddr is the address of the service for monitoring programs, or nil.
func (s *Server) HTTPAddr() net.Addr { return s.http.addr }

// DebugAddr is where HTTP.Debug is served, nil if it is not.
func (s *Server) DebugAddr() net.Addr { return s.http.debugAddr }

// listenHTTP opens the listeners. Where it fails none is open.
func (s *Server) listenHTTP() error {
	if err := s.listenDebug(); err != nil {
		return err
	}
	if err := s.listenMonitoring(); err != nil {
		s.http.stop()
		return err
	}
	return nil
}

func (s *Server) listenDebug() (err error) {
	h := s.config.HTTP
	if h.ListenDebug == "" || h.Debug == nil {
		return nil
	}
	var listener net.Listener
	if path := h.debugSocket(); path != "" {
		listener, err = listen.SocketAt(path)
	} else {
		listener, err = net.Listen("tcp", h.ListenDebug)
	}
	if err != nil {
		return err
	}
	s.http.debugAddr = listener.Addr()
	s.config.Logger.Info("serving profiles to programs on this machine", "address", s.http.debugAddr.String())
	s.http.debug = listen.ServeDebugHTTP(listener, listen.GuardHTTP(nil, nil, h.Debug), s.config.Logger)
	return nil
}

func (s *Server) listenMonitoring() error {
	h := s.config.HTTP
	if h.Listen == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc(HealthzPath, s.serveHealthz)
	mux.HandleFunc(ReadyzPath, s.serveReadyz)
	if h.Metrics != nil {
		mux.Handle(MetricsPath, s.onceOpened(h.Metrics(s)))
	}
	if s.hasConsole() {
		mux.Handle("/", listen.OfBrowser(console.Files()))
	}
	handler := s.besideOrders(listen.GuardHTTP(s.config.httpHosts(), []string{HealthzPath, ReadyzPath}, mux))
	err := s.serveMonitoring(handler)
	if err != nil && h.Optional {
		s.config.Logger.Warn("no listener for monitoring programs: /healthz, /readyz and /metrics are not served", "listen_http", h.Listen, "error", err)
		return nil
	}
	if err == nil {
		s.config.Logger.Info("serving monitoring programs", "address", s.http.addr.String())
	}
	return err
}

func (s *Server) serveMonitoring(handler http.Handler) (err error) {
	if serve := s.config.hooks.Monitoring; serve != nil {
		s.http.addr, err = serve(s.config.HTTP.Listen, handler)
		return err
	}
	listener, err := net.Listen("tcp", s.config.HTTP.Listen)
	if err != nil {
		return err
	}
	s.http.addr = listener.Addr()
	if s.config.HTTP.TLS {
		listener = s.tls.HTTP(listener)
	}
	s.http.server = listen.ServeHTTP(listener, handler, s.config.Logger)
	return nil
}

// besideOrders serves what takes orders beside what only answers questions.
func (s *Server) besideOrders(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	if faults := s.config.HTTP.Faults; faults != nil {
		mux.Handle(FaultsPath, listen.GuardOrders(s.config.httpHosts(), faults))
	}
	if !s.hasConsole() {
		return mux
	}
	mux.Handle("/api/", listen.OfBrowser(http.HandlerFunc(s.serveConsole)))
	return console.Strict(mux)
}

func (s *Server) hasConsole() bool {
	return s.config.HTTP.Console == ConsoleRead || s.config.HTTP.Console == ConsoleWrite
}

// serveConsole serves the console's calls once the server has started: before that a removed user may still seem to be
// there.
func (s *Server) serveConsole(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.opened:
		s.http.console.ServeHTTP(w, r)
	default:
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}
}

// ConsoleLink returns the address of the console with a key to sign in as an administrator, once, within 5 minutes; ""
// if there is no console.
func (s *Server) ConsoleLink() string {
	if s.http.addr == nil || !s.hasConsole() {
		return ""
	}
	address := s.http.addr.(*net.TCPAddr)
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if s.config.HTTP.TLS {
		names := append([]string{s.discovery.Advertised.TLS.Host, host, "localhost"}, s.config.httpHosts()...)
		scheme, host = "https", names[max(0, slices.IndexFunc(names, s.tls.Covers))]
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(address.Port)) + "/#key=" + s.http.console.NewKey()
}

// newConsole returns the console, once all services are registered.
func (s *Server) newConsole() *console.Console {
	return console.New(console.Config{Auth: s.auth, Accounts: s.group.Accounts, SignIn: s.users.SignIn,
		Bridge: console.Bridge{Methods: s.http.methods, Interceptor: s.http.interceptors.call,
			Acts: s.config.HTTP.Console == ConsoleWrite}, Logger: s.config.Logger,
		Hosts: s.config.httpHosts(), Loopback: onLoopback(s.config.HTTP.Listen)})
}

// httpHosts are the names by which this server goes.
func (c Config) httpHosts() []string {
	names := append([]string(nil), c.HTTP.Hosts...)
	for _, address := range []string{c.Listen, c.ListenTLS, c.HTTP.Listen} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			names = append(names, host)
		}
	}
	plain, _, _, _ := c.names().Proxy()
	tls, _, _ := discovery.Split(c.AdvertiseTLS)
	for _, host := range []string{plain, tls} {
		if host != "" {
			names = append(names, host)
		}
	}
	return names
}

func (s *Server) onceOpened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.http.opened.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) serveHealthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close") // probes come rarely, and connections are few
	if err := s.Err(); err != nil {
		http.Error(w, "failed: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	answerText(w, http.StatusOK, "ok")
}

// serveReadyz serves the answer of gRPC's health service, with the reason.
func (s *Server) serveReadyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close")
	code := http.StatusOK
	ready, lines := s.readiness.Lines()
	if !ready {
		code = http.StatusServiceUnavailable
	}
	answerText(w, code, strings.Join(lines, "\n"))
}

func answerText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // who has gone does not need it
}
