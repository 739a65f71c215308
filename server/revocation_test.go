package server

import (
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/group/streams"
)

// TestRevocationEndsStreams takes away, one after another, everything that a stream may live on. Only the
// stream that lives on it ends.
func TestRevocationEndsStreams(t *testing.T) {
	g := startGuarded(t, nil)
	g.addUser("carol", "first", false)
	g.addUser("dave", "first", false)
	g.permit(testNode, granting(scheme.AllUsers, "ydb.generic.use"))
	g.permit(testNode, granting("bob", "ydb.generic.use"))
	open := func(token string) sessionClient {
		t.Helper()
		stream, first := g.session(token)
		if first.GetSessionStarted() == nil {
			t.Fatalf("got %v", first)
		}
		return stream
	}
	users := func(method string, request, response any) {
		t.Helper()
		if err := g.conn.Invoke(g.as("token-of-root"), "/"+adminpb.Users_ServiceDesc.ServiceName+"/"+method,
			request, response); err != nil {
			t.Fatal(err)
		}
	}
	token := func(name string) string {
		t.Helper()
		token, _ := g.login(name, "first")
		return token
	}
	untouched := open("token-of-bob")
	var sending sync.Mutex
	over := make(chan *Ydb_Coordination.SessionResponse, 1) // its Failure or SessionStopped
	go func() {
		for {
			m, err := untouched.Recv()
			if err != nil || m.GetFailure() != nil || m.GetSessionStopped() != nil {
				over <- m
				return
			}
			sending.Lock()
			answerPing(untouched, m)
			sending.Unlock()
		}
	}()

	alice := open("token-of-alice")
	writeFile(t, g.tokens, "token-of-bob bob\ntoken-of-root root\n")
	wantNoAccess(t, failureOf(t, alice))
	if _, err := g.whoAmI(g.as("token-of-alice")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}

	carol := open(token("carol"))
	users("SetPassword", &adminpb.SetPasswordRequest{Name: "carol", Password: "second"},
		new(adminpb.SetPasswordResponse))
	wantNoAccess(t, failureOf(t, carol))

	dave := open(token("dave"))
	users("Remove", &adminpb.RemoveRequest{Name: "dave"}, new(adminpb.RemoveResponse))
	wantNoAccess(t, failureOf(t, dave))

	g.addUser("erin", "first", false)
	erin := open(token("erin"))
	users("RotateKey", &adminpb.RotateKeyRequest{}, new(adminpb.RotateKeyResponse))
	wantNoAccess(t, failureOf(t, erin))
	erin = open(token("erin"))
	g.permit(testNode, revoking(scheme.AllUsers, "ydb.generic.use"))
	wantNoAccess(t, failureOf(t, erin))

	sending.Lock()
	send(t, untouched,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
			SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
	sending.Unlock()
	if m := <-over; m.GetSessionStopped() == nil {
		t.Errorf("the stream that kept its right: got %v", m)
	}
}

// TestRotationEndsStreamsOfExpiredTokens: an attacker with a leaked key makes a token that expires at once, opens a
// stream and waits. A rotation ends that stream, and one that is opened afterwards stays.
func TestRotationEndsStreamsOfExpiredTokens(t *testing.T) {
	g := startGuarded(t, nil)
	g.login("root", rootPassword) // makes the key
	known := g.group.Accounts()
	forged, err := g.auth.SignLogin(known.Users()[0], known.SigningKeys()[0],
		time.Now().Add(-auth.DefaultLoginLifetime-auth.ClockSkew/2))
	if err != nil {
		t.Fatal(err)
	}
	stream, first := g.session(forged)
	if first.GetSessionStarted() == nil {
		t.Fatalf("got %v", first)
	}
	rotate := func() {
		t.Helper()
		if got := g.manage("token-of-root", "RotateKey", &adminpb.RotateKeyRequest{},
			new(adminpb.RotateKeyResponse)); got != codes.OK {
			t.Fatalf("rotate: %s", got)
		}
	}
	rotate()
	wantNoAccess(t, failureOf(t, stream))
	if _, err := g.whoAmI(g.as(forged)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
	token, _ := g.login("root", rootPassword)
	stream, first = g.session(token)
	if first.GetSessionStarted() == nil {
		t.Fatalf("got %v", first)
	}
	rotate()
	wantNoAccess(t, failureOf(t, stream))
}

// stranger is a client of the group that no call has brought, as the stand-in has them.
type stranger struct{ streams.Client }

// Wake implements group.Client.
func (stranger) Wake() {}

// TestRevocationSparesClientsWithoutTokens checks tokens while the group has such a client.
func TestRevocationSparesClientsWithoutTokens(t *testing.T) {
	g := startGuarded(t, nil)
	stream := g.group.NewStream(stranger{}, streams.Caller{}, &coordination.PingPolicy{})
	if err := stream.Enter(); err != nil {
		t.Fatal(err)
	}
	g.sessions.EndRevoked(t.Context())
	stream.Leave()
}
