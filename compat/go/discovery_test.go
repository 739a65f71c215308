package compat_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// startThree runs three servers of one cluster.
func startThree(t *testing.T) []*testserver.Server {
	t.Helper()
	return testserver.StartCluster(t, []string{"s0", "s1", "s2"})
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
	for name, end := range map[string]func(*testserver.Server){"stopped": (*testserver.Server).Stop, "killed": (*testserver.Server).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startThree(t)
			s := servers[0]
			address := s.Address
			end(s)
			var restarted sync.WaitGroup
			restarted.Go(func() { s.Start() })
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
			s.Kill()
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
	for name, end := range map[string]func(*testserver.Server){"stopped": (*testserver.Server).Stop, "killed": (*testserver.Server).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startThree(t)
			first := open(t, servers[0].Endpoint())
			if n := len(first.discovered()); n != 3 {
				t.Errorf("%d servers are discovered when all have said that they are ready", n)
			}
			for _, s := range servers {
				if !first.discovered()[s.Address] {
					t.Errorf("%s is not among %v", s.Address, first.discovered())
				}
			}
			first.createNode()
			// The SDK keeps the list that it got when it was opened for a minute.
			c := open(t, servers[0].Endpoint())
			// It spreads sessions over the servers, so that some of these lose theirs.
			var leases []coordination.Lease
			for i := range 6 {
				leases = append(leases, acquire(t, c.session(longTimeout), fmt.Sprint("lock-", i),
					coordination.Exclusive, ephemeral))
			}
			gone := servers[0].Address
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
			if name == "stopped" && open(t, servers[1].Endpoint()).discovered()[gone] {
				t.Errorf("%s has stopped and is still named", gone)
			}
		})
	}
}
