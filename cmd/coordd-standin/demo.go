package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/server/standin"
)

// demoNode is the coordination node of --demo, below the database.
const demoNode = "demo"

// demoFixture makes the node, its pool and its configuration. The locks are ephemeral.
const demoFixture = demoNode + "\n  semaphore \"connections\": 0 of 4\n" +
	"  semaphore \"settings\": 0 of 1, \"workers: 4\\ntimeout: 30s\\nregion: eu\\n\"\n"

// limits are the resources of a rate limiter, each with its units per second, and with clients that take units of it.
var limits = []struct {
	resource string
	rate     float64
	clients  int
}{{"api", 30, 0}, {"api/reads", 20, 1}, {"api/writes", 10, 1}, {"mail", 1, 3}}

// demoTimeout is the timeout of the sessions.
const demoTimeout = 10 * time.Second

// worker is a client of the demonstration. It takes a semaphore, holds it, gives it back and rests, again and again.
type worker struct {
	name, semaphore  string
	count            uint64 // of tokens; 0: it is a lock
	wait, hold, rest time.Duration
}

// workers are a queue for a lock, an election and a pool of connections.
func workers() (list []worker) {
	for i := range 3 {
		list = append(list,
			worker{name: fmt.Sprintf("report@batch-%d", i+1), semaphore: "nightly-report", wait: protocol.Forever,
				hold: 8 * time.Second, rest: 3 * time.Second},
			worker{name: fmt.Sprintf("scheduler-%c", 'a'+i), semaphore: "leader", wait: protocol.Forever,
				hold: 40 * time.Second, rest: time.Second})
	}
	for i := range 6 {
		list = append(list, worker{name: fmt.Sprintf("api-%d", i+1), semaphore: "connections", count: 1,
			wait: demoTimeout, hold: 5 * time.Second, rest: time.Second})
	}
	return list
}

// startDemo starts clients that go on whatever happens to them, until they are ended.
func startDemo(p *standin.Process, _ *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	address, database := endpointOf(p)
	var running sync.WaitGroup
	var restoring sync.Mutex
	restore := func(c *protocol.Client) {
		restoring.Lock()
		defer restoring.Unlock()
		if c.Call(ctx, Ydb_Coordination_V1.CoordinationService_DescribeNode_FullMethodName,
			&Ydb_Coordination.DescribeNodeRequest{Path: database + "/" + demoNode}, nil) != nil {
			_, _ = p.Orders().Do(ctx, "load", map[string]any{"text": demoFixture}) // or later
		}
	}
	for _, w := range workers() {
		running.Go(func() { w.run(ctx, address, database, restore) })
	}
	for _, l := range limits {
		for range l.clients {
			running.Go(func() { acquire(ctx, address, database, l.resource, l.rate) })
		}
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// acquire takes units of a resource, as many as come in four seconds, and makes all resources where it is missing.
func acquire(ctx context.Context, address, database, resource string, rate float64) {
	c := connect(address, database)
	defer c.Close()
	node := database + "/" + demoNode
	for ctx.Err() == nil {
		err := c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_AcquireResource_FullMethodName,
			&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: node, ResourcePath: resource,
				Units:           &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: uint64(4 * rate)},
				OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(time.Minute)}}, nil)
		for i := 0; err != nil && i < len(limits); i++ { // those that are there stay as they are
			settings := &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: limits[i].rate}
			_ = c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_CreateResource_FullMethodName,
				&Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: node,
					Resource: &Ydb_RateLimiter.Resource{ResourcePath: limits[i].resource,
						Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: settings}}}, nil)
		}
		pause(ctx, nil, 4*time.Second)
	}
}

// connect returns a client of a stand-in.
func connect(address, database string) *protocol.Client {
	return protocol.New(protocol.Config{Address: address, Database: database, Name: "coordd-demo",
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}})
}

// endpointOf returns the address of a stand-in and its database.
func endpointOf(p *standin.Process) (address, database string) {
	address, database, _ = strings.Cut(strings.TrimPrefix(p.ConnectionString(), "grpc://"), "/")
	return address, "/" + database
}

// run works with one session after another. restore makes the node again, if it is gone.
func (w worker) run(ctx context.Context, address, database string, restore func(*protocol.Client)) {
	c := connect(address, database)
	defer c.Close()
	for ctx.Err() == nil {
		s, err := c.Open(ctx, protocol.SessionConfig{Node: database + "/" + demoNode, Timeout: demoTimeout,
			Description: w.name})
		if err == nil {
			w.work(ctx, s)
			s.Abandon()
		} else {
			restore(c)
		}
		pause(ctx, nil, time.Second)
	}
}

// work returns when the session is lost, a request fails, or ctx ends.
func (w worker) work(ctx context.Context, s *protocol.Session) {
	what := protocol.Acquisition{Name: w.semaphore, Count: w.count, Wait: w.wait}
	if w.count == 0 {
		what.Count, what.Ephemeral = math.MaxUint64, true
	}
	for {
		acquired, err := s.Acquire(ctx, what)
		if err != nil {
			return
		}
		if acquired {
			if !pause(ctx, s.Lost(), w.hold) {
				return
			}
			if _, err := s.Release(ctx, w.semaphore); err != nil {
				return
			}
		}
		if !pause(ctx, s.Lost(), w.rest) {
			return
		}
	}
}

// pause waits for about d, and reports whether neither ctx nor the session has ended before.
func pause(ctx context.Context, lost <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-lost:
	}
	return false
}
