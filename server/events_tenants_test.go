package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/history"
)

// TestLeaderAfterRestart: what a server notes of leaders after it was started anew is behind what was there before.
func TestLeaderAfterRestart(t *testing.T) {
	c := startClusterWith(t, 1, inRealTime)
	c.createNode(0, testNode)
	c.createNode(0, "/local/other")
	c.stop(0)
	if err := c.start(0); err != nil {
		t.Fatal(err)
	}
	var found []*adminpb.Event
	c.eventually("the second leader", func() bool {
		found = askEvents(t, t.Context(), c.conns[0], &adminpb.EventsRequest{}).GetEvents()
		leaders := 0
		for _, e := range found {
			if e.GetKind() == adminpb.Event_LEADER {
				leaders++
			}
		}
		return leaders == 2
	})
	if e := found[0]; e.GetKind() != adminpb.Event_LEADER {
		t.Errorf("the newest event is %v; want the leader of after the start", e)
	}
	for _, e := range found {
		if e.GetKind() == adminpb.Event_LEADER && e.GetIndex() == 0 {
			t.Errorf("without an index: %v", e)
		}
	}
}

// TestEventsWithoutQuorum: two of three servers are down. That is the night in which somebody asks; the third one
// has the events on its disk, and its data directory is locked because it runs.
func TestEventsWithoutQuorum(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	c.eventually("the event", func() bool {
		return len(askEvents(t, t.Context(), c.conns[follower], &adminpb.EventsRequest{Path: testNode}).GetEvents()) > 0
	})
	for i := range c.servers {
		if i != follower {
			c.stop(i)
		}
	}
	answer, err := adminpb.NewInspectClient(c.conns[follower]).Events(t.Context(),
		&adminpb.EventsRequest{Path: testNode})
	if err != nil || len(answer.GetEvents()) == 0 {
		t.Errorf("without a majority: %v, %v", answer, err)
	}
}

// TestAuditOfData: alice and bob change the data of a semaphore by calls, each expecting the version that is there. The
// log has a line a second for each of them, not one for each version.
func TestAuditOfData(t *testing.T) {
	log := &logText{}
	g := startGuarded(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	for _, who := range []string{"alice", "bob"} {
		g.permit(testNode, granting(who, "ydb.granular.select_row", "ydb.granular.update_row"))
	}
	stream, _ := g.session("token-of-alice")
	defer stream.CloseSend()
	send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "flags", Limit: 1}}})
	next(t, stream)
	inspect := adminpb.NewInspectClient(g.conn)
	set := func(who string) {
		t.Helper()
		now, err := inspect.Versions(g.as("token-of-"+who),
			&adminpb.VersionsRequest{Path: testNode, Name: []byte("flags")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inspect.UpdateData(g.as("token-of-"+who), &adminpb.UpdateDataRequest{Path: testNode,
			Name: []byte("flags"),
			Data: []byte(who), Expected: now.GetPresent().GetVersion()}); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	for range 100 {
		set("alice")
	}
	set("root")
	set("root")
	if n, most := log.with("act=Inspect/UpdateData", "user=alice"), 2+int(time.Since(begun)/time.Second); n > most {
		t.Errorf("%d lines of one semaphore where %d are due", n, most)
	}
	set("bob")
	for _, who := range []string{"alice", "bob", "root"} {
		if log.with("act=Inspect/UpdateData", "user="+who) == 0 {
			t.Errorf("the changes by %s have no line", who)
		}
	}
}

// TestEventsOfDeepNodes: the longest paths there can be, and names of a kilobyte, make events of nine kilobytes. The
// default of gRPC's clients is a message of 4 MiB: so much answers come to, and more pages have the rest. Tokens are
// bytes, so that it takes five tenants with seven nodes each to have so many kept.
func TestEventsOfDeepNodes(t *testing.T) {
	c := startCluster(t, 1)
	c.awaitFormat(codec.Version)
	inspect := adminpb.NewInspectClient(c.conns[0])
	const nodes, locks = 35, 14
	for n := range nodes {
		node := fmt.Sprintf("/local/%d%s/%d", n%5, strings.Repeat("/"+strings.Repeat("d", 255), 29), n)
		c.createNode(0, node)
		stream := openTest(t, t.Context(), c.conns[0], &Ydb_Coordination.SessionRequest_SessionStart{Path: node,
			TimeoutMillis: 600_000})
		session := next(t, stream).GetSessionStarted().GetSessionId()
		for i := range locks {
			send(t, stream, wait(uint64(i+1), fmt.Sprint(strings.Repeat("n", 1000), i)))
			next(t, stream)
		}
		_, err := inspect.EndSession(t.Context(), &adminpb.EndSessionRequest{Path: node, Session: session})
		if err != nil {
			t.Fatal(err)
		}
	}
	c.eventually("the events", func() bool {
		r, found := &adminpb.EventsRequest{Kinds: []adminpb.Event_Kind{adminpb.Event_LOCK_LOST}}, 0
		for {
			answer := askEvents(t, t.Context(), c.conns[0], r)
			if found += len(answer.GetEvents()); !answer.GetMore() {
				return found == nodes*locks
			}
			r.Before = answer.GetEvents()[len(answer.GetEvents())-1]
		}
	})
}

// TestUnreadableEvents: a server cannot read one of its files of events. Whichever server is asked names it, and the
// others' events are there.
func TestUnreadableEvents(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	if err := os.MkdirAll(filepath.Join(c.dir, "server-1", history.Dir, "audit-00000000"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.createNode(0, testNode)
	for i := range c.conns {
		c.eventually("an answer that names the server", func() bool {
			hour := &adminpb.EventsRequest{Path: testNode, WithinMillis: 3_600_000}
			answer := askEvents(t, t.Context(), c.conns[i], hour)
			return len(answer.GetEvents()) > 0 && slices.Contains(answer.GetUnknown(),
				"server server-1 cannot read all of its events")
		})
	}
	c.eventually("no events of the last millisecond", func() bool {
		return len(askEvents(t, t.Context(), c.conns[0], &adminpb.EventsRequest{Path: testNode, WithinMillis: 1}).
			GetEvents()) == 0
	})
}

// TestGrantBehindDirectories: a user who owns a part of the tree makes 100 directories, and gives a right away. The
// log has a line of the grant.
func TestGrantBehindDirectories(t *testing.T) {
	log := &logText{}
	g := startGuarded(t, func(config *Config) { config.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	g.permit("/local", granting("alice", "ydb.generic.full"))
	schemes := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn)
	for i := range 100 {
		_, err := schemes.MakeDirectory(g.as("token-of-alice"), &Ydb_Scheme.MakeDirectoryRequest{
			Path: fmt.Sprint("/local/d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	answer, err := schemes.ModifyPermissions(g.as("token-of-alice"), &Ydb_Scheme.ModifyPermissionsRequest{
		Path: "/local/d0", Actions: []*Ydb_Scheme.PermissionsAction{granting("bob", "ydb.generic.full")}})
	if err != nil {
		t.Fatal(err, answer)
	}
	if n := log.with("msg=administration", "act=SchemeService/ModifyPermissions", "user=alice"); n != 1 {
		t.Errorf("%d lines of the grant; of directories %d", n, log.with("act=SchemeService/MakeDirectory"))
	}
}
