package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/coordd/coordd/internal/exit"
)

// Checks that the settings of a server fit together, and can be used on this machine. Errors name the settings by their
// origin.

// together refuses settings that contradict each other or lack one another, and files that cannot be read.
func (s *Settings) together(values map[string]Given) error {
	tls, admin := &s.TLS, &s.Auth
	files := cmp.Or(tls.Certificate, tls.Key, tls.ClientCA) != ""
	switch {
	case tls.Listen != "" && (tls.Certificate == "" || tls.Key == ""):
		return values["listen-tls"].lacks("needs --tls-cert and --tls-key, the files of a certificate and its key; " +
			"`coordd cert` makes them")
	case tls.Listen == "" && files:
		return firstGiven(values, "tls-cert", "tls-key",
			"tls-client-ca").lacks("has no meaning without --listen-tls HOST:PORT, which accepts clients with TLS")
	case s.Listen == "" && tls.Listen == "":
		return values[ListenName].lacks("leaves no way in without --listen-tls HOST:PORT")
	case s.Listen == "" && strings.HasPrefix(string(s.Advertise), proxyScheme):
		return values["advertise"].lacks("needs --listen HOST:PORT, to which the proxy connects")
	case bool(tls.ClientRequired) && tls.ClientCA == "":
		return values["tls-client-auth"].lacks("needs --tls-client-ca, the authorities of the clients' certificates")
	case tls.Listen == s.Listen && !s.Listen.anyPort():
		return values["listen-tls"].lacks(
			"%s is the address of --listen already; give it another port, 2135 by convention", s.Listen)
	case s.HTTP.TLS && tls.Listen == "":
		return values["http-tls"].lacks("needs --listen-tls HOST:PORT and its certificate")
	case s.HTTP.Listen != "" && !s.HTTP.Listen.anyPort() &&
		(s.HTTP.Listen == s.Listen || s.HTTP.Listen == tls.Listen):
		return values[ListenHTTPName].lacks(
			"%s is an address of clients already; give it another port, 8765 by convention", s.HTTP.Listen)
	case admin.Admin != "" && admin.AdminPasswordFile == "":
		return values["initial-admin"].lacks("needs --initial-admin-password-file, the file with the password")
	case admin.Admin == "" && admin.AdminPasswordFile != "":
		return values["initial-admin-password-file"].lacks("needs --initial-admin, the name of the administrator")
	case s.InMemory && s.Cluster != (ClusterSettings{}):
		return values[InMemoryName].lacks("a server of a cluster keeps its part of the data; give --data-dir, or " +
			"leave --listen-peer and the like out")
	}
	var unreadable error
	Each(*s, func(name string, _ File) {
		value := values[name]
		if unreadable != nil || value.localYDB && tls.Listen == "" { // the server goes on without TLS
			return
		}
		if err := readable(value.Value); err != nil {
			unreadable = exit.With(exit.Config, fmt.Errorf("%s: %w", value.Origin, err))
		}
	})
	return unreadable
}

// lacks is the error for a value that is right by itself, but not beside the others.
func (g Given) lacks(format string, values ...any) error {
	return exit.With(exit.Config, fmt.Errorf("%s: %s", g.Origin, fmt.Sprintf(format, values...)))
}

// firstGiven is the first of the settings that has a value.
func firstGiven(values map[string]Given, names ...string) Given {
	for _, name := range names {
		if values[name].Value != "" {
			return values[name]
		}
	}
	return Given{}
}

func readable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// unlikePeers warns when --listen-peer and --advertise-peer differ in port, which is right only where a port is
// forwarded.
func (s *Settings) unlikePeers() string {
	_, listens, _ := net.SplitHostPort(string(s.Cluster.Listen))
	told := string(s.Cluster.Advertise)
	if members, err := s.Cluster.Initial.addresses(); err == nil {
		told = cmp.Or(told, members[string(s.Cluster.Name)])
	}
	if _, port, err := net.SplitHostPort(told); err == nil && port != listens {
		return fmt.Sprintf("the other servers are told to connect to %s, but this one listens for them on port %s: "+
			"right only if something forwards it", told, listens)
	}
	return ""
}

// AboutListener adds to the error of an address that cannot be listened on which setting it is, and what to
// do.
func AboutListener(err error, s Settings, values map[string]Given) error {
	var network *net.OpError
	if !errors.As(err, &network) || network.Op != "listen" || network.Addr == nil {
		return err
	}
	of := error(nil)
	about := func(name, address string) {
		resolved, failed := net.ResolveTCPAddr("tcp", address)
		if of != nil || failed != nil || resolved.String() != network.Addr.String() {
			return
		}
		origin := values[name].Origin
		if origin == "default" {
			origin = "default of --" + name
		}
		of = exit.With(exit.Of(err), fmt.Errorf("%s: %w%s", origin, network, listenAdvice(network.Err)))
	}
	Each(s, func(name string, address Listener) { about(name, string(address)) })
	Each(s, func(name string, address LocalAddress) { about(name, string(address)) })
	return cmp.Or(of, err)
}

// listenAdvice returns the remedy for an address that cannot be listened on.
func listenAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; `ss -ltnp` names the process, and another port helps"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; it is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		return "; ports below 1024 are for root, or need the capability CAP_NET_BIND_SERVICE"
	}
	return ""
}
