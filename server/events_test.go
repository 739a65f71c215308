package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
)

// eventWords returns events as short words, the oldest first.
func eventWords(list []*adminpb.Event) (words []string) {
	for _, e := range slices.Backward(list) {
		word := fmt.Sprintf("%s %s %d", e.GetKind(), e.GetPath(), e.GetSession())
		if e.GetHeld() > 0 {
			word += fmt.Sprintf(" held %s", e.GetNames())
		}
		if e.GetClient() != nil {
			word += fmt.Sprintf(" as %s by %s", e.GetDescription(), e.GetClient().GetSdk())
		}
		if e.GetAct() != "" {
			word += fmt.Sprintf(" %s by %q", e.GetAct(), e.GetUser())
		}
		words = append(words, word)
	}
	return words
}

// askEvents asks a server.
func askEvents(t *testing.T, ctx context.Context, conn *grpc.ClientConn,
	r *adminpb.EventsRequest) *adminpb.EventsResponse {
	t.Helper()
	answer, err := adminpb.NewInspectClient(conn).Events(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestEventsEverywhere asks each server of a cluster for the end of a session whose client has died, with one server
// down and after all were started anew: each knows the client.
func TestEventsEverywhere(t *testing.T) {
	log := &logText{}
	c := startClusterWith(t, 3, func(config *Config) {
		inRealTime(config)
		config.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	leader, follower := c.leader()
	c.eventually("the servers to know each other's versions",
		func() bool { return c.servers[leader].group.FormatVersion() == codec.Version })
	c.createNode(leader, testNode)
	c.createNode(leader, "/local/other")
	ctx, kill := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "x-ydb-sdk-build-info", "ydb-test/1"))
	holder := openTest(t, ctx, c.conns[follower], &Ydb_Coordination.SessionRequest_SessionStart{
		Path: testNode, TimeoutMillis: 3000, Description: "worker-7"})
	session := next(t, holder).GetSessionStarted().GetSessionId()
	send(t, holder, wait(1, "lock"))
	next(t, holder)
	kill()
	want := fmt.Sprintf("SESSION_EXPIRED %s %d held [lock] as worker-7 by ydb-test/1", testNode, session)
	knows := func(i int) bool {
		found := askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{})
		return slices.Contains(eventWords(found.GetEvents()), want)
	}
	c.eventually("the events of the end", func() bool { return knows(0) && knows(1) && knows(2) })
	c.eventually("the line of the end", func() bool {
		return log.with("a session has ended with locks or waits", "path="+testNode, "why=expired",
			"description=worker-7", "from=127.0.0.1:", "sdk=ydb-test/1", "semaphores=lock", "silent_ms=") == 1
	})
	ends := c.servers[leader].Figures().Group.Ends
	if c.servers[leader].group.Leads() && (ends.Sessions[0] != 1 || ends.Locks[0] != 1) {
		t.Errorf("counted: %v", ends)
	}
	_, err := Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[follower]).DropNode(t.Context(),
		&Ydb_Coordination.DropNodeRequest{Path: "/local/other"})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually("the line of the drop", func() bool {
		return log.with("msg=administration", "act=CoordinationService/DropNode", "target=/local/other",
			"from=127.0.0.1:") == 1
	})
	c.eventually("the history to have the drop", func() bool {
		found := askEvents(t, t.Context(), c.conns[follower], &adminpb.EventsRequest{Path: "/local/other"})
		return slices.Contains(eventWords(found.GetEvents()), "NODE_DROPPED /local/other 0")
	})

	for i := range c.servers {
		c.stop(i)
		asked := (i + 1) % len(c.servers)
		answer := askEvents(t, t.Context(), c.conns[asked], &adminpb.EventsRequest{})
		if words := eventWords(answer.GetEvents()); !slices.Contains(words, want) ||
			!strings.Contains(strings.Join(answer.GetUnknown(), "\n"), fmt.Sprint("server-", i)) {
			t.Errorf("without server %d: %q, unknown are %q", i, words, answer.GetUnknown())
		}
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range c.servers {
		answer := askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{Path: testNode, Session: session})
		if words := eventWords(answer.GetEvents()); !slices.Contains(words, want) {
			t.Errorf("server %d, after all were started anew: %q", i, words)
		}
		page := askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{Path: testNode, Limit: 1})
		rest := askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{Path: testNode,
			Before: page.GetEvents()[0]})
		all := askEvents(t, t.Context(), c.conns[i], &adminpb.EventsRequest{Path: testNode})
		if !page.GetMore() || len(rest.GetEvents())+1 != len(all.GetEvents()) {
			t.Errorf("server %d: 1 and %d events, %d in all", i, len(rest.GetEvents()), len(all.GetEvents()))
		}
	}
}

// TestEventRights: a caller sees the events of the nodes whose rows he may read, but neither who others are nor acts of
// administrators.
func TestEventRights(t *testing.T) {
	g := startGuarded(t, nil)
	g.permit(testNode, granting("bob", "ydb.granular.select_row"))
	g.permit(testNode, granting("alice", "ydb.granular.select_row", "ydb.granular.update_row"))
	stream, started := g.session("token-of-alice")
	defer stream.CloseSend()
	send(t, stream, wait(1, "lock"))
	next(t, stream)
	session := started.GetSessionStarted().GetSessionId()
	inspect := adminpb.NewInspectClient(g.conn)
	_, err := inspect.EndSession(g.as("token-of-root"), &adminpb.EndSessionRequest{Path: testNode, Session: session,
		Reason: "stuck"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the event", func() bool {
		found := askEvents(t, g.as("token-of-root"), g.conn, &adminpb.EventsRequest{Session: session})
		return len(found.GetEvents()) == 2
	})
	for token, want := range map[string]struct {
		acts, client bool
		reason       string
	}{"root": {true, true, "stuck"}, "alice": {false, true, "stuck"}, "bob": {false, false, ""}} {
		acts := 0
		for _, e := range askEvents(t, g.as("token-of-"+token), g.conn, &adminpb.EventsRequest{}).GetEvents() {
			switch e.GetKind() {
			case adminpb.Event_ADMINISTERED:
				acts++
			case adminpb.Event_SESSION_ENDED:
				if (e.GetClient() != nil) != want.client || e.GetReason() != want.reason {
					t.Errorf("%s sees %v", token, e)
				}
			}
		}
		if (acts > 0) != want.acts {
			t.Errorf("%s sees %d acts", token, acts)
		}
	}
	g.permit(testNode, revoking("bob", "ydb.granular.select_row"))
	if found := askEvents(t, g.as("token-of-bob"), g.conn, &adminpb.EventsRequest{}).GetEvents(); len(found) > 0 {
		t.Errorf("bob, who may not read any more, sees %v", found)
	}
}
