//go:build linux

package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/internal/testserver"
)

// sdkLoad is the program conformance/bench/sdkload with one server as its home: two sessions through the unmodified SDK.
type sdkLoad struct {
	server     int
	process    *testserver.Process
	violations *violations
	fallible   *serverSet
	ready      chan struct{}

	operations [sdkWorkers]atomic.Int64
	expired    atomic.Int64
	moves      atomic.Int64

	mutex   sync.Mutex
	at      map[uint64]int    // the server that a session was last attached through
	written map[string]uint64 // last acknowledged update
	tenures []check.Tenure
}

// sdkEvent is a line of the program's output, see conformance/bench/sdkload.
type sdkEvent struct {
	Kind, Worker, Name, Text     string
	Session, Count, Order, Value uint64
	Server                       int
	From, Until, Silence         int64
}

// buildLoad builds the program in its own module.
func buildLoad(t *testing.T) string {
	t.Helper()
	binary, err := testserver.Build("conformance/bench", "sdkload", "./sdkload")
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

const sdkWorkers = 2

var (
	sdkSessionTimeout = inLongForm(12*time.Second, 16*time.Second)
	// sdkPause makes the load programs need as long for what progress wants of them as the other clients do.
	sdkPause = inLongForm(10*time.Millisecond, 60*time.Millisecond)
	// sdkSilenceMost is more than the time between two pings, a third of the session's timeout, and a change
	// of leaders.
	sdkSilenceMost = inLongForm(7*time.Second, 8*time.Second)
)

func startLoad(t *testing.T, binary string, server int, addresses []string, seed uint64, v *violations,
	fallible *serverSet) *sdkLoad {
	t.Helper()
	l := &sdkLoad{server: server, violations: v, fallible: fallible,
		ready: make(chan struct{}), at: make(map[uint64]int), written: make(map[string]uint64)}
	l.process = testserver.Launch(t, testserver.Config{Program: binary, OpenStdin: true, Line: l.take,
		Args: []string{"-servers", strings.Join(addresses, ","), "-home", strconv.Itoa(server), "-node", nodePath,
			"-name", fmt.Sprintf("load%d", server), "-workers", strconv.Itoa(sdkWorkers), "-seed",
			fmt.Sprint(seed + uint64(server)), "-session-timeout", sdkSessionTimeout.String(), "-keep-alive",
			sdkSilenceMost.String(), "-pause", sdkPause.String()}})
	select {
	case <-l.ready:
	case <-time.After(clusterPatience):
		t.Fatalf("the load program on server %d did not get its sessions", server)
	}
	return l
}

// take judges one event.
func (l *sdkLoad) take(line string) {
	var e sdkEvent
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		l.violations.add("load program on server %d: %v: %s", l.server, err, line)
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	worker, _ := strconv.Atoi(e.Worker[strings.LastIndex(e.Worker, "-")+1:])
	operations := &l.operations[min(max(worker, 0), sdkWorkers-1)]
	switch e.Kind {
	case "ready":
		close(l.ready)
	case "attached":
		if before, again := l.at[e.Session]; again {
			l.moved(before, "%s had to open another stream for session %d", e.Worker, e.Session)
		}
		l.at[e.Session] = e.Server
	case "expired":
		l.expired.Add(1)
		l.moved(l.at[e.Session], "the session of %s expired", e.Worker)
		if e.Silence < sdkSessionTimeout.Nanoseconds() {
			l.violations.add("the session of %s expired %v after it had heard from the server", e.Worker,
				time.Duration(e.Silence))
		}
	case "closed":
		l.moved(l.at[e.Session], "the SDK gave up the session of %s: %s", e.Worker, e.Text)
	case "held":
		operations.Add(2)
		l.tenures = append(l.tenures, check.Tenure{Name: e.Name, Session: e.Session, Count: e.Count, Order: e.Order,
			From: time.Duration(e.From), Until: time.Duration(e.Until)})
	case "updated":
		operations.Add(1)
		l.written[e.Name] = e.Value
	case "acked":
		operations.Add(1)
	case "problem":
		l.violations.add("%s, session %d on server %d: %s", e.Worker, e.Session, l.server, e.Text)
	}
}

// moved notes that a session lost its stream on a server.
func (l *sdkLoad) moved(server int, format string, args ...any) {
	l.moves.Add(1)
	if !l.fallible.has(server) {
		l.violations.add("on server %d, which was well: "+format, append([]any{server}, args...)...)
	}
}

// finish ends the program in good order.
func (l *sdkLoad) finish() error {
	_ = l.process.Stdin.Close()
	select {
	case <-l.process.Ended():
		if code := l.process.ExitCode(); code != 0 {
			return fmt.Errorf("load program on server %d: exit code %d: %s", l.server, code, l.process.LogTail())
		}
		return nil
	case <-time.After(clusterPatience):
		return fmt.Errorf("the load program on server %d does not end", l.server)
	}
}

// check reads back what the program was told to be written.
func (l *sdkLoad) check(s *raw.Session) error {
	l.mutex.Lock()
	all := maps.Clone(l.written)
	l.mutex.Unlock()
	for name, written := range all {
		d, err := s.Describe(name, false)
		if err != nil {
			return err
		}
		if got, err := strconv.ParseUint(string(d.GetData()), 10, 64); err != nil || got < written {
			return fmt.Errorf("%s holds %q, %d was acknowledged", name, d.GetData(), written)
		}
	}
	return nil
}
