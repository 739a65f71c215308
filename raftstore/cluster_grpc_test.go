package raftstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// newGRPCCluster is newTestCluster over real connections on loopback.
func newGRPCCluster(t *testing.T, members int, tls *peers.TLS) *testCluster {
	t.Helper()
	c := preparedGRPCCluster(t, members, tls)
	c.startAll()
	return c
}

// preparedGRPCCluster has no server that runs yet.
func preparedGRPCCluster(t *testing.T, members int, tls *peers.TLS) *testCluster {
	t.Helper()
	c := preparedTestCluster(t, members, 0)
	for _, name := range c.names {
		c.initial[name] = testserver.Address(t)
		c.configure(name, func(cfg *Config) {
			cfg.Cluster.network, cfg.Cluster.AdvertisePeer = nil, ""
			cfg.Cluster.ListenPeer, cfg.Cluster.TLS = c.initial[name], tls
		})
	}
	return c
}

func TestThreeMembersOverLoopback(t *testing.T) {
	t.Parallel()
	c := newGRPCCluster(t, 3, nil)
	for n := range 200 {
		c.put(fmt.Sprintf("c%06d", n))
	}
	for round := range 3 {
		old := c.leader()
		c.waitPublished(old)
		begun := time.Now()
		c.kill(old.name)
		c.put(fmt.Sprintf("failover%d", round))
		t.Logf("kill to first commit: %v", time.Since(begun))
		for n := range 200 {
			c.put(fmt.Sprintf("r%d.%06d", round, n))
		}
		restarted := c.start(old.name)
		c.settle()
		if restarted.restores == 0 {
			t.Error("the restarted member did not need a checkpoint")
		}
		next := others(c.names, c.leader().name)[0]
		begun = time.Now()
		c.leadWith(next)
		c.put(fmt.Sprintf("transferred%d", round))
		t.Logf("transfer to first commit: %v", time.Since(begun))
	}
	c.settle()
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	c := newGRPCCluster(t, 3, nil)
	m := c.leader()
	c.waitPublished(m)
	s := m.store
	other := c.nodes[others(c.names, m.name)[0]].store
	good := func() *peerpb.Header {
		h := endpointOf(other).Header(s.Member(), true)
		h.Address = "127.0.0.1:1"
		return h
	}
	cases := map[string]struct {
		change func(h *peerpb.Header)
		want   error
	}{
		"other cluster":       {func(h *peerpb.Header) { h.Cluster++ }, ErrOtherCluster},
		"other receiver":      {func(h *peerpb.Header) { h.To++ }, ErrOtherCluster},
		"ourselves":           {func(h *peerpb.Header) { h.From = h.To }, ErrOtherCluster},
		"an earlier life":     {func(h *peerpb.Header) { h.Incarnation++ }, ErrEmptied},
		"a later programme":   {func(h *peerpb.Header) { h.Format++ }, nil},
		"no header":           {func(h *peerpb.Header) { h.Reset() }, nil},
		"a changed sender id": {func(h *peerpb.Header) { h.To, h.Cluster = 0, 0 }, ErrOtherCluster},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := good()
			tc.change(h)
			out, err := s.Peers.network.Messages(testContext(t), s.cfg.Cluster.address(), h)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			for err == nil {
				err = out.Send(&peerpb.Frame{})
			}
			if tc.want != nil && !errors.Is(err, tc.want) || status.Code(err) == codes.Unavailable {
				t.Errorf("refused with %v", err)
			}
		})
	}
	if slices.ContainsFunc(s.Members(), func(m Member) bool { return m.PeerAddress == "127.0.0.1:1" }) {
		t.Error("a refused stranger changed the membership")
	}
	c.put("still alive")
	c.settle()
}
