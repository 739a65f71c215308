package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/raw"
)

const (
	limiterConnections = 4
	limiterResource    = "measured"
	// limiterRate is so large that nobody waits.
	limiterRate = 1e12
)

// echoLimiter answers every acquire with a success: what gRPC itself costs.
type echoLimiter struct {
	Ydb_RateLimiter_V1.UnimplementedRateLimiterServiceServer
}

func (echoLimiter) AcquireResource(context.Context,
	*Ydb_RateLimiter.AcquireResourceRequest) (*Ydb_RateLimiter.AcquireResourceResponse, error) {
	return &Ydb_RateLimiter.AcquireResourceResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_SUCCESS}}, nil
}

// startEcho starts the empty gRPC server in a process of its own.
func startEcho(ctx context.Context) (address string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	echo := exec.CommandContext(ctx, self, "-echo")
	out, err := echo.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := echo.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = echo.Process.Kill(); _ = echo.Wait() }
	if _, err := fmt.Fscanln(out, &address); err != nil {
		stop()
		return "", nil, err
	}
	return address, stop, nil
}

// measureLimiter compares acquires of a rate limiter with the same messages to an empty gRPC server, through
// the leader of three servers and through another one, all in turns.
func measureLimiter(ctx context.Context, binary, dir string, runs, callers int, length time.Duration) error {
	echo, stop, err := startEcho(ctx)
	if err != nil {
		return err
	}
	defer stop()
	servers, err := startCluster(binary, filepath.Join(dir, "limiter"))
	defer func() {
		for _, s := range servers {
			_ = s.command.Process.Kill()
			_ = s.command.Wait()
		}
	}()
	if err != nil {
		return err
	}
	leader, err := leaderOf(ctx, binary, servers)
	if err != nil {
		return err
	}
	if err := createNode(ctx, servers[leader].address); err != nil {
		return err
	}
	if err := createMeasuredResource(ctx, servers[leader].address); err != nil {
		return err
	}
	asked := []struct{ name, address string }{
		{"an empty gRPC server", echo},
		{"acquire, through the leader", servers[leader].address},
		{"acquire, through another server", servers[(leader+1)%clusterSize].address},
	}
	results := make([][]result, len(asked))
	for range runs {
		for i, a := range asked {
			r, err := runUnits(ctx, a.address, callers, length)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	fmt.Printf("\n| %d callers | per second | p50 ms | p99 ms | of the empty server |\n| --- | --- | --- | --- | --- |\n", callers)
	base := 0.0
	for i, a := range asked {
		m := middle(results[i], func(r result) float64 { return r.perSecond })
		if i == 0 {
			base = m.perSecond
		}
		fmt.Printf("| %s | %.0f | %s | %s | %.2f |\n", a.name, m.perSecond, millis(m.p50), millis(m.p99),
			m.perSecond/base)
	}
	return nil
}

// createMeasuredResource waits until all servers know rate limiters.
func createMeasuredResource(ctx context.Context, address string) error {
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request := &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: nodePath,
		Resource: &Ydb_RateLimiter.Resource{ResourcePath: limiterResource,
			Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: limiterRate}}}}
	for {
		answer, err := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conns[0]).CreateResource(ctx, request)
		if err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("create a resource: %v, %w", answer, errors.Join(err, ctx.Err()))
		}
	}
}

// runUnits has callers acquire one unit after another for a while.
func runUnits(ctx context.Context, address string, callers int, length time.Duration) (result, error) {
	conns, err := raw.Dial(address, limiterConnections)
	if err != nil {
		return result{}, err
	}
	defer raw.Close(conns)
	request := &Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: nodePath,
		ResourcePath: limiterResource, Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: 1}}
	end := time.Now().Add(length)
	took, failed := make([][]time.Duration, callers), make([]error, callers)
	var calls sync.WaitGroup
	for i := range callers {
		calls.Go(func() { took[i], failed[i] = acquireUntil(ctx, conns[i%len(conns)], request, end) })
	}
	calls.Wait()
	all := slices.Concat(took...)
	if err := errors.Join(failed...); err != nil || len(all) == 0 {
		return result{}, errors.Join(err, errors.New("not all was acquired"))
	}
	return result{float64(len(all)) / length.Seconds(), machine.Percentile(all, 50),
		machine.Percentile(all, 99), len(all)}, nil
}

func acquireUntil(ctx context.Context, conn *grpc.ClientConn, request *Ydb_RateLimiter.AcquireResourceRequest,
	end time.Time) (took []time.Duration, err error) {
	client := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn)
	for begin := time.Now(); begin.Before(end); {
		answer, err := client.AcquireResource(ctx, request)
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			return took, fmt.Errorf("%v, %w", answer, err)
		}
		now := time.Now()
		took, begin = append(took, now.Sub(begin)), now
	}
	return took, nil
}
