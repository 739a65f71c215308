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
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	limiterConnections = 4
	limiterResource    = "measured"
	// limiterRate is so large that nobody waits.
	limiterRate = 1e12

	acquireUnits = "acquire of a unit"
	emptyServer  = "an empty gRPC server"
	unitsFigure  = "acquires/s"
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
func (b *bench) measureLimiter(ctx context.Context, callers int) error {
	echo, err := b.echo.launch(ctx, b.dir, 1)
	if err != nil {
		return err
	}
	defer echo.kill()
	three, err := newCoordd("coordd", b.coordd).launch(ctx, filepath.Join(b.dir, "three"), clusterSize)
	if err != nil {
		return err
	}
	defer three.kill()
	leader, err := three.leader(ctx, b.coordd)
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
		r, err := units(t, c.servers, callers, b.length)
		if err == nil {
			b.add(acquireUnits, callers, c.name, unitsFigure, r)
		}
		return err
	})
	fmt.Println(b.head() + b.book.table() + "\nOf the empty server's:\n\n" + b.book.ratios(emptyServer))
	return b.failure()
}

// createMeasuredResource waits until all servers know rate limiters.
func createMeasuredResource(ctx context.Context, address string) error {
	t := newTurn(ctx)
	defer t.end()
	conns, err := rawConns(t, address, 1)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(t, time.Minute)
	defer cancel()
	properties := &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: limiterRate}
	request := &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: nodePath,
		Resource: &Ydb_RateLimiter.Resource{ResourcePath: limiterResource,
			Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: properties}}}
	for {
		answer, err := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conns[0]).CreateResource(bounded, request)
		if err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-bounded.Done():
			return fmt.Errorf("create a resource: %v, %w", answer, errors.Join(err, bounded.Err()))
		}
	}
}

// units makes callers acquire one unit after another for a while.
func units(t *turn, of servers, callers int, length time.Duration) (*taken, error) {
	conns, err := raw.Dial(of[0].address, limiterConnections)
	if err != nil {
		return nil, err
	}
	t.later(func() { raw.Close(conns) })
	request := &Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: nodePath,
		ResourcePath: limiterResource, Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: 1}}
	clients := make([]*grpc.ClientConn, callers)
	for i := range clients {
		clients[i] = conns[i%len(conns)]
	}
	return loop(of, clients, length, func(_ int, conn *grpc.ClientConn) error {
		answer, err := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn).AcquireResource(t, request)
		if err == nil && answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			err = fmt.Errorf("acquire a unit: %v", answer)
		}
		return err
	})
}
