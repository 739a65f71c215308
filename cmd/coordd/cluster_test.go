package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/server/adminpb"
)

// clusterProcess is a server of a cluster as a process of its own.
type clusterProcess struct {
	*process
	name, endpoint, peer, directory string
}

func newClusterProcess(t *testing.T, name string) *clusterProcess {
	t.Helper()
	addresses := testserver.Addresses(t, 2)
	return &clusterProcess{name: name, directory: filepath.Join(t.TempDir(), name),
		endpoint: "grpc://" + addresses[0] + "/local", peer: addresses[1]}
}

// start runs the server; it does not wait until it is ready.
func (c *clusterProcess) start(t *testing.T, more ...string) {
	t.Helper()
	listen := strings.TrimSuffix(strings.TrimPrefix(c.endpoint, "grpc://"), "/local")
	c.process = spawn(t, append([]string{"serve", "--name", c.name, "--listen", listen, "--listen-peer",
		c.peer, "--data-dir", c.directory, "--insecure-peers"}, more...)...)
}

// coordd runs a command to its end and returns its stdout; it must end with the given code and say the parts
// on stderr.
func coordd(t *testing.T, want exit.Code, args []string, parts ...string) string {
	t.Helper()
	p := spawn(t, args...)
	code, lines := p.exit(t)
	if code != want {
		t.Fatalf("coordd %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), code, want,
			strings.Join(lines, "\n"), p.Logged())
	}
	inOrder(t, p.Logged(), parts)
	return strings.Join(lines, "\n")
}

// cluster runs a `coordd cluster` command on a server.
func (c *clusterProcess) cluster(t *testing.T, want exit.Code, args ...string) string {
	t.Helper()
	return coordd(t, want, append(append([]string{"cluster"}, args...), "--data-dir", c.directory))
}

func (c *clusterProcess) status(t *testing.T) (now statusShown) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.cluster(t, exit.OK, "status", "-o", "json")), &now); err != nil {
		t.Fatal(err)
	}
	return now
}

// startThree starts a cluster of a, b and c.
func startThree(t *testing.T) []*clusterProcess {
	t.Helper()
	var servers []*clusterProcess
	var initial []string
	for _, name := range []string{"a", "b", "c"} {
		server := newClusterProcess(t, name)
		servers = append(servers, server)
		initial = append(initial, name+"="+server.peer)
	}
	for _, server := range servers {
		server.start(t, "--initial-cluster", strings.Join(initial, ","))
	}
	for _, server := range servers {
		server.ready(t)
	}
	return servers
}

func (c *clusterProcess) addUser(t *testing.T, name string) {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	coordd(t, exit.OK, []string{"user", "add", name, "--data-dir", c.directory, "--new-password-file",
		password})
}

func (c *clusterProcess) wantUsers(t *testing.T, want ...string) {
	t.Helper()
	inOrder(t, coordd(t, exit.OK, []string{"user", "list", "--data-dir", c.directory}), want)
}

// TestClusterCommands goes through the life of a cluster: three servers, a fourth is added and removed again,
// a backup is made and restored, and at last one server goes on alone.
func TestClusterCommands(t *testing.T) {
	servers := startThree(t)
	a, b, c := servers[0], servers[1], servers[2]
	b.addUser(t, "alice")
	inOrder(t, b.cluster(t, exit.OK, "status"),
		[]string{"leads, term", "asked b", "is caught up", "format version", "is in use", "NAME", "VERSION",
			"a ", a.peer})

	d := newClusterProcess(t, "d")
	inOrder(t, b.cluster(t, exit.OK, "add", "d", d.peer),
		[]string{"d was added", "--join", a.peer, "promote d --wait"})
	d.start(t, "--join", a.peer+","+b.peer)
	d.ready(t)
	inOrder(t, c.cluster(t, exit.OK, "promote", "d", "--wait"), []string{"d has a vote"})
	inOrder(t, a.cluster(t, exit.OK, "transfer-leader", "d"), []string{"d leads"})
	now := c.status(t)
	// Until d, which nobody knew, has said what it can read, and c asks it, which leads now.
	for ; now.FormatVersion != codec.Version || !now.LeaderAnswered || !now.CaughtUp; now = c.status(t) {
		if now.FormatVersion != 1 && now.FormatVersion != codec.Version {
			t.Fatalf("the status is %+v", now)
		}
	}
	if len(now.Members) != 4 || !now.LeaderAnswered || !now.CaughtUp || now.Server != "c" {
		t.Errorf("the status is %+v", now)
	}
	for _, m := range now.Members {
		if want := map[bool]string{true: "leader", false: "voter"}[m.Name == "d"]; m.Role != want ||
			!m.Active {
			t.Errorf("the member is %+v, want a %s", m, want)
		}
	}
	d.wantUsers(t, "alice")

	inOrder(t, a.cluster(t, exit.OK, "remove", "d"), []string{"d was removed"})
	d.wantExit(t, exit.Removed, "msg=serving", "coordd: this member was removed from the cluster",
		"added again")
	a.cluster(t, exit.Failure, "remove", "d")
	d.start(t)
	d.wantExit(t, exit.Removed, "coordd: this member was removed from the cluster")

	backup := filepath.Join(t.TempDir(), "backup")
	b.addUser(t, "bob")
	inOrder(t, b.cluster(t, exit.OK, "snapshot", "--to", backup),
		[]string{backup, "bytes, everything up to entry", now.Cluster, "--check"})
	b.cluster(t, exit.Config, "snapshot", "--to", backup)
	if _, err := os.Stat(backup + partialSuffix); err == nil {
		t.Error("the partial backup is still there")
	}
	b.addUser(t, "carol")
	restoreElsewhere(t, backup, now.Cluster)
	recoverAlone(t, servers)
}

// restoreElsewhere restores a backup with two users, into a directory that must be empty, and adds a second
// server.
func restoreElsewhere(t *testing.T, backup, oldCluster string) {
	inOrder(t, coordd(t, exit.OK, []string{"cluster", "restore", "--from", backup, "--check"}),
		[]string{backup, "is sound", oldCluster})
	content, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	damaged := backup + "-damaged"
	if err := os.WriteFile(damaged, content, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newClusterProcess(t, "r")
	restore := func(from string) []string {
		return []string{"cluster", "restore", "--from", from, "--data-dir", r.directory}
	}
	coordd(t, exit.Damaged, restore(damaged), damaged)
	if _, err := os.Stat(r.directory); err == nil {
		t.Error("a damaged backup left a directory behind")
	}
	if err := os.MkdirAll(r.directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.directory, "restoring.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "serve"} {
		coordd(t, exit.Config, []string{command, "--data-dir", r.directory}, r.directory,
			"run `coordd cluster restore` again")
	}
	inOrder(t, coordd(t, exit.OK, restore(backup)),
		[]string{"is sound", "holds cluster", "coordd cluster add"})
	coordd(t, exit.Config, restore(backup), r.directory, "has data")
	r.start(t)
	r.ready(t)
	r.wantUsers(t, "alice", "bob")
	if now := r.status(t); now.Cluster == oldCluster || len(now.Members) != 1 || now.Members[0].Name != "r" {
		t.Errorf("the status is %+v", now)
	}
	s := newClusterProcess(t, "s")
	s.start(t, "--join", r.peer) // it waits until it is added
	r.cluster(t, exit.OK, "add", "s", s.peer)
	s.ready(t)
	r.cluster(t, exit.OK, "promote", "s", "--wait")
	s.wantUsers(t, "alice", "bob")
}

// recoverAlone loses two of three servers, and has the third go on.
func recoverAlone(t *testing.T, servers []*clusterProcess) {
	a := servers[0]
	args := []string{"cluster", "recover", "--data-dir", a.directory}
	coordd(t, exit.Config, args, "in use by another process")
	for _, server := range servers {
		server.Kill()
		server.exit(t)
	}
	inOrder(t, coordd(t, exit.OK, []string{"check", "--data-dir", a.directory}),
		[]string{"log entries", "last term"})
	inOrder(t, coordd(t, exit.Usage, args, "nothing was changed", "--yes"),
		[]string{"Server a", "everything up to entry", "lost", "b ", "c "})
	coordd(t, exit.OK, append(args, "--yes"))
	coordd(t, exit.Config, args, "only server of its cluster already")
	a.start(t)
	a.ready(t)
	a.wantUsers(t, "alice", "bob", "carol")
	if now := a.status(t); len(now.Members) != 1 || now.Leader != now.ServerID {
		t.Errorf("the status is %+v", now)
	}
	servers[1].start(t)
	servers[1].wantExit(t, exit.Removed, fmt.Sprintf("coordd: %s", "this member was removed from the cluster"))
}

// TestFormatText looks at what a person is told while the servers run programs of two versions.
func TestFormatText(t *testing.T) {
	members := func(versions ...uint64) (list []*adminpb.ClusterMember) {
		for i, v := range versions {
			list = append(list, &adminpb.ClusterMember{Name: string(rune('a' + i)), Version: v})
		}
		return list
	}
	for name, c := range map[string]struct {
		inUse   uint64
		members []*adminpb.ClusterMember
		want    string
	}{
		"all the same": {2, members(2, 2, 2), "format version 2 is in use"},
		"one was upgraded": {1, members(1, 2, 1),
			"format version 1 is in use; 2 comes once these can read it too: a, c"},
		"one was never seen": {1, members(2, 2, 0),
			"format version 1 is in use; 2 comes once these can read it too: c"},
		"the news is under way": {1, members(2, 2, 2), "format version 1 is in use"},
		"an older one answers": {0, members(1, 2, 1),
			"the asked server does not tell which format version is in use: its program is older than this one"},
	} {
		if got := formatText(&adminpb.ClusterStatus{FormatVersion: c.inUse,
			Members: c.members}); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestDivergedText looks at what a person and a program are told of servers whose states differ.
func TestDivergedText(t *testing.T) {
	for _, diverged := range []string{"", "diverged: as of entry 7"} {
		now := &adminpb.ClusterStatus{FormatVersion: 2, Diverged: diverged}
		var people, programs strings.Builder
		printStatus(&people, now, nil)
		if err := writeJSON(&programs, showStatus(now, nil), "  "); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(people.String(),
			"\nDiverged: as of entry 7\n"); told != (diverged != "") {
			t.Errorf("%q: people read %s", diverged, people.String())
		}
		if told := strings.Contains(programs.String(),
			`"diverged": "diverged: as of entry 7"`); told != (diverged != "") {
			t.Errorf("%q: programs read %s", diverged, programs.String())
		}
	}
}

// TestStatusTellsIssues wants people and programs to be told of what else is wrong.
func TestStatusTellsIssues(t *testing.T) {
	now := &adminpb.ClusterStatus{FormatVersion: 2,
		Issues: []string{"silent to clients: a test says so", "server b was given other settings"}}
	var people, programs strings.Builder
	printStatus(&people, now, nil)
	if err := writeJSON(&programs, showStatus(now, nil), "  "); err != nil {
		t.Fatal(err)
	}
	inOrder(t, people.String(),
		[]string{"is in use\nSilent to clients: a test says so\nServer b was given other settings\n", "NAME"})
	var read statusShown
	if err := json.Unmarshal([]byte(programs.String()), &read); err != nil ||
		!slices.Equal(read.Issues, now.GetIssues()) {
		t.Errorf("%v: programs read %s", err, programs.String())
	}
}

// TestStatusWithoutALeader wants a server that knows no leader to say whom it reaches, all the same.
func TestStatusWithoutALeader(t *testing.T) {
	now := &adminpb.ClusterStatus{Cluster: "c", ServerName: "a", Members: []*adminpb.ClusterMember{
		{Id: "1", Name: "a", Connected: true, Role: adminpb.ClusterMember_ROLE_VOTER},
		{Id: "2", Name: "b", Role: adminpb.ClusterMember_ROLE_VOTER},
		{Id: "3", Name: "c", Connected: true, Role: adminpb.ClusterMember_ROLE_VOTER},
		{Id: "4", Name: "d", Role: adminpb.ClusterMember_ROLE_LEARNER}}}
	var text strings.Builder
	printStatus(&text, now, nil)
	inOrder(t, strings.Join(strings.Fields(text.String()), " "),
		[]string{"no leader", "reaches 2 of 3 with a vote, itself included, 2 are needed",
			"a 1 voter yes ? ?", "b 2 voter no ? ?", "c 3 voter yes ? ?", "d 4 learner no ? ?"})
}
