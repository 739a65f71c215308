package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/monitor"
)

// httpSettings are those of the listener for monitoring programs.
type httpSettings struct {
	listen string // host:port; empty: none
	hosts  string // names, with commas between them
	debug  string // path of a socket or ip:port; empty: none
}

const listenHTTPName = "listen-http"

// nothing is the value that stands for no listener. An empty one does as well, but a variable that is empty counts as not
// set.
const nothing = "off"

// httpOptions are the settings of what monitoring programs are served.
var httpOptions = []option{
	{listenHTTPName, "HOST:PORT", "address for monitoring programs, HTTP in plain text: /healthz, /readyz and /metrics; off: none", "127.0.0.1:8765", setListenHTTP},
	{"http-hosts", "NAME,...", "further names by which monitoring programs may ask for /metrics; IP addresses, localhost and the names that the " +
		"server listens on and advertises need not be listed", "", setHTTPHosts},
	{"debug-http", "PATH|IP:PORT", "where developers find profiles, below /debug/pprof: a Unix socket or an address of this machine (default: nowhere)", "", setDebugHTTP},
}

func setListenHTTP(s *settings, value string) error {
	if value == "" || value == nothing {
		s.http.listen = ""
		return nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil || !portInRange(port, 0) || !hostUsable(host, true) {
		return errors.New("want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8765, or off; an empty host means all addresses")
	}
	s.http.listen = value
	return nil
}

func setHTTPHosts(s *settings, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if value != "" && !hostName.MatchString(name) {
			return errors.New("want names with commas between them and without ports, such as coordd.example.net,coordd")
		}
	}
	s.http.hosts = value
	return nil
}

func setDebugHTTP(s *settings, value string) error {
	s.http.debug = value
	if at, err := netip.ParseAddrPort(value); filepath.IsAbs(value) && !strings.ContainsRune(value, 0) || err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return errors.New("want the absolute path of a Unix socket, or an address of this machine alone such as 127.0.0.1:6060")
}

// configuration is what the server is given. Two servers on one machine both want the default address; that one of them
// has to go without must not keep it from serving.
func (h httpSettings) configuration(values map[string]given) server.HTTP {
	config := server.HTTP{Listen: h.listen, Metrics: func(s *server.Server) http.Handler { return monitor.Metrics(s, version) }, Optional: strings.HasPrefix(values[listenHTTPName].origin, "default")}
	if h.debug != "" {
		config.ListenDebug, config.Debug = h.debug, monitor.Debug()
	}
	if h.hosts != "" {
		config.Hosts = strings.Split(h.hosts, ",")
	}
	return config
}

// warn says what an operator may not have meant.
func (h httpSettings) warn(logger *slog.Logger) {
	if h.listen != "" && reachable(h.listen) {
		logger.Warn("programs on other machines can read the server's state and metrics, without a login", "listen_http", h.listen)
	}
}
