package server

import (
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc/codes"

	"github.com/coordd/coordd/server/adminpb"
)

// TestRights covers a denied and a granted session, and reads.
func TestRights(t *testing.T) {
	g := startGuarded(t, nil)
	stream, first := g.session("token-of-alice")
	wantNoAccess(t, first.GetFailure())
	if s := endOf(stream); s.Code() != codes.OK {
		t.Errorf("ended with %v", s)
	}
	coordinationClient, schemeClient := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn),
		Ydb_Scheme_V1.NewSchemeServiceClient(g.conn)
	describe := func() []Ydb.StatusIds_StatusCode {
		node, err := coordinationClient.DescribeNode(g.as("token-of-alice"),
			&Ydb_Coordination.DescribeNodeRequest{Path: testNode})
		if err != nil {
			t.Fatal(err)
		}
		path, err := schemeClient.DescribePath(g.as("token-of-alice"),
			&Ydb_Scheme.DescribePathRequest{Path: testNode})
		if err != nil {
			t.Fatal(err)
		}
		list, err := schemeClient.ListDirectory(g.as("token-of-alice"),
			&Ydb_Scheme.ListDirectoryRequest{Path: "/local/dir"})
		if err != nil {
			t.Fatal(err)
		}
		return []Ydb.StatusIds_StatusCode{node.GetOperation().GetStatus(), path.GetOperation().GetStatus(),
			list.GetOperation().GetStatus()}
	}
	for _, got := range describe() {
		if got != Ydb.StatusIds_UNAUTHORIZED {
			t.Errorf("got %v", got)
		}
	}
	if got := g.createNode("token-of-alice", "/local/dir/hers"); got != Ydb.StatusIds_UNAUTHORIZED {
		t.Errorf("got %v", got)
	}
	g.permit("/local/dir", granting("alice", "ydb.generic.read", "ydb.granular.create_table"))
	for _, got := range describe() {
		if got != Ydb.StatusIds_SUCCESS {
			t.Errorf("got %v", got)
		}
	}
	if got := g.createNode("token-of-alice", "/local/dir/hers"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
	stream, first = g.session("token-of-alice")
	if first.GetSessionStarted() == nil {
		t.Fatalf("got %v", first)
	}
	receive(t, stream) // the ping
	send(t, stream, acquire(7, "lock", nil))
	if got := receive(t, stream).GetAcquireSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
		got.GetIssues()[0].GetMessage() != "Write permission denied" {
		t.Errorf("got %v", got)
	}
}

// TestExistenceIsNoSecret: a caller without any right learns the same of paths as from YDB.
func TestExistenceIsNoSecret(t *testing.T) {
	g := startGuarded(t, nil)
	client := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn)
	for path, want := range map[string]Ydb.StatusIds_StatusCode{
		testNode: Ydb.StatusIds_UNAUTHORIZED, "/local/dir": Ydb.StatusIds_UNAUTHORIZED,
		"/local/dir/none": Ydb.StatusIds_SCHEME_ERROR,
	} {
		answer, err := client.DescribeNode(g.as("token-of-alice"),
			&Ydb_Coordination.DescribeNodeRequest{Path: path})
		if err != nil || answer.GetOperation().GetStatus() != want {
			t.Errorf("describe %s: got %v, %v, want %s", path, answer, err, want)
		}
	}
	answer, err := client.CreateNode(g.as("token-of-alice"),
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/dir/a/b"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
		!strings.Contains(answer.String(), "/local/dir") ||
		strings.Contains(answer.String(), "/local/dir/a") {
		t.Errorf("create: got %v, %v", answer, err)
	}
}

// TestSessionOfAnother attaches sessions of users who have logged in and of those who show tokens of the
// file, as others who may only read, and as those who are new under the name.
func TestSessionOfAnother(t *testing.T) {
	g := startGuarded(t, nil)
	for _, name := range []string{"alice", "bob", "carol"} {
		g.permit(testNode, granting(name, "ydb.generic.read"))
	}
	g.addUser("carol", "first", false)
	g.addUser("alice", "first", false)
	login := func(name string) string {
		t.Helper()
		token, _ := g.login(name, "first")
		return token
	}
	attach := func(token string, session uint64) (sessionClient, *Ydb_Coordination.SessionResponse) {
		t.Helper()
		request := start(1000 * 60)
		request.SessionId, request.SeqNo = session, session // higher than the first
		stream := openTest(t, g.as(token), g.conn, request)
		return stream, receive(t, stream)
	}
	begin := func(token string) uint64 {
		t.Helper()
		_, first := g.session(token)
		if first.GetSessionStarted() == nil {
			t.Fatalf("got %v", first)
		}
		return first.GetSessionStarted().GetSessionId()
	}
	refused := func(token string, session uint64) {
		t.Helper()
		stream, first := attach(token, session)
		wantNoAccess(t, first.GetFailure())
		endOf(stream)
	}
	accepted := func(token string, session uint64) {
		t.Helper()
		if _, first := attach(token, session); first.GetSessionStarted().GetSessionId() != session {
			t.Errorf("got %v", first)
		}
	}

	ofToken := begin("token-of-alice")
	refused("token-of-bob", ofToken)
	refused(login("alice"), ofToken)
	accepted("token-of-alice", ofToken)

	carol := login("carol")
	ofLogin := begin(carol)
	refused("token-of-bob", ofLogin)
	accepted(login("carol"), ofLogin) // another token of the same user
	err := g.conn.Invoke(g.as("token-of-root"), "/"+adminpb.Users_ServiceDesc.ServiceName+"/Remove",
		&adminpb.RemoveRequest{Name: "carol"}, new(adminpb.RemoveResponse))
	if err != nil {
		t.Fatal(err)
	}
	g.addUser("carol", "first", false)
	refused(login("carol"), ofLogin)
	accepted("token-of-root", ofLogin)
}
