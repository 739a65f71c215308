package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/coordd/coordd/internal/testserver"
)

// newCoordd is coordd with default settings, given by the environment, since a flag would end an older program
// that does not know it.
func newCoordd(name, binary string) *product {
	return &product{
		name: name, absent: absence(binary, "make build"),
		version: []string{binary, "version"},
		first:   attachOnce,
		ports:   4,
		make: func(dirs, addresses []string) (made servers, _ error) {
			n := len(dirs)
			peers, metrics, debug := addresses[n:2*n], addresses[2*n:3*n], addresses[3*n:]
			for i, dir := range dirs {
				arguments := []string{"serve", "--listen", addresses[i], "--data-dir", dir, "--log-level", "warn"}
				if n > 1 {
					arguments = append(arguments, "--name", fmt.Sprint("s", i), "--listen-peer", peers[i],
						"--initial-cluster", initial(peers, ""), "--insecure-peers")
				}
				made = append(made, &process{debug: debug[i], metrics: metrics[i],
					config: testserver.Config{Program: binary, Args: arguments,
						Env: append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true", "COORDD_LISTEN_HTTP="+metrics[i],
							"COORDD_DEBUG_HTTP="+debug[i], "COORDD_STATE_LIMIT=1GiB")}})
			}
			return made, nil
		},
	}
}

// initial is the members of a new cluster, as coordd and etcd want them.
func initial(peers []string, scheme string) string {
	all := make([]string, len(peers))
	for i, peer := range peers {
		all[i] = fmt.Sprintf("s%d=%s%s", i, scheme, peer)
	}
	return strings.Join(all, ",")
}

// newSelf is a server that this program itself is, in another process: the stub, with a log if it logs, or the echo.
func newSelf(name string, logs bool) *product {
	p := &product{name: name, ports: 1, first: attachOnce,
		make: func(dirs, addresses []string) (servers, error) {
			self, err := os.Executable()
			arguments := []string{"-be", name, "-listen", addresses[0]}
			if logs {
				arguments = append(arguments, "-log", filepath.Join(dirs[0], "log"))
			}
			return servers{{config: testserver.Config{Program: self, Args: arguments}}}, err
		}}
	if name == "echo" { // it has been started when it listens
		p.first = func(context.Context, string) error { return nil }
	}
	return p
}

// newEtcd is etcd with default settings.
func newEtcd(binary string) *product {
	return &product{
		name: "etcd", absent: absence(binary, "make bench-peers builds it"),
		version: []string{binary, "--version"}, library: "go.etcd.io/etcd/client/v3",
		first: etcdOnce,
		ports: 2,
		make: func(dirs, addresses []string) (made servers, _ error) {
			peers := addresses[len(dirs):]
			for i, dir := range dirs {
				client, peer := "http://"+addresses[i], "http://"+peers[i]
				made = append(made, &process{debug: addresses[i], metrics: addresses[i],
					config: testserver.Config{Program: binary, Args: []string{"--name", fmt.Sprint("s", i),
						"--data-dir", filepath.Join(dir, "data"), "--log-level", "error",
						"--listen-client-urls", client, "--advertise-client-urls", client,
						"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
						"--initial-cluster", initial(peers, "http://"), "--enable-pprof"}}})
			}
			return made, nil
		},
	}
}

// newZooKeeper is a single ZooKeeper with default settings, which sync its log, and as many connections as
// there are clients.
func newZooKeeper(java, jars string) *product {
	server, _ := filepath.Glob(filepath.Join(jars, "zookeeper-[0-9]*.jar"))
	absent := absence(java, "apt install default-jre-headless")
	if absent == "" && len(server) == 0 {
		absent = "not installed: apt install --no-install-recommends zookeeper"
	}
	return &product{
		name: "ZooKeeper", absent: absent,
		version: []string{java, "-showversion", "-cp", filepath.Join(jars, "*"),
			"org.apache.zookeeper.version.VersionInfoMain"},
		library: "github.com/go-zookeeper/zk",
		first:   zooOnce,
		ports:   1,
		make: func(dirs, addresses []string) (servers, error) {
			settings := filepath.Join(dirs[0], "zoo.cfg")
			text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
				"maxClientCnxns=0\nadmin.enableServer=false\n", dirs[0], portOf(addresses[0]))
			return servers{{config: testserver.Config{Program: java, Args: []string{"-Xmx2g",
					"-Djute.maxbuffer=4194304", "-cp", filepath.Join(jars, "*"),
					"org.apache.zookeeper.server.quorum.QuorumPeerMain", settings}}}},
				os.WriteFile(settings, []byte(text), 0o600)
		},
	}
}

// newRedis is a single Redis that syncs its log with every write.
func newRedis(binary string) *product {
	return &product{
		name: "Redis", absent: absence(binary, "apt install --no-install-recommends redis-server"),
		version: []string{binary, "--version"}, library: "github.com/redis/go-redis/v9",
		first: redisOnce,
		ports: 1,
		make: func(dirs, addresses []string) (servers, error) {
			return servers{{config: testserver.Config{Program: binary, Args: []string{"--bind", "127.0.0.1",
				"--port", portOf(addresses[0]), "--dir", dirs[0], "--appendonly", "yes", "--appendfsync", "always",
				"--save", "", "--maxclients", "15000"}}}}, nil
		},
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// absence says why a program cannot be run, empty if it can.
func absence(binary, install string) string {
	if _, err := exec.LookPath(binary); err != nil {
		return "not installed: " + install
	}
	return ""
}

// versions of the server and of the client's module, "" of a server that this program is.
func (p *product) versions() string {
	if len(p.version) == 0 {
		return ""
	}
	text, err := exec.Command(p.version[0], p.version[1:]...).CombinedOutput()
	line := strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", ")
	if err != nil {
		line = "of an unknown version"
	}
	if p.library != "" {
		line += ", client " + moduleVersion(p.library)
	}
	return p.name + ": " + line
}

// moduleVersion is that of a module of this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}
