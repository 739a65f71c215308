package standin

import (
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/standin/faults"
)

// TestFaults has one fault of each sort happen to a stand-in's clients.
func TestFaults(t *testing.T) {
	s, conn := began(t)
	first, second := open(t, conn, node, long, 0), open(t, conn, node, long, 0)
	first.locked("lock")
	second.waits("lock", time.Hour)
	if troubled := s.FailNext(faults.CreateNode, 1, Ydb.StatusIds_OVERLOADED, ""); troubled != "" {
		t.Errorf("calls trouble %s", troubled)
	}
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/other"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_OVERLOADED {
		t.Errorf("got %v, %v", answer, err)
	}
	s.ExpireSession(node, first.id)
	if owners := s.AwaitOwners(node, "lock", 1); owners[0].Session != second.id {
		t.Errorf("owned by %+v", owners)
	}
	if f := second.next().GetAcquireSemaphoreResult(); !f.GetAcquired() {
		t.Errorf("got %v", f)
	}
	s.DetachSession(node, second.id)
	<-second.ended
	if f := second.next().GetFailure(); f.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		t.Errorf("got %v", f)
	}
	if n := len(s.Requests()); n != 6 { // two nodes, two starts, two acquires
		t.Errorf("%d requests", n)
	}
	s.AnswerLost(faults.DropNode, 1, faults.MayMiss())
	s.RepeatNext(faults.Release, 1, faults.MayMiss())
	s.FailSome(faults.Stop, 0, 1, faults.MayMiss())
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if s.DropStreams(faults.Filter{}, faults.Clean, faults.MayMiss()) == 0 {
			break
		}
		if time.Since(begun) > 3*time.Minute { // their clients know already that both streams are over
			t.Fatal("there are streams still")
		}
	}
	if n := s.SpuriousNotice(faults.Filter{}, "", faults.MayMiss()); n != 0 {
		t.Errorf("%d watches", n)
	}
	s.OnRequest(nil)
	s.Reset()
	s.DropNode(node)
	if s.Sessions(node) != nil {
		t.Error("the node is there")
	}
	if s.Faults().Pending() != 0 {
		t.Error("there are faults left")
	}
}

// TestFaultsInFakeTime has delays and pauses last until Advance.
func TestFaultsInFakeTime(t *testing.T) {
	s, conn := began(t, FakeTime())
	c := open(t, conn, node, long, 0)
	s.DelayNext(faults.Acquire, 1, time.Minute)
	c.send(acquireOf("lock", 0, ""))
	eventually(t, "the request", func() bool { return len(s.Requests()) == 3 })
	s.Advance(59 * time.Second)
	if owners := s.Owners(node, "lock"); len(owners) > 0 {
		t.Errorf("owned by %+v", owners)
	}
	s.Advance(time.Second)
	if !c.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("not acquired")
	}
	s.LoseLeader(time.Second)
	if s.groups()[0].Leads() {
		t.Error("there is a leader")
	}
	s.Advance(time.Second)
	if owners := s.AwaitOwners(node, "lock", 1); owners[0].Session != c.id {
		t.Errorf("owned by %+v", owners)
	}
}

// TestFaultsOfDisks fills a disk and has it be slow.
func TestFaultsOfDisks(t *testing.T) {
	s, conn := began(t, Dir(t.TempDir()))
	c := open(t, conn, node, long, 0)
	s.FullDisk(1, true)
	refused := func() bool {
		answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
			&Ydb_Coordination.CreateNodeRequest{Path: "/local/other"})
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		return answer.GetOperation().GetStatus() == Ydb.StatusIds_UNAVAILABLE
	}
	eventually(t, "the disk to be full", refused)
	s.Reset()
	eventually(t, "the disk to have space", func() bool { return !refused() })
	const pause = 200 * time.Millisecond
	s.SlowDisk(1, pause)
	began := time.Now()
	c.locked("lock")
	if took := time.Since(began); took < pause {
		t.Errorf("a slow disk has taken %v", took)
	}
}

// TestLooksPastALeaderThatIsCutOff looks while a server that leads cannot hear the others: the one that leads
// in its place is found, and the look does not last as long as the cut.
func TestLooksPastALeaderThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := Start(t, Servers(3), Fixture("node\n"), Patience(waitMax))
	s.Sessions("node")
	leader := 1 + slices.IndexFunc(s.groups(), (*group.Group).Leads)
	for other := 1; other <= 3; other++ {
		if leader != 0 && other != leader {
			s.Partition(leader, other)
		}
	}
	if got := s.Sessions("node"); len(got) != 0 {
		t.Errorf("sessions %v", got)
	}
}

// TestDroppedStreamsAreOver drops streams and lets time pass at once: the sessions' timeouts run from the
// drop, and not from when a server has noticed it in the meantime.
func TestDroppedStreamsAreOver(t *testing.T) {
	s, conn := began(t, FakeTime())
	for range 20 {
		for _, how := range []faults.Drop{faults.Clean, faults.Reset} {
			other := connect(t, s, 0)
			c := open(t, other, node, long, 0)
			s.DropStreams(faults.Filter{Session: c.id}, how)
			s.Advance(long)
			if sessions := s.Sessions(node); len(sessions) != 0 {
				t.Fatalf("%s: behind its timeout there is %+v", how, sessions)
			}
		}
	}
	open(t, conn, node, long, 0)
}
