package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// guarded is a server that requires authentication, with an administrator root, a node, and access tokens:
// those of the file, each of the user that it names.
type guarded struct {
	*Server
	t      *testing.T
	conn   *grpc.ClientConn
	tokens string // the file
}

const rootPassword = "the password of root"

func startGuarded(t *testing.T, change func(*Config)) *guarded {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "# of the tests\ntoken-of-alice alice\ntoken-of-bob  bob\ntoken-of-root root\n\n")
	config := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, Auth: AuthRequired,
		TokenFile: tokens, InitialAdmin: "root", InitialAdminPassword: rootPassword,
		HoldStartFailureMillis: new(uint64), replaced: replaced{passwords: auth.NewCheapHasher(64)}}
	if change != nil {
		change(&config)
	}
	s, conn := serve(t, config)
	g := &guarded{s, t, conn, tokens}
	if got := g.createNode("token-of-root", testNode); got != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %v", got)
	}
	return g
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// as is a context with a token; an empty one is sent as such.
func (g *guarded) as(token string) context.Context {
	return metadata.AppendToOutgoingContext(g.t.Context(), "x-ydb-auth-ticket", token, "x-ydb-database",
		"/local")
}

func (g *guarded) createNode(token, path string) Ydb.StatusIds_StatusCode {
	g.t.Helper()
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).CreateNode(g.as(token),
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}

func (g *guarded) permit(path string, action *Ydb_Scheme.PermissionsAction) {
	g.t.Helper()
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).ModifyPermissions(g.as("token-of-root"),
		&Ydb_Scheme.ModifyPermissionsRequest{Path: path, Actions: []*Ydb_Scheme.PermissionsAction{action}})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		g.t.Fatalf("got %v, %v", answer, err)
	}
}

func granting(subject string, names ...string) *Ydb_Scheme.PermissionsAction {
	return &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Grant{
		Grant: &Ydb_Scheme.Permissions{Subject: subject, PermissionNames: names}}}
}

func revoking(subject string, names ...string) *Ydb_Scheme.PermissionsAction {
	return &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Revoke{
		Revoke: &Ydb_Scheme.Permissions{Subject: subject, PermissionNames: names}}}
}

func (g *guarded) login(name, password string) (string, *Ydb_Auth.LoginResponse) {
	g.t.Helper()
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(g.conn).Login(g.t.Context(),
		&Ydb_Auth.LoginRequest{User: name, Password: password})
	if err != nil {
		g.t.Fatal(err)
	}
	var result Ydb_Auth.LoginResult
	if answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
		if err := answer.GetOperation().GetResult().UnmarshalTo(&result); err != nil {
			g.t.Fatal(err)
		}
	}
	return result.GetToken(), answer
}

func (g *guarded) addUser(name, password string, administrator bool) {
	g.t.Helper()
	err := g.conn.Invoke(g.as("token-of-root"), "/"+adminpb.Users_ServiceDesc.ServiceName+"/Add",
		&adminpb.AddRequest{Name: name, Password: password, Administrator: administrator},
		new(adminpb.AddResponse))
	if err != nil {
		g.t.Fatal(err)
	}
}

// whoAmI returns the user of a token, or the gRPC error.
func (g *guarded) whoAmI(ctx context.Context) (*Ydb_Discovery.WhoAmIResult, error) {
	g.t.Helper()
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(g.conn).WhoAmI(ctx,
		&Ydb_Discovery.WhoAmIRequest{IncludeGroups: true})
	if err != nil {
		return nil, err
	}
	var result Ydb_Discovery.WhoAmIResult
	if answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		return &result, nil
	}
	return &result, answer.GetOperation().GetResult().UnmarshalTo(&result)
}

// session opens a stream with a token and returns it behind its SessionStarted, or with its Failure.
func (g *guarded) session(token string) (sessionClient, *Ydb_Coordination.SessionResponse) {
	g.t.Helper()
	stream := openTest(g.t, g.as(token), g.conn, start(1000*60))
	return stream, receive(g.t, stream)
}

// answerPing answers a message if it is a ping. The stream may have ended meanwhile, as the next message will show.
func answerPing(stream sessionClient, m *Ydb_Coordination.SessionResponse) {
	if ping := m.GetPing(); ping != nil {
		_ = stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
	}
}

// failureOf reads a stream, answering pings, until it fails, and checks that it ends with status OK.
func failureOf(t *testing.T, stream sessionClient) *Ydb_Coordination.SessionResponse_Failure {
	t.Helper()
	for {
		m := receive(t, stream)
		answerPing(stream, m)
		if failure := m.GetFailure(); failure != nil {
			if s := endOf(stream); s.Code() != codes.OK {
				t.Errorf("ended with %v", s)
			}
			return failure
		}
	}
}

func wantNoAccess(t *testing.T, failure *Ydb_Coordination.SessionResponse_Failure) {
	t.Helper()
	if failure.GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
		failure.GetIssues()[0].GetMessage() != "User has no access to the coordination node" {
		t.Errorf("got %v", failure)
	}
}
