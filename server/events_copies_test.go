package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/history"
)

// keptBy returns the events that a server keeps itself.
func (c *testCluster) keptBy(i int) []*adminpb.Event {
	c.t.Helper()
	found, err := c.servers[i].inspect.Load().History.Read(c.t.Context(), &history.Query{Limit: 1000,
		Wanted: func(*adminpb.Event) bool { return true }})
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// TestSumsOfThreeServers: two sessions change data many times a second. Each server is asked and asks the others: each
// change is counted once. Events go by the time of day; by the slow clock no stream ends for want of a leader.
func TestSumsOfThreeServers(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.eventually("the servers to know each other's versions",
		func() bool { return c.servers[leader].group.FormatVersion() == codec.Version })
	c.createNode(leader, testNode)
	const changes = 150
	for i, at := range []int{leader, follower} {
		stream := openTest(t, t.Context(), c.conns[at], &Ydb_Coordination.SessionRequest_SessionStart{
			Path: testNode, TimeoutMillis: 60_000})
		next(t, stream)
		name := fmt.Sprint("flags", i)
		send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: name, Limit: 1}}})
		next(t, stream)
		for n := range changes {
			send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
				UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: uint64(n + 2), Name: name,
					Data: fmt.Append(nil, n)}}})
			next(t, stream)
		}
	}
	count := func(list []*adminpb.Event) (n uint64) {
		for _, e := range list {
			if e.GetKind() == adminpb.Event_DATA_CHANGED {
				n += 1 + e.GetSkipped()
			}
		}
		return n
	}
	for i := range c.servers {
		c.eventually("all changes to be kept", func() bool { return count(c.keptBy(i)) >= 2*changes })
	}
	for i := range c.servers {
		found := askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{Path: testNode}).GetEvents()
		if n := count(found); n != 2*changes || len(found) >= changes {
			t.Errorf("server %d shows %d changes by %d events as %d", i, 2*changes, len(found), n)
		}
	}
}

// TestElectionsAreInTheLog moves the leadership: each server has each election at the same place of the log.
func TestElectionsAreInTheLog(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	leader, follower := c.leader()
	_, err := adminpb.NewClusterClient(c.conns[leader]).TransferLeader(t.Context(),
		&adminpb.TransferLeaderRequest{To: fmt.Sprint("server-", follower)})
	if err != nil {
		t.Fatal(err)
	}
	elections := func(list []*adminpb.Event) (words []string) {
		for _, e := range list {
			if e.GetKind() == adminpb.Event_LEADER {
				words = append(words, fmt.Sprintf("%s in %d at %d", e.GetServer(), e.GetTerm(), e.GetIndex()))
			}
		}
		return words
	}
	var want []string
	for i := range c.servers {
		c.eventually("two elections", func() bool {
			got := elections(c.keptBy(i))
			want = got
			return len(got) >= 2 && strings.HasPrefix(got[0], fmt.Sprint("server-", follower))
		})
	}
	for i := range c.servers {
		got := elections(askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{}).GetEvents())
		if !slices.Equal(got, want) {
			t.Errorf("server %d shows the elections %q, another one %q", i, got, want)
		}
	}
}

// TestGapOfASnapshot: a server that was down gets the state of another one instead of the log. It keeps that it lacks
// that part, also if it crashes before it can write so. The others fill it; without them the answer names its entries.
func TestGapOfASnapshot(t *testing.T) {
	c := startClusterWith(t, 3, func(config *Config) {
		inRealTime(config)
		config.hooks.Log = func(log *raftstore.Config) {
			log.SegmentBytes, log.CheckpointCommands, log.TailEntriesKept, log.LagEntriesKept = 4096, 5, 1, 1
		}
	})
	leader, absent := c.leader()
	c.createNode(leader, "/local/before")
	c.eventually("the first event everywhere", func() bool {
		return slices.Contains(eventWords(c.keptBy(absent)), `ADMINISTERED /local/before 0 create node by ""`)
	})
	c.stop(absent)
	files := filepath.Join(c.dir, fmt.Sprint("server-", absent), history.Dir)
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	const nodes = 60
	for i := range nodes {
		c.createNode(leader, fmt.Sprint("/local/n", i))
	}
	if err := c.start(absent); err != nil {
		t.Fatal(err)
	}
	c.eventually("a gap", func() bool {
		return slices.ContainsFunc(c.keptBy(absent), func(e *adminpb.Event) bool {
			return e.GetKind() == adminpb.Event_GAP && e.GetIndex() > 0 && e.GetLastIndex() > e.GetIndex()
		})
	})
	watching, err := adminpb.NewInspectClient(c.conns[absent]).Watch(t.Context(), &adminpb.WatchRequest{Ring: 1})
	if err != nil {
		t.Fatal(err)
	}
	for { // a client that watches has missed them as well
		e, err := watching.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetKind() == adminpb.Event_GAP && e.GetIndex() > 0 {
			break
		}
	}
	if all := len(c.keptBy(absent)); all > nodes {
		t.Fatalf("it has %d events: nothing was skipped", all)
	}
	var answer *adminpb.EventsResponse
	c.eventually("an answer of servers that all hear of the leader and of each other in time", func() bool {
		answer = askEvents(t, t.Context(), c.conns[absent], &adminpb.EventsRequest{})
		return !slices.ContainsFunc(answer.GetUnknown(), func(text string) bool {
			return strings.Contains(text, "last heard of a leader") || strings.Contains(text, "does not answer")
		})
	})
	words := eventWords(answer.GetEvents())
	for i := range nodes {
		if !slices.Contains(words, fmt.Sprintf(`ADMINISTERED /local/n%d 0 create node by ""`, i)) {
			t.Errorf("node %d is missing, unknown are %q", i, answer.GetUnknown())
		}
	}
	if len(answer.GetUnknown())+len(answer.GetGaps()) > 0 {
		t.Errorf("filled, but unknown are %q", answer.GetUnknown())
	}
	// It crashes after the receipt of the state, and has no more than the files of before that.
	c.stop(absent)
	if err := errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(older))); err != nil {
		t.Fatal(err)
	}
	if err := c.start(absent); err != nil {
		t.Fatal(err)
	}
	c.createNode(absent, "/local/after")
	c.eventually("the gap of a server that crashed", func() bool {
		return slices.ContainsFunc(c.keptBy(absent), func(e *adminpb.Event) bool {
			return e.GetKind() == adminpb.Event_GAP && e.GetLastIndex() == c.servers[absent].store.Received()
		})
	})
	for i := range c.servers {
		if i != absent {
			c.stop(i)
		}
	}
	alone, err := adminpb.NewInspectClient(c.conns[absent]).Events(context.Background(), &adminpb.EventsRequest{})
	if err != nil || !strings.Contains(strings.Join(alone.GetUnknown(), "\n"), "of the log, which no asked server") {
		t.Errorf("alone: %q, %v", alone.GetUnknown(), err)
	}
}

// TestEventsOfARemovedServer removes the leader from the members. The servers that stay have all events, its removal
// among them, and miss nothing of it. As long as the removed one answers, it has what it has seen.
func TestEventsOfARemovedServer(t *testing.T) {
	c := startCluster(t, 3)
	c.awaitFormat(codec.Version)
	removed, asking := c.leader()
	name := fmt.Sprint("server-", removed)
	c.createNode(removed, testNode)
	has := func(list []*adminpb.Event, act, target string) bool {
		return slices.ContainsFunc(list, func(e *adminpb.Event) bool {
			return e.GetAct() == act && (e.GetPath() == target || e.GetTarget() == target)
		})
	}
	for i := range c.servers {
		c.eventually("what was before the removal", func() bool { return has(c.keptBy(i), "create node", testNode) })
	}
	c.mustManage(asking, "Remove", &adminpb.RemoveMemberRequest{Member: name}, new(adminpb.RemoveMemberResponse))
	c.wantRemoved(removed)
	for i, conn := range c.conns {
		c.eventually("the events of all times", func() bool {
			answer := askEvents(t, t.Context(), conn, &adminpb.EventsRequest{})
			return has(answer.GetEvents(), "create node", testNode) &&
				(i == removed || has(answer.GetEvents(), "remove member", name)) &&
				(i == removed) == (len(answer.GetUnknown()) > 0)
		})
	}
	for i := range c.servers {
		if i != removed {
			c.stop(i)
		}
	}
	alone := askEvents(t, t.Context(), c.conns[removed], &adminpb.EventsRequest{})
	if !has(alone.GetEvents(), "create node", testNode) || len(alone.GetUnknown()) == 0 {
		t.Errorf("the removed server alone: %v", alone)
	}
}
