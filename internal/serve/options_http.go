package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/monitor"
)

// HTTPSettings are the settings of the listener for monitoring programs.
type HTTPSettings struct {
	Listen string // host:port; empty: none
	hosts  string // names, with commas between them
	debug  string // path of a socket or ip:port; empty: none
	// resources of rate limiters that have metrics of their own, NODE=RESOURCE, with commas between them.
	resources string
}

// ListenHTTPName names the setting of the address for monitoring programs.
const ListenHTTPName = "listen-http"

// nothing is the value that stands for no listener. An empty one does as well, but a variable that is empty
// counts as not set.
const nothing = "off"

// httpOptions are the settings of what monitoring programs are served.
var httpOptions = []Option{
	{ListenHTTPName, "HOST:PORT",
		"address for monitoring programs, HTTP in plain text: /healthz, /readyz and /metrics; off: none",
		"127.0.0.1:8765",
		setListener(func(s *Settings) *string { return &s.HTTP.Listen }, 0, "127.0.0.1:8765", nothing, "")},
	{"http-hosts", "NAME,...",
		"further names by which monitoring programs may ask for /metrics; IP addresses, localhost and the names " +
			"that the server listens on and advertises need not be listed",
		"", setHTTPHosts},
	{"metrics-resource", "NODE=RESOURCE,...",
		"resources of rate limiters that /metrics shows by themselves, up to 200, where the counters of the node " +
			"are detailed",
		"", setMetricsResources},
	{"debug-http", "PATH|IP:PORT",
		"where developers find profiles, below /debug/pprof: a Unix socket or an address of this machine (default: " +
			"nowhere)",
		"", setDebugHTTP},
}

func setHTTPHosts(s *Settings, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if value != "" && !hostName.MatchString(name) {
			return errors.New(
				"want names with commas between them and without ports, such as coordd.example.net,coordd")
		}
	}
	s.HTTP.hosts = value
	return nil
}

func setMetricsResources(s *Settings, value string) error {
	if _, err := metricsResources(value); err != nil {
		return err
	}
	s.HTTP.resources = value
	return nil
}

// metricsResources takes the setting apart. A path of a resource has no = in it.
func metricsResources(value string) (resources []monitor.Resource, err error) {
	for text := range strings.SplitSeq(value, ",") {
		if value == "" {
			break
		}
		at := strings.LastIndexByte(text, '=')
		if at < 0 || !strings.HasPrefix(text, "/") || !IsResource(text[at+1:]) ||
			!utf8.ValidString(text) {
			return nil, errors.New("want paths of coordination nodes and of resources, such as " +
				"/local/app=reports,/local/app=reports/daily")
		}
		resource := monitor.Resource{Node: text[:at], Path: text[at+1:]}
		if slices.Contains(resources, resource) {
			return nil, fmt.Errorf("%s is there twice", text)
		}
		resources = append(resources, resource)
	}
	if len(resources) > monitor.MaxNamedResources {
		return nil, fmt.Errorf("want %d at most", monitor.MaxNamedResources)
	}
	return resources, nil
}

// IsResource reports whether a text can be the path of a rate limiter's resource.
func IsResource(path string) bool {
	return path != "" && !strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/") &&
		!strings.Contains(path, "//")
}

func setDebugHTTP(s *Settings, value string) error {
	s.HTTP.debug = value
	if at, err := netip.ParseAddrPort(value); filepath.IsAbs(value) && !strings.ContainsRune(value, 0) ||
		err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return errors.New(
		"want the absolute path of a Unix socket, or an address of this machine alone such as 127.0.0.1:6060")
}

// configuration is what the server is given. Two servers on one machine both want the default address; that
// one of them has to go without must not keep it from serving.
func (h HTTPSettings) configuration(values map[string]Given) server.HTTP {
	resources, _ := metricsResources(h.resources) // which was looked at when it was set
	config := server.HTTP{Listen: h.Listen,
		Metrics:  func(s *server.Server) http.Handler { return monitor.Metrics(s, cmdline.Version, resources...) },
		Optional: strings.HasPrefix(values[ListenHTTPName].Origin, "default")}
	if h.debug != "" {
		config.ListenDebug, config.Debug = h.debug, monitor.Debug()
	}
	if h.hosts != "" {
		config.Hosts = strings.Split(h.hosts, ",")
	}
	return config
}

// warn says what an operator may not have meant.
func (h HTTPSettings) warn(logger *slog.Logger) {
	if h.Listen != "" && Reachable(h.Listen) {
		logger.Warn("programs on other machines can read the server's state and metrics, without a login",
			"listen_http", h.Listen)
	}
}
