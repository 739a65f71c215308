package monitor

import (
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
)

// TestScrapeOfRateLimiters wants units summed up by how their nodes' counters are set at the time, with as
// many lines as there are sums, whatever resources there are.
func TestScrapeOfRateLimiters(t *testing.T) {
	s, conn := serve(t, Options{Resources: []Resource{{"/local/named", "some"}, {"/local/named", "none"},
		{"/local/aggregated", "some"}}})
	const node = "/local/chosen-by-a-client"
	done := func(answer interface {
		GetOperation() *Ydb_Operations.Operation
	}, err error) {
		t.Helper()
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Fatal(answer, err)
		}
	}
	nodes := Ydb_Coordination_V1.NewCoordinationServiceClient(conn)
	created, err := nodes.CreateNode(t.Context(), &Ydb_Coordination.CreateNodeRequest{Path: node})
	done(created, err)
	take := func(path string, used, required uint64) { takeUnits(t, conn, node, path, used, required, done) }
	take("chosen", 7, 0)
	take("chosen2", 0, 2)
	altered, err := nodes.AlterNode(t.Context(), &Ydb_Coordination.AlterNodeRequest{Path: node,
		Config: &Ydb_Coordination.Config{
			RateLimiterCountersMode: Ydb_Coordination.RateLimiterCountersMode_RATE_LIMITER_COUNTERS_MODE_DETAILED}})
	done(altered, err)
	take("chosen", 10, 0)
	take("chosen3", 5, 0)
	for _, mode := range []Ydb_Coordination.RateLimiterCountersMode{
		Ydb_Coordination.RateLimiterCountersMode_RATE_LIMITER_COUNTERS_MODE_DETAILED, 0} {
		path := map[bool]string{true: "/local/named", false: "/local/aggregated"}[mode != 0]
		created, err := nodes.CreateNode(t.Context(),
			&Ydb_Coordination.CreateNodeRequest{Path: path,
				Config: &Ydb_Coordination.Config{RateLimiterCountersMode: mode}})
		done(created, err)
		takeUnits(t, conn, path, "some", 0, 3, done)
	}
	text := scrape(t, s)
	for _, line := range []string{`units_total{flow="granted",node="/local/named",resource="some"} 3`,
		`waiting{node="/local/named",resource="some"} 0`,
		`level{node="/local/named",resource="some"} `} {
		if !strings.Contains(text, "\ncoordd_limiter_resource_"+line) {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Count(text, "\ncoordd_limiter_resource_") != 5 {
		t.Error("other resources are shown than those that are named")
	}
	for _, line := range []string{`{counters="aggregated",flow="used"} 7`,
		`{counters="aggregated",flow="granted"} 5`, `{counters="detailed",flow="used"} 15`,
		`{counters="detailed",flow="granted"} 3`} {
		if !strings.Contains(text, "\ncoordd_limiter_units_total"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Count(text, "\ncoordd_limiter_units_total{") != 6 || strings.Contains(text, "chosen") {
		t.Error("what clients have chosen is shown")
	}
}

// takeUnits makes a resource unless it exists, and takes units of it.
func takeUnits(t *testing.T, conn *grpc.ClientConn, node, path string, used, required uint64,
	done func(interface {
		GetOperation() *Ydb_Operations.Operation
	}, error)) {
	t.Helper()
	limiter := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn)
	if _, err := limiter.CreateResource(t.Context(),
		&Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: node,
			Resource: &Ydb_RateLimiter.Resource{ResourcePath: path,
				Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
					HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: 100}}}}); err != nil {
		t.Fatal(err)
	}
	if used > 0 {
		answer, err := limiter.AcquireResource(t.Context(),
			&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: node, ResourcePath: path,
				Units: &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: used}})
		done(answer, err)
		return
	}
	answer, err := limiter.AcquireResource(t.Context(),
		&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: node, ResourcePath: path,
			Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: required}})
	done(answer, err)
}
