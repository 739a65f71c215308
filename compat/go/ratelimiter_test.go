package compat_test

import (
	"context"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/ratelimiter"
)

// The steps of the SDK's own TestRatelimiter, with the same times, and what it does not look at.
func TestRatelimiter(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).Endpoint())
	ctx := testContext(t)
	node, resource := path.Join(db.Name(), "ratelimiter_test"), "test_resource"
	limiter := db.Ratelimiter()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set := func(do func(context.Context, string, ratelimiter.Resource) error, rate, burst float64) {
		t.Helper()
		must(do(ctx, node, ratelimiter.Resource{ResourcePath: resource,
			HierarchicalDrr: ratelimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: rate,
				MaxBurstSizeCoefficient: burst}}))
		got, err := limiter.DescribeResource(ctx, node, resource)
		must(err)
		if s := got.HierarchicalDrr; got.ResourcePath != resource || s.MaxUnitsPerSecond != rate ||
			s.MaxBurstSizeCoefficient != burst {
			t.Errorf("described as %+v", got)
		}
	}
	if err := db.Coordination().DropNode(ctx, node); !ydb.IsOperationErrorSchemeError(err) {
		t.Errorf("drop a missing node: %v", err)
	}
	must(db.Coordination().CreateNode(ctx, node, coordination.NodeConfig{
		SelfCheckPeriodMillis: 1000, SessionGracePeriodMillis: 1000,
		ReadConsistencyMode:     coordination.ConsistencyModeRelaxed,
		AttachConsistencyMode:   coordination.ConsistencyModeRelaxed,
		RatelimiterCountersMode: coordination.RatelimiterCountersModeDetailed,
	}))
	set(limiter.CreateResource, 1, 2)
	set(limiter.AlterResource, 3, 4)
	list, err := limiter.ListResource(ctx, node, resource, true)
	must(err)
	if !slices.Equal(list, []string{resource}) {
		t.Errorf("listed: %q", list)
	}
	timeout := ratelimiter.WithOperationTimeout(2 * time.Second)
	must(limiter.AcquireResource(ctx, node, resource, 1, ratelimiter.WithAcquire(), timeout))
	must(limiter.AcquireResource(ctx, node, resource, 10_000, ratelimiter.WithReport(), timeout))
	begun := time.Now()
	err = limiter.AcquireResource(ctx, node, resource, 10_000, ratelimiter.WithAcquire(), timeout)
	if is, amount := ydb.IsRatelimiterAcquireError(err), ydb.ToRatelimiterAcquireError(err); !is ||
		amount.Amount() != 10_000 {
		t.Errorf("acquire 10,000 in debt: %v", err)
	}
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("it was refused after %s", took)
	}
	must(limiter.DropResource(ctx, node, resource))
	if err := limiter.DropResource(ctx, node, resource); !ydb.IsOperationErrorNotFoundError(err) {
		t.Errorf("drop a missing resource: %v", err)
	}
	must(db.Coordination().DropNode(ctx, node))
}
