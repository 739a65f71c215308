package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
)

// startThree runs three servers of one cluster.
func startThree(t *testing.T) []*server {
	t.Helper()
	dir := t.TempDir()
	var initial []string
	var servers []*server
	for i := range 3 {
		peer := freeAddress(t)
		for strings.Contains(strings.Join(initial, ","), "="+peer) { // nobody listens on the others' yet
			peer = freeAddress(t)
		}
		initial = append(initial, fmt.Sprintf("s%d=%s", i, peer))
		servers = append(servers, &server{t: t,
			args: []string{"--insecure-peers", "--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--name",
				fmt.Sprintf("s%d", i), "--listen-peer", peer}})
	}
	var started sync.WaitGroup
	for _, s := range servers {
		s.args = append(s.args, "--initial-cluster", strings.Join(initial, ","))
		t.Cleanup(func() {
			s.stop()
			if t.Failed() {
				t.Logf("standard error of coordd:\n%s", s.stderr.String())
			}
		})
		started.Go(func() { s.run("127.0.0.1:0") })
	}
	started.Wait()
	for _, s := range servers {
		if s.dsn == "" {
			t.FailNow() // run has said why
		}
	}
	return servers
}

// freeAddress is one on which nobody listens. Its port lies below those of outgoing connections, which might
// otherwise be made from there before the server listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 30_720+rand.IntN(2_048)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// discovered is the addresses that the cluster gives to a client.
func (c *client) discovered() map[string]bool {
	c.t.Helper()
	found, err := c.Discovery().Discover(testContext(c.t))
	if err != nil {
		c.t.Fatalf("discover: %v", err)
	}
	addresses := make(map[string]bool)
	for _, e := range found {
		addresses[e.Address()] = true
	}
	return addresses
}

// A program that starts together with its server finds all three, and goes on when that server dies: the SDK keeps the
// list that it got first for a minute.
func TestFirstDiscoveryIsComplete(t *testing.T) {
	for name, end := range map[string]func(*server){"stopped": (*server).stop, "killed": (*server).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startThree(t)
			s := servers[0]
			address := s.address()
			end(s)
			var restarted sync.WaitGroup
			restarted.Go(func() { s.run(address) })
			eventually(t, "the port to be open", func() bool {
				c, err := net.Dial("tcp", address)
				if err == nil {
					_ = c.Close()
				}
				return err == nil
			})
			c := open(t, "grpc://"+address+"/local")
			if got := c.discovered(); len(got) != 3 {
				t.Errorf("discovered %v", got)
			}
			restarted.Wait()
			s.kill()
			failed := 0
			for range 20 {
				ctx, cancel := context.WithTimeout(testContext(t), 2*time.Second)
				if _, err := c.Scheme().ListDirectory(ctx, "/local"); err != nil {
					failed++
				}
				cancel()
			}
			if failed > 2 {
				t.Errorf("%d of 20 calls failed though two of three servers serve", failed)
			}
		})
	}
}

// A client that was given one server's address finds all three, and goes on when that server is gone: what it
// holds it holds, and new sessions and calls find the others.
func TestThreeServersAreFound(t *testing.T) {
	for name, end := range map[string]func(*server){"stopped": (*server).stop, "killed": (*server).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startThree(t)
			first := open(t, servers[0].dsn)
			if n := len(first.discovered()); n != 3 {
				t.Errorf("%d servers are discovered when all have said that they are ready", n)
			}
			for _, s := range servers {
				if !first.discovered()[s.address()] {
					t.Errorf("%s is not among %v", s.address(), first.discovered())
				}
			}
			first.createNode()
			// The SDK keeps the list that it got when it was opened for a minute.
			c := open(t, servers[0].dsn)
			// It spreads sessions over the servers, so that some of these lose theirs.
			var leases []coordination.Lease
			for i := range 6 {
				leases = append(leases, acquire(t, c.session(longTimeout), fmt.Sprint("lock-", i),
					coordination.Exclusive, ephemeral))
			}
			gone := servers[0].address()
			end(servers[0])
			lost := 0
			for i := range leases {
				s := c.sessionAfterALoss(longTimeout)
				if got := describe(t, s, fmt.Sprint("lock-", i)); len(got.Owners) != 1 {
					t.Errorf("lock %d: %v", i, got)
				}
				if err := leases[i].Release(); err != nil {
					if lost++; leases[i].Context().Err() == nil {
						t.Errorf("release of lock %d: %v", i, err)
					}
					continue // the server keeps the lock until the session's timeout
				}
				if err := leases[i].Context().Err(); err == nil {
					t.Errorf("lease %d goes on after its release", i)
				}
				release(t, acquire(t, s, fmt.Sprint("lock-", i), coordination.Exclusive, ephemeral))
			}
			if unsent := c.seen.startsUnsent(); lost > unsent {
				t.Errorf("%d sessions are lost, the SDK could not send %d starts", lost, unsent)
			}
			// The SDK asks only the address that it was given, so this needs another client. A server that
			// was killed may still be named.
			if name == "stopped" && open(t, servers[1].dsn).discovered()[gone] {
				t.Errorf("%s has stopped and is still named", gone)
			}
		})
	}
}
