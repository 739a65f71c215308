package server

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/inspect"
)

// listResources reads all pages.
func listResources(t *testing.T, ctx context.Context, conn *grpc.ClientConn,
	r *adminpb.PageRequest) (resources []*adminpb.Resource, unknown []string) {
	t.Helper()
	for {
		page, err := adminpb.NewInspectClient(conn).List(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		resources, unknown = append(resources, page.GetResources()...), append(unknown, page.GetUnknown()...)
		if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
			return resources, unknown
		}
	}
}

// TestInspectResources wants any server to show what each has of a resource, and to say which server does not
// tell.
func TestInspectResources(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	c.awaitFormat(codec.Version)
	c.createNode(0, testNode)
	clients := make([]*limiterClient, 3)
	for i := range clients {
		clients[i] = newLimiterClient(t, c.conns[i], testNode)
	}
	clients[0].create("r", 10)
	clients[0].create("r/child", 0)
	clients[0].create("s", 0.001)
	clients[0].wants("SUCCESS", "r/child", 2, 0)
	clients[1].use("r/child", 1_000_000)
	clients[2].use("s", 1)
	answers := clients[2].begin(c.servers[2], "s", 2)
	for i, conn := range c.conns {
		var all []*adminpb.Resource
		c.eventually("the servers to answer each other in time", func() bool {
			var unknown []string
			all, unknown = listResources(t, t.Context(), conn,
				&adminpb.PageRequest{Kind: adminpb.PageRequest_RESOURCES, Path: testNode})
			return len(unknown) == 0
		})
		if len(all) != 3 || all[1].GetResource() != "r/child" ||
			all[1].GetSet().GetMaxUnitsPerSecond() != 0 ||
			all[1].GetEffective().GetMaxUnitsPerSecond() != 10 ||
			all[1].GetEffective().GetPrefetchWatermark() != 0.75 || all[1].GetPath() != testNode ||
			len(all[0].GetBuckets()) != 0 {
			t.Fatalf("server %d shows %v", i, all)
		}
		buckets := all[1].GetBuckets()
		if len(buckets) != 2 || buckets[0].GetServer() != "server-0" || buckets[0].GetGranted() != 2 ||
			buckets[0].GetCapacity() != 2 || buckets[0].GetLevel() < 0 ||
			buckets[1].GetServer() != "server-1" || buckets[1].GetUsed() != 1_000_000 ||
			!buckets[1].GetAsks() || buckets[1].GetLevel() > -100_000 {
			t.Errorf("server %d shows %v", i, buckets)
		}
		if buckets = all[2].GetBuckets(); len(buckets) != 1 || buckets[0].GetWaiters() != 2 ||
			buckets[0].GetWaiting() != 2 || buckets[0].GetUsed() != 1 {
			t.Errorf("server %d shows %v", i, buckets)
		}
	}
	c.eventually("what the leader assigns to be seen", func() bool {
		all, _ := listResources(t, t.Context(), c.conns[0],
			&adminpb.PageRequest{Kind: adminpb.PageRequest_RESOURCES, Path: testNode, Resource: "r/child"})
		return len(all) == 1 && len(all[0].GetBuckets()) == 2 && all[0].GetBuckets()[1].GetAssigned() > 0
	})
	asked := c.servers[1].inspect.Swap(nil)
	c.eventually("the other server to answer in time", func() bool {
		all, unknown := listResources(t, t.Context(), c.conns[0],
			&adminpb.PageRequest{Kind: adminpb.PageRequest_RESOURCES, Path: testNode, Resource: "r"})
		if !slices.Contains(unknown, "server server-1 does not answer") || len(all) != 2 {
			t.Fatalf("without a server: %q, %v", unknown, all)
		}
		return len(unknown) == 1
	})
	c.servers[1].inspect.Store(asked)
	clients[0].alter("s", 1e6)
	clients[2].ends(answers, 2, "SUCCESS")
}

// TestUnitsOverALeaderChange: what goes out on each server before and after a change of the leader is counted once, and
// no sample is negative. A server that was started anew counts from then on, and the others go on.
func TestUnitsOverALeaderChange(t *testing.T) {
	c := startCluster(t, 3)
	c.awaitFormat(codec.Version)
	c.createNode(0, testNode)
	clients := make([]*limiterClient, 3)
	for i := range clients {
		clients[i] = newLimiterClient(t, c.conns[i], testNode)
	}
	clients[0].create("r", 1e6)
	var want [3]float64
	round := func() {
		t.Helper()
		for i, client := range clients {
			client.use("r", uint64(100+i))
			want[i] += float64(100 + i)
			c.servers[i].inspect.Load().Usage.Sample(time.Now(), c.servers[i].group.Limiter())
		}
		for i, conn := range c.conns {
			c.eventually("all servers to answer, each with its own units", func() bool {
				all, unknown := listResources(t, t.Context(), conn, &adminpb.PageRequest{
					Kind: adminpb.PageRequest_RESOURCES, Path: testNode, Resource: "r", Samples: true})
				if len(all) != 1 || len(all[0].GetBuckets()) != 3 || len(unknown) > 0 {
					return false
				}
				for j, b := range all[0].GetBuckets() {
					if b.GetUsed()+b.GetGranted() != want[j] || b.GetPerSecond() < 0 || len(b.GetSamples()) == 0 ||
						slices.ContainsFunc(b.GetSamples(),
							func(s *adminpb.ResourceSample) bool { return !(s.GetPerSecond() >= 0) }) {
						t.Errorf("server %d shows %v of server %d, want %v units", i, b, j, want[j])
					}
				}
				return true
			})
		}
	}
	round()
	leader, follower := c.leader()
	c.leadWith(follower)
	round()
	c.stop(leader)
	if err := c.start(leader); err != nil {
		t.Fatal(err)
	}
	want[leader] = 0
	c.leadWith(leader)
	round()
}

// TestManyInspectedResources wants a page of them in time, and nobody to be made to look at more.
func TestManyInspectedResources(t *testing.T) {
	testmode.WithoutRace(t)
	s, conn := startTest(t, nil)
	c := newLimiterClient(t, conn, testNode)
	const count = 600
	for i := range count {
		c.create(fmt.Sprint("r", i), 1)
		c.use(fmt.Sprint("r", i), 1)
	}
	all, unknown := listResources(t, t.Context(), conn, &adminpb.PageRequest{Kind: adminpb.PageRequest_RESOURCES})
	for i, r := range all {
		if r.GetResource() != fmt.Sprint("r", i) || len(r.GetBuckets()) != 1 {
			t.Fatalf("resource %d is %v", i, r)
		}
	}
	if len(all) != count || len(unknown) != 0 {
		t.Errorf("%d resources, unknown: %q", len(all), unknown)
	}
	peer := inspect.Peer{Service: s.inspect.Load}
	if _, err := peer.Buckets(t.Context(), &clusterpb.BucketsRequest{Nodes: make([]uint64, 257),
		Resources: make([]uint64, 257)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("asked for too much: %v", err)
	}
	if _, err := peer.Buckets(t.Context(), &clusterpb.BucketsRequest{Nodes: make([]uint64,
		2)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("asked for half: %v", err)
	}
}
