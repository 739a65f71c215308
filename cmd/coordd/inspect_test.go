package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/internal/exit"
)

// walkthroughStep is a command of docs/operations.md and what it prints.
type walkthroughStep struct {
	args []string
	want string
}

// walkthrough is the commands of a page.
func walkthrough(t *testing.T, page string) (steps []walkthroughStep) {
	t.Helper()
	for _, block := range regexp.MustCompile(
		"(?s)```console\n\\$ coordd (.*?)\n(.*?)```").FindAllStringSubmatch(readFile(t, page), -1) {
		var args []string
		for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(block[1], -1) {
			args = append(args, strings.Trim(word, `"`))
		}
		steps = append(steps, walkthroughStep{args, strings.TrimSuffix(block[2], "\n")})
	}
	return steps
}

// sameEverywhere leaves out of what a command prints when and where it ran.
func sameEverywhere(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`client [\d.]+:\d+`).ReplaceAllString(text, "client ADDRESS")
	return regexp.MustCompile(`on server \w+`).ReplaceAllString(text, "on server NAME")
}

// lockClient is a session of a client that speaks the protocol.
type lockClient struct {
	t      *testing.T
	die    context.CancelFunc // cancels the stream
	stream Ydb_Coordination_V1.CoordinationService_SessionClient
}

func dialServer(t *testing.T, endpoint string) *grpc.ClientConn {
	t.Helper()
	to, err := parseEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(to.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func openLockClient(t *testing.T, endpoint, description string) *lockClient {
	t.Helper()
	return openLockClientAt(t, endpoint, &Ydb_Coordination.SessionRequest_SessionStart{
		Path: "/local/app", TimeoutMillis: 1_800_000, Description: description})
}

// openLockClientAt starts a session and asks for the lock.
func openLockClientAt(t *testing.T, endpoint string,
	start *Ydb_Coordination.SessionRequest_SessionStart) *lockClient {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	t.Cleanup(die)
	ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-sdk-build-info", "ydb-go-sdk/3.156.1")
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(dialServer(t, endpoint)).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := &lockClient{t, die, stream}
	c.send(&Ydb_Coordination.SessionRequest{
		Request: &Ydb_Coordination.SessionRequest_SessionStart_{
			SessionStart: start}})
	if c.next().GetSessionStarted() == nil {
		t.Fatal("not started")
	}
	c.send(&Ydb_Coordination.SessionRequest{
		Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{
				ReqId: 1, Name: "nightly-report", Count: 1<<64 - 1, Ephemeral: true, TimeoutMillis: 1<<64 - 1}}})
	return c
}

func (c *lockClient) send(m *Ydb_Coordination.SessionRequest) {
	c.t.Helper()
	if err := c.stream.Send(m); err != nil {
		c.t.Fatal(err)
	}
}

// next is the next message that is not a ping.
func (c *lockClient) next() *Ydb_Coordination.SessionResponse {
	c.t.Helper()
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		if m.GetPing() == nil {
			return m
		}
		_ = c.stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
	}
}

// TestStuckLockWalkthrough runs docs/operations.md word for word, through a server that does not lead: an
// acquire that is blocked by a session on another server is found, and the session ended.
func TestStuckLockWalkthrough(t *testing.T) {
	steps := walkthrough(t, "docs/operations.md")
	// the third only looks again
	if len(steps) != 3 || steps[0].args[0] != "semaphore" || steps[1].args[0] != "session" {
		t.Fatalf("%d steps", len(steps))
	}
	servers := startThree(t)
	var follower, other *clusterProcess
	waitFor(t, "a leader, and the version that all can read", func() bool {
		now := servers[0].status(t)
		follower, other = nil, nil
		for _, s := range servers {
			for _, m := range now.Members {
				if m.Name == s.name && m.Role != "leader" {
					follower, other = s, follower
				}
			}
		}
		return other != nil && now.Leader != "" && now.FormatVersion >= 2
	})
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(dialServer(t,
		follower.endpoint)).CreateNode(t.Context(), &Ydb_Coordination.CreateNodeRequest{Path: "/local/app"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatal(answer, err)
	}
	holder := openLockClient(t, other.endpoint, "worker-7")
	if !holder.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatal("not acquired")
	}
	waiter := openLockClient(t, follower.endpoint, "worker-8")
	if waiter.next().GetAcquireSemaphorePending() == nil {
		t.Fatal("does not wait")
	}
	for _, step := range steps {
		var args []string
		for _, arg := range step.args {
			args = append(args, strings.ReplaceAll(arg, "grpc://b:2136/local", follower.endpoint))
		}
		var got string
		// the servers may be late with each other's clients
		waitFor(t, strings.Join(step.args, " "), func() bool {
			got = coordd(t, exit.OK, args)
			return !strings.Contains(got, "does not answer")
		})
		if want := sameEverywhere(step.want); sameEverywhere(got) != want {
			t.Fatalf("coordd %s prints\n%s\ndocs/operations.md has\n%s", strings.Join(args, " "), got,
				step.want)
		}
	}
	if failure := holder.next().GetFailure(); failure.GetStatus() != Ydb.StatusIds_SESSION_EXPIRED ||
		failure.GetIssues()[0].GetMessage() != "Session has expired" {
		t.Errorf("the holder is told %v", failure)
	}
	if !waiter.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("the waiter has no lock")
	}
	inOrder(t, follower.Logged(), []string{"administration", "act=Inspect/EndSession", "session 1 of",
		"/local/app", "worker-7 hangs", "user=(nobody)"})
	coordd(t, exit.NotFound, []string{"session", "kill", "/local/app", "1", "--endpoint", follower.endpoint},
		"/local/app has no session 1")
	coordd(t, exit.Usage, []string{"session", "kill", "/local/app", "one", "--endpoint", follower.endpoint},
		"coordd session ls")
	inOrder(t, coordd(t, exit.OK, []string{"node", "ls", "--data-dir", other.directory}),
		[]string{"PATH", "SESSIONS", "SEMAPHORES", "/local/app  1         1"})
}

// waitFor waits for a state that nobody announces.
func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !reached() {
		if ctx.Err() != nil {
			t.Fatal("waited in vain for ", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
