package doubles

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rules are those of surface.md §2.10, each with the SDKs that it concerns.
var rules = []struct {
	number int
	about  string
	sdks   []SDK
	test   func(*testing.T, SDK, *grpc.ClientConn)
}{
	{1, "SessionStarted first, then a ping; no id twice", All(), startedFirst},
	{2, "its answer to a ping counts, and its own pings are answered", []SDK{CPP, Java, Python, Rust, DotNet},
		pingsCount}, {3, "the stream ends with OK behind Failure and SessionStopped, and behind a half-close",
		All(), endsWell},
	{4, "one Pending, before the result", All(), onePending},
	{5, "one result for each request, and nothing unasked", All(), nothingUnknown},
	{6, "a watch that is replaced is told, and fires once", []SDK{CPP, Java, Python, DotNet}, watchesEnd},
	{7, "duplicates are normal", All(), duplicates},
	{9, "a start that fails is held back", All(), startIsHeld},
	{10, "the same seq_no, and an empty key", []SDK{CPP, Java, Python}, attachesAgain},
	{11, "timeout_millis of SessionStarted harms nobody", All(), startedFirst},
	{12, "sessions that nobody stops", []SDK{Python, Rust, DotNet}, expires},
}

// TestRules goes through surface.md §2.10. 8 is TestLeaderChanges, 13 TestShutdown.
func TestRules(t *testing.T) {
	s := startServer(t, "--in-memory")
	for n := 1; n <= 13; n++ {
		if n != 8 && n != 13 && !hasRule(n) {
			t.Errorf("no test for rule %d", n)
		}
	}
	for _, r := range rules {
		for _, sdk := range r.sdks {
			name := fmt.Sprintf("rule %d: %s", r.number, r.about)
			t.Run(sdk.SDK+"/"+name, func(t *testing.T) {
				t.Parallel()
				show(t, sdk.SDK, sdk.Version, name, "plain", "")
				r.test(t, sdk, dial(t, s.Address))
			})
		}
	}
}

func hasRule(n int) bool {
	for _, r := range rules {
		if r.number == n {
			return true
		}
	}
	return false
}

// audit looks through all that a double has heard on streams that were never broken.
func audit(t *testing.T, d *Double) {
	t.Helper()
	results := make(map[string]int)
	for i, m := range d.Heard() {
		name, _ := arm(m.ProtoReflect())
		method, id := resultOf(m)
		switch {
		case (name == "session_started") != (i == 0):
			t.Errorf("%s: message %d is %v", d.SDK, i, m)
		case i == 1 && m.GetPing().GetOpaque() == 0:
			t.Errorf("%s: the second message is %v", d.SDK, m)
		case name == "acquire_semaphore_pending":
			key := fmt.Sprint(methodAcquire, " ", m.GetAcquireSemaphorePending().GetReqId())
			if results[key] != 0 || results["pending "+key] != 0 {
				t.Errorf("%s: Pending behind another or the result: %v", d.SDK, m)
			}
			results["pending "+key]++
		case method != "":
			key := fmt.Sprint(method, " ", id)
			if results[key]++; results[key] > 1 {
				t.Errorf("%s: a second result: %v", d.SDK, m)
			}
		case !slices.Contains([]string{"session_started", "ping", "pong", "describe_semaphore_changed"},
			name):
			t.Errorf("%s: nobody has asked for %v", d.SDK, m)
		}
	}
}

func startedFirst(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	seen := make(map[uint64]bool)
	for range 3 {
		d := begin(t, sdk, conn, path)
		eventually(t, "a ping", func() bool { return heard(d, isPing) > 0 })
		if id := d.Session(); id == 0 || seen[id] {
			t.Errorf("session id %d", id)
		}
		seen[d.Session()] = true
		audit(t, d)
		isFine(t, d)
		d.Leave()
	}
}

func pingsCount(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	sdk.Timeout = 3 * time.Second // a ping each second; the C++ SDK's own after two
	d := begin(t, sdk, conn, node(t, conn))
	eventually(t, "five pings", func() bool { return heard(d, isPing) >= 5 })
	pongs := heard(d, func(m *Response) bool { return m.GetPong() != nil })
	if own := sdk.EchoesPings || sdk.SDK == CPP.SDK; own != (pongs > 0) {
		t.Errorf("%d pongs", pongs)
	}
	if d.Attaches() != 1 {
		t.Errorf("attached %d times", d.Attaches())
	}
	isFine(t, d)
}

func endsWell(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	d := begin(t, sdk, conn, path)
	d.Leave()
	isFine(t, d)
	switch e := d.Ending(); sdk.Goodbye {
	case Stops, StopsAndHalfCloses:
		if e.Err != io.EOF || !e.Stopped {
			t.Errorf("stopped: %+v", e)
		}
	case HalfCloses:
		if status.Code(e.Err) != codes.Canceled {
			t.Errorf("half-closed: %+v", e)
		}
	}
	refused := Start(t.Context(), sdk, conn, "/local/nowhere")
	defer func() { refused.cancel(); <-refused.Finished() }()
	eventually(t, "Failure", func() bool {
		return heard(refused, func(m *Response) bool { return m.GetFailure() != nil }) > 0
	})
	if sdk.AwaitsEnd != Well && sdk.SDK != Python.SDK {
		if <-refused.Finished(); refused.Ending().Err != io.EOF {
			t.Errorf("refused: %+v", refused.Ending())
		}
	}
	isFine(t, refused, DotNetHangsInStart)
}

func onePending(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	holder, d := begin(t, sdk, conn, path), begin(t, sdk, conn, path)
	do(t, holder, Create("a", 1))
	for range 10 {
		do(t, holder, Acquire("a", Infinite))
		w := begun(d, t, Acquire("a", Infinite))
		eventually(t, "it to wait", func() bool { return waiters(t, holder, "a") == 1 })
		do(t, holder, Release("a"))
		if answer := <-w.answer; !answer.GetAcquireSemaphoreResult().GetAcquired() {
			t.Errorf("got %v, %v", answer, w.err)
		}
		do(t, d, Release("a"))
	}
	if n := heard(d, isPending); n > 10 {
		t.Errorf("%d Pending for 10 waits", n)
	}
	audit(t, d)
	isFine(t, d)
	isFine(t, holder)
}

func watchesEnd(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	do(t, d, Create("a", 1))
	if do(t, d, Describe("a", false)).GetDescribeSemaphoreResult().GetWatchAdded() {
		t.Error("watched without being asked")
	}
	first := do(t, d, Describe("a", true)).GetDescribeSemaphoreResult()
	do(t, d, Describe("a", true))
	eventually(t, "the first watch's end", func() bool { return heard(d, isChanged) == 1 })
	for _, m := range d.Heard() {
		if c := m.GetDescribeSemaphoreChanged(); c != nil &&
			(c.GetReqId() != first.GetReqId() || c.GetDataChanged() || c.GetOwnersChanged()) {
			t.Errorf("a watch that is replaced: %v", c)
		}
	}
	for i := range 3 {
		do(t, d, Update("a", fmt.Sprint(i)))
	}
	if n := heard(d, isChanged); n != 2 {
		t.Errorf("%d Changed", n)
	}
	isFine(t, d)
}

func duplicates(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	do(t, d, Create("a", 1))
	for range 3 {
		if !do(t, d, Acquire("a", Infinite)).GetAcquireSemaphoreResult().GetAcquired() {
			t.Error("not acquired")
		}
	}
	for i := range 3 {
		if got := do(t, d, Release("a")).GetReleaseSemaphoreResult().GetReleased(); got != (i == 0) {
			t.Errorf("release %d: %v", i, got)
		}
	}
	isFine(t, d)
}

func startIsHeld(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	begin := time.Now()
	d := Start(t.Context(), sdk, conn, "/local/nowhere")
	defer func() { d.cancel(); <-d.Finished() }()
	eventually(t, "Failure", func() bool {
		return heard(d,
			func(m *Response) bool { return m.GetFailure().GetStatus() == Ydb.StatusIds_NOT_FOUND }) > 0
	})
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("told after %v", took)
	}
	isFine(t, d, DotNetHangsInStart)
}

func attachesAgain(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	id := d.Session()
	d.Break()
	eventually(t, "it to be back", func() bool { return d.Attaches() == 2 })
	if d.Session() != id {
		t.Errorf("session %d has become %d", id, d.Session())
	}
	isFine(t, d)
}

// TestShutdown is rule 13: a server that ends notifies every client, and then ends the stream with OK.
func TestShutdown(t *testing.T) {
	s := startServer(t, "--in-memory")
	conn := dial(t, s.Address)
	path := node(t, conn)
	var doubles []*Double
	for _, sdk := range All() {
		show(t, sdk.SDK, sdk.Version, "rule 13: a server that is stopped", "plain", "")
		doubles = append(doubles, begin(t, sdk, conn, path))
	}
	var stopping sync.WaitGroup
	stopping.Go(s.Stop)
	defer stopping.Wait()
	for _, d := range doubles {
		eventually(t, "Failure for "+d.SDK, func() bool {
			// Python's comes back at once, and may get another.
			return heard(d,
				func(
					m *Response) bool {
					return m.GetFailure().GetStatus() == Ydb.StatusIds_UNAVAILABLE
				}) >= 1
		})
	}
}
