package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/testserver"
)

// addressOf returns the address of an endpoint for clients.
func addressOf(e *Ydb_Discovery.EndpointInfo) string {
	return net.JoinHostPort(e.GetAddress(), fmt.Sprint(e.GetPort()))
}

// listed asks a server for its endpoints.
func listed(t *testing.T, conn *grpc.ClientConn) []*Ydb_Discovery.EndpointInfo {
	t.Helper()
	endpoints, err := list(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return endpoints
}

func list(ctx context.Context, conn *grpc.ClientConn) ([]*Ydb_Discovery.EndpointInfo, error) {
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(ctx,
		&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	var result Ydb_Discovery.ListEndpointsResult
	if err == nil {
		err = answer.GetOperation().GetResult().UnmarshalTo(&result)
	}
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS ||
		result.GetSelfLocation() == "" {
		return nil, fmt.Errorf("list endpoints: %v, %w", answer, err)
	}
	return result.GetEndpoints(), nil
}

// wantListed waits until each server in asked names exactly those in named, by name and number alike.
func (c *testCluster) wantListed(asked, named []int) {
	c.t.Helper()
	var want, got []string
	for _, i := range named {
		want = append(want, c.listen[i])
	}
	slices.Sort(want)
	numbers := make(map[string]uint32)
	for _, i := range asked {
		c.eventually(fmt.Sprintf("server %d to name %v, not %v", i, want, got), func() bool {
			got = nil
			for _, e := range listed(c.t, c.conns[i]) {
				at := addressOf(e)
				got = append(got, at)
				if n := numbers[at]; n != 0 && n != e.GetNodeId() || e.GetNodeId() == 0 || e.GetSsl() {
					c.t.Fatalf("server %d names %v", i, e)
				}
				numbers[at] = e.GetNodeId()
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
}

// TestDiscoveryOfAll has every server name all, drop the one that stops, and take it up again at its new
// address.
func TestDiscoveryOfAll(t *testing.T) {
	patient := func(config *Config) { config.replaced.stopPatience = 10 * time.Second } // the machine may be busy
	c := startClusterWith(t, 3, patient)
	c.wantListed([]int{0, 1, 2}, []int{0, 1, 2})
	leader, _ := c.leader()
	for _, victim := range []int{(leader + 1) % 3, leader} {
		others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == victim })
		c.stop(victim)
		c.wantListed(others, others)
		c.listen[victim] = testserver.Address(t)
		_ = c.conns[victim].Close()
		c.conns[victim] = nil
		if err := c.start(victim); err != nil {
			t.Fatal(err)
		}
		c.wantListed([]int{0, 1, 2}, []int{0, 1, 2})
	}
	// Without a majority it still names all that it knows of, itself above all.
	c.stop(leader)
	c.stop((leader + 1) % 3)
	last := (leader + 2) % 3
	if !slices.ContainsFunc(listed(t, c.conns[last]), func(e *Ydb_Discovery.EndpointInfo) bool {
		return addressOf(e) == c.listen[last]
	}) {
		t.Error("a server does not name itself")
	}
}

// TestFirstListIsComplete asks each server as soon as its port is open: at the first start of a cluster, after all
// of its servers were stopped in order, and after one of them was. An SDK keeps the first list for a minute.
func TestFirstListIsComplete(t *testing.T) {
	c := newCluster(t, 3, func(config *Config) { config.replaced.listPatience = waitMax })
	all := []int{0, 1, 2}
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond},
		MinConnectTimeout: waitMax}
	startAndAsk := func(what string, starting ...int) {
		t.Helper()
		answers := make(chan string, len(starting))
		for _, i := range starting {
			conn, err := grpc.NewClient(c.listen[i], grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithConnectParams(quick))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() {
				endpoints, err := list(t.Context(), conn)
				answers <- fmt.Sprint(i, " lists ", len(endpoints), " ", err)
			}()
		}
		errs := make(chan error, len(starting))
		for _, i := range starting {
			go func() { errs <- c.start(i) }()
		}
		for range starting {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range all { // after health --wait of all
			if n := len(listed(t, c.conns[i])); n != 3 {
				t.Errorf("%s, all ready: %d lists %d", what, i, n)
			}
		}
		for range starting {
			if got := <-answers; !strings.HasSuffix(got, "lists 3 <nil>") {
				t.Errorf("%s, port just open: %s", what, got)
			}
		}
	}
	startAndAsk("first start", all...)
	for _, i := range all {
		c.stop(i)
	}
	startAndAsk("all stopped and started", all...)
	c.stop(1)
	startAndAsk("one stopped and started", 1)
}

// TestEndpointsAreShuffled fixes the order by a seed.
func TestEndpointsAreShuffled(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	c := startClusterWith(t, 3, func(config *Config) { config.hooks.Shuffle = random.Shuffle })
	c.wantListed([]int{0}, []int{0, 1, 2})
	orders := make(map[string]bool)
	for range 60 {
		var order string
		for _, e := range listed(t, c.conns[0]) {
			order += fmt.Sprint(e.GetPort(), " ")
		}
		orders[order] = true
	}
	if len(orders) != 6 {
		t.Errorf("seed %d: the orders are %v", seed, orders)
	}
}
