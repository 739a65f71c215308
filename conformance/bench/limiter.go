package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	limiterConnections = 4
	limiterResource    = "measured"
	limiterRate        = 1e12 // so large that nobody waits
	acquireUnits       = "acquire of a unit"
	emptyServer        = "an empty gRPC server"
)

// echoLimiter answers every acquire with a success, so it costs what gRPC costs.
type echoLimiter struct {
	Ydb_RateLimiter_V1.UnimplementedRateLimiterServiceServer
}

func (echoLimiter) AcquireResource(context.Context,
	*Ydb_RateLimiter.AcquireResourceRequest) (*Ydb_RateLimiter.AcquireResourceResponse, error) {
	return &Ydb_RateLimiter.AcquireResourceResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_SUCCESS}}, nil
}

// measureLimiter compares acquires of a rate limiter with the same messages to an empty gRPC server, through
// the leader of three servers and through another one, all in turns.
func (b *bench) measureLimiter(ctx context.Context) error {
	echo, err := newSelf("echo", false).launch(ctx, b.dir, 1)
	if err != nil {
		return err
	}
	defer echo.kill()
	three, err := newCoordd("coordd", b.coordd).launch(ctx, filepath.Join(b.dir, "three"), clusterSize)
	if err != nil {
		return err
	}
	defer three.kill()
	leader, err := three.leader(ctx)
	if err != nil {
		return err
	}
	if err := createMeasuredResource(ctx, three[leader].address); err != nil {
		return err
	}
	asked := []*contestant{
		{name: emptyServer, servers: echo},
		{name: "through the leader", servers: three[leader : leader+1]},
		{name: "through another server", servers: servers{three[(leader+1)%clusterSize]}},
	}
	for _, c := range asked {
		b.book.contestants = append(b.book.contestants, c.name)
	}
	b.inTurns(ctx, acquireUnits, asked, b.runs, func(t *turn, c *contestant) error {
		clients, err := limiterClients(t, c.servers[0].address, limiterConnections)
		if err != nil {
			return err
		}
		request := &Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: nodePath,
			ResourcePath: limiterResource, Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: 1}}
		r, err := loop(c.servers, make([]struct{}, b.n), b.length, func(i int, _ struct{}) error {
			answer, err := clients[i%len(clients)].AcquireResource(t, request)
			if err == nil && answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
				err = fmt.Errorf("acquire a unit: %v", answer)
			}
			return err
		})
		return b.add(acquireUnits, b.n, c.name, "acquires/s", r, err)
	})
	return b.compared(emptyServer)
}

// limiterClients makes clients with a connection each.
func limiterClients(t *turn, address string, n int) ([]Ydb_RateLimiter_V1.RateLimiterServiceClient, error) {
	conns, err := raw.Dial(address, n)
	t.later(func() { raw.Close(conns) })
	clients := make([]Ydb_RateLimiter_V1.RateLimiterServiceClient, n)
	for i, conn := range conns {
		clients[i] = Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn)
	}
	return clients, err
}

// createMeasuredResource waits until all servers know rate limiters.
func createMeasuredResource(ctx context.Context, address string) error {
	t := newTurn(ctx)
	defer t.end()
	clients, err := limiterClients(t, address, 1)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(t, time.Minute)
	defer cancel()
	request := &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: nodePath,
		Resource: &Ydb_RateLimiter.Resource{ResourcePath: limiterResource,
			Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
				HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: limiterRate}}}}
	for {
		answer, err := clients[0].CreateResource(bounded, request)
		if err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
			return nil
		}
		if !wait(bounded, 100*time.Millisecond) {
			return fmt.Errorf("create a resource: %v, %w", answer, errors.Join(err, bounded.Err()))
		}
	}
}
