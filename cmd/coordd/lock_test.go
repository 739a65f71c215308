package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/server/adminpb"
)

// locking is a running `coordd lock`, whose command says what it does on stdout.
type locking struct {
	*testserver.Process
	said chan string // lines of stdout; closed at its end
}

func startLock(t *testing.T, endpoint string, args ...string) *locking {
	t.Helper()
	l := &locking{said: make(chan string, 1000)}
	l.Process = testserver.Launch(t, testserver.Config{Program: binary,
		Args: append([]string{"lock", "--endpoint", endpoint}, args...),
		Env:  append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, childEnvironment()...),
		Line: func(line string) { l.said <- line }})
	go func() {
		<-l.Ended()
		close(l.said)
	}()
	return l
}

// says waits for a line of the command.
func (l *locking) says(t *testing.T, want string) string {
	t.Helper()
	for {
		line := receive(t, l.said, func() string {
			return "not said: " + want + "; stderr:\n" + l.Logged()
		})
		if strings.Contains(line, want) {
			return line
		}
		if line == "" {
			t.Fatalf("it has ended, and has not said %q; stderr:\n%s", want, l.Logged())
		}
	}
}

func (l *locking) wantCode(t *testing.T, want exit.Code, parts ...string) {
	t.Helper()
	receive(t, l.Ended(), func() string { return "coordd lock does not end; stderr:\n" + l.Logged() })
	if got := exit.Code(l.ExitCode()); got != want {
		t.Errorf("exit code %d, want %d; stderr:\n%s", got, want, l.Logged())
	}
	inOrder(t, l.Logged(), parts)
}

// lockServer starts a server with a node, and a client of it.
func lockServer(t *testing.T) (*process, string, *protocol.Client) {
	t.Helper()
	p := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off")
	endpoint := p.ready(t)
	return p, endpoint, nodeOf(t, endpoint)
}

// nodeOf makes the node, and a client of the server.
func nodeOf(t *testing.T, endpoint string) *protocol.Client {
	t.Helper()
	at, err := parseEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	f := callerFlags{connectionFlags: connectionFlags{endpoint: at.address}}
	c, err := f.open(t.Context(), &cmdline.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	waitFor(t, "the node", func() bool {
		err := c.Call(t.Context(), Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName,
			&Ydb_Coordination.CreateNodeRequest{Path: "/local/app"}, nil)
		if err != nil && protocol.StatusOf(err) != Ydb.StatusIds_UNAVAILABLE {
			t.Fatal(err)
		}
		return err == nil
	})
	return c.Client
}

func sessionOf(t *testing.T, c *protocol.Client) *protocol.Session {
	t.Helper()
	s, err := c.Open(t.Context(), protocol.SessionConfig{Node: "/local/app", Timeout: time.Minute,
		Description: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Abandon)
	return s
}

// described is a semaphore with its owners and waiters, nil if there is none.
func described(t *testing.T, s *protocol.Session, name string) *protocol.Description {
	t.Helper()
	d, _, err := s.Describe(t.Context(), name, protocol.Wanted{Owners: true, Waiters: true})
	if err != nil && protocol.StatusOf(err) != Ydb.StatusIds_NOT_FOUND {
		t.Fatal(err)
	}
	return d
}

// untilTold is a command that runs until it gets a signal that it has a trap for.
const untilTold = `trap 'echo got TERM; exit 5' TERM; trap 'echo got INT; exit 6' INT
trap 'echo got HUP; exit 8' HUP; trap 'echo got USR1' USR1
echo ready $$ $COORDD_SESSION_ID $COORDD_FENCING_TOKEN; while :; do sleep 0.05; done`

// A command gets its signals, and its exit code is passed on.
func TestLockSignals(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	for _, test := range []struct {
		sent syscall.Signal
		code exit.Code
	}{{syscall.SIGTERM, 5}, {syscall.SIGINT, 6}, {syscall.SIGHUP, 8}} {
		l := startLock(t, endpoint, "/local/app", "lock", "--data", "here", "--", "sh", "-c", untilTold)
		ready := strings.Fields(l.says(t, "ready"))
		d := described(t, s, "lock")
		if owner := d.GetOwners()[0]; fmt.Sprint(owner.GetSessionId(),
			owner.GetOrderId()) != strings.Join(ready[2:], " ") || string(owner.GetData()) != "here" {
			t.Errorf("the command was told %q, and the owner is %v", ready, owner)
		}
		l.Command.Process.Signal(userSignal)
		l.says(t, "got USR1")
		l.Command.Process.Signal(test.sent)
		l.says(t, "got "+strings.TrimPrefix(map[syscall.Signal]string{syscall.SIGTERM: "TERM",
			syscall.SIGINT: "INT", syscall.SIGHUP: "HUP"}[test.sent], "SIG"))
		l.wantCode(t, test.code)
		if d := described(t, s, "lock"); d != nil {
			t.Errorf("after its end the lock is there: %v", d)
		}
	}
	l := startLock(t, endpoint, "app", "lock", "--", "sh", "-c", "echo ready; kill -KILL $$")
	l.wantCode(t, exit.Signal+9)
}

// Whoever waits in vain, or is told to stop waiting, leaves the queue.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	if err := s.Create(t.Context(), "door", 3, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Acquire(t.Context(), protocol.Acquisition{Name: "door", Count: 2}); !got || err != nil {
		t.Fatal(got, err)
	}
	lock := func(args ...string) *locking {
		return startLock(t, endpoint, append([]string{"app", "door"}, append(args, "--", "echo", "in")...)...)
	}
	owner := fmt.Sprintf("is held by session %d, test, from 127.0.0.1:", s.ID())
	lock("-n").wantCode(t, exit.Conflict, owner, ", since 2")
	lock("--timeout", "50ms", "--conflict-exit-code", "33").wantCode(t, 33, owner)
	lock("--count", "4").wantCode(t, exit.NotRun, "flag --count", "limit of 3")
	lock("--shared", "-n").wantCode(t, exit.OK)
	lock("--count", "1", "-n").wantCode(t, exit.OK)
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		l := lock()
		waitFor(t, "it to wait", func() bool { return len(described(t, s, "door").GetWaiters()) == 1 })
		waitFor(t, "it to name the owner", func() bool {
			return strings.Contains(l.Logged(), fmt.Sprintf(
				`coordd: lock: waiting for "door": 0 before you, held by session %d, test, from `, s.ID()))
		})
		l.Command.Process.Signal(sent)
		l.wantCode(t, exit.Signal+exit.Code(sent))
		if d := described(t, s, "door"); len(d.GetWaiters()) != 0 || len(d.GetOwners()) != 1 {
			t.Errorf("it is still there: %v", d)
		}
	}
	l := lock()
	waitFor(t, "it to wait", func() bool { return len(described(t, s, "door").GetWaiters()) == 1 })
	// a semaphore that is made for the lock takes its place
	if err := s.Delete(t.Context(), "door", true); err != nil {
		t.Fatal(err)
	}
	l.says(t, "in")
	l.wantCode(t, exit.OK)
}

// TestLockRefuses is what coordd lock has to say of itself, with codes that no command is likely to have.
// TestLockCreatesNode wants --create-node to make the node once, and to be content with one that is there.
func TestLockCreatesNode(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	for range 2 {
		p := spawn(t, "lock", "--create-node", "made", "lock", "--endpoint", endpoint, "--", "/bin/true")
		if code, log := p.exit(t); code != exit.OK {
			t.Errorf("exit code %d: %s", code, log)
		}
	}
}

func TestLockRefuses(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	if err := s.Create(t.Context(), "one", 1, nil); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code exit.Code
		want []string
	}{
		{[]string{"app", "lock", "--", "nosuchcommand"}, exit.NoSuch, []string{`"nosuchcommand"`}},
		{[]string{"app", "lock", "--", plain}, exit.Cannot, []string{plain, "permission denied"}},
		{[]string{"none", "lock", "--", "true"}, exit.NotRun,
			[]string{"coordd: there is no coordination node /local/none; `coordd node create /local/none` makes it"}},
		{[]string{"app", "one", "--shared", "--", "true"}, exit.NotRun, []string{"flag --shared", "limit of 1"}},
		{[]string{"app", "lock", "--count", "2", "--", "true"}, exit.NotRun,
			[]string{"flag --count", "coordd semaphore create"}},
		{[]string{"app", "lock", "--count", "0", "--", "true"}, exit.NotRun,
			[]string{"flag --count", "from 1"}},
		{[]string{"app", "lock", "--shared", "--count", "2", "--", "true"}, exit.NotRun,
			[]string{"--shared and --count", "one of them"}},
		{[]string{"app", "lock", "-n", "--timeout", "1s", "--", "true"}, exit.NotRun,
			[]string{"--nonblock and --timeout"}},
		{[]string{"app", "lock", "--timeout", "25h", "--", "true"}, exit.NotRun, []string{"flag --timeout",
			"up to 24h"}},
		{[]string{"app", "lock", "--session-timeout", "2s", "--", "true"}, exit.NotRun,
			[]string{"flag --session-timeout", "3s to 30m"}},
		{[]string{"app", "lock", "--session-timeout", "31m", "--", "true"}, exit.NotRun,
			[]string{"flag --session-timeout", "3s to 30m"}},
		{[]string{"app", strings.Repeat("n", 1025), "--", "true"}, exit.NotRun,
			[]string{"argument NAME", "1025 bytes", "up to 1024"}},
		{[]string{"app", "lock", "--user", "me", "--", "true"}, exit.NotRun,
			[]string{"flag --user", "--password-file"}},
		{[]string{"app", "lock", "--conflict-exit-code", "256", "--", "true"}, exit.NotRun,
			[]string{"conflict-exit-code"}},
		{[]string{"app", "lock", "--nonblok", "--", "true"}, exit.NotRun,
			[]string{"did you mean --nonblock?"}},
		{[]string{"app", "lock", "true"}, exit.NotRun, []string{"there is no --"}},
		{[]string{"app", "lock", "--"}, exit.NotRun, []string{"no command given"}},
		{[]string{"app", "lock", "--keep"}, exit.NotRun,
			[]string{"flag --session-timeout", "nobody renews it"}},
		{[]string{"app", "lock", "--keep", "--session-timeout", "5s", "--", "true"}, exit.NotRun,
			[]string{"flag --keep", "no command"}},
		{[]string{"app", "--keep", "--session-timeout", "5s"}, exit.NotRun,
			[]string{"takes NODE NAME, 1 argument given"}},
		{[]string{"app", "--", "true"}, exit.NotRun, []string{"NODE NAME", "1 argument given"}},
	} {
		startLock(t, endpoint, test.args...).wantCode(t, test.code, test.want...)
	}
	startLock(t, "127.0.0.1:1", "app", "lock", "--", "/bin/true").wantCode(t, exit.NotRun,
		"no server at 127.0.0.1:1")
}

// runsOn is a command that says when it begins and is never done.
const runsOn = `echo ready $$; while :; do sleep 0.05; done`

// wantGone wants the processes whose numbers a command has said to be there no longer.
func wantGone(t *testing.T, ready string) {
	t.Helper()
	for _, word := range strings.Fields(ready)[1:] {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the end of process "+word,
			func() bool { return gone(pid) || isZombie(pid) })
	}
}

// isZombie reports whether a process has ended and its parent, which may be nobody of ours, has not asked for
// it.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	return err == nil && found && strings.HasPrefix(state, "Z")
}

// A command ends with its lock: when the session is ended, the semaphore is deleted by force, coordd lock is
// killed, and when the server is killed or stopped. One that does not mind SIGTERM is killed.
func TestLockLost(t *testing.T) {
	t.Parallel()
	const stubborn = `trap 'echo got TERM' TERM; (trap '' TERM; while :; do sleep 0.05; done) &
echo ready $$ $!; while :; do sleep 0.05; done`
	for _, test := range []struct {
		name, script string
		lose         func(t *testing.T, p *process, c *protocol.Client, s *protocol.Session, l *locking)
		code         exit.Code
		want         []string
	}{
		{"session ended", stubborn,
			func(t *testing.T, _ *process, c *protocol.Client, s *protocol.Session, _ *locking) {
				owner := described(t, s, "door").GetOwners()[0].GetSessionId()
				if err := c.Invoke(t.Context(), adminpb.Inspect_EndSession_FullMethodName,
					&adminpb.EndSessionRequest{Path: "/local/app", Session: owner},
					new(adminpb.EndSessionResponse)); err != nil {
					t.Fatal(err)
				}
			}, exit.Lost, []string{`lock: "door" of /local/app is lost`, "Session has expired"}},
		{"forced delete", stubborn,
			func(t *testing.T, _ *process, _ *protocol.Client, s *protocol.Session, _ *locking) {
				if err := s.Delete(t.Context(), "door", true); err != nil {
					t.Fatal(err)
				}
			}, exit.Lost, []string{`lock: "door" of /local/app is lost`, "taken away"}},
		{"coordd lock killed", runsOn,
			func(t *testing.T, _ *process, _ *protocol.Client, _ *protocol.Session, l *locking) {
				l.Kill()
			}, exit.Code(255), nil}, // what Go calls a process that has no code
		{"server killed", stubborn,
			func(t *testing.T, p *process, _ *protocol.Client, _ *protocol.Session, l *locking) {
				p.Kill()
				l.says(t, "got TERM")
			}, exit.Lost, []string{"no server has answered in time"}},
		{"server stopped", "trap 'echo got TERM; exit 5' TERM; " + runsOn,
			func(t *testing.T, p *process, _ *protocol.Client, _ *protocol.Session, l *locking) {
				p.Pause()
				l.says(t, "got TERM") // and that is enough for this one
				<-l.Ended()
				p.Resume()
			}, exit.Lost, []string{"no server has answered in time"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, endpoint, c := lockServer(t)
			s := sessionOf(t, c)
			if err := s.Create(t.Context(), "door", 1, nil); err != nil {
				t.Fatal(err)
			}
			l := startLock(t, endpoint, "app", "door", "--session-timeout", "3s", "--", "sh", "-c",
				test.script)
			ready := l.says(t, "ready")
			test.lose(t, p, c, s, l)
			receive(t, l.Ended(), func() string {
				return "coordd lock does not end; stderr:\n" + l.Logged()
			})
			if got := exit.Code(uint8(l.ExitCode())); got != test.code {
				t.Errorf("exit code %d, want %d; stderr:\n%s", got, test.code, l.Logged())
			}
			inOrder(t, l.Logged(), test.want)
			wantGone(t, ready)
		})
	}
}

// A session that was ended has no time left, and that is not why it is lost.
func TestLostSessionIsNotUnanswered(t *testing.T) {
	t.Parallel()
	_, _, c := lockServer(t)
	what := &held{session: sessionOf(t, c)}
	if err := what.tooLate(); !errors.Is(err, errUnanswered) {
		t.Errorf("a session that lives: %v", err)
	}
	if err := c.Invoke(t.Context(), adminpb.Inspect_EndSession_FullMethodName,
		&adminpb.EndSessionRequest{Path: "/local/app", Session: what.session.ID()},
		new(adminpb.EndSessionResponse)); err != nil {
		t.Fatal(err)
	}
	<-what.session.Lost()
	if left, err := what.session.Left(), what.tooLate(); left != 0 || !errors.Is(err, protocol.ErrLost) {
		t.Errorf("%v left, because %v", left, err)
	}
}

// untilTheFile is a command that ends well when a file is there.
const untilTheFile = `echo ready $COORDD_FENCING_TOKEN; while [ ! -e "$0" ]; do sleep 0.05; done`

// endpointsOf is how many servers a server tells clients of.
func endpointsOf(t *testing.T, endpoint string) int {
	t.Helper()
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(dialServer(t,
		endpoint)).ListEndpoints(t.Context(), &Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	result := new(Ydb_Discovery.ListEndpointsResult)
	if err != nil || answer.GetOperation().GetResult().UnmarshalTo(result) != nil {
		return 0
	}
	return len(result.GetEndpoints())
}

// A lock outlives a restart of the server, a change of the leader, and the loss of the server that it was
// taken at.
func TestLockSurvives(t *testing.T) {
	t.Parallel()
	servers := startThree(t)
	c := nodeOf(t, servers[1].endpoint)
	s := sessionOf(t, c)
	waitFor(t, "each server to know of all", func() bool {
		for _, server := range servers {
			if endpointsOf(t, server.endpoint) != len(servers) {
				return false
			}
		}
		return true
	})
	enough := filepath.Join(t.TempDir(), "enough")
	var locks []*locking
	var ready []string
	for i, server := range servers {
		l := startLock(t, server.endpoint, "app", fmt.Sprint("lock", i), "--session-timeout", "30s", "--",
			"sh", "-c", untilTheFile, enough)
		ready = append(ready, l.says(t, "ready"))
		locks = append(locks, l)
	}
	waitFor(t, "a leader", func() bool { return servers[1].status(t).Leader != "" })
	servers[1].cluster(t, exit.OK, "transfer-leader", "a")
	waitFor(t, "the leader a", func() bool { return servers[1].status(t).Leader != "" })
	servers[0].Kill() // the leader, or it was
	waitFor(t, "another leader", func() bool {
		now := servers[1].status(t)
		return now.Leader != "" && now.LeaderAnswered
	})
	for i := range locks {
		name := fmt.Sprint("lock", i)
		waitFor(t, "the owner of "+name+" to be attached", func() bool {
			owner := described(t, s, name).GetOwners()
			if len(owner) != 1 || fmt.Sprint("ready ", owner[0].GetOrderId()) != ready[i] {
				t.Fatalf("%s is held by %v, and was by %q", name, owner, ready[i])
			}
			found := new(adminpb.Page)
			err := c.Invoke(t.Context(), adminpb.Inspect_List_FullMethodName,
				&adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, Path: "/local/app",
					Session: owner[0].GetSessionId()}, found)
			return err == nil && len(found.GetSessions()) == 1 && found.GetSessions()[0].GetAttached()
		})
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range locks {
		l.wantCode(t, exit.OK)
	}
}

// childLocks is the variable that makes this test binary a command of `coordd lock`, and names a directory.
const childLocks = "COORDD_TEST_EXCLUSIVE"

// childEnvironment is what a command needs of the test's environment.
func childEnvironment() []string {
	var lines []string
	for _, line := range os.Environ() {
		if strings.HasPrefix(line, childLocks+"=") || strings.HasPrefix(line, "GOCOVERDIR=") {
			lines = append(lines, line)
		}
	}
	return lines
}

// exclusiveFor is how long that command runs: many of them, so that faults have the time to come between
// them.
const exclusiveFor = 100 * time.Millisecond

// exclusive is that command: it locks a file for a moment and writes its token down. That it cannot lock it
// is an overlap.
func exclusive(directory string) int {
	file, err := os.OpenFile(filepath.Join(directory, "tokens"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 71
	}
	if err := tryLock(file); err != nil {
		os.WriteFile(filepath.Join(directory, fmt.Sprint("overlap-", os.Getpid())), []byte(err.Error()),
			0o600)
		return 72
	}
	time.Sleep(exclusiveFor + time.Duration(os.Getpid()%7)*time.Millisecond)
	if _, err := fmt.Fprintln(file, os.Getenv("COORDD_FENCING_TOKEN")); err != nil {
		return 73
	}
	return 0
}

// TestLockExclusive has many `coordd lock` wait for one lock, on three servers of which one loses the lead
// and one is killed: no two of their commands run at a time, the tokens grow, and each command runs or says
// that it did not. LOCKS says how many (make lock-test).
func TestLockExclusive(t *testing.T) {
	count := 24
	if value := os.Getenv("LOCKS"); value != "" {
		var err error
		if count, err = strconv.Atoi(value); err != nil {
			t.Fatal(err)
		}
	}
	servers := startThree(t)
	nodeOf(t, servers[0].endpoint)
	directory := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error, count)
	var all sync.WaitGroup
	for i := range count {
		command := exec.CommandContext(t.Context(), binary, "lock", "--endpoint", servers[i%3].endpoint,
			"app", "one", "--session-timeout", "15s", "--", self)
		// A program with the race detector sleeps for a second at its end, and would keep the lock for it.
		command.Env = []string{"HOME=" + directory, childLocks + "=" + directory, "GORACE=atexit_sleep_ms=0"}
		all.Go(func() {
			var said bytes.Buffer
			command.Stderr = &said
			if err := command.Run(); err != nil {
				err = fmt.Errorf("%w: %s", err, said.String())
				results <- err
				return
			}
			results <- nil
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	ran := func() int { return len(tokensIn(t, directory)) }
	waitFor(t, "some to have run", func() bool { return ran() >= count/8 })
	servers[1].cluster(t, exit.OK, "transfer-leader", "c")
	waitFor(t, "more to have run", func() bool { return ran() >= count/4 })
	servers[2].Kill()
	t.Logf("%d had run when a server was killed", ran())
	waitFor(t, "most to have run", func() bool { return ran() >= count/2 })
	servers[2].start(t)
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Error("they are not done")
	}
	close(results)
	failed := 0
	for err := range results {
		if err == nil {
			continue
		}
		failed++
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != int(exit.NotRun) && ended.ExitCode() != int(exit.Lost) {
			t.Error(err)
		}
	}
	tokens := tokensIn(t, directory)
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("token %d comes behind %d", tokens[i], tokens[i-1])
		}
	}
	if overlaps, _ := filepath.Glob(filepath.Join(directory, "overlap-*")); len(overlaps) > 0 {
		t.Errorf("%d commands ran beside another one", len(overlaps))
	}
	if len(tokens) < count-failed || failed > count/4 {
		t.Errorf("%d of %d have run, %d say that they have not", len(tokens), count, failed)
	}
	t.Logf("%d have run, one after the other; %d say that they have not", len(tokens), failed)
}

func tokensIn(t *testing.T, directory string) (tokens []uint64) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(directory, "tokens"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, word := range regexp.MustCompile(`\d+`).FindAllString(string(content), -1) {
		token, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// A command at a terminal has the terminal, and gives it back.
func TestLockAtATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("there is no script(1) to make a terminal")
	}
	_, endpoint, _ := lockServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	command := exec.CommandContext(ctx, "script", "-qec",
		binary+" lock --endpoint "+endpoint+
			` app lock -- sh -c 'read line; echo "read $line"; exit 3'; echo code $?; read line; echo "then $line"`,
		"/dev/null")
	command.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh"}
	command.Stdin = strings.NewReader("one\ntwo\n")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	inOrder(t, string(output), []string{"read one", "code 3", "then two"})
}

// Whoever waits at a terminal sees how many are before him, and who has it.
func TestLockShowsTheQueue(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("there is no script(1) to make a terminal")
	}
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	if got, err := s.Acquire(t.Context(), protocol.Acquisition{Name: "lock", Count: 1 << 63, Ephemeral: true,
		Data: []byte("me\x1b[2J")}); !got || err != nil {
		t.Fatal(got, err)
	}
	var shown testlog.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	command := exec.CommandContext(ctx, "script", "-qec",
		binary+" lock --endpoint "+endpoint+" app lock -- echo in", "/dev/null")
	command.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh"}
	command.Stdout, command.Stderr = &shown, &shown
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`waiting for "lock": 0 before you, held by session %d "me\x1b[2J"`, s.ID())
	waitFor(t, "it to show the queue", func() bool { return strings.Contains(shown.String(), want) })
	if _, err := s.Release(t.Context(), "lock"); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil || !strings.Contains(shown.String(), "in\r\n") {
		t.Errorf("%v: %q", err, shown.String())
	}
}
