package standin_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/server/standin"
)

const node = "/local/locks"

// patience limits things that take no time on a machine that is not busy.
const patience = time.Minute

// begin is a stand-in, and the SDK's session and lock on it.
func begin(t *testing.T, opts ...standin.Option) (*standin.Server, coordination.Session, coordination.Lease) {
	t.Helper()
	s := standin.Start(t, append([]standin.Option{standin.Patience(patience), standin.PongPatience(patience)},
		opts...)...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	db, err := ydb.Open(ctx, s.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = db.Close(ctx)
	})
	if err := db.Coordination().CreateNode(ctx, node, coordination.NodeConfig{}); err != nil {
		t.Fatal(err)
	}
	session, err := db.Coordination().Session(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := session.AcquireSemaphore(ctx, "kept", coordination.Exclusive, options.WithEphemeral(true))
	if err != nil {
		t.Fatal(err)
	}
	return s, session, lease
}

// TestTenMinutesWithTheSDK lets ten minutes' worth of sessions time out, one after another, of clients of the
// plain protocol that die. The SDK is attached all the time and keeps its session and its lock.
func TestTenMinutesWithTheSDK(t *testing.T) {
	s, session, lease := begin(t, standin.FakeTime())
	mine := s.Owners(node, "kept")[0].Session
	conn := dial(t, s)
	begun, expired := time.Now(), 0
	for s.Elapsed() < 10*time.Minute {
		id := dieHolding(t, conn)
		s.AwaitOwners(node, "lock", 1)
		for standing := (standin.Session{Attached: true}); standing.Attached; {
			for _, standing = range s.Sessions(node) {
				if standing.ID == id {
					break
				}
			}
		}
		for _, e := range s.Advance(6500 * time.Millisecond) { // timeout and grace
			if e.Kind == standin.SessionExpired {
				expired++
			}
		}
		s.AwaitOwners(node, "lock", 0)
	}
	t.Logf("%d sessions have timed out in %v, which took %v", expired, s.Elapsed(), time.Since(begun))
	if owner := s.AwaitOwners(node, "kept", 1)[0]; owner.Session != mine || session.SessionID() != mine ||
		session.Context().Err() != nil {
		t.Errorf("session %d has the lock; that of the SDK is %d, and was %d: %v", owner.Session,
			session.SessionID(), mine, session.Context().Err())
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	s.AwaitOwners(node, "kept", 0)
}

func dial(t *testing.T, s *standin.Server) *grpc.ClientConn {
	t.Helper()
	address := s.ConnectionString()[len("grpc://") : len(s.ConnectionString())-len("/local")]
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dieHolding takes a lock and breaks the stream.
func dieHolding(t *testing.T, conn *grpc.ClientConn) (session uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: node, TimeoutMillis: 5000}}})
	_ = stream.Send(
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: 1, Name: "lock",
				Count: math.MaxUint64, Ephemeral: true}}})
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if started := m.GetSessionStarted(); started != nil {
			session = started.GetSessionId()
		}
		if result := m.GetAcquireSemaphoreResult(); result != nil {
			if !result.GetAcquired() {
				t.Fatalf("acquire: %v", result)
			}
			return session
		}
	}
}

// TestRestartWithTheSDK restarts the stand-in: the SDK comes back, to the same session and the lock that it had.
func TestRestartWithTheSDK(t *testing.T) {
	s, session, _ := begin(t)
	mine := session.SessionID()
	s.Restart()
	deadline := time.Now().Add(patience)
	for !s.Sessions(node)[0].Attached {
		if time.Now().After(deadline) {
			t.Fatalf("the SDK does not come back\n%s", s.Dump())
		}
		time.Sleep(time.Millisecond)
	}
	if owner := s.AwaitOwners(node, "kept", 1)[0]; owner.Session != mine {
		t.Errorf("session %d has the lock, not %d", owner.Session, mine)
	}
}

// TestUserOfTheSDK logs in.
func TestUserOfTheSDK(t *testing.T) {
	s := standin.Start(t, standin.TLS(), standin.Users(standin.User{Name: "root", Password: "1234",
		Administrator: true}))
	db, err := ydb.Open(t.Context(), s.ConnectionString(), ydb.WithStaticCredentials("root", "1234"),
		ydb.WithCertificatesFromFile(s.CertificateAuthority()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if err := db.Coordination().CreateNode(t.Context(), node, coordination.NodeConfig{}); err != nil {
		t.Fatal(err)
	}
	if got := s.Dump(); got != node+"\n" {
		t.Errorf("dump %q", got)
	}
}
