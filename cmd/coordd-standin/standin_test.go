package main

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// standInRun is a stand-in in the test process.
type standInRun struct {
	*run
	clients, orders string // addresses
}

func beginStandIn(t *testing.T, args ...string) *standInRun {
	t.Helper()
	r := begin(nil, append([]string{"--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"}, args...)...)
	var orders []string
	for late := time.Now().Add(waitMax); orders == nil ||
		!strings.Contains(r.out.String(), "\n"); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("no stand-in:\n%s", r.log.String())
		}
		orders = regexp.MustCompile(`orders=(\S+)`).FindStringSubmatch(r.log.String())
	}
	address := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(r.out.String()), "grpc://"), "/local")
	return &standInRun{r, strings.Replace(address, "localhost", "127.0.0.1", 1), orders[1]}
}

func (r *standInRun) stop(t *testing.T) {
	t.Helper()
	r.in <- syscall.SIGTERM
	if code := r.wait(t); code != exit.OK {
		t.Errorf("exit code %d:\n%s", code, r.log.String())
	}
}

// ctl gives an order and returns what is printed.
func (r *standInRun) ctl(t *testing.T, want exit.Code, args ...string) string {
	t.Helper()
	order := begin([]string{"COORDD_STANDIN=" + r.orders}, append([]string{"ctl"}, args...)...)
	if code := order.wait(t); code != want {
		t.Errorf("ctl %v: exit code %d: %s", args, code, order.log.String())
	}
	return order.out.String() + order.log.String()
}

// A stand-in takes orders, and what its clients said can be replayed on another one.
func TestStandIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recording.txt")
	r := beginStandIn(t, "--record", file)
	if help := r.ctl(t, exit.OK, "help"); !strings.Contains(help, "\nfail-next kind=") ||
		!strings.Contains(help, "lose-leader d=1s") {
		t.Errorf("help: %s", help)
	}
	conns, err := raw.Dial(r.clients, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	if err := raw.CreateNode(t.Context(), conns[0], "/local/locks"); err != nil {
		t.Fatal(err)
	}
	if said := r.ctl(t, exit.OK, "fail-next", "kind=start", "status=UNAVAILABLE",
		"text=not now"); !strings.Contains(said, "Go tries again") {
		t.Errorf("said %s", said)
	}
	start := &raw.Start{Path: "/local/locks", TimeoutMillis: 10_000}
	if _, err := raw.Open(t.Context(), conns[0], start); err == nil ||
		!strings.Contains(err.Error(), "not now") {
		t.Errorf("got %v", err)
	}
	s, err := raw.Open(t.Context(), conns[0], start)
	if err == nil {
		err = s.Create("door", 2)
	}
	if err == nil {
		err = s.Acquire("door", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if said := r.ctl(t, exit.OK, "requests"); !strings.Contains(said, `"name": "door"`) {
		t.Errorf("requests: %s", said)
	}
	for order, want := range map[string]string{
		"fail-next kind=acquire status=BUSY": "no status", "burn": "no order is called",
		"reset door": "KEY=VALUE", "reset all=1": "nobody wants all",
	} {
		if said := r.ctl(t, exit.Usage, strings.Fields(order)...); !strings.Contains(said, want) {
			t.Errorf("%s: %s", order, said)
		}
	}
	r.stop(t)
	if said := r.ctl(t, exit.NotServing, "reset"); !strings.Contains(said, "no stand-in at") {
		t.Errorf("said %s", said)
	}

	other := beginStandIn(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script, err := conformance.Parse("recording", string(text))
	if err != nil {
		t.Fatal(err)
	}
	target, err := conformance.Dial(t.Context(),
		conformance.EndpointConfig{Address: other.clients, Database: "/local"})
	if err != nil {
		t.Fatal(err)
	}
	if outcome, err := conformance.Run(t.Context(), target, script); err != nil || outcome.Skipped != "" ||
		outcome.Diff != "" {
		t.Errorf("%v %s%s\nof\n%s", err, outcome.Skipped, outcome.Diff, text)
	}
	if err := target.Close(t.Context()); err != nil {
		t.Error(err)
	}
	other.stop(t)
}

// An order that meets nothing fails, and names what it wanted; a rule that never met a request stands in the log.
func TestStandInMisses(t *testing.T) {
	r := beginStandIn(t)
	for _, order := range []string{"drop-streams how=clean node=jobs", "spurious-notice node=jobs",
		"detach-session node=jobs session=1", "expire-session node=jobs session=1", "drop-node node=jobs"} {
		if said := r.ctl(t, exit.Failure, strings.Fields(order)...); !strings.Contains(said, "/local/jobs") {
			t.Errorf("%s: %s", order, said)
		}
	}
	if said := r.ctl(t, exit.OK, "drop-streams", "how=clean", "may_miss=true"); strings.TrimSpace(said) != "0" {
		t.Errorf("dropped %s", said)
	}
	r.ctl(t, exit.OK, "fail-next", "kind=describe", "status=UNAUTHORIZED", "node=jobs")
	r.stop(t)
	if log := r.log.String(); !strings.Contains(log, "a fault never happened") {
		t.Errorf("the log has nothing of the fault: %s", log)
	}
}

// The command and the flag print the same line, as with coordd.
func TestStandInVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		r := begin(nil, arg)
		if code := r.wait(t); code != exit.OK || r.out.String() != cmdline.VersionText("coordd-standin")+"\n" {
			t.Errorf("%s: exit code %d, %q, %s", arg, code, r.out.String(), r.log.String())
		}
	}
}

// A stand-in has no settings for what it does not do, and a recording is never overwritten.
func TestStandInRefusals(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]exit.Code{
		"--data-dir /tmp/x": exit.Usage, "--listen-peer :1": exit.Usage, "--record " + there: exit.Config,
		"door": exit.Usage, "ctl": exit.Usage, "--http-tls": exit.Usage,
		"--listen off --listen-tls 127.0.0.1:1 --tls-cert " + there + " --tls-key " + there: exit.Config,
	} {
		r := begin(nil, strings.Fields(args)...)
		if code := r.wait(t); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, r.log.String())
		}
	}
}

// Whatever else is started takes no orders: only one place of the repository makes what takes them.
func TestOnlyStandInsTakeOrders(t *testing.T) {
	var places []string
	orders := regexp.MustCompile(`\.Controls\(\)|\bFaults: +\w|HTTP\.Faults = `)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		// far cheaper
		some := bytes.Contains(content, []byte("Controls()")) || bytes.Contains(content, []byte("Faults"))
		if some && orders.Match(content) {
			places = append(places, filepath.ToSlash(strings.TrimPrefix(path, root+"/")))
		}
		return err
	})
	if want := []string{"server/standin/orders.go", "server/standin/process.go"}; err != nil ||
		!slices.Equal(places, want) {
		t.Errorf("%v in %v, want %v", err, places, want)
	}
}

// TestStandInRestarts in the middle of an order: who has given it is answered, the ports and what was
// acknowledged stay.
func TestStandInRestarts(t *testing.T) {
	r := beginStandIn(t)
	conns, err := raw.Dial(r.clients, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	if err := raw.CreateNode(t.Context(), conns[0], "/local/locks"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if said := r.ctl(t, exit.OK, "restart"); said != "" {
			t.Errorf("said %q", said)
		}
	}
	if said := r.ctl(t, exit.OK, "dump"); said != "/local/locks\n" {
		t.Errorf("dump %q", said)
	}
	start := &raw.Start{Path: "/local/locks", TimeoutMillis: 10_000}
	if _, err := raw.Open(t.Context(), conns[0], start); err != nil {
		t.Error(err)
	}
	r.ctl(t, exit.OK, "restart", "empty=true")
	if said := r.ctl(t, exit.OK, "dump"); said != "" {
		t.Errorf("dump %q", said)
	}
	for order, want := range map[string]string{"partition a=1 b=2": "there is one server",
		"full-disk": "there is no disk", "advance d=1s": "--fake-time"} {
		if said := r.ctl(t, exit.Usage, strings.Fields(order)...); !strings.Contains(said, want) {
			t.Errorf("%s: %s", order, said)
		}
	}
	r.stop(t)
}

// TestStandInInFakeTime has a session's time run out by an order, and no sooner.
func TestStandInInFakeTime(t *testing.T) {
	r := beginStandIn(t, "--fake-time")
	conns, err := raw.Dial(r.clients, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.CreateNode(t.Context(), conns[0], "/local/locks"); err != nil {
		t.Fatal(err)
	}
	s, err := raw.Open(t.Context(), conns[0], &raw.Start{Path: "/local/locks", TimeoutMillis: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Acquire("lock", math.MaxUint64); err != nil && !strings.Contains(err.Error(), "NOT_FOUND") {
		t.Fatal(err)
	}
	raw.Close(conns)
	for late := time.Now().Add(waitMax); !strings.Contains(r.ctl(t, exit.OK, "dump"),
		"without a client"); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the client is still there")
		}
	}
	if said := r.ctl(t, exit.OK, "advance", "d=1ms"); !strings.Contains(said, `"events": []`) ||
		!strings.Contains(said, `"elapsed": "1ms"`) {
		t.Errorf("said %s", said)
	}
	if said := r.ctl(t, exit.OK, "advance", "d=20s"); !strings.Contains(said, `"kind": "session expired"`) {
		t.Errorf("said %s", said)
	}
	if said := r.ctl(t, exit.OK, "elapsed"); !strings.Contains(said, `"elapsed": "20.001s"`) ||
		!strings.Contains(said, `"fake_time": true`) {
		t.Errorf("said %s", said)
	}
	r.stop(t)
}

// TestStandInLoads a fixture before it serves, or does not start.
func TestStandInLoads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fixture.txt")
	const fixture = "/local/locks\n  semaphore \"config\": 0 of 3, \"v1\"\n"
	if err := os.WriteFile(file, []byte(fixture), 0o600); err != nil {
		t.Fatal(err)
	}
	r := beginStandIn(t, "--load", file)
	if said := r.ctl(t, exit.OK, "dump"); said != fixture {
		t.Errorf("dump %q", said)
	}
	if said := r.ctl(t, exit.Usage, "load", "text="+fixture); !strings.Contains(said, "ALREADY_EXISTS") {
		t.Errorf("said %s", said)
	}
	r.stop(t)
	if err := os.WriteFile(file, []byte("  semaphore"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]exit.Code{"--load " + file: exit.Config, "--load /nowhere": exit.Config,
		"--fake-time --record " + file + "2": exit.Usage} {
		refused := begin(nil, append([]string{"--listen", "127.0.0.1:0", "--listen-http", "off"},
			strings.Fields(args)...)...)
		if code := refused.wait(t); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, refused.log.String())
		}
	}
}
