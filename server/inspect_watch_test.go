package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
)

type eventClient = grpc.ServerStreamingClient[adminpb.Event]

// watchTest begins to watch and returns the first event, behind which the others come.
func watchTest(t *testing.T, ctx context.Context, conn *grpc.ClientConn,
	r *adminpb.WatchRequest) (eventClient, *adminpb.Event) {
	t.Helper()
	stream, err := adminpb.NewInspectClient(conn).Watch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return stream, first
}

// eventsUntil returns the events of a stream as short words, up to and with the one that is given.
func eventsUntil(t *testing.T, stream eventClient, last string) (words []string) {
	t.Helper()
	for {
		e, err := stream.Recv()
		if err != nil {
			t.Fatalf("behind %q: %v", words, err)
		}
		word := fmt.Sprintf("%s %d", e.GetKind(), e.GetSession())
		if len(e.GetSemaphore()) > 0 {
			word += " " + string(e.GetSemaphore())
		}
		if e.GetReason() != "" {
			word += fmt.Sprintf(" by %q: %s", e.GetUser(), e.GetReason())
		}
		if words = append(words, word); word == last {
			return words
		}
		if e.GetTimeMillis() == 0 || e.GetSequence() == 0 || e.GetRing() == 0 {
			t.Errorf("incomplete: %v", e)
		}
	}
}

// TestWatchEverywhere watches a lock change hands, at each server of a cluster.
func TestWatchEverywhere(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.eventually("the servers to know each other's versions",
		func() bool { return c.servers[leader].group.FormatVersion() == codec.Version })
	c.createNode(leader, testNode)
	c.createNode(leader, "/local/other")
	var streams []eventClient
	for i := range c.conns {
		stream, first := watchTest(t, t.Context(), c.conns[i], &adminpb.WatchRequest{Path: testNode})
		if first.GetKind() != adminpb.Event_BEGIN || first.GetRing() == 0 {
			t.Fatal(first)
		}
		streams = append(streams, stream)
	}
	term := func(i int) uint64 {
		s, err := c.servers[i].group.Log().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Term
	}
	before := term(leader)
	holder, held := openAs(t, c.conns[follower], "", "")
	send(t, holder, wait(1, "lock"))
	next(t, holder)
	waiter, waits := openAs(t, c.conns[leader], "", "")
	send(t, waiter, wait(1, "lock"))
	next(t, waiter)
	_, err := adminpb.NewInspectClient(c.conns[follower]).EndSession(t.Context(),
		&adminpb.EndSessionRequest{Path: testNode, Session: held, Reason: "stuck"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprint("SESSION_STARTED ", held), fmt.Sprintf("LOCK_GRANTED %d lock", held),
		fmt.Sprint("SESSION_STARTED ", waits), fmt.Sprintf("LOCK_AWAITED %d lock", waits),
		fmt.Sprintf(`SESSION_ENDED %d by "": stuck`, held), fmt.Sprintf("LOCK_LOST %d lock", held),
		fmt.Sprintf("LOCK_GRANTED %d lock", waits),
	}
	for i, stream := range streams {
		got := eventsUntil(t, stream, want[len(want)-1])
		if term(leader) != before { // a new leader begins with detached sessions
			got = slices.DeleteFunc(got, func(word string) bool { return strings.HasPrefix(word, "SESSION_DETACHED ") })
		}
		if !slices.Equal(got, want) {
			t.Errorf("server %d tells\n%q, want\n%q", i, got, want)
		}
	}

	if r := next(t, waiter); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatal(r)
	}

	// What was missed is told, as long as the server has it.
	ctx, leave := context.WithCancel(t.Context())
	_, first := watchTest(t, ctx, c.conns[follower], &adminpb.WatchRequest{})
	leave()
	send(t, waiter, release(2, "lock"))
	if r := next(t, waiter); !r.GetReleaseSemaphoreResult().GetReleased() {
		t.Fatal(r)
	}
	stream, again := watchTest(t, t.Context(), c.conns[follower],
		&adminpb.WatchRequest{Ring: first.GetRing(), Sequence: first.GetSequence()})
	if again.GetKind() != adminpb.Event_BEGIN || again.GetSequence() != first.GetSequence() {
		t.Errorf("begins with %v, left off with %v", again, first)
	}
	got := eventsUntil(t, stream, fmt.Sprintf("LOCK_LOST %d lock", waits))
	if len(got) != 1 && term(leader) == before { // else there may be a new leader among them
		t.Errorf("missed: %q", got)
	}
	// That there is another ring now is told, too.
	if _, first := watchTest(t, t.Context(), c.conns[follower],
		&adminpb.WatchRequest{Ring: again.GetRing() + 1, Sequence: 5}); first.GetKind() != adminpb.Event_GAP {
		t.Errorf("another ring begins with %v", first)
	}

	// The leader stops: its watchers are told, and the others of the next leader. If the leader still leads in
	// the term of the follower, whose watch has begun, then nothing has been told of the next one yet.
	for {
		leader, follower = c.leader()
		stream, _ = watchTest(t, t.Context(), c.conns[follower], &adminpb.WatchRequest{})
		if c.servers[leader].group.Leads() && term(leader) == term(follower) {
			break
		}
	}
	c.stop(leader)
	for err = nil; err == nil; {
		_, err = streams[leader].Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a server that stops ends the watch with %v", err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetKind() == adminpb.Event_LEADER && e.GetServer() != "" &&
			e.GetServer() != fmt.Sprint("server-", leader) && e.GetTerm() != 0 {
			break
		}
	}
}

// TestWatchRights: everything is for administrators, a node for whoever may read its rows, and only as long
// as he may.
func TestWatchRights(t *testing.T) {
	g := startGuarded(t, nil)
	g.permit(testNode, granting("bob", "ydb.granular.select_row"))
	g.permit(testNode, granting("alice", "ydb.granular.select_row", "ydb.granular.update_row"))
	for _, test := range []struct {
		token, path string
		want        codes.Code
	}{
		{"", testNode, codes.Unauthenticated},
		{"token-of-alice", "", codes.PermissionDenied},
		{"token-of-alice", "/local/none", codes.NotFound},
		{"token-of-alice", "/local/dir", codes.NotFound},
		{"token-of-alice", testNode, codes.OK},
		{"token-of-bob", testNode, codes.OK},
		{"token-of-root", "", codes.OK},
	} {
		ctx, leave := context.WithCancel(g.as(test.token))
		stream, err := adminpb.NewInspectClient(g.conn).Watch(ctx, &adminpb.WatchRequest{Path: test.path})
		if err == nil {
			_, err = stream.Recv()
		}
		if got := status.Code(err); got != test.want {
			t.Errorf("%q watches %q: %v, want %s", test.token, test.path, err, test.want)
		}
		leave()
	}
	all, _ := watchTest(t, g.as("token-of-root"), g.conn, &adminpb.WatchRequest{})
	bobs, _ := watchTest(t, g.as("token-of-bob"), g.conn, &adminpb.WatchRequest{Path: testNode})
	g.permit(testNode, revoking("bob", "ydb.granular.select_row"))
	stream, started := g.session("token-of-alice")
	defer stream.CloseSend()
	own := started.GetSessionStarted().GetSessionId()
	if e, err := bobs.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("bob, who may not read any more, is told %v, %v", e, err)
	}
	eventsUntil(t, all, fmt.Sprint("SESSION_STARTED ", own))
}

// TestWatchOfADroppedNode watches a node go with its sessions: that is one event, and it says where the node
// was.
func TestWatchOfADroppedNode(t *testing.T) {
	s, conn := startTest(t, nil)
	stream, _ := watchTest(t, t.Context(), conn, &adminpb.WatchRequest{})
	for range 3 {
		openAs(t, conn, "", "")
	}
	_, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DropNode(t.Context(),
		&Ydb_Coordination.DropNodeRequest{Path: testNode})
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetKind() == adminpb.Event_NODE_DROPPED {
			if e.GetPath() != testNode || e.GetCount() != 3 || e.GetNode() == 0 || e.GetTimeMillis() == 0 {
				t.Errorf("got %v", e)
			}
			break
		}
	}
	if got := s.group.Figures().Counts.Sessions; got != 0 {
		t.Errorf("%d sessions are left", got)
	}
}

// TestWatchTellsTraces has clients come as part of a trace, to each server of a cluster: the one that holds
// the stream tells of it, and no other. What is no traceparent is not told.
func TestWatchTellsTraces(t *testing.T) {
	const parent, strange = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-\x01\x01"
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	var streams []eventClient
	for i := range c.conns {
		stream, _ := watchTest(t, t.Context(), c.conns[i], &adminpb.WatchRequest{Path: testNode})
		streams = append(streams, stream)
	}
	sent := map[int]string{leader: parent, follower: parent + "-later"}
	for at, text := range sent {
		for _, trace := range []string{strange[:40], strings.Replace(strange, "\x01", "G", 2),
			strings.ToUpper(parent), text} {
			stream := openTest(t, metadata.AppendToOutgoingContext(t.Context(), "traceparent", trace),
				c.conns[at], start(600_000))
			next(t, stream)
		}
	}
	last, session := openAs(t, c.conns[leader], "", "")
	send(t, last, wait(1, "lock"))
	next(t, last)
	for i, stream := range streams {
		traced := 0
		for {
			e, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if e.GetKind() == adminpb.Event_SESSION_TRACED {
				if traced++; e.GetTraceparent() != parent || e.GetSession() == 0 || e.GetPath() != testNode ||
					e.GetTimeMillis() == 0 {
					t.Errorf("server %d: got %v", i, e)
				}
			}
			if e.GetKind() == adminpb.Event_LOCK_GRANTED && e.GetSession() == session {
				break
			}
		}
		if want := min(1, len(sent[i])); traced != want {
			t.Errorf("server %d tells of %d traces, want %d", i, traced, want)
		}
	}
}
