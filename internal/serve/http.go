package serve

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/monitor"
)

// configuration returns the server's. Two servers on one machine both want the default address; that
// one of them has to go without must not keep it from serving.
func (h HTTPSettings) configuration(values map[string]Given, certificates *certificateFiles) server.HTTP {
	shown := monitor.Options{Version: cmdline.Version, Certificates: certificates.ends}
	shown.Resources, _ = h.Resources.list() // which was looked at when it was set
	shown.Semaphores, _ = h.Locks.list()
	config := server.HTTP{Listen: string(h.Listen), Hosts: h.Hosts.list(), Console: h.Console, TLS: h.TLS,
		Metrics:  func(s *server.Server) http.Handler { return monitor.Metrics(s, shown) },
		Optional: strings.HasPrefix(values[ListenHTTPName].Origin, "default")}
	if h.Debug != "" {
		config.ListenDebug, config.Debug = string(h.Debug), monitor.Debug()
	}
	return config
}

// warn logs settings that an operator may not have meant.
func (h HTTPSettings) warn(logger *slog.Logger) {
	if h.Listen.reachable() {
		logger.Warn("programs on other machines can read the server's state and metrics, without a login",
			"listen_http", h.Listen)
	}
}
