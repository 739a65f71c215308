package discovery

import (
	"net"
	"reflect"
	"testing"

	"github.com/coordd/coordd/raftstore"
)

func TestClientAddressText(t *testing.T) {
	for text, want := range map[string]Addresses{
		"plain=a.example:2136": {Plain: HostPort{"a.example", 2136}},
		"plain=a.example:2136,tls=[2001:db8::1]:535": {Plain: HostPort{"a.example", 2136},
			TLS: HostPort{"2001:db8::1", 535}}, "tls=a:1": {TLS: HostPort{"a", 1}},
		"tls=a:1,proxied=b:1": {TLS: HostPort{"a", 1}, Proxied: HostPort{"b", 1}},
		"":                    {},
	} {
		if got := parseAddresses(text); got != want || got.Text() != text {
			t.Errorf("%q: got %v, written as %q", text, got, got.Text())
		}
	}
	for _, text := range []string{raftstore.NoClients, "plain", "plain=", "plain=a", "plain=:1", "plain=a:0",
		"plain=a:65536", "later=a:1", ",", "=a:1"} {
		if got := parseAddresses(text); got != (Addresses{}) {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestEndpoints(t *testing.T) {
	own := Addresses{Plain: HostPort{"self", 1}, TLS: HostPort{"self", 2}, Proxied: HostPort{"self", 3}}
	member := func(id uint64, text string) raftstore.Member {
		return raftstore.Member{ID: id, ClientAddress: text}
	}
	for name, test := range map[string]struct {
		members raftstore.Members
		by      way
		leaving bool
		want    []endpoint
	}{
		"alone": {raftstore.Members{member(5, "")}, byPlain, false,
			[]endpoint{{5, own.Plain}}},
		"alone and leaving": {raftstore.Members{member(5, raftstore.NoClients)}, byPlain, true,
			[]endpoint{{5, own.Plain}}}, "unknown to itself": {nil, byTLS, false, []endpoint{{1, own.TLS}}},
		"old address of its own": {raftstore.Members{member(5, "plain=old:1")}, byPlain, false,
			[]endpoint{{5, own.Plain}}}, "others by plain text": {raftstore.Members{member(2,
			"plain=b:1,tls=b:2"), member(5, ""), member(9, "plain=c:1")}, byPlain, false,
			[]endpoint{{5, own.Plain}, {2, HostPort{"b", 1}}, {9, HostPort{"c", 1}}}},
		"others by TLS": {raftstore.Members{member(2, "plain=b:1,tls=b:2"), member(5, ""),
			member(9, "plain=c:1")}, byTLS, false, []endpoint{{5, own.TLS}, {2, HostPort{"b", 2}}}},
		"others by a proxy": {raftstore.Members{member(2, "tls=b:2,proxied=b:3"), member(5, ""),
			member(9, "plain=c:1,tls=c:2")}, byProxy, false, []endpoint{{5, own.Proxied}, {2, HostPort{"b", 3}}}},
		"leaving": {raftstore.Members{member(2, "plain=b:1"), member(5, "")}, byPlain, true,
			[]endpoint{{2, HostPort{"b", 1}}}},
		"others not ready or leaving": {raftstore.Members{member(2, ""), member(5, ""),
			member(9, raftstore.NoClients)}, byPlain, false, []endpoint{{5, own.Plain}}},
		"one address twice": {raftstore.Members{member(2, "plain=b:1"), member(3, "plain=b:1"),
			member(4, "plain=self:1"), member(5, "")}, byPlain, false,
			[]endpoint{{5, own.Plain}, {2, HostPort{"b", 1}}}},
		"numbers that collide": {raftstore.Members{member(5, ""), member(1<<32, "plain=b:1"),
			member(1<<32|5, "plain=c:1"), member(2<<32|5, "plain=d:1")}, byPlain, false,
			[]endpoint{{5, own.Plain}, {1, HostPort{"b", 1}}, {6, HostPort{"c", 1}}, {7, HostPort{"d", 1}}}},
	} {
		if got := endpoints(test.members, 5, own, test.by, test.leaving); !reflect.DeepEqual(got,
			test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestAdvertisedTLS(t *testing.T) {
	for want, c := range map[string]Names{
		"localhost:7": {ListenTLS: ":0"},
		"a.example:7": {ListenTLS: ":0", Advertise: "a.example:2136"},
		"b.example:7": {ListenTLS: ":0", Advertise: "a.example:2136", AdvertiseTLS: "b.example"},
		"b.example:9": {ListenTLS: ":0", AdvertiseTLS: "b.example:9"},
		"c.example:7": {ListenTLS: "c.example:0", Advertise: "grpcs://proxy.example:443"},
	} {
		bound := &net.TCPAddr{IP: net.IPv4zero, Port: 7}
		if !onAllAddresses(c.ListenTLS) {
			bound.IP = net.IPv4(127, 0, 0, 1)
		}
		at := c.tls(bound)
		if wantHost, wantPort, _ := Split(want); at != (HostPort{wantHost, uint32(wantPort)}) {
			t.Errorf("%+v: got %v, want %s", c, at, want)
		}
	}
}
