package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// This file sees whether the settings of a server fit together, and can be used on this machine, which none
// of them tells by itself. Errors name the settings by what gave them.

// fileSettings are the options whose values are files to read.
var fileSettings = []string{"tls-cert", "tls-key", "tls-client-ca", "token-file",
	"initial-admin-password-file", "peer-cert", "peer-key", "peer-ca"}

// together refuses settings that contradict each other or lack one another, and files that cannot be read.
func (s *settings) together(values map[string]given) error {
	tls, admin := &s.tls, &s.auth
	files := cmp.Or(tls.certificate, tls.key, tls.clientCA) != ""
	switch {
	case tls.listen != "" && (tls.certificate == "" || tls.key == ""):
		return values["listen-tls"].lacks("needs --tls-cert and --tls-key, the files of a certificate and its key; " +
			"`coordd cert` makes them")
	case tls.listen == "" && files:
		return firstGiven(values, "tls-cert", "tls-key",
			"tls-client-ca").lacks("has no meaning without --listen-tls HOST:PORT, which accepts clients with TLS")
	case s.listen == "" && tls.listen == "":
		return values[listenName].lacks("leaves no way in without --listen-tls HOST:PORT")
	case s.listen == "" && strings.HasPrefix(s.advertise, proxyScheme):
		return values["advertise"].lacks("needs --listen HOST:PORT, to which the proxy connects")
	case tls.clientRequired && tls.clientCA == "":
		return values["tls-client-auth"].lacks("needs --tls-client-ca, the authorities of the clients' certificates")
	case tls.listen == s.listen && !anyPort(s.listen):
		return values["listen-tls"].lacks(
			"%s is the address of --listen already; give it another port, 2135 by convention", s.listen)
	case s.http.listen != "" && !anyPort(s.http.listen) &&
		(s.http.listen == s.listen || s.http.listen == tls.listen):
		return values[listenHTTPName].lacks(
			"%s is an address of clients already; give it another port, 8765 by convention", s.http.listen)
	case admin.admin != "" && admin.adminPasswordFile == "":
		return values["initial-admin"].lacks("needs --initial-admin-password-file, the file with the password")
	case admin.admin == "" && admin.adminPasswordFile != "":
		return values["initial-admin-password-file"].lacks("needs --initial-admin, the name of the administrator")
	case s.inMemory && s.cluster != (clusterSettings{}):
		return values[inMemoryName].lacks("a server of a cluster keeps its part of the data; give --data-dir, or " +
			"leave --listen-peer and the like out")
	}
	for _, name := range fileSettings {
		value := values[name]
		if value.localYDB && tls.listen == "" {
			continue // the server goes on without TLS
		}
		if value.value != "" {
			if err := readable(value.value); err != nil {
				return withCode(exitConfig, fmt.Errorf("%s: %w", value.origin, err))
			}
		}
	}
	return nil
}

// lacks is the error for a value that is right by itself, but not beside the others.
func (g given) lacks(format string, values ...any) error {
	return withCode(exitConfig, fmt.Errorf("%s: %s", g.origin, fmt.Sprintf(format, values...)))
}

// firstGiven is the first of the settings that has a value.
func firstGiven(values map[string]given, names ...string) given {
	for _, name := range names {
		if values[name].value != "" {
			return values[name]
		}
	}
	return given{}
}

// anyPort reports whether the system chooses the port.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port == "0"
}

func readable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// unlikePeers is a warning about a server that listens for its peers on another port than they are told, ""
// if it does not. Behind a port that is forwarded that is right.
func (s *settings) unlikePeers() string {
	_, listens, _ := net.SplitHostPort(s.cluster.listen)
	told := s.cluster.advertise
	if members, err := parseInitialCluster(s.cluster.initial); err == nil {
		told = cmp.Or(told, members[s.cluster.name])
	}
	if _, port, err := net.SplitHostPort(told); err == nil && port != listens {
		return fmt.Sprintf("the other servers are told to connect to %s, but this one listens for them on port %s: "+
			"right only if something forwards it", told, listens)
	}
	return ""
}

// aboutListener adds to the error of an address that cannot be listened on which setting it is, and what to
// do.
func aboutListener(err error, s settings, values map[string]given) error {
	var network *net.OpError
	if !errors.As(err, &network) || network.Op != "listen" || network.Addr == nil {
		return err
	}
	for name, address := range map[string]string{listenName: s.listen, "listen-tls": s.tls.listen,
		"listen-peer": s.cluster.listen, listenHTTPName: s.http.listen, "debug-http": s.http.debug} {
		resolved, failed := net.ResolveTCPAddr("tcp", address)
		if failed != nil || resolved.String() != network.Addr.String() {
			continue
		}
		origin := values[name].origin
		if origin == "default" {
			origin = "default of --" + name
		}
		return withCode(codeOf(err), fmt.Errorf("%s: %w%s", origin, network, listenAdvice(network.Err)))
	}
	return err
}

// listenAdvice is what to do about an address that cannot be listened on.
func listenAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; `ss -ltnp` shows by whom, and another port helps"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; it is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		return "; ports below 1024 are for root, or need the capability CAP_NET_BIND_SERVICE"
	}
	return ""
}
