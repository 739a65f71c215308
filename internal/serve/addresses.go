package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listener is an address to accept connections on, HOST:PORT. Port 0 lets the system choose, an empty host means all
// addresses; the empty Listener is no listener.
type Listener string

// set takes an address with a port of at least the tag's lowest, or one of the words for no listener in its off.
func (l *Listener) set(tag reflect.StructTag, value string) error {
	lowest, _ := strconv.ParseUint(cmp.Or(tag.Get("lowest"), "0"), 10, 16)
	off, mayBeOff := tag.Lookup("off")
	none := strings.Split(off, ",")
	if mayBeOff && slices.Contains(none, value) {
		*l = ""
		return nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil || !PortInRange(port, lowest) || !hostUsable(host, true) {
		or := ""
		if mayBeOff {
			or = ", or " + none[0]
		}
		return fmt.Errorf("want HOST:PORT with a port from %d to 65535, such as %s%s; an empty host means all "+
			"addresses", lowest, cmp.Or(tag.Get("example"), tag.Get("default")), or)
	}
	*l = Listener(value)
	return nil
}

// anyPort reports whether the system chooses the port.
func (l Listener) anyPort() bool {
	_, port, err := net.SplitHostPort(string(l))
	return err == nil && port == "0"
}

// reachable reports whether there is a listener that other machines can reach.
func (l Listener) reachable() bool { return l != "" && Reachable(string(l)) }

// Reachable reports whether other machines can reach an address to listen on, as far as the address shows.
func Reachable(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return !address.IsLoopback()
	}
	return host != "localhost"
}

// Advertised is HOST or HOST:PORT for clients to connect to, or grpcs://HOST:PORT of a proxy that ends TLS.
type Advertised string

// proxyScheme stands before the address of a proxy that ends TLS.
const proxyScheme = "grpcs://"

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Advertised) UnmarshalText(text []byte) error {
	*a = Advertised(text)
	address, proxied := strings.CutPrefix(string(text), proxyScheme)
	if strings.Contains(address, "://") {
		return errors.New("want HOST or HOST:PORT without a scheme, or grpcs://HOST:PORT of a proxy that ends TLS")
	}
	if _, port, err := net.SplitHostPort(address); proxied && (err != nil || port == "") {
		return errors.New("want grpcs://HOST:PORT of a proxy that ends TLS, such as grpcs://coordd.example.net:443")
	}
	return checkAdvertised(address)
}

// AdvertisedTLS is HOST or HOST:PORT for clients of the TLS listener.
type AdvertisedTLS string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *AdvertisedTLS) UnmarshalText(text []byte) error {
	if *a = AdvertisedTLS(text); strings.Contains(string(text), "://") {
		return errors.New("want HOST or HOST:PORT without a scheme: all clients of --listen-tls use TLS")
	}
	return checkAdvertised(string(text))
}

// checkAdvertised refuses the addresses that mean "all of mine": a client cannot
// connect to those.
func checkAdvertised(value string) error {
	usable := hostUsable(value, false)
	if _, err := netip.ParseAddr(value); err != nil && strings.Contains(value, ":") {
		host, port, err := net.SplitHostPort(value)
		usable = err == nil && PortInRange(port, 1) && hostUsable(host, false)
	}
	if !usable {
		return errors.New("want HOST or HOST:PORT that clients can connect to, with a port from 1 to 65535, such as " +
			"coordd.example.net or [2001:db8::1]:2136")
	}
	return nil
}

// PeerAddress is HOST:PORT that other servers can connect to.
type PeerAddress string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *PeerAddress) UnmarshalText(text []byte) error {
	*a = PeerAddress(text)
	host, port, err := net.SplitHostPort(string(text))
	if err != nil || !PortInRange(port, 1) || !hostUsable(host, false) {
		return errors.New("want HOST:PORT with a port from 1 to 65535, such as 10.0.0.1:2380")
	}
	return nil
}

// LocalAddress is the path of a Unix socket, or an address of this machine alone.
type LocalAddress string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *LocalAddress) UnmarshalText(text []byte) error {
	*a = LocalAddress(text)
	value := string(text)
	if at, err := netip.ParseAddrPort(value); filepath.IsAbs(value) && !strings.ContainsRune(value, 0) ||
		err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return errors.New(
		"want the absolute path of a Unix socket, or an address of this machine alone such as 127.0.0.1:6060")
}

// HostNames are names of hosts with commas between them.
type HostNames string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *HostNames) UnmarshalText(text []byte) error {
	*n = HostNames(text)
	for _, name := range n.list() {
		if !hostName.MatchString(name) {
			return errors.New(
				"want names with commas between them and without ports, such as coordd.example.net,coordd")
		}
	}
	return nil
}

func (n HostNames) list() []string {
	if n == "" {
		return nil
	}
	return strings.Split(string(n), ",")
}

// PortInRange reports whether a text is a port of at least lowest.
func PortInRange(port string, lowest uint64) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number >= lowest
}

// hostName accepts what a resolver may know: letters, digits, dots, dashes and
// underscores (container networks use them).
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?\.?$`)

// hostUsable says whether host is an IP address or a well-formed name. Only a
// listener may leave it empty or use an unspecified address.
func hostUsable(host string, listener bool) bool {
	if host == "" {
		return listener
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return listener || !address.IsUnspecified()
	}
	return hostName.MatchString(host)
}
