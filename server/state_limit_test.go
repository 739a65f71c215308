package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/readiness"
	"github.com/coordd/coordd/server/statelimit"
)

// logText is a log that a test reads while it is written.
type logText struct{ testlog.Buffer }

func (l *logText) has(part string) bool { return strings.Contains(l.String(), part) }

func limitsOf(t *testing.T, conn *grpc.ClientConn) *adminpb.LimitsStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	now, err := adminpb.NewClusterClient(conn).Limits(ctx, &adminpb.LimitsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func setLimit(t *testing.T, conn *grpc.ClientConn, bytes uint64) *adminpb.LimitsStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	now, err := adminpb.NewClusterClient(conn).SetLimits(ctx, &adminpb.SetLimitsRequest{StateBytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// createOn makes a semaphore and returns the status.
func createOn(t *testing.T, stream sessionClient, name string, size int) Ydb.StatusIds_StatusCode {
	t.Helper()
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
			CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: name, Limit: 1,
				Data: make([]byte, size)}}})
	return next(t, stream).GetCreateSemaphoreResult().GetStatus()
}

// TestStateLimitOfAServer has a server's limit from its first start on, through the service, a restart with
// another setting, and a backup.
func TestStateLimitOfAServer(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "data")
	config := Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: directory, LoopbackAdmin: true}
	config.Limits = coordination.DefaultLimits()
	config.Limits.State = 3 << 20
	s, conn := startWith(t, config)
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: testNode})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %v, %v", answer, err)
	}
	stream := openSession(t, conn)
	if now := limitsOf(t, conn); now.GetStateLimitBytes() != 3<<20 || now.GetStateUsedBytes() < 2000 ||
		now.GetNodeLimitBytes() != coordination.MaxNodeBytes {
		t.Errorf("the limits are %v", now)
	}
	for i, want := range []Ydb.StatusIds_StatusCode{Ydb.StatusIds_SUCCESS, Ydb.StatusIds_SUCCESS,
		Ydb.StatusIds_PRECONDITION_FAILED} {
		if got := createOn(t, stream, fmt.Sprint("large-", i), 1<<20); got != want {
			t.Errorf("megabyte %d: %v", i, got)
		}
	}
	if got := setLimit(t, conn, 2_200_000); got.GetStateLimitBytes() != 2_200_000 ||
		got.GetConfiguredBytes() != 3<<20 {
		t.Errorf("set: %v", got)
	}
	if text := s.stateLimit.FullnessIssue(); !strings.Contains(text, "the state is nearly full") {
		t.Errorf("the issue is %q", text)
	}
	if r := selfCheck(t, conn); !hasIssue(r, readiness.IssueFull, "the state is nearly full") {
		t.Errorf("self-check: %v", r)
	}
	if !s.Readiness().Ready {
		t.Error("a server whose state is full is not ready")
	}
	for _, bytes := range []uint64{1, statelimit.Min - 1} {
		_, err := adminpb.NewClusterClient(conn).SetLimits(t.Context(),
			&adminpb.SetLimitsRequest{StateBytes: bytes})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("set to %d: %v", bytes, err)
		}
	}
	used := limitsOf(t, conn).GetStateUsedBytes()
	backup, err := snapshotFrom(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	stopServer(t, s)

	logged := new(logText)
	config.Logger, config.Limits.State = slog.New(slog.NewTextHandler(logged, nil)), 5<<20
	s, conn = startWith(t, config)
	if now := limitsOf(t, conn); now.GetStateLimitBytes() != 2_200_000 || now.GetStateUsedBytes() != used {
		t.Errorf("after a restart: %v, used were %d", now, used)
	}
	eventually(t, "the log to say that the setting does not count",
		func() bool { return logged.has("another --state-limit than the cluster has") })
	stopServer(t, s)

	config.DataDir, config.Logger = filepath.Join(t.TempDir(), "restored"), nil
	if err := datadir.RestoreBackup(config.DataDir, bytes.NewReader(backup)); err != nil {
		t.Fatal(err)
	}
	_, conn = startWith(t, config)
	if now := limitsOf(t, conn); now.GetStateLimitBytes() != 2_200_000 || now.GetStateUsedBytes() != used {
		t.Errorf("restored: %v, used were %d", now, used)
	}
	if now := setLimit(t, conn, statelimit.Unlimited); now.GetStateLimitBytes() != statelimit.Unlimited {
		t.Errorf("unlimited: %v", now)
	}
}

// startWith starts a server that is stopped with the test at the latest.
func startWith(t *testing.T, config Config) (*Server, *grpc.ClientConn) {
	t.Helper()
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(t, s) })
	return s, connect(t, s)
}

// TestServersWithOtherLimits starts three servers with a limit each. One of them counts, for all and for good, across
// elections and restarts; the servers with another limit report it. A limit that an operator sets counts from then on.
func TestServersWithOtherLimits(t *testing.T) {
	runBeside(t)
	logs := map[string]*logText{"server-0": {}, "server-1": {}, "server-2": {}}
	own := map[string]uint64{"server-0": 2 << 20, "server-1": 3 << 20, "server-2": 4 << 20}
	c := startClusterWith(t, 3, func(config *Config) {
		config.Limits = coordination.DefaultLimits()
		config.Limits.State = own[config.Cluster.Name]
		config.Logger = slog.New(slog.NewTextHandler(logs[config.Cluster.Name], nil))
	})
	all := func(want uint64) bool {
		for i := range c.servers {
			if limitsOf(t, c.conns[i]).GetStateLimitBytes() != want {
				return false
			}
		}
		return true
	}
	c.eventually("a limit", func() bool { return limitsOf(t, c.conns[0]).GetStateLimitBytes() != 0 })
	first := limitsOf(t, c.conns[0]).GetStateLimitBytes()
	c.eventually("the same limit everywhere", func() bool { return all(first) })
	for name, log := range logs {
		said := `msg="limit of the state"`
		if own[name] != first {
			said = "another --state-limit"
		}
		c.eventually("the word of "+name, func() bool { return log.has(said) })
	}
	// Each leads once, and each was looked after by its enforcer since: nothing moves.
	for i := range c.servers {
		c.leadWith(i)
		c.servers[i].stateLimit.SetFirst(t.Context())
		if !all(first) {
			t.Errorf("with leader %d the limit is no longer %d", i, first)
		}
	}
	c.stop(0)
	if err := c.start(0); err != nil {
		t.Fatal(err)
	}
	c.leadWith(0)
	c.servers[0].stateLimit.SetFirst(t.Context())
	if !all(first) {
		t.Errorf("with a leader that was started anew the limit is no longer %d", first)
	}
	for name, log := range logs {
		if own[name] == first && log.has("another --state-limit") {
			t.Errorf("%s says that its limit differs, which is that of the cluster", name)
		}
	}
	setLimit(t, c.conns[1], 9<<20) // through a server that does not lead
	c.eventually("the new limit", func() bool { return all(9 << 20) })
}

// TestLimitOfLinksComesLater has a cluster whose other limits are older than the limit of a session's links get
// that as well, once every server can read it.
func TestLimitOfLinksComesLater(t *testing.T) {
	runBeside(t)
	older := true
	c := startClusterWith(t, 1, func(config *Config) {
		config.Limits.State = 5 << 20
		if config.Limits.Links = 7; older {
			config.hooks.Formats = coordination.Formats{Version: codec.VersionEntries, Since: codec.Since}
		}
	})
	limits := func() coordination.StateLimits {
		_, now := c.servers[0].group.StateSize()
		return now
	}
	c.eventually("the older limits", func() bool { return limits().State != 0 })
	c.servers[0].stateLimit.SetFirst(t.Context())
	if got := limits(); got.Links != 0 {
		t.Errorf("limits %+v", got)
	}
	c.stop(0)
	older = false
	if err := c.start(0); err != nil {
		t.Fatal(err)
	}
	c.eventually("the limit of links", func() bool { return limits().Links == 7 && limits().State == 5<<20 })
}

// TestLimitsAreForAdministrators refuses everybody else.
func TestLimitsAreForAdministrators(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("of-root root\nof-bob bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, conn := startWith(t, Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true,
		Auth: AuthRequired, TokenFile: tokens, InitialAdmin: "root", InitialAdminPassword: "secret"})
	client := adminpb.NewClusterClient(conn)
	for token, want := range map[string]codes.Code{"of-root": codes.OK, "of-bob": codes.PermissionDenied,
		"": codes.Unauthenticated} {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", token)
		}
		if _, err := client.Limits(ctx, &adminpb.LimitsRequest{}); status.Code(err) != want {
			t.Errorf("%q asks: %v, want %v", token, err, want)
		}
		if _, err := client.SetLimits(ctx,
			&adminpb.SetLimitsRequest{StateBytes: 1 << 30}); status.Code(err) != want {
			t.Errorf("%q sets: %v, want %v", token, err, want)
		}
	}
}

// TestMemoryIssue warns where twice the limit is more than the memory of the server, and nowhere else.
func TestMemoryIssue(t *testing.T) {
	logged := new(logText)
	s, conn := startTest(t, func(c *Config) {
		c.replaced.memory = statelimit.Memory{Bytes: 512 << 20, Source: "limit of the control group"}
		c.Logger = slog.New(slog.NewTextHandler(logged, nil))
	})
	const text = "the state may take more memory than this server has: its limit is 384 MiB, twice that may be needed, and there are " +
		"512 MiB (limit of the control group)"
	if !logged.has(text) {
		t.Error("nothing was logged")
	}
	if r := selfCheck(t, conn); !hasIssue(r, readiness.IssueMemory, text) {
		t.Errorf("self-check: %v", r)
	}
	if !s.Readiness().Ready {
		t.Error("the server is not ready")
	}
	for _, c := range []struct {
		limit uint64
		warns bool
	}{{256 << 20, false}, {256<<20 + 1, true}, {statelimit.Unlimited, true}, {0, true}} { // 0 leaves it as it is
		setLimit(t, conn, c.limit)
		if got := s.stateLimit.MemoryIssue(); (got != "") != c.warns {
			t.Errorf("with a limit of %d: %q", c.limit, got)
		}
	}
	s.stateLimit.Memory = statelimit.Memory{}
	if got := s.stateLimit.MemoryIssue(); got != "" {
		t.Errorf("without knowing its memory: %q", got)
	}
	if s.stateLimit.Now() != math.MaxUint64 {
		t.Errorf("the limit is %d", s.stateLimit.Now())
	}
}
