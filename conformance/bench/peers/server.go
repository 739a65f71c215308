package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/loopback"
)

// patience is how long a server may take to start, with a million rows as well.
const patience = 2 * time.Minute

// process is a server that can be killed and started again, with the same address and directory.
type process struct {
	name    string
	address string
	debug   string // where Go's profiles are, empty if nowhere
	metrics string // address of /metrics, empty if none
	log     string // the file that has its output
	command func() *exec.Cmd
	running *exec.Cmd
}

// start starts the server and waits until it answers: first is one operation.
func (p *process) start(ctx context.Context, first func(ctx context.Context, address string) error) error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	command := p.command()
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		return err
	}
	p.running = command
	return p.answers(ctx, first)
}

// answers waits until the server answers. Clients back off for a long time if nobody listens, hence the
// connection of its own.
func (p *process) answers(ctx context.Context, first func(ctx context.Context, address string) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	listening := false
	for {
		var err error
		if !listening {
			var conn net.Conn
			if conn, err = net.Dial("tcp", p.address); err == nil {
				_ = conn.Close()
				listening = true
			}
		}
		if listening {
			if err = first(ctx, p.address); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready, see %s: %w", p.name, p.log, errors.Join(err, ctx.Err()))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (p *process) kill() {
	if p.running != nil {
		_ = p.running.Process.Kill()
		_ = p.running.Wait()
		p.running = nil
	}
}

func (p *process) cpu() (time.Duration, error) { return machine.CPU(p.running.Process.Pid) }

// collect has a Go server collect its garbage twice, as the second time finds what finalizers and pools let
// go.
func (p *process) collect(ctx context.Context) error {
	if p.debug == "" {
		return nil
	}
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"http://"+p.debug+"/debug/pprof/heap?gc=1", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", request.URL, answer.Status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// servers is one server, or a cluster.
type servers []*process

func (s servers) kill() {
	for _, p := range s {
		p.kill()
	}
}

// cpu is the processor time of all of them.
func (s servers) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, p := range s {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func (s servers) addresses() []string {
	all := make([]string, len(s))
	for i, p := range s {
		all[i] = p.address
	}
	return all
}

// product is a kind of server.
type product struct {
	name string
	// absent says why it cannot be measured here, and what to do about it; empty if it can.
	absent string
	// version is of the server and the client.
	version func() string
	// make makes servers that have not been started. dirs has a directory for each.
	make func(dirs []string) (servers, error)
	// first is one operation by a new client.
	first func(ctx context.Context, address string) error
}

// launch starts n servers on empty directories below dir.
func (p *product) launch(ctx context.Context, dir string, n int) (servers, error) {
	var dirs []string
	for i := range n {
		d := filepath.Join(dir, fmt.Sprint(p.name, "-", i))
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
	}
	made, err := p.make(dirs)
	if err != nil {
		return nil, err
	}
	failures := make(chan error, n)
	for i, s := range made {
		s.name, s.log = p.name, dirs[i]+".log"
		go func() { failures <- s.start(ctx, p.first) }() // those of a cluster wait for each other
	}
	for range made {
		err = errors.Join(err, <-failures)
	}
	if err != nil {
		made.kill()
		return nil, err
	}
	return made, nil
}

// newCoordd is coordd with default settings.
func newCoordd(binary string) *product {
	return &product{
		name: "coordd", absent: absence(binary, "make build"),
		version: func() string { return "coordd " + output(binary, "version") },
		first:   attachOnce,
		make: func(dirs []string) (servers, error) {
			addresses, err := loopback.Addresses(4 * len(dirs))
			if err != nil {
				return nil, err
			}
			peers, metrics := addresses[2*len(dirs):3*len(dirs)], addresses[3*len(dirs):]
			var made servers
			for i, dir := range dirs {
				address, debug := addresses[2*i], addresses[2*i+1]
				arguments := []string{"serve", "--listen", address, "--data-dir", dir, "--log-level", "warn",
					"--listen-http", metrics[i], "--debug-http", debug}
				if len(dirs) > 1 {
					arguments = append(arguments, "--name", fmt.Sprint("s", i), "--listen-peer", peers[i],
						"--initial-cluster", initial(peers, ""), "--insecure-peers")
				}
				made = append(made, &process{address: address, debug: debug, metrics: metrics[i], command: func() *exec.Cmd {
					command := exec.Command(binary, arguments...)
					command.Env = append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true")
					return command
				}})
			}
			return made, nil
		},
	}
}

// initial is the members of a new cluster, as coordd and etcd want them.
func initial(peers []string, scheme string) string {
	text := ""
	for i, peer := range peers {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf("s%d=%s%s", i, scheme, peer)
	}
	return text
}

// newSelf is a server that this program itself is, in another process: the stub or the echo.
func newSelf(name string, first func(ctx context.Context, address string) error) *product {
	return &product{
		name: name, first: first, version: func() string { return "" },
		make: func([]string) (servers, error) {
			addresses, err := loopback.Addresses(1)
			if err != nil {
				return nil, err
			}
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			return servers{{address: addresses[0],
				command: func() *exec.Cmd {
					return exec.Command(self, "-be", name, "-listen", addresses[0])
				}}}, nil
		},
	}
}

// newEtcd is etcd with default settings.
func newEtcd(binary string) *product {
	return &product{
		name: "etcd", absent: absence(binary, "make bench-peers builds it"),
		version: func() string {
			return firstLine(output(binary, "--version")) + ", client " +
				moduleVersion("go.etcd.io/etcd/client/v3")
		},
		first: etcdOnce,
		make: func(dirs []string) (servers, error) {
			addresses, err := loopback.Addresses(2 * len(dirs))
			if err != nil {
				return nil, err
			}
			peers := addresses[len(dirs):]
			var made servers
			for i, dir := range dirs {
				client, peer := "http://"+addresses[i], "http://"+peers[i]
				made = append(made, &process{address: addresses[i], debug: addresses[i], metrics: addresses[i],
					command: func() *exec.Cmd {
						return exec.Command(binary, "--name", fmt.Sprint("s", i), "--data-dir",
							filepath.Join(dir, "data"), "--log-level", "error", "--listen-client-urls",
							client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
							"--initial-advertise-peer-urls", peer,
							"--initial-cluster", initial(peers, "http://"), "--enable-pprof")
					}})
			}
			return made, nil
		},
	}
}

// newZooKeeper is a single ZooKeeper with default settings, which sync its log, and as many connections as
// there are clients.
func newZooKeeper(java, jars string) *product {
	server := newestJar(jars, "zookeeper-[0-9]*.jar")
	absent := absence(java, "apt install default-jre-headless")
	if absent == "" && server == "" {
		absent = "not installed: apt install --no-install-recommends zookeeper"
	}
	return &product{
		name: "ZooKeeper", absent: absent,
		version: func() string {
			return "ZooKeeper " + filepath.Base(server) + ", " + firstLine(output(java, "-version")) +
				", go-zookeeper/zk " + moduleVersion("github.com/go-zookeeper/zk")
		},
		first: zooOnce,
		make: func(dirs []string) (servers, error) {
			addresses, err := loopback.Addresses(1)
			if err != nil {
				return nil, err
			}
			_, port, err := net.SplitHostPort(addresses[0])
			if err != nil {
				return nil, err
			}
			settings := filepath.Join(dirs[0], "zoo.cfg")
			text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n", dirs[0], port)
			if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
				return nil, err
			}
			return servers{{address: addresses[0], command: func() *exec.Cmd {
				return exec.Command(java, "-Xmx2g", "-Djute.maxbuffer=4194304", "-cp",
					filepath.Join(jars, "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", settings)
			}}}, nil
		},
	}
}

// newRedis is a single Redis that syncs its log with every write.
func newRedis(binary string) *product {
	return &product{
		name: "Redis", absent: absence(binary, "apt install --no-install-recommends redis-server"),
		version: func() string {
			return firstLine(output(binary, "--version")) + ", go-redis " +
				moduleVersion("github.com/redis/go-redis/v9")
		},
		first: redisOnce,
		make: func(dirs []string) (servers, error) {
			addresses, err := loopback.Addresses(1)
			if err != nil {
				return nil, err
			}
			_, port, err := net.SplitHostPort(addresses[0])
			if err != nil {
				return nil, err
			}
			return servers{{address: addresses[0], command: func() *exec.Cmd {
				return exec.Command(binary, "--bind", "127.0.0.1", "--port", port, "--dir", dirs[0],
					"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxclients", "15000")
			}}}, nil
		},
	}
}
