package server

import (
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server/sessions"
)

// TestLargestAnswerIsLentFor compares what may be lent with the largest answer.
func TestLargestAnswerIsLentFor(t *testing.T) {
	if sessions.MostLentBytes < maxMessageBytes {
		t.Errorf("%d bytes may be lent, and an answer may have %d", sessions.MostLentBytes, maxMessageBytes)
	}
}

// TestLargeAnswersAreGivenBack has clients ask for a semaphore with many small owners and not read the
// answers, until all is lent that there is: each answer has memory of its own. With the streams it comes
// back, and nothing of the data is lent for.
func TestLargeAnswersAreGivenBack(t *testing.T) {
	testmode.WithoutRace(t)
	var clock handClock
	s, conn := startTest(t, func(c *Config) { c.hooks.Rings = &clock })
	const owners = 300
	var maker sessionClient
	for i := range uint64(owners) {
		stream := openTest(t, t.Context(), conn, start(1_800_000))
		next(t, stream)
		if maker = stream; i == 0 {
			send(t, stream,
				&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
					CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1,
						Name: "crowded", Limit: owners, Data: make([]byte, 1<<20)}}})
			next(t, stream)
		}
		request := acquire(2, "crowded", make([]byte, 1000))
		request.GetAcquireSemaphore().Ephemeral = false
		send(t, stream, request)
		next(t, stream)
	}
	describe := func(id uint64) *Ydb_Coordination.SessionRequest {
		return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: id, Name: "crowded",
				IncludeOwners: true}}}
	}
	send(t, maker, describe(3))
	d := next(t, maker).GetDescribeSemaphoreResult().GetSemaphoreDescription()
	if len(d.GetOwners()) != owners || len(d.GetOwners()[owners-1].GetData()) != 1000 ||
		len(d.GetData()) != 1<<20 {
		t.Fatalf("%d owners and %d bytes are described", len(d.GetOwners()), len(d.GetData()))
	}
	other := connectNarrow(t, s)
	lent := func() int { return s.sessions.Figures().LentBytes }
	for range sessions.MostLentBytes>>20 + 5 {
		send(t, openTest(t, t.Context(), other, start(1_800_000)), describe(1))
	}
	eventually(t, "all to be lent", func() bool { return lent() == sessions.MostLentBytes })
	_ = other.Close()
	send(t, maker, describe(4))
	next(t, maker)
	send(t, maker, acquire(5, "another", nil))
	next(t, maker)
	eventually(t, "all to be given back", func() bool { return lent() == 0 })
}
