package discovery

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/server/listen"
)

// HostPort is an address that clients connect to; the zero value is no address.
type HostPort struct {
	Host string
	Port uint32
}

// String returns host:port, with brackets around an IPv6 address.
func (a HostPort) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// way names the listener by which a client reaches a server. SDKs drop the endpoints of another one than their own.
type way uint8

const (
	byPlain way = iota
	byTLS
	byProxy // by TLS that ends at a proxy, whose connections the plain listener accepts
)

// Addresses are those of one server for its clients. Of plain and proxied one at most is set, see Names.
type Addresses struct{ Plain, TLS, Proxied HostPort }

// Text is the form in which servers announce them, such as "plain=a.example:2136,tls=a.example:2135".
func (c Addresses) Text() string {
	var parts []string
	if c.Plain != (HostPort{}) {
		parts = append(parts, "plain="+c.Plain.String())
	}
	if c.TLS != (HostPort{}) {
		parts = append(parts, "tls="+c.TLS.String())
	}
	if c.Proxied != (HostPort{}) {
		parts = append(parts, "proxied="+c.Proxied.String())
	}
	return strings.Join(parts, ",")
}

// parseAddresses reads what Text wrote. What it does not know, such as a kind of listener that a later
// version has, is passed over.
func parseAddresses(text string) Addresses {
	var c Addresses
	for part := range strings.SplitSeq(text, ",") {
		kind, address, _ := strings.Cut(part, "=")
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || listen.ValidPort(port, 1) != nil {
			continue
		}
		number, _ := strconv.Atoi(port)
		switch kind {
		case "plain":
			c.Plain = HostPort{host, uint32(number)}
		case "tls":
			c.TLS = HostPort{host, uint32(number)}
		case "proxied":
			c.Proxied = HostPort{host, uint32(number)}
		}
	}
	return c
}

func (c Addresses) of(w way) HostPort {
	switch w {
	case byTLS:
		return c.TLS
	case byProxy:
		return c.Proxied
	}
	return c.Plain
}

// Names are the listeners of a server, and the names that it is configured to advertise for them; see server.Config.
type Names struct{ Listen, Advertise, ListenTLS, AdvertiseTLS string }

// ProxyScheme stands before the address of a proxy that ends TLS.
const ProxyScheme = "grpcs://"

// Proxy splits Advertise, and reports whether it is the address of a proxy that ends TLS.
func (n Names) Proxy() (host string, port int, proxied bool, err error) {
	address, proxied := strings.CutPrefix(n.Advertise, ProxyScheme)
	host, port, err = Split(address)
	if err == nil && proxied && port == 0 {
		err = errors.New("want the port of the proxy as well")
	}
	return host, port, proxied, err
}

// Split takes "host" or "host:port"; the port is 0 where none is given.
func Split(advertise string) (host string, port int, err error) {
	if advertise == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(advertise)
	if err != nil {
		if ip := net.ParseIP(advertise); ip != nil {
			return advertise, 0, nil
		}
		if host, _, err = net.SplitHostPort(advertise + ":0"); err != nil || host == "" {
			return "", 0, errors.New("want host or host:port")
		}
		return host, 0, nil
	}
	if host == "" {
		return "", 0, errors.New("want host or host:port")
	}
	if err := listen.ValidPort(text, 1); err != nil {
		return "", 0, err
	}
	port, _ = strconv.Atoi(text)
	return host, port, nil
}

// Addresses returns where clients reach the server, whose listeners have these addresses; nil: it has no such listener.
func (n Names) Addresses(plain, tls *net.TCPAddr) Addresses {
	var addresses Addresses
	if tls != nil {
		addresses.TLS = n.tls(tls)
	}
	if plain == nil {
		return addresses
	}
	host, port, proxied, _ := n.Proxy()
	at := HostPort{host, uint32(port)}.or(n.Listen, plain)
	if proxied {
		addresses.Proxied = at
	} else {
		addresses.Plain = at
	}
	return addresses
}

// tls returns where clients reach the server by TLS.
func (n Names) tls(bound *net.TCPAddr) HostPort {
	host, port, _ := Split(n.AdvertiseTLS)
	if host == "" {
		var proxied bool
		if host, _, proxied, _ = n.Proxy(); proxied {
			host = "" // a proxy's, for the other listener
		}
	}
	return HostPort{host, uint32(port)}.or(n.ListenTLS, bound)
}

// or fills in what is not advertised from a listener, and from the address that it has.
func (a HostPort) or(listen string, bound *net.TCPAddr) HostPort {
	if a.Host == "" {
		if a.Host, _, _ = net.SplitHostPort(listen); a.Host == "" || bound.IP.IsUnspecified() {
			a.Host = "localhost"
		}
	}
	return a.orPort(uint32(bound.Port))
}

// calledAs is the host and, where the client gives one, the port that a call was sent to.
func calledAs(ctx context.Context) (HostPort, bool) {
	headers, _ := metadata.FromIncomingContext(ctx)
	authority := headers.Get(":authority")
	if len(authority) != 1 || len(authority[0]) > authorityBytesMax || !utf8.ValidString(authority[0]) {
		return HostPort{}, false
	}
	host, port, err := Split(authority[0])
	if err != nil || host == "" {
		return HostPort{}, false
	}
	return HostPort{host, uint32(port)}, true
}

// authorityBytesMax is more than a host name and a port have.
const authorityBytesMax = 300

func (a HostPort) orPort(port uint32) HostPort {
	if a.Port == 0 {
		a.Port = port
	}
	return a
}

// onAllAddresses reports whether a listener is on all addresses of its machine.
func onAllAddresses(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
