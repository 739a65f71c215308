package server

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// startProxy starts a proxy that ends TLS and connects to where to sends.
func startProxy(t *testing.T, a *testAuthority, to <-chan string) net.Listener {
	t.Helper()
	a.server("proxy")
	config := a.client("proxy")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		server := <-to
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				onwards, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				go func() {
					defer onwards.Close()
					_, _ = io.Copy(onwards, client)
				}()
				_, _ = io.Copy(client, onwards)
			}()
		}
	}()
	return listener
}

// TestBehindAProxy: clients by TLS are led back to the proxy, by TLS, as SDKs want it.
func TestBehindAProxy(t *testing.T) {
	a, to := newAuthority(t), make(chan string, 1)
	at := startProxy(t, a, to).Addr().String()
	s, _ := startTest(t, func(c *Config) {
		a.configure(c)
		c.Advertise = "grpcs://" + at
	})
	to <- s.Addr().String()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(credentials.NewTLS(a.client(""))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	e := endpointOf(t, t.Context(), conn)
	if got := addressOf(e); got != at || !e.GetSsl() {
		t.Errorf("by the proxy: got %v, want %s with ssl", e, at)
	}
	e = endpointOf(t, t.Context(), dialTLS(t, s, a.client("")))
	if got := addressOf(e); got != s.tls.Addr().String() || !e.GetSsl() {
		t.Errorf("by the server's own TLS: got %v", e)
	}
	if got := s.ConnectionString(); got != "grpcs://"+at+"/local" {
		t.Errorf("it is called %s", got)
	}
	if got := s.discovery.Advertised.Text(); !strings.Contains(got, "proxied="+at) || strings.Contains(got, "plain=") {
		t.Errorf("the others learn %s", got)
	}
}
