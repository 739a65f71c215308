package server

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
)

// TestDiscoveryByTheNameCalled: a server that nobody has named is called what its clients call it.
func TestDiscoveryByTheNameCalled(t *testing.T) {
	tests := []struct {
		name              string
		listen, advertise string
		authority         string
		want              string // PORT stands for the server's own
	}{
		{"as dialled", "0.0.0.0:0", "", "", "127.0.0.1:PORT"},
		{"a name and a published port", "0.0.0.0:0", "", "coordd.example:77", "coordd.example:77"},
		{"on all addresses without saying so", ":0", "", "coordd.example:77", "coordd.example:77"},
		{"a name alone", "0.0.0.0:0", "", "coordd.example", "coordd.example:PORT"},
		{"an address", "0.0.0.0:0", "", "[2001:db8::1]:77", "[2001:db8::1]:77"},
		{"no port at all", "0.0.0.0:0", "", "coordd.example:http", "localhost:PORT"},
		{"a name that is not UTF-8", "0.0.0.0:0", "", "m\xfcller.example:77", "localhost:PORT"},
		{"an advertised name", "0.0.0.0:0", "named.example:88", "coordd.example:77", "named.example:88"},
		{"one address only", "127.0.0.1:0", "", "coordd.example:77", "127.0.0.1:PORT"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _ := startTest(t, func(c *Config) { c.Listen, c.Advertise = test.listen, test.advertise })
			port := portOf(t, s.Addr())
			options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
			if test.authority != "" {
				options = append(options, grpc.WithAuthority(test.authority))
			}
			conn, err := grpc.NewClient("127.0.0.1:"+port, options...)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			e := endpointOf(t, t.Context(), conn)
			if got := addressOf(e); got != replacePort(test.want, port) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestDiscoveryByTheNameCalledTLS: each listener by itself.
func TestDiscoveryByTheNameCalledTLS(t *testing.T) {
	for advertise, want := range map[string]string{"": "coordd.example:99",
		"named.example:88": "named.example:88"} {
		a := newAuthority(t)
		s, _ := startTest(t, func(c *Config) {
			a.configure(c)
			c.ListenTLS, c.AdvertiseTLS = "0.0.0.0:0", advertise
		})
		port := portOf(t, s.tls.Addr())
		conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithAuthority("coordd.example:99"),
			grpc.WithTransportCredentials(credentials.NewTLS(a.client(""))))
		if err != nil {
			t.Fatal(err)
		}
		e := endpointOf(t, t.Context(), conn)
		if got := addressOf(e); got != want || !e.GetSsl() {
			t.Errorf("advertised %q: got %s, want %s", advertise, got, want)
		}
		conn.Close()
	}
}

// TestDiscoveryOfAMember: the others name it as it names itself.
func TestDiscoveryOfAMember(t *testing.T) {
	addresses := testserver.Addresses(t, 1)
	s, _ := startTest(t, func(c *Config) {
		c.Listen, c.InMemory, c.DataDir = "0.0.0.0:0", false, t.TempDir()
		c.Cluster = raftstore.Cluster{Name: "a", ListenPeer: addresses[0],
			Initial: map[string]string{"a": addresses[0]}}
	})
	port := portOf(t, s.Addr())
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if e := endpointOf(t, t.Context(), conn); e.GetAddress() != "localhost" ||
		strconv.Itoa(int(e.GetPort())) != port {
		t.Errorf("got %v, want what the others are told", e)
	}
}

func portOf(t *testing.T, address net.Addr) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func replacePort(want, port string) string { return strings.Replace(want, "PORT", port, 1) }
