//go:build unix

package compat_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// tlsProxy is a program that ends TLS in front of a server. In its files and arguments {dir} is a folder with cert.pem,
// key.pem and both.pem, {listen} the address of the proxy and {server} that of the server.
type tlsProxy struct {
	program, debian string // the package of Debian
	files           map[string]string
	arguments       string
	reload          syscall.Signal
}

var tlsProxies = []tlsProxy{
	{program: "nginx", debian: "nginx-light", reload: syscall.SIGHUP, arguments: "-p {dir} -e error.log -c nginx.conf",
		files: map[string]string{"nginx.conf": `daemon off;
pid nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy;
	fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server {
		listen {listen} ssl http2;
		ssl_certificate cert.pem;
		ssl_certificate_key key.pem;
		client_max_body_size 0; # a stream is one body
		location / { grpc_pass grpc://{server}; }
	}
}
`}},
	{program: "haproxy", debian: "haproxy", reload: syscall.SIGUSR2, arguments: "-W -f {dir}/haproxy.cfg",
		files: map[string]string{"haproxy.cfg": `defaults
	mode http
	timeout connect 5s
	timeout client 30s
	timeout server 30s
frontend clients
	bind {listen} ssl crt {dir}/both.pem alpn h2
	default_backend coordd
backend coordd
	server coordd {server} proto h2
`}},
	{program: "nghttpx", debian: "nghttp2-proxy", reload: syscall.SIGHUP, files: map[string]string{"nghttpx.conf": ""},
		arguments: "--conf={dir}/nghttpx.conf -f{listenComma} -b{serverComma};;proto=h2 {dir}/key.pem {dir}/cert.pem"},
}

// TestProxiesThatEndTLS has the SDK discover a server behind a proxy, by TLS, and hold a lock while the proxy reads its
// settings again, as operators make it do.
func TestProxiesThatEndTLS(t *testing.T) {
	t.Parallel()
	for _, p := range tlsProxies {
		t.Run(p.program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(p.program); err != nil {
				t.Skipf("%s is not installed: apt-get install %s", p.program, p.debian)
			}
			p.run(t)
		})
	}
}

func (p tlsProxy) run(t *testing.T) {
	dir, listen := t.TempDir(), testserver.Address(t)
	testserver.Run(t, "cert", "--dir", dir)
	server := testserver.New(t, "--in-memory", "--advertise", "grpcs://"+listen)
	server.Begin()
	server.FirstLine() // which has the proxy's address
	comma := func(address string) string { return strings.Replace(address, ":", ",", 1) }
	fill := strings.NewReplacer("{dir}", dir, "{listen}", listen, "{server}", server.Address,
		"{listenComma}", comma(listen), "{serverComma}", comma(server.Address)).Replace
	var both []byte
	for _, name := range []string{"cert.pem", "key.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	files := map[string]string{"both.pem": string(both)}
	for name, text := range p.files {
		files[name] = fill(text)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	proxy := exec.CommandContext(t.Context(), p.program, strings.Fields(fill(p.arguments))...)
	proxy.Stdout, proxy.Stderr = log, log
	proxy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-proxy.Process.Pid, syscall.SIGKILL) // with its workers
		_ = proxy.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("log of %s:\n%s", p.program, text)
		}
	})
	dsn, trusting := "grpcs://"+listen+"/local", ydb.WithCertificatesFromFile(filepath.Join(dir, "ca.pem"))

	c := open(t, dsn, trusting)
	endpoints, err := c.Discovery().Discover(testContext(t))
	if err != nil || len(endpoints) != 1 || endpoints[0].Address() != listen {
		t.Errorf("endpoints %v, %v, want %s", endpoints, err, listen)
	}
	c.createNode()
	holder := c.session()
	held := acquire(t, holder, "lock", coordination.Exclusive, ephemeral)
	for range 3 {
		if err := proxy.Process.Signal(p.reload); err != nil {
			t.Fatal(err)
		}
		next := open(t, dsn, trusting).session()
		waiting := enqueue(t, next, "lock", coordination.Exclusive, ephemeral)
		if d := describe(t, holder, "lock"); len(d.Owners) != 1 || d.Owners[0].SessionID != holder.SessionID() {
			t.Errorf("behind a reload the lock is %s", fmt.Sprint(d))
		}
		if held.Context().Err() != nil {
			t.Error("the lease was lost with a reload")
		}
		release(t, held)
		held, holder = waiting.granted(t), next
	}
	release(t, held)
}
