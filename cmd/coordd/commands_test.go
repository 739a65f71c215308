package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// does runs a command on a server; stdout must have the parts in order.
func does(t *testing.T, endpoint, args string, parts ...string) string {
	t.Helper()
	out := coordd(t, exit.OK, append(strings.Fields(args), "--endpoint", endpoint))
	inOrder(t, out, parts)
	return out
}

// parsed is json.
func parsed(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// at is a value within a parsed one.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := value.(map[string]any)
			if _, has := object[step]; !ok || !has {
				t.Fatalf("%v has no %q", value, step)
			}
			value = object[step]
		case int:
			array, ok := value.([]any)
			if !ok || len(array) <= step {
				t.Fatalf("%v has no element %d", value, step)
			}
			value = array[step]
		}
	}
	return value
}

// TestNodeQuota sets, shows and takes away quotas, and meets one.
func TestNodeQuota(t *testing.T) {
	t.Parallel()
	endpoint := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off",
		"--loopback-admin").ready(t)
	does(t, endpoint, "mkdir team")
	does(t, endpoint, "node quota team -o json", "[]")
	does(t, endpoint, "node quota team --bytes 1MiB --entries 1", "/local/team", "1 MiB", "1")
	does(t, endpoint, "node create team/app", "made /local/team/app")
	coordd(t, exit.Failure, []string{"node", "create", "team/other", "--endpoint", endpoint},
		"Quota of /local/team is used up")
	shown := parsed(t, does(t, endpoint, "node quota team/app -o json"))
	first := shown.([]any)[0].(map[string]any)
	if first["path"] != "/local/team" || first["bytes"] != 1048576.0 || first["used_entries"] != 1.0 ||
		first["used_bytes"].(float64) < 1024 {
		t.Errorf("got %v", first)
	}
	does(t, endpoint, "node quota team --none -o json", "[]")
	does(t, endpoint, "node create team/other", "made")
}

// Nodes and directories, from their making to their end.
func TestNodeCommands(t *testing.T) {
	t.Parallel()
	endpoint := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	does(t, endpoint, "node ls -o json", "[]")
	does(t, endpoint, "node create team/app --session-grace-period 5s --read-consistency strict",
		"made /local/team/app")
	does(t, endpoint, "node create /local/team/app", "exists already")
	does(t, endpoint, "node alter team/app --self-check-period 100ms", "changed /local/team/app")
	does(t, endpoint, "node show team/app", "/local/team/app", "self-check period      500ms, set to 100ms",
		"session grace period   5s\n", "read consistency       strict", "attach consistency     strict")
	shown := parsed(t, does(t, endpoint, "node show team/app -o json"))
	if at(t, shown, "session_grace_period_millis", "effective") != 5000.0 ||
		at(t, shown, "read_consistency") != "strict" || at(t, shown, "permissions") == nil {
		t.Errorf("got %v", shown)
	}
	does(t, endpoint, "mkdir team/attic/old", "/local/team/attic/old is there")
	does(t, endpoint, "ls team", "NAME", "app ", "attic/")
	does(t, endpoint, "ls team -o jsonl", `{"name":"app","type":"coordination_node"`)
	does(t, endpoint, "node tree", "/local\n  team/\n    app\n    attic/\n      old/")
	does(t, endpoint, "node ls", "PATH", "/local/team/app  0         0")
	does(t, endpoint, "grant team/app bob ydb.generic.read ydb.granular.erase_row",
		"bob may ydb.generic.read, ydb.granular.erase_row on /local/team/app")
	does(t, endpoint, "node show team/app", `permissions of         "bob": `, "ydb.generic.read")
	coordd(t, exit.Failure, []string{"grant", "team/app", "bob", "ydb.generic.raed", "-e", endpoint},
		"Unknown permission name: ydb.generic.raed", "known are ydb.generic.read")
	does(t, endpoint, "revoke team/app bob ydb.granular.erase_row", "bob has no longer")
	if text := does(t, endpoint, "node show team/app"); strings.Contains(text, "erase_row") {
		t.Error(text)
	}
	does(t, endpoint, "chown team bob", "/local/team belongs to bob")
	does(t, endpoint, "rmdir team/attic/old", "removed")
	does(t, endpoint, "node drop team/app", "dropped /local/team/app")
	for args, want := range map[string][]string{
		"node show team/app":      {"coordd: /local/team/app: ", "no such coordination node"},
		"node drop team/app":      {"coordd: /local/team/app: "},
		"session show team/app 5": {"no such coordination node"},
		"semaphore show team/app door": {"no coordination node /local/team/app",
			"coordd node create"},
		"grant none bob ydb.generic.read":                    {"coordd: /local/none: "},
		"semaphore create team/app door --limit 1 --data ab": {"no coordination node"},
	} {
		coordd(t, exit.NotFound, append(strings.Fields(args), "--endpoint", endpoint), want...)
	}
	coordd(t, exit.Failure, []string{"rmdir", "team", "--endpoint", endpoint}, "coordd: /local/team: ")
}

// Semaphores and sessions: what is shown of them, in all forms, and what is done to them.
func TestSemaphoreCommands(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	does(t, endpoint, "semaphore ls app -o json", "[]")
	does(t, endpoint, "session ls app -o json", "[]")
	does(t, endpoint, "sem create app door --limit 3 --data hello", `made "door" with a limit of 3`)
	holder, waiter := sessionOf(t, c), sessionOf(t, c)
	if got, err := holder.Acquire(t.Context(),
		protocol.Acquisition{Name: "door", Count: 2, Data: []byte("\xff\x00")}); !got || err != nil {
		t.Fatal(got, err)
	}
	waits := make(chan struct{}, 1)
	go func() {
		_, _ = waiter.Acquire(t.Context(), protocol.Acquisition{Name: "door", Count: 2, Wait: protocol.Forever,
			Data: []byte("\x1b[2J\u202e\U000E0001"), Waiting: func() { waits <- struct{}{} }})
	}()
	<-waits
	does(t, endpoint, "sem show app door", `/local/app "door" held 2 of 3, 1 owner, 1 waiter`,
		`data    "hello"`,
		fmt.Sprintf(`owner   session %d "test", order id 1, count 2, since `, holder.ID()), `data "\xff\x00"`,
		"client 127.0.0.1:", fmt.Sprintf("waiter  session %d", waiter.ID()), "for ever",
		`data "\x1b[2J\u202e\U000e0001"`)
	text := does(t, endpoint, "semaphore show app door -o json")
	shown := parsed(t, text)
	if strings.ContainsAny(text, "\x1b\u202e\U000E0001") {
		t.Errorf("a terminal would obey %q", text)
	}
	for _, want := range []struct {
		value any
		path  []any
	}{
		{"door", []any{"name"}}, {3.0, []any{"limit"}}, {2.0, []any{"count"}}, {false, []any{"ephemeral"}},
		{"hello", []any{"data"}},
		{float64(holder.ID()), []any{"owners", 0, "session"}}, {"/wA=", []any{"owners", 0, "data_base64"}},
		{"test", []any{"owners", 0, "description"}}, {1.0, []any{"owners", 0, "order_id"}},
		{"\x1b[2J\u202e\U000E0001", []any{"waiters", 0, "data"}}, {2.0, []any{"waiters", 0, "count"}},
	} {
		if got := at(t, shown, want.path...); got != want.value {
			t.Errorf("%v is %v, want %v", want.path, got, want.value)
		}
	}
	if address, _ := at(t, shown, "owners", 0, "client", "address").(string); !strings.HasPrefix(address,
		"127.0.0.1:") {
		t.Errorf("the client's address is %q", address)
	}
	does(t, endpoint, "sem ls app", "NODE", "NAME", "HELD",
		`/local/app  "door"  held 2 of 3  1       1        "hello"`)
	if rows := parsed(t, does(t, endpoint, "sem ls app do -o json")); at(t, rows, 0, "owners") != 1.0 {
		t.Error(rows)
	}
	does(t, endpoint, "sem ls app dx -o jsonl")
	sessions := parsed(t, does(t, endpoint, "session ls app -o json"))
	if at(t, sessions, 0, "owns", 0, "name") != "door" || at(t, sessions, 1, "awaits", 0, "name") != "door" ||
		at(t, sessions, 0, "attached") != true {
		t.Error(sessions)
	}
	coordd(t, exit.Usage, []string{"session", "ls", "--mine", "-e", endpoint},
		"flag --mine: the server knows no name of yours", "--user")
	does(t, endpoint, "session ls", "NODE", "SESSION", `"test"`, "1     0", "127.0.0.1:")
	does(t, endpoint, "session ls --match tes", `"test"`)
	does(t, endpoint, "session ls --match 127.0.0.1:", `"test"`)
	does(t, endpoint, "session ls --match best -o json", "[]")
	coordd(t, exit.NotFound, []string{"session", "ls", "nosuch", "-e", endpoint},
		"coordd: /local/nosuch: There is no such")
	does(t, endpoint, "session ls --detached -o json", "[]")
	does(t, endpoint, fmt.Sprint("session show app ", waiter.ID()), `"test"`, "timeout 1m",
		"client 127.0.0.1:", `awaits  "door", order id 2`, "for ever")
	does(t, endpoint, "sem set app door goodbye", `"door" has 7 bytes of data`)
	coordd(t, exit.Failure, []string{"semaphore", "delete", "app", "door", "-e", endpoint},
		"Semaphore not empty", "--force", "tells its owners nothing")
	does(t, endpoint, fmt.Sprint("session kill app ", holder.ID(), " --reason test"), "ended session")
	<-holder.Lost()
	does(t, endpoint, "sem show app door", "goodbye", fmt.Sprintf("owner   session %d", waiter.ID()))
	does(t, endpoint, "sem delete app door --force", `deleted "door"`)
	if got, err := waiter.Acquire(t.Context(),
		protocol.Acquisition{Name: "lock", Count: 1 << 60, Ephemeral: true}); !got || err != nil {
		t.Fatal(got, err)
	}
	coordd(t, exit.Failure, []string{"semaphore", "delete", "app", "lock", "--force", "-e", endpoint},
		"Cannot delete ephemeral", fmt.Sprint("coordd session kill app ", waiter.ID()))
	coordd(t, exit.NotFound, []string{"semaphore", "show", "app", "none", "-e", endpoint},
		`"none": Semaphore not found`)
	coordd(t, exit.NotFound, []string{"session", "show", "app", "999", "-e", endpoint}, "999")
}

// A watch shows what is there, each difference, and that it is gone.
func TestSemaphoreWatch(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	if err := s.Create(t.Context(), "config", 1, []byte("1")); err != nil {
		t.Fatal(err)
	}
	watch := func() (p *process, first any) {
		p = spawn(t, "sem", "watch", "app", "config", "--changes", "2", "-o", "jsonl", "--endpoint", endpoint)
		return p, parsed(t, p.line())
	}
	p, first := watch()
	if at(t, first, "data") != "1" || at(t, first, "exists") != true {
		t.Fatal(first)
	}
	if err := s.Update(t.Context(), "config", []byte("2")); err != nil {
		t.Fatal(err)
	}
	if code, lines := p.exit(t); code != exit.OK || len(lines) != 1 ||
		at(t, parsed(t, lines[0]), "data") != "2" {
		t.Errorf("exit code %d: %v", code, lines)
	}
	p, _ = watch()
	if err := s.Delete(t.Context(), "config", false); err != nil {
		t.Fatal(err)
	}
	if code, lines := p.exit(t); code != exit.OK || len(lines) != 1 ||
		at(t, parsed(t, lines[0]), "exists") != false {
		t.Errorf("exit code %d: %v", code, lines)
	}
}

// What a server without coordd's own services can do is done, and what it cannot is said, with a code of its
// own.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(other,
		Ydb_Coordination_V1.UnimplementedCoordinationServiceServer{})
	go other.Serve(listener)
	t.Cleanup(other.Stop)
	for _, args := range []string{"session ls", "session show app 1", "session kill app 1",
		"semaphore ls app", "top", "slow"} {
		coordd(t, exit.NeedsOurs, append(strings.Fields(args), "--endpoint", listener.Addr().String()),
			"this needs a coordd server")
	}
	shut := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--inspect", "off", "--listen-http",
		"off").ready(t)
	does(t, shut, "node create app/one", "made")
	does(t, shut, "node ls", "/local/app/one  ?         ?")
	does(t, shut, "sem create app/one door --limit 2", "made")
	if shown := parsed(t, does(t, shut, "sem show app/one door -o json")); !reflect.DeepEqual(at(t, shown,
		"owners"), []any{}) {
		t.Error(shown)
	}
	coordd(t, exit.Failure, []string{"session", "ls", "--endpoint", shut}, "does not show this to you")
	does(t, shut, "rl create app/one reports --rate 3", "made")
	does(t, shut, "rl create app/one reports/daily", "made")
	does(t, shut, "rl ls", "/local/app/one  reports        3         ?",
		"/local/app/one  reports/daily  as above  ?")
	if shown := parsed(t, does(t, shut, "rl describe app/one reports -o json")); at(t, shown,
		"buckets") != nil || at(t, shown, "max_units_per_second", "effective") != nil {
		t.Error(shown)
	}
	coordd(t, exit.Failure, []string{"top", "--endpoint", shut}, "does not show this to you")
}

// Mistakes in the arguments and flags of each command that asks a server as a client does.
func TestWrongInputOfClients(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, protocol.DataMost+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][]string{
		"slow app":          {`argument "app" is not allowed`, "coordd slow takes only flags"},
		"slow --since 0s":   {"flag --since", "0s", "such as 10m"},
		"slow --limit 1001": {"flag --limit", "1001", "from 1 to 1000"},
		"node":              {"no command given; known are alter, create, drop, ls, quota, show, tree"},
		"node crate app":    {`unknown command "crate"; did you mean create?`},
		"node create":       {"coordd node create takes NODE, 0 arguments given"},
		"node create a b":   {"takes NODE, 2 arguments given"},
		"node create app --self-check-period 0s": {"flag --self-check-period", "0s",
			"from 1ms to 1193h2m47.295s"},
		"node create app --session-grace-period 2000h": {"flag --session-grace-period", "2000h", "from 1ms"},
		"node create app --read-consistency strong": {"flag --read-consistency", "strong",
			"strict or relaxed"},
		"node create app --attach-consistency strong": {"flag --attach-consistency",
			"strict or relaxed"},
		"node alter app --rate-limiter-counters x": {"flag --rate-limiter-counters",
			"aggregated or detailed"},
		"node alter app":       {"no setting given", "--session-grace-period"},
		"node show app -o xml": {"flag --output", "xml", "table, json or jsonl"},
		"node ls --timeout 0s": {"flag --timeout", "0s", "30s"},
		"node ls a b":          {"takes [PATH], 2 arguments"},
		"ratelimiter": {"no command given; known are " +
			"acquire, alter, create, describe, drop, ls"},
		"rl create app":                          {"coordd ratelimiter create takes NODE RESOURCE, 1 argument given"},
		"rl create app reports":                  {"flag --rate: no value given", `"reports"`},
		"rl create app /reports --rate 1":        {"argument RESOURCE", `"/reports"`, "reports/daily"},
		"rl create app a//b --rate 1":            {"argument RESOURCE", `"a//b"`},
		"rl create app a --rate -1":              {"flag --rate", `"-1"`, "0 or more"},
		"rl create app a --rate NaN":             {"flag --rate", `"NaN"`, "finite"},
		"rl create app a --rate much":            {"--rate", "much"},
		"rl create app a --rate 1 --watermark 2": {"flag --watermark", `"2"`, "from 0 to 1"},
		"rl alter app a": {"no setting given",
			"--rate, --prefetch, --watermark, --burst"},
		"rl alter app a/ --rate 1": {"argument RESOURCE", `"a/"`},
		"rl drop app":              {"takes NODE RESOURCE, 1 argument given"},
		"rl acquire app a much": {"argument AMOUNT", `"much"`,
			"from 0 to 18446744073709551615"},
		"rl acquire app a -n --timeout 1s": {"--nonblock and --timeout", "give one"},
		"rl acquire app a --used -n":       {"flag --used", "it never waits"},
		"rl acquire app a --timeout 0s":    {"flag --timeout", "0s"},
		"rl describe app a -o xml":         {"flag --output", "xml"},
		"rl ls a b c":                      {"takes [NODE] [RESOURCE], 3 arguments"},
		"ls --outptu json":                 {"unknown flag --outptu; did you mean --output?"},
		"mkdir":                            {"takes PATH, 0 arguments"},
		"rmdir a b":                        {"takes PATH, 2 arguments"},
		"grant app bob":                    {"takes PATH USER PERMISSION..., 2 arguments given"},
		"grant app bob read":               {"argument PERMISSION", "read", "ydb.generic.use"},
		"revoke app bob read":              {"argument PERMISSION", "ydb.generic.use"},
		"chown app":                        {"takes PATH USER, 1 argument given"},
		"semaphore create app door": {"flag --limit: no value given",
			"from 1 to 18446744073709551615"},
		"semaphore create app door --limit 0":                    {"flag --limit: value 0", "from 1 to"},
		"semaphore create app door --limit -1":                   {"--limit", "-1"},
		"sem create app --limit 1 N" + strings.Repeat("n", 1024): {"argument NAME: 1025 bytes", "up to 1024"},
		"sem set app door":                                       {"no data given: want DATA or --file"},
		"sem set app door a --file b":                            {"DATA and --file", "one of them"},
		"sem set app door --file /nowhere/x":                     {"flag --file", "/nowhere/x"},
		"sem set app door --file " + large:                       {"flag --file", "more than 1048576 bytes"},
		"sem show app":                                           {"takes NODE NAME, 1 argument given"},
		"sem watch app door --changes 0":                         {"flag --changes", "above 0"},
		"session kill app one":                                   {"argument SESSION", "one", "coordd session ls"},
		"session kill app":                                       {"a SESSION or --detached"},
		"session kill app 1 --detached":                          {"a SESSION or --detached"},
		"session kill app 1 --older 1h":                          {"flag --older", "with --detached"},
		"session kill app --detached --older -1h":                {"flag --older", "-1h"},
		"session show app 0":                                     {"argument SESSION", "coordd session ls"},
		"elect app":                                              {"takes NODE NAME", "1 argument given"},
		"elect app leader run":                                   {"takes NODE NAME", "only behind --"},
		"elect app leader --changes 1":                           {"--changes and --output", "--observe"},
		"elect app leader --observe --changes 0":                 {"flag --changes", "above 0"},
		"elect app leader --session-timeout 1s": {"flag --session-timeout",
			"from 3s to 30m"},
		"discover app web --publish a --watch": {"flag --publish", "--watch"},
		"discover app web --changes 2":         {"flag --changes", "--watch"},
		"discover app web --publish a --session-timeout 1h": {"flag --session-timeout",
			"from 3s to 30m"},
		"config get app":                        {"takes NODE NAME"},
		"config set app settings":               {"no data given: want DATA or --file"},
		"config watch app settings --changes 0": {"flag --changes", "above 0"},
		"config watch app settings x":           {"only behind --"},
		"top --every 1ms":                       {"flag --every", "1ms", "from 100ms to 1h"},
		"top --times 0":                         {"flag --times", "above 0"},
		"top --sort size":                       {"flag --sort", "size", "wait, held or name"},
		"top a b":                               {"takes [PATH], 2 arguments given"},
		"bench app": {`argument "app" is not allowed`,
			"takes only flags"},
		"bench --clients 0":        {"flag --clients", "0", "from 1 to 1000"},
		"bench --clients 1001":     {"flag --clients", "1001", "from 1 to 1000"},
		"bench --duration 1ms":     {"flag --duration", "1ms", "from 10ms to 1m"},
		"bench --duration 2m":      {"flag --duration", "2m", "from 10ms to 1m"},
		"bench -o xml":             {"flag --output", "xml"},
		"export a b":               {"takes [PATH], 2 arguments given"},
		"import app":               {`argument "app" is not allowed`},
		"import --file /nowhere/x": {"flag --file", "/nowhere/x"},
		"sem release app":          {"takes NODE NAME, 1 argument given"},
		"sem release app x": {"variable COORDD_KEPT_SESSION",
			"coordd lock --keep"},
		"sem take-over app x": {"flag --session-timeout: no value given",
			"3s to 30m"},
		"sem take-over app x --session-timeout 1h": {"flag --session-timeout",
			"from 3s to 30m"},
		"sem take-over app x --session-timeout 5s --timeout 25h": {"flag --timeout",
			"up to 24h"},
		"session ls --mine x y":              {"takes [NODE], 2 arguments given"},
		"session ls --user a --token-file b": {"--user and --token-file", "one of them"},
		"session ls --password-file b":       {"flag --password-file", "without --user"},
		"session ls --endpoint http://a":     {"flag --endpoint", "grpc://HOST:PORT"},
		"session ls --endpoint a:1/local -d /other": {"flag --database", "/other",
			"names /local"},
	} {
		t.Run(args[:min(len(args), 60)], func(t *testing.T) {
			r := newRun(newFakeServer())
			r.begin(strings.Fields(args)...)
			if code := r.wait(t); code != exit.Usage {
				t.Errorf("exit code %d, want %d", code, exit.Usage)
			}
			inOrder(t, r.log.String(), append([]string{"coordd: "}, want...))
		})
	}
}

// The leader is shown to whoever observes, and the next one takes over when it stops.
func TestElect(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	one := spawn(t, "elect", "app", "leader", "--data", "one", "--endpoint", endpoint)
	inOrder(t, one.line(),
		[]string{`leads "leader" of /local/app: session `, "token 1"})
	coordd(t, exit.Conflict, []string{"elect", "app", "leader", "--timeout", "10ms", "--endpoint", endpoint},
		"is held by session ", `"one"`, "coordd elect on ")
	does(t, endpoint, "elect app leader --observe --changes 1", "leads, token 1", `data "one"`)
	if shown := parsed(t, does(t, endpoint, "elect app leader --observe --changes 1 -o json")); at(t, shown,
		"data") != "one" || at(t, shown, "order_id") != 1.0 {
		t.Error(shown)
	}
	two := spawn(t, "elect", "app", "leader", "--data", "two", "--endpoint", endpoint)
	waitFor(t, "it to wait", func() bool {
		return len(at(t, parsed(t, does(t, endpoint, "sem show app leader -o json")), "waiters").([]any)) == 1
	})
	one.Command.Process.Signal(syscall.SIGTERM)
	one.wantExit(t, exit.OK)
	two.line()
	does(t, endpoint, "elect app leader --observe --changes 1", `data "two"`)
	session := at(t, parsed(t, does(t, endpoint, "sem show app leader -o json")), "owners", 0,
		"session").(float64)
	does(t, endpoint, fmt.Sprint("session kill app ", session))
	two.wantExit(t, exit.Lost, `elect: "leader" of /local/app is lost`, "Session has expired")
	if out := coordd(t, exit.Code(7), []string{"elect", "app", "leader", "--endpoint", endpoint, "--",
		"/bin/sh", "-c", "echo $COORDD_FENCING_TOKEN; exit 7"}); out <= "1" || len(out) != 1 {
		t.Errorf("the token is %q", out)
	}
	coordd(t, exit.NotServing, []string{"elect", "app", "leader", "--endpoint", "127.0.0.1:1"}, "no server at")
	coordd(t, exit.NotRun, []string{"elect", "app", "leader", "--endpoint", "127.0.0.1:1", "--", "/bin/sh"},
		"no server at")
}

// Whoever offers a service is listed as long as he does.
func TestDiscover(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	if offers := at(t, parsed(t, does(t, endpoint, "discover app web -o json")),
		"offers"); len(offers.([]any)) != 0 {
		t.Error(offers)
	}
	var offering []*process
	for _, address := range []string{"10.0.0.7:80", "10.0.0.8:80"} {
		p := spawn(t, "discover", "app", "web", "--publish", address, "--endpoint", endpoint)
		p.line()
		offering = append(offering, p)
	}
	does(t, endpoint, "discover app web", "web by 2 sessions", `"10.0.0.7:80", session`,
		`"10.0.0.8:80", session`)
	watcher := spawn(t, "discover", "app", "web", "--watch", "--changes", "2", "-o", "jsonl", "--endpoint",
		endpoint)
	if first := parsed(t, watcher.line()); len(at(t,
		first, "offers").([]any)) != 2 {
		t.Error(first)
	}
	offering[0].Command.Process.Signal(syscall.SIGTERM)
	offering[0].wantExit(t, exit.OK)
	code, lines := watcher.exit(t)
	if code != exit.OK || len(lines) != 1 || at(t, parsed(t, lines[0]), "offers", 0, "data") != "10.0.0.8:80" {
		t.Errorf("exit code %d: %v", code, lines)
	}
}

// A configuration is read as it was written, and a command runs at each change of it with the last state.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "config"), []byte("a: 1\nb: \x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	coordd(t, exit.NotFound, []string{"config", "get", "app", "settings", "--endpoint", endpoint},
		`"settings": Semaphore not found`)
	does(t, endpoint, "config set app settings --file "+filepath.Join(directory, "config"), "9 bytes of data")
	if got := does(t, endpoint, "config get app settings"); got != "a: 1\nb: \x00" {
		t.Errorf("got %q", got)
	}
	does(t, endpoint, "config set app settings first")
	if shown := parsed(t, does(t, endpoint, "config get app settings -o json")); at(t, shown,
		"data") != "first" {
		t.Error(shown)
	}
	p := spawn(t, "config", "watch", "app", "settings", "--changes", "2", "--endpoint", endpoint, "--",
		"/bin/sh", "-c", "read x; echo got $x; exit 3")
	if got := p.line(); got != "got first" {
		t.Fatalf("got %q", got)
	}
	if err := s.Update(t.Context(), "settings", []byte("second\n")); err != nil {
		t.Fatal(err)
	}
	code, lines := p.exit(t)
	if code != exit.OK || len(lines) != 1 || lines[0] != "got second" {
		t.Errorf("exit code %d: %q", code, lines)
	}
	inOrder(t, p.Logged(), []string{`command "/bin/sh": exit status 3`})
	p = spawn(t, "config", "watch", "app", "settings", "--endpoint", endpoint)
	if got := p.line(); !strings.HasSuffix(got,
		`"second\n"`) {
		t.Fatalf("got %q", got)
	}
	p.Command.Process.Signal(syscall.SIGTERM)
	p.wantExit(t, exit.OK)
	coordd(t, exit.NoSuch, []string{"config", "watch", "app", "settings", "--endpoint", endpoint, "--",
		"nosuchcommand"}, "nosuchcommand")
}

// TestTop wants what is awaited before what is only held, with the holder, and json in lines.
func TestTop(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s, waiter := sessionOf(t, c), sessionOf(t, c)
	if err := s.Create(t.Context(), "free", 1, nil); err != nil {
		t.Fatal(err)
	}
	const locks = 15
	for i := range locks {
		if got, err := s.Acquire(t.Context(),
			protocol.Acquisition{Name: fmt.Sprint("lock", i), Count: 1 << 63, Ephemeral: true}); !got ||
			err != nil {
			t.Fatal(got, err)
		}
	}
	waits := make(chan struct{}, 1)
	go func() {
		_, _ = waiter.Acquire(t.Context(), protocol.Acquisition{Name: "lock12", Count: 1 << 63, Ephemeral: true,
			Wait: protocol.Forever, Waiting: func() { waits <- struct{}{} }})
	}()
	<-waits
	does(t, endpoint, "top --times 1", "15 held or awaited, longest wait first", "NODE  LOCK", "HELD FOR  HOLDER",
		`app   "lock12"  `, "test    127.0.0.1:", "  1        ", `"lock0" `)
	does(t, endpoint, "top --times 1 --sort held", "longest held first", `"lock0" `, `"lock1" `, `"lock12"`)
	does(t, endpoint, "top --times 1 --filter lock14 --sort name", `only with "lock14"`, `"lock14"`)
	shown := parsed(t, does(t, endpoint, "top app --times 1 -o json"))
	if at(t, shown, "locks", 0, "name") != "lock12" || len(at(t, shown, "locks").([]any)) != locks ||
		at(t, shown, "locks", 0, "oldest_waiter", "session") != float64(waiter.ID()) ||
		at(t, shown, "locks", 0, "oldest_owner", "session") != float64(s.ID()) ||
		at(t, shown, "locks", 0, "oldest_owner", "description") != "test" ||
		at(t, shown, "locks", 0, "oldest_owner", "client", "server") == "" ||
		at(t, shown, "whole") != true || at(t, shown, "total") != float64(locks) {
		t.Error(shown)
	}
	for _, form := range []string{"json", "jsonl"} { // both a line for each look
		looks := strings.Split(does(t, endpoint, "top --times 2 --every 100ms -o "+form), "\n")
		if len(looks) != 2 || at(t, parsed(t, looks[1]), "locks", 0, "name") != "lock12" {
			t.Errorf("%s: %q", form, looks)
		}
	}
	p := spawn(t, "top", "--every", "100ms", "-o", "jsonl", "--endpoint", endpoint)
	p.line()
	p.Command.Process.Signal(syscall.SIGINT)
	if code, _ := p.exit(t); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
}
