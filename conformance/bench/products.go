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
		version: func() string { return name + " " + output(binary, "version") },
		first:   attachOnce,
		make: func(dirs []string) (servers, error) {
			addresses, err := testserver.FreeAddresses(4 * len(dirs))
			if err != nil {
				return nil, err
			}
			peers, metrics := addresses[2*len(dirs):3*len(dirs)], addresses[3*len(dirs):]
			var made servers
			for i, dir := range dirs {
				address, debug := addresses[2*i], addresses[2*i+1]
				arguments := []string{"serve", "--listen", address, "--data-dir", dir, "--log-level", "warn"}
				if len(dirs) > 1 {
					arguments = append(arguments, "--name", fmt.Sprint("s", i), "--listen-peer", peers[i],
						"--initial-cluster", initial(peers, ""), "--insecure-peers")
				}
				made = append(made, &process{address: address, debug: debug, metrics: metrics[i],
					config: testserver.Config{Program: binary, Args: arguments,
						Env: append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true", "COORDD_LISTEN_HTTP="+metrics[i],
							"COORDD_DEBUG_HTTP="+debug)}})
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
			addresses, err := testserver.FreeAddresses(1)
			if err != nil {
				return nil, err
			}
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			return servers{{address: addresses[0],
				config: testserver.Config{Program: self, Args: []string{"-be", name, "-listen", addresses[0]}}}}, nil
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
			addresses, err := testserver.FreeAddresses(2 * len(dirs))
			if err != nil {
				return nil, err
			}
			peers := addresses[len(dirs):]
			var made servers
			for i, dir := range dirs {
				client, peer := "http://"+addresses[i], "http://"+peers[i]
				made = append(made, &process{address: addresses[i], debug: addresses[i], metrics: addresses[i],
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
			address, port, err := freeAddress()
			if err != nil {
				return nil, err
			}
			settings := filepath.Join(dirs[0], "zoo.cfg")
			text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n", dirs[0], port)
			if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
				return nil, err
			}
			return servers{{address: address,
				config: testserver.Config{Program: java, Args: []string{"-Xmx2g", "-Djute.maxbuffer=4194304", "-cp",
					filepath.Join(jars, "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", settings}}}}, nil
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
			address, port, err := freeAddress()
			if err != nil {
				return nil, err
			}
			return servers{{address: address,
				config: testserver.Config{Program: binary, Args: []string{"--bind", "127.0.0.1", "--port", port,
					"--dir", dirs[0], "--appendonly", "yes", "--appendfsync", "always", "--save", "",
					"--maxclients", "15000"}}}}, nil
		},
	}
}

// freeAddress returns an address for a server, and its port.
func freeAddress() (address, port string, err error) {
	addresses, err := testserver.FreeAddresses(1)
	if err != nil {
		return "", "", err
	}
	_, port, err = net.SplitHostPort(addresses[0])
	return addresses[0], port, err
}

// absence says why a program cannot be run, empty if it can.
func absence(binary, install string) string {
	if _, err := exec.LookPath(binary); err != nil {
		return "not installed: " + install
	}
	return ""
}

// newestJar returns the last file of a folder that matches a pattern, "" without a match.
func newestJar(dir, pattern string) string {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// output runs a program and returns its output.
func output(binary string, args ...string) string {
	text, err := exec.Command(binary, args...).CombinedOutput()
	if err != nil {
		return "of an unknown version"
	}
	return strings.TrimSpace(string(text))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
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
