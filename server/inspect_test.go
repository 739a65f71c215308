package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/inspect"
)

// listSessions reads all pages.
func listSessions(t *testing.T, ctx context.Context, conn *grpc.ClientConn,
	r *adminpb.PageRequest) (sessions []*adminpb.Session) {
	t.Helper()
	for {
		page, err := adminpb.NewInspectClient(conn).List(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, page.GetSessions()...)
		if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
			return sessions
		}
	}
}

// openAs opens a session whose client names itself.
func openAs(t *testing.T, conn *grpc.ClientConn, sdk, description string) (sessionClient, uint64) {
	t.Helper()
	r := start(600_000)
	r.Description = description
	stream := openTest(t, metadata.AppendToOutgoingContext(t.Context(), "x-ydb-sdk-build-info", sdk), conn, r)
	return stream, next(t, stream).GetSessionStarted().GetSessionId()
}

// TestInspectEverywhere finds, through each server of a cluster, who holds a lock, from where and since when,
// and who waits for it. It ends the holder through a follower: that is told that its session has expired, and
// the next one has the lock.
func TestInspectEverywhere(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.eventually("the servers to know each other's versions",
		func() bool { return c.servers[leader].group.FormatVersion() == codec.Version })
	c.createNode(leader, testNode)
	holder, held := openAs(t, c.conns[follower], "ydb-test/1[31m"+strings.Repeat("x", 200), "a worker\n")
	send(t, holder, wait(1, "lock"))
	next(t, holder)
	waiter, waits := openAs(t, c.conns[leader], "", "")
	send(t, waiter, wait(1, "lock"))
	next(t, waiter)

	for i, conn := range c.conns {
		inspect := adminpb.NewInspectClient(conn)
		nodes, err := inspect.List(t.Context(), &adminpb.PageRequest{Kind: adminpb.PageRequest_NODES})
		if err != nil || len(nodes.GetNodes()) != 1 || nodes.GetNodes()[0].GetPath() != testNode ||
			nodes.GetNodes()[0].GetSessions() != 2 {
			t.Fatalf("server %d: %v, %v", i, nodes, err)
		}
		semaphores, err := inspect.List(t.Context(),
			&adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, Path: testNode, Prefix: []byte("lo")})
		if err != nil || len(semaphores.GetSemaphores()) != 1 {
			t.Fatalf("server %d: %v, %v", i, semaphores, err)
		}
		lock := semaphores.GetSemaphores()[0]
		if string(lock.GetName()) != "lock" || !lock.GetEphemeral() || len(lock.GetOwners()) != 1 ||
			len(lock.GetWaiters()) != 1 ||
			lock.GetOwners()[0].GetSession() != held || lock.GetWaiters()[0].GetSession() != waits ||
			lock.GetOwners()[0].GetOrderId() == 0 ||
			time.Since(time.UnixMilli(int64(lock.GetOwners()[0].GetSinceMillis()))) > time.Hour {
			t.Errorf("server %d: %v", i, lock)
		}
		var sessions []*adminpb.Session
		c.eventually("the servers to answer each other in time", func() bool {
			sessions = listSessions(t, t.Context(), conn, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS})
			return len(sessions) == 2 && !slices.ContainsFunc(sessions,
				func(s *adminpb.Session) bool { return s.GetClient() == nil })
		})
		for _, s := range sessions {
			server, sdk, description, owned, awaited := leader, "", "", 0, 1
			if s.GetId() == held {
				server, sdk, description, owned, awaited = follower,
					"ydb-test/1[31m"+strings.Repeat("x", 114), "a worker", 1, 0
			}
			if !s.GetAttached() || s.GetServer() != fmt.Sprint("server-", server) ||
				s.GetDescription() != description || s.GetTimeoutMillis() != 600_000 ||
				!strings.HasPrefix(s.GetClient().GetAddress(), "127.0.0.1:") ||
				s.GetClient().GetSdk() != sdk || s.GetClient().GetSinceMillis() == 0 ||
				len(s.GetOwned()) != owned || len(s.GetAwaited()) != awaited {
				t.Errorf("server %d: %v", i, s)
			}
		}
	}

	// A server that does not answer takes nothing away but what only it knows.
	silent := c.servers[follower].inspect.Swap(nil)
	for _, s := range listSessions(t, t.Context(), c.conns[leader],
		&adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, Path: testNode, Session: held}) {
		if s.GetClient() != nil || s.GetClientUnknown() != fmt.Sprintf("server server-%d does not answer",
			follower) || !s.GetAttached() {
			t.Errorf("asked through the leader: %v", s)
		}
	}
	c.servers[follower].inspect.Store(silent)

	_, err := adminpb.NewInspectClient(c.conns[follower]).EndSession(t.Context(),
		&adminpb.EndSessionRequest{Path: testNode, Session: held, Reason: "stuck"})
	if err != nil {
		t.Fatal(err)
	}
	if failure := next(t, holder).GetFailure(); failure.GetStatus() != Ydb.StatusIds_SESSION_EXPIRED ||
		failure.GetIssues()[0].GetMessage() != "Session has expired" {
		t.Errorf("the holder is told %v", failure)
	}
	if r := next(t, waiter); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Errorf("the waiter is told %v", r)
	}
	sessions := listSessions(t, t.Context(), c.conns[follower],
		&adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, Path: testNode})
	if len(sessions) != 1 || sessions[0].GetId() != waits || len(sessions[0].GetOwned()) != 1 {
		t.Errorf("left are %v", sessions)
	}
	_, err = adminpb.NewInspectClient(c.conns[follower]).EndSession(t.Context(),
		&adminpb.EndSessionRequest{Path: testNode, Session: held})
	if status.Code(err) != codes.NotFound {
		t.Errorf("ended twice: %v", err)
	}
}

// TestInspectDetached shows since when nobody has a session, and how long it lives on.
func TestInspectDetached(t *testing.T) {
	_, conn := startTest(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	stream := openTest(t, ctx, conn, start(600_000))
	id := next(t, stream).GetSessionStarted().GetSessionId()
	leave()
	eventually(t, "the session to be without a client", func() bool {
		s := listSessions(t, t.Context(), conn, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS})[0]
		since := time.Since(time.UnixMilli(int64(s.GetDetachedMillis())))
		return s.GetId() == id && !s.GetAttached() && s.GetClient() == nil && s.GetServer() == "" &&
			since < time.Hour &&
			s.GetLeftMillis() > 500_000 && s.GetLeftMillis() <= 600_000
	})
}

// TestDeleteSemaphore deletes as the protocol does, by name and by id.
func TestDeleteSemaphore(t *testing.T) {
	_, conn := startTest(t, nil)
	stream := openSession(t, conn)
	create := func(name string) {
		t.Helper()
		send(t, stream,
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
				CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: name,
					Limit: 1}}})
		if r := next(t, stream).GetCreateSemaphoreResult(); r.GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Fatal(r)
		}
	}
	create("free")
	create("taken")
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: 2, Name: "taken",
				Count: 1}}})
	next(t, stream)
	send(t, stream, wait(3, "lock"))
	next(t, stream)
	for _, test := range []struct {
		request *adminpb.DeleteSemaphoreRequest
		want    codes.Code
	}{
		{&adminpb.DeleteSemaphoreRequest{Path: testNode}, codes.InvalidArgument},
		{&adminpb.DeleteSemaphoreRequest{Path: testNode, Name: []byte("free"), Id: 1}, codes.InvalidArgument},
		{&adminpb.DeleteSemaphoreRequest{Path: testNode, Name: []byte("none")}, codes.NotFound},
		{&adminpb.DeleteSemaphoreRequest{Path: "/local/none", Name: []byte("free")}, codes.NotFound},
		{&adminpb.DeleteSemaphoreRequest{Path: "/local/dir", Name: []byte("free")}, codes.NotFound},
		{&adminpb.DeleteSemaphoreRequest{Path: testNode, Name: []byte("taken")}, codes.FailedPrecondition},
		{&adminpb.DeleteSemaphoreRequest{Path: testNode, Name: []byte("lock"), Force: true},
			codes.FailedPrecondition}, {&adminpb.DeleteSemaphoreRequest{Path: testNode, Name: []byte("free")},
			codes.OK},
		{&adminpb.DeleteSemaphoreRequest{Path: testNode, Id: 2, Force: true}, codes.OK},
		{&adminpb.DeleteSemaphoreRequest{Path: testNode, Id: 2, Force: true}, codes.NotFound},
	} {
		if _, err := adminpb.NewInspectClient(conn).DeleteSemaphore(t.Context(),
			test.request); status.Code(err) != test.want {
			t.Errorf("%v: %v, want %s", test.request, err, test.want)
		}
	}
	left, err := adminpb.NewInspectClient(conn).List(t.Context(),
		&adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES})
	if err != nil || len(left.GetSemaphores()) != 1 || string(left.GetSemaphores()[0].GetName()) != "lock" {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestInspectPages reads everything in small pages, through gRPC.
func TestInspectPages(t *testing.T) {
	const semaphores, sessions = 700, 5
	_, conn := startTest(t, nil)
	streams := make([]sessionClient, sessions)
	for i := range streams {
		streams[i] = openSession(t, conn)
	}
	for i := range semaphores {
		send(t, streams[i%sessions], wait(uint64(i+1), fmt.Sprintf("lock/%03d", i)))
	}
	for i := range semaphores {
		next(t, streams[i%sessions])
	}
	for _, size := range []uint32{0, 1, 100, 256, 10_000} {
		r := &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, PageSize: size}
		held, pages := make(map[uint64]int), 0
		for {
			page, err := adminpb.NewInspectClient(conn).List(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			rows := 0
			for _, s := range page.GetSessions() {
				held[s.GetId()] += len(s.GetOwned())
				rows += 1 + len(s.GetOwned())
			}
			if pages++; rows > 256 {
				t.Errorf("size %d: a page of %d rows", size, rows)
			}
			if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
				break
			}
		}
		for id, n := range held {
			if n != semaphores/sessions {
				t.Errorf("size %d: session %d holds %d", size, id, n)
			}
		}
		if len(held) != sessions || pages < 3 {
			t.Errorf("size %d: %d sessions on %d pages", size, len(held), pages)
		}
	}
	for _, token := range []string{"x", "AQ", "AgEBAQEBAQ", "AQEBAQEBAQEB"} {
		if _, err := adminpb.NewInspectClient(conn).List(t.Context(),
			&adminpb.PageRequest{Kind: adminpb.PageRequest_NODES,
				PageToken: token}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("token %s: %v", token, err)
		}
	}
	for _, kind := range []adminpb.PageRequest_Kind{0, 5} {
		_, err := adminpb.NewInspectClient(conn).List(t.Context(), &adminpb.PageRequest{Kind: kind})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "want NODES") {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

// TestListsAreWhole: names and data come byte by byte, data up to the length asked for, and a page has few large
// ones.
func TestListsAreWhole(t *testing.T) {
	_, conn := startTest(t, nil)
	stream, _ := openAs(t, conn, "", "")
	const semaphores, each = 40, 128 << 10
	name := func(i int) string { return fmt.Sprintf("a\tb\x1b\x00%s/%d", strings.Repeat("n", 900), i) }
	data := []byte(strings.Repeat("\x00\xff\n ", each/4))
	for i := range semaphores {
		send(t, stream, create(uint64(i+1), name(i), data))
		next(t, stream)
	}
	for _, wanted := range []uint32{0, 1, each, 1 << 31} {
		r := &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, DataBytes: wanted}
		seen, pages := 0, 0
		for ; pages == 0 || r.PageToken != ""; pages++ {
			page, err := adminpb.NewInspectClient(conn).List(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.GetSemaphores() {
				if want := data[:min(len(data), int(wanted))]; string(s.GetName()) != name(seen) ||
					!bytes.Equal(s.GetData(), want) || s.GetDataBytes() != each {
					t.Fatalf("%d bytes wanted: semaphore %d is %.20q with %d bytes of %d", wanted, seen, s.GetName(),
						len(s.GetData()), s.GetDataBytes())
				}
				seen++
			}
			if size := proto.Size(page); size > 256*(16<<10)+each {
				t.Errorf("%d bytes wanted: a page has %d", wanted, size)
			}
			r.PageToken = page.GetNextPageToken()
		}
		if seen != semaphores || (pages > 1) != (wanted >= each) {
			t.Errorf("%d bytes wanted: %d semaphores on %d pages", wanted, seen, pages)
		}
	}
}

// TestOrderedLists: semaphores that are held or awaited come in the order and number asked for, with a mark
// if there are more.
func TestOrderedLists(t *testing.T) {
	s, conn := startTest(t, nil)
	first, holder := openAs(t, conn, "", "")
	for i, name := range []string{"b", "a", "c"} {
		send(t, first, wait(uint64(i+1), name))
		next(t, first)
	}
	send(t, first, create(4, "free", nil))
	next(t, first)
	second, waiter := openAs(t, conn, "", "")
	for i, name := range []string{"c", "a"} {
		send(t, second, wait(uint64(i+1), name))
		next(t, second)
	}
	ask := func(r *adminpb.PageRequest) (names string, page *adminpb.Page) {
		r.Kind = adminpb.PageRequest_SEMAPHORES
		s.inspect.Load().Boards = inspect.NewBoards(s.group) // the last one may be from before
		page, err := adminpb.NewInspectClient(conn).List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, sem := range page.GetSemaphores() {
			names += string(sem.GetName())
		}
		return names, page
	}
	for _, test := range []struct {
		request *adminpb.PageRequest
		names   string
		more    bool
	}{
		{&adminpb.PageRequest{Filter: adminpb.PageRequest_HELD}, "bac", false},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME}, "abc", false},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME, Path: testNode, Prefix: []byte("b")}, "b", false},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME, Path: testNode + "x"}, "", false},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME, PageSize: 2}, "ab", true},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME, Search: []byte("z")}, "", false},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME, Search: []byte(testNode)}, "abc", false},
		{&adminpb.PageRequest{Order: adminpb.PageRequest_NAME, PageSize: 3}, "abc", false},
	} {
		if names, page := ask(test.request); names != test.names || page.GetMore() != test.more {
			t.Errorf("%v: %q, more: %v", test.request, names, page.GetMore())
		}
	}
	names, page := ask(&adminpb.PageRequest{Order: adminpb.PageRequest_OLDEST_WAIT})
	lock := page.GetSemaphores()[0]
	if page.GetTotal() != 3 || len(names) != 3 || names[2] != 'b' || lock.GetOwners()[0].GetSession() != holder ||
		lock.GetWaiters()[0].GetSession() != waiter || len(page.GetSemaphores()[2].GetWaiters()) != 0 {
		t.Errorf("%q of %d: %v", names, page.GetTotal(), page)
	}
	if page.GetTimeMillis() < lock.GetOwners()[0].GetSinceMillis() || len(page.GetHolders()) != 3 {
		t.Errorf("at %d the holders are %v", page.GetTimeMillis(), page.GetHolders())
	}
	for _, s := range page.GetHolders() {
		if s.GetId() != holder || s.GetPath() != testNode || s.GetClient().GetAddress() == "" || len(s.GetOwned()) > 0 {
			t.Errorf("a holder is %v", s)
		}
	}
	for _, wrong := range []*adminpb.PageRequest{{Kind: adminpb.PageRequest_SEMAPHORES, Order: 4},
		{Kind: adminpb.PageRequest_SESSIONS, Order: adminpb.PageRequest_NAME},
		{Kind: adminpb.PageRequest_SEMAPHORES, Order: adminpb.PageRequest_NAME, PageToken: "x"}} {
		_, err := adminpb.NewInspectClient(conn).List(t.Context(), wrong)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "order: want") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// TestInspectRights: nobody sees, ends or deletes what he may not read or erase, and nobody but
// administrators sees who others are.
func TestInspectRights(t *testing.T) {
	g := startGuarded(t, nil)
	const other = "/local/other"
	if got := g.createNode("token-of-root", other); got != Ydb.StatusIds_SUCCESS {
		t.Fatal(got)
	}
	g.permit(testNode, granting("alice", "ydb.granular.select_row", "ydb.granular.update_row"))
	g.permit(testNode, granting("bob", "ydb.granular.select_row"))
	g.permit(other, granting("bob", "ydb.granular.erase_row"))
	stream, started := g.session("token-of-alice")
	defer stream.CloseSend()
	own := started.GetSessionStarted().GetSessionId()
	send(t, stream, wait(1, "lock"))
	next(t, stream)
	inspect := adminpb.NewInspectClient(g.conn)
	for token, want := range map[string]struct {
		paths  []string
		client bool
	}{
		"token-of-root":  {[]string{testNode, other}, true},
		"token-of-alice": {[]string{testNode}, true},
		"token-of-bob":   {[]string{testNode}, false},
	} {
		nodes, err := inspect.List(g.as(token), &adminpb.PageRequest{Kind: adminpb.PageRequest_NODES})
		var seen []string
		for _, n := range nodes.GetNodes() {
			seen = append(seen, n.GetPath())
		}
		if err != nil || !slices.Equal(seen, want.paths) {
			t.Errorf("%s sees nodes %v, %v", token, seen, err)
		}
		for _, path := range []string{testNode, other} {
			_, err := inspect.List(g.as(token), &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, Path: path})
			if got := status.Code(err); (got == codes.OK) != slices.Contains(want.paths, path) ||
				got != codes.OK && got != codes.NotFound {
				t.Errorf("%s lists %s: %v", token, path, err)
			}
		}
		sessions := listSessions(t, g.as(token), g.conn, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS})
		if len(sessions) != 1 || sessions[0].GetId() != own ||
			(sessions[0].GetClient() != nil) != want.client {
			t.Errorf("%s sees sessions %v", token, sessions)
		} else if c := sessions[0].GetClient(); c != nil &&
			(c.GetUser() != "alice" || c.GetAddress() == "") || c == nil &&
			sessions[0].GetClientUnknown() == "" {
			t.Errorf("%s sees the client %v, unknown because of %q", token, c, sessions[0].GetClientUnknown())
		}
	}
	g.permit(testNode, revoking("bob", "ydb.granular.select_row"))
	for token, want := range map[string]struct{ seen, total int }{"token-of-root": {1, 1}, "token-of-alice": {1, 0},
		"token-of-bob": {0, 0}} {
		page, err := inspect.List(g.as(token), &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES,
			Order: adminpb.PageRequest_NAME})
		if err != nil || len(page.GetSemaphores()) != want.seen || page.GetTotal() != uint64(want.total) {
			t.Errorf("%s sees the board %v, %v", token, page, err)
		}
	}
	g.permit(testNode, granting("bob", "ydb.granular.select_row"))
	for _, test := range []struct {
		token, path string
		want        codes.Code
	}{
		{"", testNode, codes.Unauthenticated},
		{"token-of-alice", testNode, codes.PermissionDenied},
		{"token-of-alice", other, codes.NotFound},
		{"token-of-bob", testNode, codes.PermissionDenied},
		{"token-of-bob", other, codes.NotFound}, // he may, but there is no such session
		{"token-of-root", other, codes.NotFound},
		{"token-of-root", testNode, codes.OK},
	} {
		_, err := inspect.EndSession(g.as(test.token),
			&adminpb.EndSessionRequest{Path: test.path, Session: own})
		if got := status.Code(err); got != test.want {
			t.Errorf("%q ends the session of %s: %v, want %s", test.token, test.path, err, test.want)
		}
	}
	for token, want := range map[string]codes.Code{"token-of-alice": codes.PermissionDenied,
		"token-of-bob": codes.PermissionDenied, "token-of-root": codes.NotFound} {
		if _, err := inspect.DeleteSemaphore(g.as(token),
			&adminpb.DeleteSemaphoreRequest{Path: testNode, Id: 1}); status.Code(err) != want {
			t.Errorf("%s deletes: %v, want %s", token, err, want)
		}
	}
}

// TestInspectIsForLocalCallers is whom the service serves.
func TestInspectIsForLocalCallers(t *testing.T) {
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{Listen: "127.0.0.1:0"}, InspectOn},
		{Config{Listen: "[::1]:0"}, InspectOn},
		{Config{Listen: "localhost:0"}, InspectOn},
		{Config{Listen: ":0"}, InspectLocal},
		{Config{Listen: "0.0.0.0:0"}, InspectLocal},
		{Config{Listen: "db.example:0"}, InspectLocal},
		{Config{Listen: "127.0.0.1:0", ListenTLS: ":0"}, InspectLocal},
		{Config{Listen: ":0", Auth: AuthRequired}, InspectOn},
		{Config{Listen: ":0", Inspect: InspectOn}, InspectOn},
		{Config{Listen: "127.0.0.1:0", Inspect: InspectOff}, InspectOff},
	} {
		if got := test.config.inspectMode(); got != test.want {
			t.Errorf("%s, %s, auth %q, inspect %q: %s, want %s", test.config.Listen, test.config.ListenTLS,
				test.config.Auth, test.config.Inspect, got, test.want)
		}
	}
	from := func(address netAddr) context.Context {
		return peer.NewContext(t.Context(), &peer.Peer{Addr: address.addr()})
	}
	for mode, served := range map[string]map[netAddr]bool{
		InspectOff:   {"127.0.0.1": false, "::1": false, "192.0.2.1": false, "": false},
		InspectLocal: {"127.0.0.1": true, "::1": true, "192.0.2.1": false, "": true},
		InspectOn:    {"127.0.0.1": true, "::1": true, "192.0.2.1": true, "": true},
	} {
		s := &Server{config: Config{Inspect: mode}, auth: &auth.Authenticator{}}
		for address, want := range served {
			if err := s.inspects(from(address)); (err == nil) != want || err != nil &&
				status.Code(err) != codes.PermissionDenied {
				t.Errorf("inspect=%s from %q: %v", mode, address, err)
			}
		}
	}
	_, conn := startTest(t, func(c *Config) { c.Inspect = InspectOff })
	for method, call := range map[string]func(adminpb.InspectClient) error{
		"List": func(c adminpb.InspectClient) error {
			_, err := c.List(t.Context(), &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS})
			return err
		},
		"EndSession": func(c adminpb.InspectClient) error {
			_, err := c.EndSession(t.Context(), &adminpb.EndSessionRequest{Path: testNode, Session: 1})
			return err
		},
		"DeleteSemaphore": func(c adminpb.InspectClient) error {
			_, err := c.DeleteSemaphore(t.Context(), &adminpb.DeleteSemaphoreRequest{Path: testNode, Id: 1})
			return err
		},
	} {
		if err := call(adminpb.NewInspectClient(conn)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := (Config{Listen: ":0", Database: "/local", InMemory: true,
		Inspect: "yes"}).Validate(); err == nil {
		t.Error("inspect=yes is allowed")
	}
}

// netAddr is an IP address, empty for the administrator's socket.
type netAddr string

func (a netAddr) addr() net.Addr {
	if a == "" {
		return &net.UnixAddr{Net: "unix"}
	}
	return &net.TCPAddr{IP: net.ParseIP(string(a))}
}
