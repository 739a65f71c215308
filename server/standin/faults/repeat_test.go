package faults_test

import (
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"

	"github.com/coordd/coordd/server/standin/faults"
)

// A create comes a second time once the session is back, before what its client says then.
func TestRepeatNext(t *testing.T) {
	r := start(t)
	if err := r.RepeatNext(faults.Create, 1); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	remover := r.attach(0)
	remover.send(&pb.SessionRequest{Request: &pb.SessionRequest_DeleteSemaphore_{
		DeleteSemaphore: &pb.SessionRequest_DeleteSemaphore{Name: "config"}}})
	if got := remover.next().GetDeleteSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("got %v", got)
	}
	c = r.attach(c.session)
	c.send(create(1, "config")) // as from an SDK that repeats it, too
	if got := c.next().GetCreateSemaphoreResult(); got.GetReqId() != 1 ||
		got.GetStatus() != Ydb.StatusIds_ALREADY_EXISTS {
		t.Errorf("it was not executed before: %v", got)
	}
	if err := r.RepeatNext(faults.Start, 1); err == nil {
		t.Error("a start was repeated")
	}
}

// What is to come twice has 16 MiB; one more does not come again.
func TestRepeatsAreBounded(t *testing.T) {
	r := start(t)
	owner := r.attach(0)
	owner.send(create(1, "config"))
	owner.next()
	const many = 20
	sessions := make([]uint64, many)
	for i := range sessions {
		if err := r.RepeatNext(faults.Update, 1); err != nil {
			t.Fatal(err)
		}
		c := r.attachFor(0, time.Minute)
		c.send(update(1, "config", string(make([]byte, 1<<20))))
		c.ended()
		sessions[i] = c.session
	}
	owner.send(describe(2, "config", true))
	owner.next()
	repeated := 0
	for _, session := range sessions {
		owner.send(update(3, "config", "x"))
		for owner.next().GetUpdateSemaphoreResult() == nil { // a notice comes before or behind it
		}
		c := r.attach(session)
		c.send(describe(1, "config", false))
		if got := c.next().GetDescribeSemaphoreResult().GetSemaphoreDescription(); len(
			got.GetData()) == 1<<20 {
			repeated++
		}
	}
	if repeated != 15 { // with their names they have a little more than 1 MiB each
		t.Errorf("%d of %d have come again", repeated, many)
	}
}
