package faults_test

import (
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc/codes"

	"github.com/coordd/coordd/server/standin/faults"
)

// Filters pick by node, session, client and server; a request that they do not pick is let through.
func TestFilters(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	for _, passing := range []faults.Filter{{Node: "/local/other"}, {Session: 77}, {Client: "10.0.0.1"},
		{Server: 2}, {Client: "ydb-"}} {
		if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_UNAUTHORIZED, "",
			faults.Where(passing)); err != nil {
			t.Fatal(err)
		}
		c.send(release(1, "lock"))
		if got := c.next().GetReleaseSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("%+v: %v", passing, got)
		}
	}
	for _, meeting := range []faults.Filter{{Node: node}, {Session: c.session}, {Client: "127.0.0.1"},
		{Server: 1}} {
		r.Reset()
		if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_UNAUTHORIZED, "",
			faults.Where(meeting)); err != nil {
			t.Fatal(err)
		}
		c.send(release(1, "lock"))
		if got := c.next().GetReleaseSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_UNAUTHORIZED {
			t.Errorf("%+v: %v", meeting, got)
		}
	}
}

func TestOnRequest(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	r.OnRequest(func(q faults.Request) faults.Action {
		if q.Kind == faults.Acquire && q.Name == "forbidden" {
			refuse, err := faults.Refuse(q.Kind, Ydb.StatusIds_NOT_FOUND, "gone")
			if err != nil {
				t.Error(err)
			}
			return refuse
		}
		if q.Kind == faults.Acquire && q.Name == "lost" {
			return faults.LoseAnswer()
		}
		return faults.Action{}
	})
	c.send(acquire(1, "allowed"))
	if !c.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("not acquired")
	}
	c.send(acquire(2, "forbidden"))
	if got := c.next().GetAcquireSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("got %v", got)
	}
	c.send(acquire(3, "lost"))
	if _, code := c.ended(); code != codes.Unavailable {
		t.Errorf("ended with %v", code)
	}
}

// At most so many faults wait at once.
func TestRulesAreBounded(t *testing.T) {
	r := start(t)
	for i := range 1000 {
		if err := r.AnswerLost(faults.Delete, 1); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := r.AnswerLost(faults.Delete, 1); err == nil {
		t.Error("one more")
	}
	r.Reset()
	if err := r.AnswerLost(faults.Delete, 1); err != nil {
		t.Error(err)
	}
}
