package server

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/readiness"
)

func selfCheck(t *testing.T, conn *grpc.ClientConn) *Ydb_Monitoring.SelfCheckResult {
	t.Helper()
	answer, err := Ydb_Monitoring_V1.NewMonitoringServiceClient(conn).SelfCheck(t.Context(),
		&Ydb_Monitoring.SelfCheckRequest{}, grpc.WaitForReady(true))
	result := new(Ydb_Monitoring.SelfCheckResult)
	if err == nil {
		err = answer.GetOperation().GetResult().UnmarshalTo(result)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// hasIssue looks for an issue by its type and a part of its message.
func hasIssue(result *Ydb_Monitoring.SelfCheckResult, kind readiness.Kind, text string) bool {
	return slices.ContainsFunc(result.GetIssueLog(), func(i *Ydb_Monitoring.IssueLog) bool {
		return i.GetType() == string(kind) && strings.Contains(i.GetMessage(), text) && i.GetId() != "" &&
			i.GetLevel() > 0 &&
			i.GetStatus() != Ydb_Monitoring.StatusFlag_UNSPECIFIED &&
			i.GetLocation().GetDatabase().GetName() == "/local"
	})
}

func healthOf(t *testing.T, conn *grpc.ClientConn,
	service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	t.Helper()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus()
}

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// TestAnswersBeforeItIsReady starts one of three servers: it has no majority, and reports that to callers.
func TestAnswersBeforeItIsReady(t *testing.T) {
	testmode.Long(t)
	c := newCluster(t, 3, func(config *Config) {
		config.InitialAdmin, config.InitialAdminPassword = "root", "secret"
		config.replaced.listPatience = time.Millisecond
	})
	conn, err := grpc.NewClient(c.listen[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	started := make(chan error, 3)
	go func() { started <- c.start(0) }()
	if got := healthOf(t, conn, ""); got != notServing {
		t.Errorf("health: %v", got)
	}
	if got := healthOf(t, conn, "Ydb.Coordination.V1.CoordinationService"); got != notServing {
		t.Errorf("health of a service: %v", got)
	}
	if r := selfCheck(t, conn); r.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_EMERGENCY ||
		!hasIssue(r, readiness.IssueNoLeader, "no leader") {
		t.Errorf("self-check: %v", r)
	}
	if e := listed(t, conn); len(e) != 1 || addressOf(e[0]) != c.listen[0] {
		t.Errorf("endpoints: %v", e)
	}
	select {
	case err := <-started:
		t.Fatalf("started without a leader: %v", err)
	default:
	}
	// Nobody becomes the first administrator before the one that was asked for.
	added := make(chan error, 1)
	go func() {
		added <- conn.Invoke(t.Context(), "/"+adminpb.Users_ServiceDesc.ServiceName+"/Add",
			&adminpb.AddRequest{Name: "eve", Password: "x", Administrator: true}, new(adminpb.AddResponse))
	}()
	go func() { started <- c.start(1) }()
	for range 2 {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	if err := <-added; err != nil {
		t.Errorf("add a user: %v", err) // from this machine and without authentication that is allowed, later
	}
	var users []accounts.User
	c.eventually("both users", func() bool {
		users = c.servers[0].group.Accounts().Users()
		return len(users) == 2
	})
	if !slices.ContainsFunc(users, func(u accounts.User) bool {
		return u.Name == "root" && u.Administrator
	}) {
		t.Errorf("users: %v", users)
	}
}

// TestReadinessFollowsTheQuorum takes the majority away and gives it back.
func TestReadinessFollowsTheQuorum(t *testing.T) {
	testmode.Long(t)
	c := startCluster(t, 3)
	watch, err := grpc_health_v1.NewHealthClient(c.conns[0]).Watch(t.Context(),
		&grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantNext := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			answer, err := watch.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if answer.GetStatus() == want {
				return
			}
		}
	}
	wantNext(serving)
	if r := c.servers[0].Readiness(); r != (readiness.State{Ready: true}) {
		t.Errorf("got %+v", r)
	}
	c.stop(1)
	c.stop(2)
	wantNext(notServing)
	eventually(t, "the server to say how many are missing", func() bool {
		return c.servers[0].Readiness() == readiness.State{Reason: "no leader: 1 of 3 servers with a vote can be reached, 2 are needed"}
	})
	if err := c.start(1); err != nil {
		t.Fatal(err)
	}
	wantNext(serving)
	// The leader of two out of three reports that one is missing; the other does not know.
	c.eventually("a degraded cluster that serves", func() bool {
		leader, _ := c.leader() // it may change on a busy machine
		r := selfCheck(t, c.conns[leader])
		return r.GetSelfCheckResult() == Ydb_Monitoring.SelfCheck_DEGRADED &&
			hasIssue(r, readiness.IssueSilent, "server-2 is not heard of") &&
			healthOf(t, c.conns[leader], "Ydb.Scheme.V1.SchemeService") == serving
	})
	alone, config := make(chan error, 1), Config{Listen: c.listen[2], Database: "/local", LoopbackAdmin: true,
		DataDir: filepath.Join(c.dir, "server-2"), Logger: c.logger}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { alone <- c.startWith(ctx, 2, config) }()
	eventually(t, "a server to report that it was started as a server alone", func() bool {
		r, err := Ydb_Monitoring_V1.NewMonitoringServiceClient(c.conns[2]).SelfCheck(ctx,
			&Ydb_Monitoring.SelfCheckRequest{})
		return err == nil && strings.Contains(r.String(), "was started without --listen-peer")
	})
	cancel()
	<-alone
}

// pretendedLag is a lag of a server that is not there.
type pretendedLag struct {
	entries uint64
	known   bool
}

// TestReadinessWhenBehind pretends that the leader has announced more entries than are here. Each state is waited for:
// a busy machine may lose the leader at any time, and the server may become it.
func TestReadinessWhenBehind(t *testing.T) {
	var pretended atomic.Pointer[pretendedLag]
	c := startClusterWith(t, 3, func(config *Config) {
		if config.Cluster.Name != "server-2" {
			return
		}
		config.replaced.readiness.Lag = func(g *group.Group) (uint64, bool) {
			if lag := pretended.Load(); lag != nil {
				return lag.entries, lag.known
			}
			return g.Lag()
		}
	})
	for _, step := range []struct {
		what           string
		lag            *pretendedLag
		ready          bool
		prefix, suffix string // of the reason
	}{
		{"a little behind", &pretendedLag{readiness.BehindMax, true}, true, "", ""},
		{"far behind", &pretendedLag{1_000_000, true}, false, "catching up: ", " entries behind"},
		{"unknown", &pretendedLag{}, false, "no word from the leader yet", ""},
		{"not behind", nil, true, "", ""},
	} {
		pretended.Store(step.lag)
		c.eventually("the readiness of a server that is "+step.what, func() bool {
			r := c.servers[2].Readiness()
			return r.Ready == step.ready && strings.HasPrefix(r.Reason, step.prefix) &&
				strings.HasSuffix(r.Reason, step.suffix) && (healthOf(t, c.conns[2], "") == serving) == step.ready
		})
	}
}

// TestReadinessOfDivergedServers pretends that servers have different states: one that may be wrong itself is
// not ready, also if it was so from the start, and one that is right names the others.
func TestReadinessOfDivergedServers(t *testing.T) {
	var right atomic.Bool
	c := startClusterWith(t, 3, func(config *Config) {
		config.replaced.readiness.Divergence = func(g *group.Group) (compare.Divergence, bool) {
			d := compare.Divergence{Index: 4711, Right: right.Load()}
			for _, m := range g.Log().Members() {
				if m.Name != config.Cluster.Name && len(d.Others) == 0 {
					d.Others = append(d.Others, m.ID)
				}
			}
			return d, true
		}
	})
	const who, what = "diverged: as of entry 4711 the state", "replace"
	for i, s := range c.servers {
		if r := s.Readiness(); r.Ready || !strings.HasPrefix(r.Reason, who) ||
			!strings.Contains(r.Reason, what) || !strings.Contains(r.Reason, "this server") {
			t.Errorf("server %d: %+v", i, r)
		}
		if r := selfCheck(t, c.conns[i]); r.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_EMERGENCY ||
			!hasIssue(r, readiness.IssueDiverged, who) {
			t.Errorf("server %d: got %v", i, r)
		}
		if healthOf(t, c.conns[i], "") != notServing {
			t.Errorf("server %d serves", i)
		}
		answer, err := adminpb.NewClusterClient(c.conns[i]).Status(t.Context(),
			&adminpb.ClusterStatusRequest{})
		if err != nil || !strings.HasPrefix(answer.GetDiverged(), who) {
			t.Errorf("server %d: status %v, %v", i, answer, err)
		}
	}
	right.Store(true)
	for i, s := range c.servers {
		// a busy machine may lose the leader meanwhile, which is a graver issue
		c.eventually("readiness to come back, and the others to be named", func() bool {
			r := selfCheck(t, c.conns[i])
			return r.GetSelfCheckResult() == Ydb_Monitoring.SelfCheck_MAINTENANCE_REQUIRED &&
				hasIssue(r, readiness.IssueDiverged, who) && healthOf(t, c.conns[i], "") == serving &&
				s.Readiness().Ready
		})
	}
}

// TestNotReadyAtTheEnd has a failed and a stopping server say so.
func TestNotReadyAtTheEnd(t *testing.T) {
	s, conn := startTest(t, nil)
	s.fail(errors.New("the disk is on fire"))
	if r := s.Readiness(); r.Ready || r.Reason != "failed: the disk is on fire" {
		t.Errorf("got %+v", r)
	}
	if r := selfCheck(t, conn); r.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_EMERGENCY ||
		!hasIssue(r, readiness.IssueFailed, "on fire") {
		t.Errorf("got %v", r)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.readiness.Issues(), func(i readiness.Issue) bool {
		return i.Kind == readiness.IssueStopping && i.Text == "stopping"
	}) {
		t.Errorf("got %v", s.readiness.Issues())
	}
}

// TestStartIsGivenUp ends a start that waits for a leader; nothing of it is left.
func TestStartIsGivenUp(t *testing.T) {
	c := newCluster(t, 3, nil)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- c.startIn(ctx, 0) }()
	conn, err := grpc.NewClient(c.listen[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := healthOf(t, conn, ""); got != notServing {
		t.Errorf("health: %v", got)
	}
	stream := openTest(t, t.Context(), conn, start(600_000)) // waits for a leader
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if s := endOf(stream); s.Code() != codes.Unavailable && s.Code() != codes.OK {
		t.Errorf("the stream ended with %v", s)
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("still there: %v", err)
	}
}

// TestReadinessOfAMuteServer wants a server that may not speak to clients for longer than an election takes
// to say so, and why: the leader, and one that does not lead.
func TestReadinessOfAMuteServer(t *testing.T) {
	var mute [3]atomic.Bool
	c := startClusterWith(t, 3, func(config *Config) {
		muted := &mute[config.Cluster.Name[len("server-")]-'0']
		config.replaced.readiness.Mute = func(g *group.Group) bool { return muted.Load() || g.Mute() }
	})
	leader, follower := c.leader()
	for i, want := range map[int]string{leader: "silent to clients: no majority has confirmed",
		follower: "silent to clients: the leader has not confirmed"} {
		s := c.servers[i]
		mute[i].Store(true)
		eventually(t, want, func() bool {
			r := s.Readiness()
			status, err := statusOf(t.Context(), s)
			return !r.Ready && strings.HasPrefix(r.Reason, want) && err == nil &&
				slices.ContainsFunc(status.GetIssues(),
					func(text string) bool { return strings.HasPrefix(text, want) })
		})
		mute[i].Store(false)
		eventually(t, "readiness to come back", func() bool { return s.Readiness().Ready })
	}
}
