package doubles

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testserver"
)

const (
	goSDK        = "Go, a load program on the SDK"
	goSDKModule  = "github.com/ydb-platform/ydb-go-sdk/v3"
	goSDKFolder  = "../../conformance/bench" // the module that imports it: nothing here does
	goWorkers    = 2                         // of each program
	goShared     = "sdk-shared"
	goSharedMost = 2
	// goTimeout is its sessions' timeout, goKeepAlive the silence behind which it attaches again: more than
	// the time between two pings and an election.
	goTimeout   = 12 * time.Second
	goKeepAlive = 7 * time.Second
)

// The states of failure of the Go SDK, as the load program names them.
const (
	goExpired FailureState = "session expired"
	goClosed  FailureState = "session given up"
)

// goLoad is the program conformance/bench/sdkload with one server as its home.
type goLoad struct {
	t       *testing.T
	home    int
	faults  *faults
	process *testserver.Process

	mutex      sync.Mutex
	at         map[uint64]int // the server that a session was last attached through
	sessions   int
	moves      int
	operations [goWorkers]int64
	written    map[string]uint64 // what was acknowledged last
	tenures    []tenure
	states     map[FailureState]int
}

// goEvent is a line of what the program writes.
type goEvent struct {
	Kind, Worker, Name, Text     string
	Session, Count, Order, Value uint64
	Server                       int
	From, Until, Silence         int64
}

// buildGoLoad builds the program in its own module, and returns it and the SDK's version.
func buildGoLoad(t *testing.T) (program, version string) {
	t.Helper()
	program, err := testserver.Build("conformance/bench", "sdkload", "./sdkload")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Version}}", goSDKModule)
	list.Dir = goSDKFolder
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", goSDKModule, err)
	}
	return program, strings.TrimSpace(string(out))
}

func startGoLoad(t *testing.T, program string, home int, f *faults, node string) *goLoad {
	t.Helper()
	var addresses []string
	for _, s := range f.servers {
		addresses = append(addresses, s.Address)
	}
	l := &goLoad{t: t, home: home, faults: f, at: make(map[uint64]int),
		written: make(map[string]uint64), states: make(map[FailureState]int)}
	l.process = testserver.Launch(t, testserver.Config{Program: program, OpenStdin: true, Line: l.take,
		Args: []string{"-servers", strings.Join(addresses, ","), "-home", strconv.Itoa(home), "-node", node, "-name",
			fmt.Sprintf("load%d", home), "-workers", strconv.Itoa(goWorkers), "-seed", strconv.Itoa(home + 1),
			"-session-timeout", goTimeout.String(), "-keep-alive", goKeepAlive.String()}})
	return l
}

// take judges one line.
func (l *goLoad) take(line string) {
	var e goEvent
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		l.t.Errorf("load program of server %d: %v: %s", l.home+1, err, line)
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	worker, _ := strconv.Atoi(e.Worker[strings.LastIndex(e.Worker, "-")+1:])
	operations := &l.operations[min(max(worker, 0), goWorkers-1)]
	switch e.Kind {
	case "attached":
		if before, again := l.at[e.Session]; again {
			l.moves++
			l.onlyIfKilled(before, "%s had to open another stream for its session", e.Worker)
		} else {
			l.sessions++
		}
		l.at[e.Session] = e.Server
	case "expired":
		l.states[goExpired]++
		l.onlyIfKilled(l.at[e.Session], "the session of %s expired", e.Worker)
		if silence := time.Duration(e.Silence); silence < goTimeout {
			l.t.Errorf("the session of %s expired %v after it had heard of the server", e.Worker, silence)
		}
	case "closed":
		l.states[goClosed]++
		l.onlyIfKilled(l.at[e.Session], "the SDK gave the session of %s up: %s", e.Worker, e.Text)
	case "held":
		*operations += 2
		l.tenures = append(l.tenures, tenure{name: e.Name, count: e.Count, order: e.Order,
			from: time.Duration(e.From), until: time.Duration(e.Until)})
	case "updated":
		*operations++
		l.written[e.Name] = e.Value
	case "acked":
		*operations++
	case "problem":
		l.t.Errorf("%s, session %d: %s", e.Worker, e.Session, e.Text)
	}
}

// onlyIfKilled is an error unless a server was killed.
func (l *goLoad) onlyIfKilled(server int, format string, args ...any) {
	if !l.faults.killed(server, time.Now()) {
		l.t.Errorf("on server %d, which was well: "+format, append([]any{server + 1}, args...)...)
	}
}

// finish ends the program in good order.
func (l *goLoad) finish() {
	_ = l.process.Stdin.Close()
	select {
	case <-l.process.Ended():
		if code := l.process.ExitCode(); code != 0 {
			l.t.Errorf("load program of server %d: exit code %d: %s", l.home+1, code, l.process.LogTail())
		}
	case <-time.After(3 * time.Minute):
		l.t.Errorf("the load program of server %d does not end", l.home+1)
	}
}

// check reads back what was written.
func (l *goLoad) check(d *Double) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for name, written := range l.written {
		data := do(l.t, d,
			Describe(name, false)).GetDescribeSemaphoreResult().GetSemaphoreDescription().GetData()
		if got, err := strconv.ParseUint(string(data), 10, 64); err != nil || got < written {
			l.t.Errorf("%s holds %q, %d was acknowledged", name, data, written)
		}
	}
	return len(l.written)
}

func goLimit(name string) uint64 {
	if name == goShared {
		return goSharedMost
	}
	return 1
}
