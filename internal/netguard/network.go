package netguard

import (
	"net"
	"net/netip"
)

// networkBits is the length of the IPv6 networks whose addresses count as one: a customer of a provider commonly
// has such a network.
const networkBits = 48

// Network names the place that a connection comes from: an IPv4 address, or the network of an IPv6 address.
func Network(address net.Addr) string {
	at, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return address.String()
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(networkBits) // it has that many bits
	return network.String()
}
