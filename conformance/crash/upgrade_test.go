//go:build linux

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/testserver"
)

// olderVersion is the format that its program reads.
const olderVersion = 1

// TestUpgrade has three servers of an older program under load, and replaces the program of one after the
// other. With one and with two of them replaced, each kind leads over followers of the other, a follower of
// each kind needs a checkpoint from a leader of the other, and each server is asked for all that
// administrators ask. Besides what TestClusterFailOver wants after each step, sessions that hold semaphores do
// so from the beginning to the end, users and login tokens from all times are good on every
// server, and nothing of the newer format is written before all servers read it. Then it is, and the older
// program refuses to start on what the newer one has written.
func TestUpgrade(t *testing.T) {
	if os.Getenv("UPGRADE_TEST") == "" {
		t.Skip("takes minutes, and builds an older program: run it with `make upgrade-test`")
	}
	older := buildOlder(t)
	seed := seedOf(t)
	u := &upgrade{exercise: &exercise{t: t, random: rand.New(rand.NewPCG(seed, 0))},
		tokens: make(map[string]string)}
	u.cluster = newClusterOf(t, older, testserver.Binary(t), false)
	u.begin(seed)
	u.step("the older program on all servers", (*upgrade).administer)

	leader, err := u.awaitLeader(u.ctx)
	if err != nil {
		t.Fatal(err)
	}
	second := leader
	first, third := others(leader)
	if u.random.IntN(2) == 0 {
		first, third = third, first
	}
	u.renew(first)
	u.mix(first, second)
	u.leaveBehindUnder(second, first)
	u.renew(second) // which leads: it hands over to a server of the one program or the other
	u.mix(first, third)
	u.leaveBehindUnder(first, third)
	u.lastOld, err = u.committed()
	if err != nil {
		t.Fatal(err)
	}
	u.renew(third)
	u.step("the newer program on all servers", func(u *upgrade) error {
		if err := u.await("the newer format is used",
			func() bool { return u.inUse() == codec.Version }); err != nil {
			return err
		}
		return u.administer()
	})
	u.step("the older program on what the newer one has stopped on", func(u *upgrade) error {
		u.fallible = setOf(third)
		if err := u.terminate(third); err != nil {
			return err
		}
		return u.refuse(older, third)
	})
	u.step("the older program on what the newer one was killed on", func(u *upgrade) error {
		u.fallible = setOf(first)
		u.kill(first)
		return u.refuse(older, first)
	})
	u.step("the older program as one more server", func(u *upgrade) error { return u.refuseToJoin(older) })
	u.step("transfer the leadership", func(u *upgrade) error { return u.transfer() })

	shared := 0
	u.entry = func(e *coordination.Entry) {
		if e.StampMillis != 0 && uint64(e.Index) <= u.lastOld {
			t.Errorf("entry %d has the newer format, an older server wrote up to %d at least", e.Index,
				u.lastOld)
		}
		if len(e.Commands) > 1 {
			shared++
		}
	}
	u.end()
	if shared == 0 {
		t.Error("no entry has several commands: the newer format was not used")
	}
	if n := u.load.expired(); n != 0 {
		t.Errorf("%d sessions ran out", n)
	}
}

// buildOlder builds this program as one that reads nothing newer than olderVersion. No older commit will do: nothing is
// released, and former programs cannot read the directories of this one.
func buildOlder(t *testing.T) string {
	t.Helper()
	const file, newer = "server/group/group.go", "coordination.Formats{Version: codec.Version,"
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(source, []byte(newer)) != 1 {
		t.Fatalf("%s does not say %q once", file, newer)
	}
	older := strings.Replace(string(source), newer, fmt.Sprintf("coordination.Formats{Version: %d,", olderVersion), 1)
	dir := t.TempDir()
	replacement, binary := filepath.Join(dir, "group.go"), filepath.Join(dir, "coordd")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(top, file): replacement}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(replacement, []byte(older), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-buildvcs=false",
		"-ldflags", "-s -w -X main.version=older", "-o", binary, "./cmd/coordd")
	command.Dir, command.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the older program: %v\n%s", err, out)
	}
	return binary
}

// upgrade is the exercise while programs are replaced.
type upgrade struct {
	*exercise
	upgraded serverSet // to the newer program
	users    []string
	tokens   map[string]string // of logins, by user
	lastOld  uint64            // an entry that was committed while an older program ran
}

// step is that of the exercise.
func (u *upgrade) step(name string, run func(*upgrade) error) {
	u.t.Helper()
	u.exercise.step(name, func(*exercise) error { return run(u) })
}

// renew restarts a server with the newer program.
func (u *upgrade) renew(i int) {
	u.t.Helper()
	u.step(fmt.Sprintf("replace the program of server %d", i), func(u *upgrade) error {
		u.programs[i] = u.binary
		err := u.terminateServer(i)
		u.upgraded |= setOf(i)
		return err
	})
	u.step("administer", (*upgrade).administer)
}

// mix has servers of both programs lead, one after the other.
func (u *upgrade) mix(newer, older int) {
	u.t.Helper()
	for _, leader := range []int{newer, older, newer} {
		u.step(fmt.Sprintf("server %d leads", leader), func(u *upgrade) error {
			if err := u.leadWith(leader); err != nil {
				return err
			}
			return u.administer()
		})
	}
}

// leaveBehindUnder has a follower of one program take a checkpoint from a leader of the other.
func (u *upgrade) leaveBehindUnder(leader, follower int) {
	u.t.Helper()
	u.step(fmt.Sprintf("server %d leads", leader), func(u *upgrade) error { return u.leadWith(leader) })
	u.step(fmt.Sprintf("leave server %d behind the log's start", follower), func(u *upgrade) error {
		return u.leaveServerBehind(follower)
	})
}

// leadWith hands the leadership to a server.
func (u *upgrade) leadWith(i int) error {
	if err := u.command("transfer-leader", u.names[i]); err != nil {
		return err
	}
	if err := u.await("it leads", func() bool {
		return slices.Equal(u.whoLeads(u.ctx), []int{i, i, i})
	}); err != nil {
		return err
	}
	return u.progress()
}

// versions are the versions in the output of `coordd cluster status`.
type versions struct {
	Commit        uint64
	FormatVersion uint64 `json:"format_version"`
	Members       []struct {
		Name    string
		Version uint64
	}
}

func (u *upgrade) status(i int) (now versions, _ error) {
	out, err := u.commandAt(i, "cluster", "status", "-o", "json")
	if err != nil {
		return now, err
	}
	return now, json.Unmarshal([]byte(out), &now)
}

// committed is an entry that every server has or will have.
func (u *upgrade) committed() (uint64, error) {
	now, err := u.status(u.random.IntN(servers))
	return now.Commit, err
}

// inUse returns the lowest version of the format that any server reports to be in use.
func (u *upgrade) inUse() uint64 {
	lowest := ^uint64(0)
	for i := range servers {
		now, err := u.status(i)
		if err != nil {
			return 0
		}
		lowest = min(lowest, now.FormatVersion)
	}
	return lowest
}

// administer asks each server for what administrators ask, whatever the programs of the others are.
func (u *upgrade) administer() error {
	for i := range servers {
		if err := u.checkStatus(i); err != nil {
			return err
		}
		if err := u.changeMembers(i); err != nil {
			return err
		}
		if err := u.backUp(i); err != nil {
			return err
		}
		if err := u.addUser(i); err != nil {
			return err
		}
	}
	for i := range servers {
		if err := u.checkUsers(i); err != nil {
			return err
		}
	}
	return nil
}

// checkStatus checks the versions that a server reports.
func (u *upgrade) checkStatus(i int) error {
	var last error
	err := u.await("the status shows every version", func() bool {
		now, err := u.status(i)
		if last = err; err != nil {
			return false
		}
		last = fmt.Errorf("server %d says: %+v", i, now)
		all := true
		for j := range servers {
			all = all && u.upgraded.has(j)
		}
		for _, m := range now.Members {
			want := uint64(olderVersion)
			if u.upgraded.has(slices.Index(u.names, m.Name)) {
				want = codec.Version
			}
			if m.Version != want {
				return false
			}
		}
		if all {
			return now.FormatVersion == codec.Version
		}
		return now.FormatVersion == olderVersion
	})
	if err != nil {
		return errors.Join(err, last)
	}
	text, err := u.commandAt(i, "cluster", "status")
	if err != nil {
		return err
	}
	if !strings.Contains(text, "format version ") {
		return fmt.Errorf("server %d says:\n%s", i, text)
	}
	return nil
}

// changeMembers adds a server that never comes, and removes it.
func (u *upgrade) changeMembers(i int) error {
	_, err := u.commandAt(i, "cluster", "add", "spare", "127.0.0.1:1")
	if err == nil {
		_, err = u.commandAt(i, "cluster", "remove", "spare")
	}
	return err
}

// backUp wants a backup that can be restored.
func (u *upgrade) backUp(i int) error {
	file := filepath.Join(u.t.TempDir(), "backup")
	if _, err := u.commandAt(i, "cluster", "snapshot", "--to", file); err != nil {
		return err
	}
	if out, err := exec.Command(u.binary, "cluster", "restore", "--from", file,
		"--check").CombinedOutput(); err != nil {
		return fmt.Errorf("the backup of server %d: %w\n%s", i, err, out)
	}
	return nil
}

const password = "a password for this test"

// addUser adds a user through a server and logs in as that user.
func (u *upgrade) addUser(i int) error {
	name := fmt.Sprintf("user-%02d", len(u.users))
	secret := filepath.Join(u.dir, "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	args := []string{"user", "add", name, "--new-password-file", secret, "--administrator"}
	if len(u.users) > 0 {
		args = append(args, "--user", u.users[0], "--password-file", secret)
	}
	if _, err := u.commandAt(i, args...); err != nil {
		return err
	}
	u.users = append(u.users, name)
	conns, err := raw.Dial(u.listen[i], 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(conns[0]).Login(u.ctx,
		&Ydb_Auth.LoginRequest{User: name, Password: password})
	if err != nil {
		return err
	}
	var result Ydb_Auth.LoginResult
	if err := answer.GetOperation().GetResult().UnmarshalTo(&result); err != nil {
		return fmt.Errorf("log in through server %d: %v: %w", i, answer, err)
	}
	u.tokens[name] = result.GetToken()
	return nil
}

// checkUsers wants all users and their tokens to be known to a server.
func (u *upgrade) checkUsers(i int) error {
	secret := filepath.Join(u.dir, "password")
	list, err := u.commandAt(i, "user", "list", "-o", "json",
		"--user", u.users[len(u.users)-1], "--password-file", secret)
	if err != nil {
		return err
	}
	var users []struct {
		Name          string
		Administrator bool
	}
	if err := json.Unmarshal([]byte(list), &users); err != nil {
		return err
	}
	names := make([]string, len(users))
	for i, user := range users {
		names[i] = user.Name
		if !user.Administrator {
			return fmt.Errorf("server %d takes %s for an ordinary user", i, user.Name)
		}
	}
	if !slices.Equal(names, u.users) {
		return fmt.Errorf("server %d has the users %v, want %v", i, names, u.users)
	}
	conns, err := raw.Dial(u.listen[i], 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	for name, token := range u.tokens {
		ctx := metadata.AppendToOutgoingContext(u.ctx, "x-ydb-auth-ticket", token)
		answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conns[0]).WhoAmI(ctx,
			&Ydb_Discovery.WhoAmIRequest{})
		if err != nil {
			return fmt.Errorf("the token of %s at server %d: %w", name, i, err)
		}
		var who Ydb_Discovery.WhoAmIResult
		if err := answer.GetOperation().GetResult().UnmarshalTo(&who); err != nil || who.GetUser() != name {
			return fmt.Errorf("the token of %s at server %d: %v, %w", name, i, answer, err)
		}
	}
	return nil
}

// refusalText matches a program's error that it is too old: for the cluster, for a file, or for something in it.
var refusalText = regexp.MustCompile(`(?:commands of version|has format|has format version) (\d+), this program (?:reads up to|knows version) (\d+)`)

// refuse starts the older program in the place of a server that does not run. It must change nothing: the
// newer program goes on from there.
func (u *upgrade) refuse(older string, i int) error {
	if err := u.wantRefusal(older, u.arguments(i)...); err != nil {
		return err
	}
	if err := u.progress(i); err != nil {
		return err
	}
	return u.start(i)
}

// refuseToJoin adds a server that has the older program, for a while.
func (u *upgrade) refuseToJoin(older string) error {
	const name = "late"
	free := testserver.Addresses(u.t, 2)
	listen, peer := free[0], free[1]
	if err := u.command("add", name, peer); err != nil {
		return err
	}
	err := u.wantRefusal(older, "--listen", listen, "--data-dir", filepath.Join(u.dir, name), "--name", name,
		"--listen-peer", peer, "--join", strings.Join(u.peer, ","), "--insecure-peers")
	return errors.Join(err, u.command("remove", name))
}

// wantRefusal starts a program that must not start, and must say what it found and what it knows.
func (u *upgrade) wantRefusal(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(u.ctx, clusterPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, append([]string{"serve"}, args...)...).CombinedOutput()
	var exit *exec.ExitError // not that it could not be started, or had to be killed
	if !errors.As(err, &exit) || !exit.Exited() {
		return fmt.Errorf("the older program did not refuse to start: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var found, known uint64
	if said := refusalText.FindStringSubmatch(lines[len(lines)-1]); said != nil {
		found, _ = strconv.ParseUint(said[1], 10, 64)
		known, _ = strconv.ParseUint(said[2], 10, 64)
	}
	if known == 0 || found <= known {
		return fmt.Errorf("the last line of the older program does not name the version that it found and the one that it knows:\n%s", out)
	}
	u.t.Logf("it said, with exit code %d: %s", exit.ExitCode(), lines[len(lines)-1])
	return nil
}
