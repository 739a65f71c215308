package console_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
)

// limit makes rate limiters of the node.
func (s *server) limit(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"api", "100"}, {"api/reads", "80"}, {"api/writes", "20"}, {"mail", "0.1"},
		{"backup", "5"}} {
		s.command(t, "ratelimiter", "create", node, args[0], "--rate", args[1])
	}
}

// acquire begins to acquire units of a resource, or reports them as used. The call ends with the test.
func (s *server) acquire(t *testing.T, resource string, units uint64, used bool) (done chan error) {
	t.Helper()
	conn, err := grpc.NewClient(s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := &Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: node, ResourcePath: resource,
		Units:           &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: units},
		OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(time.Hour)}}
	if used {
		r.Units = &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: units}
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(),
		"x-ydb-database", "/local"))
	t.Cleanup(cancel)
	done = make(chan error, 1)
	go func() {
		_, err := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn).AcquireResource(ctx, r)
		done <- err
	}()
	return done
}

// use takes units of the resources as they are taken in earnest: some flow, some wait, and some are owed.
func (s *server) use(t *testing.T) {
	t.Helper()
	for range 20 {
		<-s.acquire(t, "api/reads", 1, false)
	}
	<-s.acquire(t, "backup", 4000, true)
	<-s.acquire(t, "mail", 100, true)
	for range 3 {
		s.acquire(t, "mail", 2, false)
	}
}

// The resources of three servers are added up, with their waits and debts, and one of them is shown by server and
// with an hour of samples.
func TestLimiters(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	servers[0].command(t, "node", "create", node)
	p := newPage(t)
	p.open(servers[0].link(t))
	p.visit("#/limiters")
	p.awaitText(".empty", "There are no rate limiters.")
	servers[0].limit(t)
	p.awaitText(".lede", "Nobody waits for units.")
	p.await(`[...document.querySelectorAll('.limiters a.name')].map((a) => a.textContent).join() ===
		'api,reads,writes,backup,mail'`)
	p.awaitText(".limiters", "unused")
	servers[0].use(t)
	for range 10 {
		<-servers[1].acquire(t, "api/reads", 1, false)
	}
	row := func(name, text string) {
		t.Helper()
		p.await(fmt.Sprintf(`[...document.querySelectorAll('.limiters .row')].some((row) => row.querySelector('a.name').
			textContent === %q && row.textContent.replace(/\s+/g, ' ').includes(%q))`, name, text))
	}
	row("mail", "3 wait")
	row("mail", "for 6")
	row("reads", "a, b")
	row("backup", "debt")
	p.awaitText(".lede", "One resource is waited for. mail by most: 3 calls for 6 units.")
	p.setField(".search input", "api/")
	p.await("document.querySelectorAll('.limiters a.name').length === 2")
	p.click("api/reads")
	p.awaitText("h1", "api/reads")
	p.awaitText(".lede", "units per second go out, of 80, on two servers")
	p.await("document.querySelectorAll('.past tbody tr').length === 2")
	p.awaitText(".charts", "Units per second at most")
	p.await("document.querySelector('.charts path.c-line') !== null")

	p.expect("")
	servers[1].Kill()
	p.awaitText("main", "server b does not answer")
}
