package server

import (
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/internal/testmode"
)

// TestFollowerCopiesAreBounded has clients of a server that does not lead ask for more than it may have of
// the leader's descriptions, and read nothing. It has that much and no more; when they are gone, nothing; and
// who reads gets the answer.
func TestFollowerCopiesAreBounded(t *testing.T) {
	testmode.WithoutRace(t)
	const each, most = 1 << 20, 64 << 20
	var clock handClock // nobody is given up for not answering pings
	c := startClusterWith(t, 3, func(config *Config) { config.hooks.Rings = &clock })
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	s := c.servers[follower]
	reader := openTest(t, t.Context(), c.conns[follower], start(1_800_000))
	next(t, reader)
	send(t, reader,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "large",
				Limit: 1, Data: make([]byte, each)}}})
	next(t, reader)
	describe := &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: 2, Name: "large"}}}
	for full := false; !full; {
		c.leadWith(leader)
		term := s.store.Figures().Term
		other := connectNarrow(t, s)
		peak := 0
		for range most/each + 16 {
			send(t, openTest(t, t.Context(), other, start(1_800_000)), describe)
			peak = max(peak, s.group.Figures().CopiedBytes)
		}
		eventually(t, "the server to have as much as it may", func() bool {
			full = s.group.Figures().CopiedBytes >= most
			peak = max(peak, s.group.Figures().CopiedBytes)
			// Under another leader, as after a slow write, not all are copies.
			return full || s.store.Figures().Term != term || s.Leads()
		})
		if peak > most+2*each {
			t.Errorf("it has %d bytes", peak)
		}
		_ = other.Close()
		eventually(t, "it to have nothing", func() bool { return s.group.Figures().CopiedBytes == 0 })
	}
	send(t, reader, describe)
	if d := next(t, reader).GetDescribeSemaphoreResult().GetSemaphoreDescription(); len(d.GetData()) != each {
		t.Errorf("described: %d bytes", len(d.GetData()))
	}
	eventually(t, "it to have nothing again", func() bool { return s.group.Figures().CopiedBytes == 0 })
}
