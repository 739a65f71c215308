package server

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/coordd/coordd/server/adminpb"
)

// TestConsoleEndsWhatWasSeen ends a session by the lock that it was shown with. Once that is another way the act is
// refused, and nothing has happened. The reason is in the log.
func TestConsoleEndsWhatWasSeen(t *testing.T) {
	var log logText
	s, conn := startTest(t, func(config *Config) {
		withConsole(config)
		config.Logger = log.logger()
	})
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	b := signedIn(t, s)
	see := func() (*adminpb.Semaphore, *adminpb.Session) {
		t.Helper()
		locks, sessions := &adminpb.Page{}, &adminpb.Page{}
		b.call(adminpb.Inspect_List_FullMethodName, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES}, locks)
		b.call(adminpb.Inspect_List_FullMethodName, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS}, sessions)
		if len(locks.GetSemaphores()) != 1 || len(sessions.GetSessions()) != 1 {
			t.Fatalf("%v, %v", locks, sessions)
		}
		return locks.GetSemaphores()[0], sessions.GetSessions()[0]
	}
	acquireNext := func(id uint64) {
		t.Helper()
		send(t, stream, acquire(id, "lock", nil))
		next(t, stream)
	}
	acquireNext(1)
	lock, session := see()
	end := &adminpb.EndSessionRequest{Path: testNode, Session: session.GetId(), Reason: "it hangs",
		Semaphore: lock.GetId(), OrderId: lock.GetOwners()[0].GetOrderId(), Attachment: session.GetAttachment()}
	body := func() string {
		text, err := protojson.Marshal(end)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	send(t, stream, release(2, "lock"))
	next(t, stream)
	b.want(endPath, body(), http.StatusPreconditionFailed, "the session has given the semaphore up")
	acquireNext(3)
	b.want(endPath, body(), http.StatusPreconditionFailed, "It has changed since")

	lock, _ = see()
	b.want("/api"+adminpb.Inspect_DeleteSemaphore_FullMethodName,
		fmt.Sprintf(`{"path":%q,"id":"%d","force":true,"reason":"stale","ownerOrderId":"0"}`, testNode, lock.GetId()),
		http.StatusPreconditionFailed, "It has changed since: another session owns the semaphore, or none")
	end.Semaphore, end.OrderId, end.Attachment = lock.GetId(), lock.GetOwners()[0].GetOrderId(), "none"
	b.want(endPath, body(), http.StatusPreconditionFailed, "a client has attached to the session, or has gone")
	end.Attachment = session.GetAttachment()
	b.want(endPath, body(), http.StatusOK, "{}")
	if f := next(t, stream).GetFailure(); f == nil {
		t.Error("the session goes on")
	}
	b.want(endPath, body(), http.StatusPreconditionFailed, "It has changed since")
	if text := log.String(); !strings.Contains(text, `because of \"it hangs\"`) ||
		!strings.Contains(text, "act=Inspect/EndSession") {
		t.Errorf("the reason is not in the log:\n%s", text)
	}
}

// TestConsoleKnowsClientsAfterARestart: a session that was seen before its server was started again has another client
// now, by a stream that is as young as the former one was.
func TestConsoleKnowsClientsAfterARestart(t *testing.T) {
	onDisk := Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: t.TempDir(), LoopbackAdmin: true,
		replaced: replaced{keepalive: waitMax}}
	withConsole(&onDisk)
	s, conn := startTest(t, func(c *Config) { *c = onDisk })
	begin := start(60_000)
	begin.SessionId = next(t, openTest(t, t.Context(), conn, begin)).GetSessionStarted().GetSessionId()
	page := &adminpb.Page{}
	signedIn(t, s).call(adminpb.Inspect_List_FullMethodName,
		&adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS}, page)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, conn = serve(t, onDisk)
	next(t, openTest(t, t.Context(), conn, begin))
	signedIn(t, s).want(endPath, fmt.Sprintf(`{"path":%q,"session":"%d","reason":"it hangs","attachment":%q}`,
		testNode, begin.GetSessionId(), page.GetSessions()[0].GetAttachment()), http.StatusPreconditionFailed,
		"a client has attached to the session")
}

// TestConsoleHandsOver hands the leadership over as long as the leader is the one that the page showed.
func TestConsoleHandsOver(t *testing.T) {
	c := startClusterWith(t, 3, withConsole)
	c.leadWith(0)
	b := signedIn(t, c.servers[1])
	servers := &adminpb.ServersResponse{}
	c.eventually("all servers to answer in time", func() bool {
		b.call(adminpb.Console_Servers_FullMethodName, &adminpb.ServersRequest{}, servers)
		return len(servers.GetServers()) == 3 && !slices.ContainsFunc(servers.GetServers(),
			func(s *adminpb.Server) bool { return s.GetUnknown() != "" })
	})
	for i, server := range servers.GetServers() {
		if server.GetName() != fmt.Sprint("server-", i) || server.GetStatus() == nil ||
			server.GetStartedMillis() == 0 {
			t.Errorf("server %d: %v", i, server)
		}
	}
	transfer := "/api" + adminpb.Cluster_TransferLeader_FullMethodName
	request := fmt.Sprintf(`{"to":"server-2","reason":"maintenance","term":"%d"}`,
		servers.GetServers()[0].GetStatus().GetTerm())
	b.want(transfer, request, http.StatusOK, "leader")
	c.eventually("another leader", func() bool { return c.servers[2].Leads() })
	b.want(transfer, request, http.StatusPreconditionFailed, "It has changed since: server-2 leads")
	c.stop(0)
	b.call(adminpb.Console_Servers_FullMethodName, &adminpb.ServersRequest{}, servers)
	if got := servers.GetServers()[0]; got.GetUnknown() != "server server-0 does not answer" {
		t.Errorf("a server that is down: %v", got)
	}
}

// TestConsoleIsTold: a page that waits for changes learns of the first, and which of its views it is in.
func TestConsoleIsTold(t *testing.T) {
	s, conn := startTest(t, withConsole)
	b := signedIn(t, s)
	semaphores, resources := `{"kind":"SEMAPHORES"}`, `{"kind":"RESOURCES"}`
	have := func(request string) string {
		answer, _ := b.ask(listPath, request)
		return answer.Header.Get(versionOfAnswer)
	}
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	view := func(request, have string) string {
		return fmt.Sprintf(`{"method":%q,"request":%s,"have":%q}`, adminpb.Inspect_List_FullMethodName, request, have)
	}
	waits := fmt.Sprintf(`{"views":[%s,%s]}`, view(resources, have(resources)), view(semaphores, have(semaphores)))
	told := make(chan string)
	go func() {
		_, text := b.ask("/api/live", waits)
		told <- text
	}()
	send(t, stream, acquire(1, "lock", nil))
	next(t, stream)
	if got := <-told; got != `{"changed":[1]}` {
		t.Errorf("got %s", got)
	}
	for _, body := range []string{`{}`, `{"views":[{}]}`, `{"views":[` + strings.Repeat(view(resources, "")+",", 8) +
		view(resources, "") + `]}`,
		fmt.Sprintf(`{"views":[{"method":%q}]}`, adminpb.Inspect_EndSession_FullMethodName)} {
		b.want("/api/live", body, http.StatusBadRequest, "live: want")
	}
}

const versionOfAnswer = "X-Coordd-Version"

// TestUsualHoldOfALock: a lock whose last holders are known has their usual time in the lists of the console.
func TestUsualHoldOfALock(t *testing.T) {
	s, conn := startTest(t, withConsole)
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	for n := range uint64(6) {
		send(t, stream, acquire(2*n+1, "lock", nil))
		next(t, stream)
		if n < 5 {
			send(t, stream, release(2*n+2, "lock"))
			next(t, stream)
		}
	}
	page := &adminpb.Page{}
	signedIn(t, s).call(adminpb.Inspect_List_FullMethodName, &adminpb.PageRequest{
		Kind: adminpb.PageRequest_SEMAPHORES, Order: adminpb.PageRequest_LONGEST_HELD}, page)
	if locks := page.GetSemaphores(); len(locks) != 1 || locks[0].GetUsualMillis() == 0 {
		t.Errorf("got %v", locks)
	}
}

// TestConsoleDeletesWhatNobodyOwns races deletions of a semaphore that nobody owned with a session that takes it: one
// of the two is refused, with force as well.
func TestConsoleDeletesWhatNobodyOwns(t *testing.T) {
	s, conn := startTest(t, withConsole)
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	b := signedIn(t, s)
	deletion := "/api" + adminpb.Inspect_DeleteSemaphore_FullMethodName
	for i := range uint64(100) {
		name := fmt.Sprint("lock-", i)
		send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 3 * i, Name: name, Limit: 1}}})
		next(t, stream)
		answered := make(chan int)
		go func() {
			answer, _ := b.ask(deletion, fmt.Sprintf(
				`{"path":%q,"name":%q,"force":true,"ownerOrderId":"0","reason":"stale"}`, testNode,
				base64.StdEncoding.EncodeToString([]byte(name))))
			answered <- answer.StatusCode
		}()
		time.Sleep(rand.N(2 * time.Millisecond)) // anywhere in the deletion
		send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: 3*i + 1, Name: name, Count: 1}}})
		taken := next(t, stream).GetAcquireSemaphoreResult().GetAcquired()
		if code := <-answered; taken == (code == http.StatusOK) {
			t.Fatalf("round %d: taken %t, and the deletion is answered with %d", i, taken, code)
		}
	}
}
