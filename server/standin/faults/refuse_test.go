package faults_test

import (
	"slices"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/server/standin/faults"
)

// A refused request is not executed, the next one is, and the stream goes on.
func TestFailNextAsAResult(t *testing.T) {
	r := start(t)
	if troubled, err := r.FailNext(faults.Acquire, 1, Ydb.StatusIds_PRECONDITION_FAILED, ""); err != nil ||
		troubled == "" {
		t.Fatal(troubled, err)
	}
	c := r.attach(0)
	c.send(acquire(7, "lock"))
	refused := c.next().GetAcquireSemaphoreResult()
	if refused.GetReqId() != 7 || refused.GetStatus() != Ydb.StatusIds_PRECONDITION_FAILED ||
		refused.GetAcquired() ||
		refused.GetIssues()[0].GetMessage() != "Semaphore ephemeral mode mismatch" {
		t.Fatalf("got %v", refused)
	}
	if owners := r.owners("lock"); len(owners) != 0 {
		t.Errorf("it was executed: %v has it", owners)
	}
	c.send(acquire(8, "lock"))
	if got := c.next().GetAcquireSemaphoreResult(); !got.GetAcquired() {
		t.Fatalf("got %v", got)
	}
	if n := r.Pending(); n != 0 {
		t.Errorf("%d faults are still to come", n)
	}
}

// A status that the specification has for the whole stream ends it.
func TestFailNextAsAFailure(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.Update, 1, Ydb.StatusIds_SESSION_EXPIRED,
		"Session has expired"); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	c.next()
	c.send(update(2, "config", "new"))
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_SESSION_EXPIRED ||
		got.GetIssues()[0].GetMessage() != "Session has expired" {
		t.Fatalf("got %v", got)
	}
	c = r.attach(c.session)
	c.send(describe(1, "config", false))
	if data := c.next().GetDescribeSemaphoreResult().GetSemaphoreDescription().GetData(); len(data) != 0 {
		t.Errorf("it was executed: the data is %q", data)
	}
}

func TestFailNextStart(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.Start, 1, Ydb.StatusIds_UNAVAILABLE, ""); err != nil {
		t.Fatal(err)
	}
	c := r.open(&pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 1000})
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		t.Fatalf("got %v", got)
	}
	if c := r.attach(0); c.session != 1 {
		t.Errorf("the refused start was executed: the next session is %d", c.session)
	}
}

func TestFailNextCall(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.CreateNode, 1, Ydb.StatusIds_OVERLOADED, ""); err != nil {
		t.Fatal(err)
	}
	if got := r.createNode("/local/other"); got != Ydb.StatusIds_OVERLOADED {
		t.Fatalf("got %s", got)
	}
	answer, err := r.nodes().DescribeNode(t.Context(), &pb.DescribeNodeRequest{Path: "/local/other"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SCHEME_ERROR {
		t.Errorf("it was executed: %v, %v", answer, err)
	}
}

// What the specification does not know is refused, unless it is asked for.
func TestImpossible(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_OVERLOADED, "no"); err == nil {
		t.Error("a release failed with OVERLOADED")
	}
	if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_SUCCESS, "", faults.Impossible()); err == nil {
		t.Error("a request that was not executed succeeded")
	}
	if _, err := r.FailNext("renew", 1, Ydb.StatusIds_UNAVAILABLE, ""); err == nil {
		t.Error("there is a kind renew")
	}
	if _, err := r.FailNext(faults.Release, 0, Ydb.StatusIds_UNAVAILABLE, ""); err == nil {
		t.Error("no request at all can fail")
	}
	if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_OVERLOADED, "no",
		faults.Impossible()); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(release(1, "lock"))
	if got := c.next().GetReleaseSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_OVERLOADED ||
		got.GetIssues()[0].GetMessage() != "no" {
		t.Errorf("got %v", got)
	}
}

// Each kind fails in each of its ways with that status and that text.
func TestEveryRefusal(t *testing.T) {
	r := start(t)
	for _, kind := range faults.Kinds() {
		for _, refusal := range kind.Refusals() {
			if _, err := r.FailNext(kind, 1, refusal.Status, refusal.Text); err != nil {
				t.Errorf("%s %s: %v", kind, refusal.Status, err)
			}
		}
	}
	if got, want := r.Pending(), 0; got == want {
		t.Error("nothing was tried")
	}
	r.Reset()
	if got := r.Pending(); got != 0 {
		t.Errorf("%d are still to come", got)
	}
}

// What a seed has picked once it picks again.
func TestFailSome(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	play := func(seed uint64) (failed []bool) {
		if _, err := r.FailSome(faults.Release, 0.5, seed,
			faults.With(Ydb.StatusIds_UNAUTHORIZED, "")); err != nil {
			t.Fatal(err)
		}
		defer r.Reset()
		for i := range 64 {
			c.send(release(uint64(i), "lock"))
			failed = append(failed,
				c.next().GetReleaseSemaphoreResult().GetStatus() == Ydb.StatusIds_UNAUTHORIZED)
		}
		return failed
	}
	first := play(1)
	if !slices.Contains(first, true) || !slices.Contains(first, false) {
		t.Errorf("with 1/2: %v", first)
	}
	if again := play(1); !slices.Equal(first, again) {
		t.Errorf("the same seed: %v, then %v", first, again)
	}
	if other := play(2); slices.Equal(first, other) {
		t.Errorf("another seed: %v as well", other)
	}
	if _, err := r.FailSome(faults.Release, 1.5, 1); err == nil {
		t.Error("a probability of 1.5")
	}
}
