package faults_test

import (
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/standin/faults"
)

// Calls of rate limiters fail before they take anything, come late, or are executed and their answers lost.
func TestFaultsOfRateLimiters(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	limiter := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(r.conn)
	if _, err := r.FailNext(faults.CreateResource, 1, Ydb.StatusIds_UNAVAILABLE, ""); err != nil {
		t.Fatal(err)
	}
	create := func(rate float64) Ydb.StatusIds_StatusCode {
		answer, err := limiter.CreateResource(t.Context(),
			&Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: node,
				Resource: &Ydb_RateLimiter.Resource{ResourcePath: "r",
					Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
						HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{
							MaxUnitsPerSecond: rate, PrefetchCoefficient: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOperation().GetStatus()
	}
	for i, want := range []Ydb.StatusIds_StatusCode{Ydb.StatusIds_UNAVAILABLE, Ydb.StatusIds_SUCCESS,
		Ydb.StatusIds_ALREADY_EXISTS} {
		if got := create(0.001); got != want {
			t.Fatalf("create %d: %s, want %s", i, got, want)
		}
	}
	call := func(request *Ydb_RateLimiter.AcquireResourceRequest) (Ydb.StatusIds_StatusCode, error) {
		request.CoordinationNodePath, request.ResourcePath = node, "r"
		answer, err := limiter.AcquireResource(t.Context(), request)
		return answer.GetOperation().GetStatus(), err
	}
	use := func() (Ydb.StatusIds_StatusCode, error) {
		return call(&Ydb_RateLimiter.AcquireResourceRequest{
			Units: &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: 1000}})
	}
	acquire := func() (Ydb.StatusIds_StatusCode, error) { // nothing, which is granted unless there is a debt
		return call(&Ydb_RateLimiter.AcquireResourceRequest{Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{}})
	}
	if err := r.DelayNext(faults.AcquireResource, 1, time.Hour,
		faults.Where(faults.Filter{Node: node})); err != nil {
		t.Fatal(err)
	}
	granted := make(chan Ydb.StatusIds_StatusCode)
	go func() {
		status, _ := acquire()
		granted <- status
	}()
	r.eventually("the call waits", func() bool { return turned.running() == 1 })
	turned.advance(time.Hour)
	if got := <-granted; got != Ydb.StatusIds_SUCCESS {
		t.Errorf("behind a delay: %s", got)
	}
	if _, err := r.FailNext(faults.AcquireResource, 1, Ydb.StatusIds_OVERLOADED, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := use(); got != Ydb.StatusIds_OVERLOADED || err != nil {
		t.Errorf("refused: %s, %v", got, err)
	}
	if got, err := acquire(); got != Ydb.StatusIds_SUCCESS || err != nil {
		t.Errorf("the refused one was executed: %s, %v", got, err)
	}
	if err := r.AnswerLost(faults.AcquireResource, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := use(); status.Code(err) != codes.Unavailable {
		t.Errorf("lost: %v", err)
	}
	if got, err := acquire(); got != Ydb.StatusIds_TIMEOUT || err != nil {
		t.Errorf("the lost one was not executed: %s, %v", got, err)
	}
	if _, err := r.FailNext(faults.AcquireResource, 1, Ydb.StatusIds_NOT_FOUND, ""); err == nil {
		t.Error("an acquire failed with NOT_FOUND")
	}
	seen := r.Requests()
	if last := seen[len(seen)-2]; last.Kind != faults.AcquireResource || last.Node != node ||
		last.Name != "r" || last.Count != 1000 || !last.Used {
		t.Errorf("the last use was %+v", last)
	}
	for _, kind := range []faults.Kind{faults.AlterResource, faults.DropResource, faults.DescribeResource,
		faults.ListResources} {
		if _, err := r.FailNext(kind, 1, Ydb.StatusIds_NOT_FOUND, "no"); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(what string, answer interface {
		GetOperation() *Ydb_Operations.Operation
	}, err error) {
		t.Helper()
		if o := answer.GetOperation(); err != nil || o.GetStatus() != Ydb.StatusIds_NOT_FOUND ||
			o.GetIssues()[0].GetMessage() != "no" {
			t.Errorf("%s: %v, %v", what, o, err)
		}
	}
	altered, err := limiter.AlterResource(t.Context(),
		&Ydb_RateLimiter.AlterResourceRequest{CoordinationNodePath: node})
	wants("alter", altered, err)
	dropped, err := limiter.DropResource(t.Context(),
		&Ydb_RateLimiter.DropResourceRequest{CoordinationNodePath: node, ResourcePath: "r"})
	wants("drop", dropped, err)
	described, err := limiter.DescribeResource(t.Context(),
		&Ydb_RateLimiter.DescribeResourceRequest{CoordinationNodePath: node, ResourcePath: "r"})
	wants("describe", described, err)
	listed, err := limiter.ListResources(t.Context(),
		&Ydb_RateLimiter.ListResourcesRequest{CoordinationNodePath: node})
	wants("list", listed, err)
	if got := create(0.001); got != Ydb.StatusIds_ALREADY_EXISTS {
		t.Errorf("it was dropped: %s", got)
	}
}
