package server

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/services"
)

// newGuardedCluster is three servers that require authentication, with the tokens of guarded.
func newGuardedCluster(t *testing.T, more ...func(*Config)) *testCluster {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "token-of-alice alice\ntoken-of-root root\n")
	return startClusterWith(t, 3, func(c *Config) {
		c.Auth, c.TokenFile, c.replaced.passwords = AuthRequired, tokens, auth.NewCheapHasher(64)
		c.InitialAdmin, c.InitialAdminPassword, c.LoopbackAdmin = "root", rootPassword, false
		for _, change := range more {
			change(c)
		}
	})
}

// callersLogged counts the commands of calls that a server has executed, by the user that called.
type callersLogged struct {
	mutex sync.Mutex
	of    map[string]int
}

func (c *callersLogged) executed(_ *coordination.Machine, e *coordination.Entry) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, command := range e.Commands {
		if _, is := coordination.CallOf(command); is {
			c.of[reflect.ValueOf(command).Elem().FieldByName("Caller").FieldByName("Subject").String()]++
		}
	}
}

func (c *callersLogged) commandsBy(user string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.of[user]
}

func withToken(t *testing.T, token string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "x-ydb-auth-ticket", token, "x-ydb-database", "/local")
}

// lastIndex is the index of the last entry that a server has applied.
func lastIndex(t *testing.T, s *Server) (last coordination.Index) {
	t.Helper()
	if err := s.group.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.group.Read(t.Context(), func(m *coordination.Machine) outcome.Outcome {
		last = m.Index()
		return outcome.Done()
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// TestRefusedNeverLogged makes every call that changes something, as somebody without a right: nothing of it
// comes into the log, whether the server leads or not.
func TestRefusedNeverLogged(t *testing.T) {
	logged := make(map[string]*callersLogged)
	for i := range 3 {
		logged[fmt.Sprint("server-", i)] = &callersLogged{of: make(map[string]int)}
	}
	c := newGuardedCluster(t, func(c *Config) { c.hooks.Executed = logged[c.Cluster.Name].executed })
	leader, follower := c.leader()
	root := withToken(t, "token-of-root")
	if _, err := (Ydb_Scheme_V1.NewSchemeServiceClient(c.conns[leader])).MakeDirectory(root,
		&Ydb_Scheme.MakeDirectoryRequest{Path: "/local/dir"}); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 900_000)
	const coordinationService, schemeService = "/Ydb.Coordination.V1.CoordinationService/",
		"/Ydb.Scheme.V1.SchemeService/"
	const limiter, users = "/Ydb.RateLimiter.V1.RateLimiterService/", "/coordd.admin.v1.Users/"
	resource := &Ydb_RateLimiter.Resource{ResourcePath: long,
		Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{
			MaxUnitsPerSecond: 1}}}
	requests := map[string]proto.Message{
		coordinationService + "CreateNode": &Ydb_Coordination.CreateNodeRequest{Path: "/local/dir/" + long},
		coordinationService + "AlterNode":  &Ydb_Coordination.AlterNodeRequest{Path: "/local/" + long},
		coordinationService + "DropNode":   &Ydb_Coordination.DropNodeRequest{Path: "/local/" + long},
		schemeService + "MakeDirectory":    &Ydb_Scheme.MakeDirectoryRequest{Path: "/local/" + long},
		schemeService + "RemoveDirectory":  &Ydb_Scheme.RemoveDirectoryRequest{Path: "/local/dir"},
		schemeService + "ModifyPermissions": &Ydb_Scheme.ModifyPermissionsRequest{Path: "/local/dir",
			Actions: []*Ydb_Scheme.PermissionsAction{granting(long, "ydb.generic.read")}},
		limiter + "CreateResource": &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: "/local/dir",
			Resource: resource},
		limiter + "DropResource": &Ydb_RateLimiter.DropResourceRequest{CoordinationNodePath: "/local/dir",
			ResourcePath: long},
		users + "Add":         &adminpb.AddRequest{Name: long, Password: "x"},
		users + "SetPassword": &adminpb.SetPasswordRequest{Name: long, Password: "x"},
		users + "Remove":      &adminpb.RemoveRequest{Name: long},
		users + "RotateKey":   &adminpb.RotateKeyRequest{},
	}
	for _, server := range []int{leader, follower} {
		log, clean := logged[fmt.Sprint("server-", server)], 0
		// On a busy machine a call is repeated when the leader changes. It is judged where it is executed then: it may
		// have been before. So it is with a leader that is not confirmed for the moment.
		c.eventually("four rounds of calls of which nothing is logged", func() bool {
			before := log.commandsBy("alice")
			for method, request := range requests {
				answer := newAnswer(method)
				err := c.conns[server].Invoke(withToken(t, "token-of-alice"), method, request, answer)
				if op, is := calls.OperationIn(answer); err == nil && is && op.GetStatus() == Ydb.StatusIds_SUCCESS {
					t.Errorf("%s was done", method)
				}
			}
			lastIndex(t, c.servers[server]) // it has executed everything that was logged
			if n := log.commandsBy("alice") - before; n > 0 {
				t.Logf("server %d, leader %d: %d of %d refused calls are logged", server, leader, n, len(requests))
			} else {
				clean++
			}
			return clean == 4
		})
		if log.commandsBy("root") == 0 {
			t.Errorf("server %d has executed no call of the administrator", server)
		}
	}
}

// newAnswer is an empty answer of a method. Operations have the same place in all of them.
func newAnswer(method string) proto.Message {
	if strings.HasPrefix(method, "/Ydb.") {
		return new(Ydb_Scheme.MakeDirectoryResponse)
	}
	return new(adminpb.AddResponse)
}

// TestGrantCountsAtOnceEverywhere gives rights through one server and uses them through another, which has
// not heard of them yet, again and again: a refusal counts only after a read barrier.
func TestGrantCountsAtOnceEverywhere(t *testing.T) {
	c := newGuardedCluster(t)
	leader, follower := c.leader()
	root, alice := withToken(t, "token-of-root"), withToken(t, "token-of-alice")
	of := func(i int) Ydb_Scheme_V1.SchemeServiceClient {
		return Ydb_Scheme_V1.NewSchemeServiceClient(c.conns[i])
	}
	for i := range 20 {
		path := fmt.Sprint("/local/d", i)
		for _, err := range []error{
			answered(of(leader).MakeDirectory(root, &Ydb_Scheme.MakeDirectoryRequest{Path: path})),
			answered(of(leader).ModifyPermissions(root, &Ydb_Scheme.ModifyPermissionsRequest{Path: path,
				Actions: []*Ydb_Scheme.PermissionsAction{granting("alice", "ydb.generic.write")}})),
			answered(of(follower).MakeDirectory(alice, &Ydb_Scheme.MakeDirectoryRequest{Path: path + "/hers"})),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	invoke := func(i int, token, method string, request, response proto.Message) error {
		return c.conns[i].Invoke(withToken(t, token), method, request, response)
	}
	for range 5 { // administrators of users and of the cluster
		if err := invoke(leader, "token-of-root", adminpb.Users_Add_FullMethodName,
			&adminpb.AddRequest{Name: "alice", Password: "x", Administrator: true},
			new(adminpb.AddResponse)); err != nil {
			t.Fatal(err)
		}
		if err := invoke(follower, "token-of-alice", adminpb.Users_SetPassword_FullMethodName,
			&adminpb.SetPasswordRequest{Name: "root", Password: "x"}, new(adminpb.SetPasswordResponse)); err != nil {
			t.Error(err)
		}
		if err := invoke(leader, "token-of-root", adminpb.Users_Remove_FullMethodName,
			&adminpb.RemoveRequest{Name: "alice"}, new(adminpb.RemoveResponse)); err != nil {
			t.Fatal(err)
		}
		// who was removed changes nothing, although this server may not know of it
		if err := invoke(follower, "token-of-alice", adminpb.Cluster_Remove_FullMethodName,
			&adminpb.RemoveMemberRequest{Member: "nobody"},
			new(adminpb.RemoveMemberResponse)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("got %v", err)
		}
	}
}

// TestLongSubjects: permissions of a subject that no entry has room for change nothing, and are refused.
func TestLongSubjects(t *testing.T) {
	g := startGuarded(t, nil)
	before := lastIndex(t, g.Server)
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).ModifyPermissions(g.as("token-of-root"),
		&Ydb_Scheme.ModifyPermissionsRequest{Path: testNode, Actions: []*Ydb_Scheme.PermissionsAction{
			revoking(strings.Repeat("s", services.MaxSubjectBytes+1), "ydb.generic.read")}}, grpc.WaitForReady(true))
	if err := answered(answer, err); err == nil || !strings.Contains(err.Error(), fmt.Sprint(services.MaxSubjectBytes)) {
		t.Errorf("got %v", err)
	}
	if after := lastIndex(t, g.Server); after != before {
		t.Errorf("the log grew by %d entries", after-before)
	}
}
