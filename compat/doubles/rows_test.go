package doubles

import (
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Query_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Table_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Query"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Table"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/testserver"
)

// row is a row of surface.md §7: a bug of an SDK that a server has to live with.
type row struct {
	number int
	about  string
	sdks   []SDK
	test   func(*testing.T, SDK, *grpc.ClientConn)
	note   string // what a right server cannot spare the SDK either, and why
}

// wire stands for the SDKs that have no double since they run elsewhere in compat: what concerns them is
// looked at on the wire, with a client that bears everything.
func wire(name string) SDK {
	s := DotNet
	s.SDK, s.Version = name, "wire"
	return s
}

var rows = []row{
	{1, "pong sent in the ping arm", []SDK{Python}, echoesArePongs, ""},
	{2, "3 s without a message", []SDK{Python}, pingsOften, ""},
	{3, "acquired=false taken for a grant", []SDK{Python}, resultIsFinal, ""},
	{4, "hot reconnect loops: no such node", []SDK{Python}, refusalsAreHeld(0),
		"loops for ever, as with YDB; held to 10 starts a second and less"},
	{4, "hot reconnect loops: session has expired", []SDK{Python}, refusalsAreHeld(1 << 40),
		"loops for ever, as with YDB; held to 10 starts a second and less"},
	{5, "Pending and result at once", []SDK{wire("JS")}, noNeedlessPending, ""},
	{6, "abort on a second Pending", []SDK{CPP}, neverAborts(CPPAbortsOnPending, isPending), ""},
	{6, "abort on a second SessionStarted", []SDK{CPP}, neverAborts(CPPAbortsOnSecondStarted, isStarted), ""},
	{6, "abort on session id 0", []SDK{CPP}, neverAborts(CPPAbortsOnSessionZero, isStarted), ""},
	{6, "abort on an empty response", []SDK{CPP}, neverAborts(CPPAbortsOnEmpty, isResult), ""},
	{6, "abort on an unsupported response", []SDK{CPP}, neverAborts(CPPAbortsOnUnsupported, isResult), ""},
	{7, "waits for the end behind Failure", []SDK{CPP}, endsBehindFailure, ""},
	{8, "second break not recovered from", []SDK{Java}, secondBreak,
		"a stream that the network breaks twice is lost with any server; a leader that changes breaks none (the soak)"},
	{9, "any result but SUCCESS ends the session", []SDK{Rust}, allSucceeds,
		"ALREADY_EXISTS and NOT_FOUND are true, and end it with YDB as well"},
	{10, "id 0, and the same id at once", []SDK{Rust}, idsCollide, ""},
	{11, "start hangs on Failure", []SDK{DotNet}, startRefused,
		"hangs whatever the server does; the stream at least is over"},
	{12, "no SessionStop", []SDK{Python, Rust, DotNet}, expires, ""},
	{13, "statuses of results are dropped", []SDK{wire("Go")}, resultsAreRight, ""},
	{14, "unknown message ends the stream", []SDK{wire("Go"), CPP, Java, Python, Rust, DotNet},
		nothingUnknown, ""}, {16, "the same request again behind a break", []SDK{CPP, Java, Python}, repeats,
		""},
	{19, "empty ticket", []SDK{Rust}, emptyTicket, ""},
	{20, "negative timeout", []SDK{Java}, negativeTimeout, ""},
	{21, "a program that uses tables spins", []SDK{wire("Go")}, tablesAreHeld, ""},
	{22, "deflate", []SDK{CPP}, deflates, ""},
}

// TestRows goes through surface.md §7, and what was found since.
func TestRows(t *testing.T) {
	s := startServer(t, "--in-memory")
	record(DotNet.SDK, DotNet.Version, "row 17: line end in the text that a .NET test expects", "plain",
		"not run", "the test's own, and not a server's matter")
	for _, r := range rows {
		for _, sdk := range r.sdks {
			name := fmt.Sprintf("row %d: %s", r.number, r.about)
			t.Run(sdk.SDK+"/"+name, func(t *testing.T) {
				t.Parallel()
				show(t, sdk.SDK, sdk.Version, name, "plain", r.note)
				r.test(t, sdk, dial(t, s.Address))
			})
		}
	}
}

// TestRowsAreComplete wants each row to have a test: 15 is TestNodeIDs, 18 TestListeners, 17 is not a
// server's, and of 23 and 24 a server sees nothing.
func TestRowsAreComplete(t *testing.T) {
	for n := 1; n <= 22; n++ {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.number == n }) && n != 15 && n != 17 &&
			n != 18 {
			t.Errorf("no test for row %d", n)
		}
	}
}

func echoesArePongs(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	// A ping each 1.7 s, and as long to answer it. Its other limit, on messages that are no pings, is the
	// session timeout.
	sdk.Timeout, sdk.QueueSilence = 5*time.Second, 5*time.Second
	d := begin(t, sdk, conn, node(t, conn))
	eventually(t, "five pings", func() bool { return heard(d, isPing) >= 5 })
	if n := heard(d, func(m *Response) bool { return m.GetPong() != nil }); n < 4 {
		t.Errorf("%d of its echoes have got a pong, without which it breaks the stream after its session timeout", n)
	}
	isFine(t, d)
	if d.Attaches() != 1 {
		t.Errorf("attached %d times", d.Attaches())
	}
}

func pingsOften(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	eventually(t, "three pings", func() bool { return heard(d, isPing) >= 3 })
	isFine(t, d)
	if d.Attaches() != 1 {
		t.Errorf("attached %d times", d.Attaches())
	}
}

func resultIsFinal(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	holder, waiter := begin(t, CPP, conn, path), begin(t, sdk, conn, path)
	do(t, holder, Create("a", 1))
	do(t, holder, Acquire("a", 0))
	if got := try(t, waiter,
		Create("a", 1)).GetCreateSemaphoreResult().GetStatus(); got != Ydb.StatusIds_ALREADY_EXISTS {
		t.Errorf("it creates before it acquires: %v", got)
	}
	w := begun(waiter, t, Acquire("a", 30_000))
	eventually(t, "Pending", func() bool { return heard(waiter, isPending) == 1 })
	do(t, holder, Release("a"))
	if answer := <-w.answer; !answer.GetAcquireSemaphoreResult().GetAcquired() {
		t.Errorf("got %v, %v", answer, w.err)
	}
	isFine(t, waiter)
	isFine(t, holder)
}

// refusalsAreHeld has a start refused over and over: there is no such node, or no such session.
func refusalsAreHeld(session uint64) func(*testing.T, SDK, *grpc.ClientConn) {
	const refusals = 10
	return func(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
		path := "/local/nowhere"
		if session != 0 {
			path = node(t, conn)
		}
		client := sdk.Client
		sdk.Client = func(d *Double) Client { d.id = session; return client(d) }
		begin := time.Now()
		d := Start(t.Context(), sdk, conn, path)
		defer func() { d.cancel(); <-d.Finished() }()
		failed := func() int { return heard(d, func(m *Response) bool { return m.GetFailure() != nil }) }
		eventually(t, "refusals", func() bool { return failed() >= refusals })
		if took := time.Since(begin); took < refusals*50*time.Millisecond {
			t.Errorf("%d refusals within %v", refusals, took)
		}
		isFine(t, d, PythonExpiredLoop)
		if session != 0 && !slices.Contains(d.States(), PythonExpiredLoop) {
			t.Errorf("%d is refused otherwise: %q", session, d.States())
		}
	}
}

func noNeedlessPending(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	d, other := begin(t, sdk, conn, path), begin(t, sdk, conn, path)
	do(t, d, Create("a", 1))
	for range 50 {
		if !do(t, d, Acquire("a", Infinite)).GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatal("not acquired")
		}
		if do(t, other, Acquire("a", 0)).GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatal("acquired twice")
		}
		do(t, d, Release("a"))
	}
	if n := heard(d, isPending) + heard(other, isPending); n != 0 {
		t.Errorf("%d Pending for what was known at once", n)
	}
}

func isStarted(m *Response) bool { return m.GetSessionStarted() != nil }

func isResult(m *Response) bool {
	method, _ := resultOf(m)
	return method != ""
}

// neverAborts wants one of the C++ SDK's aborts not to happen while there was something that might have led
// to it.
func neverAborts(abort FailureState, might func(*Response) bool) func(*testing.T, SDK, *grpc.ClientConn) {
	return func(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
		path := node(t, conn)
		a, b := begin(t, sdk, conn, path), begin(t, sdk, conn, path)
		contend(t, a, b)
		for _, d := range []*Double{a, b} {
			if slices.Contains(d.States(), abort) {
				t.Errorf("the process is gone: %s", abort)
			}
			isFine(t, d)
		}
		if heard(b, might) < 2 {
			t.Errorf("the test has not led there: %d messages", heard(b, might))
		}
	}
}

// contend has two sessions fight for a semaphore; b changes its mind while it waits, and loses its stream.
func contend(t *testing.T, a, b *Double) {
	do(t, a, Create("a", 1))
	for i := range 20 {
		do(t, a, Acquire("a", Infinite))
		first := begun(b, t, Acquire("a", Infinite))
		eventually(t, "b to wait", func() bool { return waiters(t, a, "a") == 1 })
		if i%4 == 1 {
			before := b.Attaches()
			b.Break()
			eventually(t, "b to be back", func() bool { return b.Attaches() > before })
		}
		if i%4 == 2 {
			do(t, b, Release("a"))
			if answer := <-first.answer; answer.GetAcquireSemaphoreResult().GetAcquired() {
				t.Errorf("the wait that was given up: %v", answer)
			}
			do(t, a, Release("a"))
			continue
		}
		if i%4 == 3 {
			second := begun(b, t, Acquire("a", 60_000)) // supersedes the first
			if answer := <-first.answer; answer.GetAcquireSemaphoreResult().GetStatus() != Ydb.StatusIds_ABORTED {
				t.Errorf("the superseded wait: %v", answer)
			}
			first = second
		}
		do(t, a, Release("a"))
		if answer := <-first.answer; !answer.GetAcquireSemaphoreResult().GetAcquired() {
			t.Errorf("round %d: %v, %v", i, answer, first.err)
		}
		do(t, b, Release("a"))
	}
}

func waiters(t *testing.T, d *Double, name string) int {
	t.Helper()
	return len(do(t, d,
		Describe(name, false)).GetDescribeSemaphoreResult().GetSemaphoreDescription().GetWaiters())
}

func endsBehindFailure(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	d := begin(t, sdk, conn, path)
	if _, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DropNode(inDatabase(t),
		&Ydb_Coordination.DropNodeRequest{Path: path}); err != nil {
		t.Fatal(err)
	}
	<-d.Finished()
	if e := d.Ending(); e.Err != io.EOF || e.Failure.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("ended with %v behind %v", e.Err, e.Failure)
	}
	if n := heard(d,
		func(m *Response) bool { return m.GetFailure().GetStatus() == Ydb.StatusIds_UNAVAILABLE }); n != 1 {
		t.Errorf("told %d times that the node is dropped", n)
	}
	isFine(t, d)
}

func secondBreak(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	id := d.Session()
	d.Break()
	eventually(t, "it to be back", func() bool { return d.Attaches() == 2 })
	if d.Session() != id {
		t.Errorf("session %d has become %d", id, d.Session())
	}
	do(t, d, Create("a", 1))
	isFine(t, d)
}

func allSucceeds(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	do(t, d, Create("a", 2))
	for range 2 { // an owner that acquires again has it still
		if !do(t, d, Acquire("a", Infinite)).GetAcquireSemaphoreResult().GetAcquired() {
			t.Error("not acquired")
		}
	}
	do(t, d, Update("a", "data"))
	if do(t, d, Describe("a", false)).GetDescribeSemaphoreResult().GetSemaphoreDescription().GetCount() != 1 {
		t.Error("not described")
	}
	for i := range 2 { // a lease that is dropped releases twice
		if got := do(t, d, Release("a")).GetReleaseSemaphoreResult().GetReleased(); got != (i == 0) {
			t.Errorf("release %d: %v", i, got)
		}
	}
	do(t, d, Delete("a"))
	isFine(t, d)
}

func idsCollide(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	holder, d := begin(t, sdk, conn, path), begin(t, sdk, conn, path)
	do(t, holder, Create("a", 1))
	do(t, holder, Acquire("a", Infinite))
	w := begun(d, t, Acquire("a", Infinite)) // id 0
	eventually(t, "it to wait", func() bool { return waiters(t, holder, "a") == 1 })
	do(t, d, Describe("a", false)) // id 0
	do(t, d, Update("a", "x"))     // id 0
	do(t, d, Create("b", 1))       // id 0
	do(t, holder, Release("a"))
	if answer := <-w.answer; !answer.GetAcquireSemaphoreResult().GetAcquired() {
		t.Errorf("got %v, %v", answer, w.err)
	}
	isFine(t, d)
	isFine(t, holder)
}

func startRefused(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := Start(t.Context(), sdk, conn, "/local/nowhere")
	<-d.Finished()
	// Within Patience: the stream ends at once, else its end would not have come.
	if e := d.Ending(); e.Failure.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("ended with %+v", e)
	}
	isFine(t, d, DotNetHangsInStart)
}

func expires(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	next := begin(t, sdk, conn, path)
	do(t, next, Create("a", 1))
	sdk.Timeout = 3 * time.Second
	left := begin(t, sdk, conn, path)
	do(t, left, Acquire("a", Infinite))
	w := begun(next, t, Acquire("a", Infinite))
	eventually(t, "it to wait", func() bool { return heard(next, isPending) == 1 })
	left.Leave()
	if answer := <-w.answer; !answer.GetAcquireSemaphoreResult().GetAcquired() {
		t.Errorf("got %v, %v", answer, w.err)
	}
	isFine(t, left)
	isFine(t, next)
}

func resultsAreRight(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	d := begin(t, sdk, conn, node(t, conn))
	if got := try(t, d,
		Update("a", "x")).GetUpdateSemaphoreResult().GetStatus(); got != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("update of nothing: %v", got)
	}
	if got := do(t, d, Release("a")).GetReleaseSemaphoreResult(); got.GetReleased() {
		t.Errorf("release of nothing: %v", got)
	}
	do(t, d, Create("a", 1))
	if got := try(t, d,
		Create("a", 1)).GetCreateSemaphoreResult().GetStatus(); got != Ydb.StatusIds_ALREADY_EXISTS {
		t.Errorf("create twice: %v", got)
	}
	isFine(t, d)
}

// nothingUnknown has every kind of request answered, and looks through all that has come.
func nothingUnknown(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	d, other := begin(t, sdk, conn, path), begin(t, wire("other"), conn, path)
	do(t, d, Create("a", 1))
	watches := sdk.SDK != Rust.SDK
	do(t, d, Describe("a", watches))
	do(t, d, Acquire("a", Infinite))
	if watches {
		eventually(t, "Changed", func() bool { return heard(d, isChanged) == 1 })
	}
	do(t, d, Update("a", "x"))
	w := begun(other, t, Acquire("a", Infinite))
	eventually(t, "it to wait", func() bool { return heard(other, isPending) == 1 })
	do(t, d, Release("a"))
	<-w.answer
	do(t, other, Release("a"))
	do(t, d, Delete("a"))
	audit(t, d)
	audit(t, other)
	isFine(t, d)
	isFine(t, other)
}

// repeats loses the stream of a session that holds one semaphore and waits for another: what it repeats is no
// second request.
func repeats(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	path := node(t, conn)
	holder, d := begin(t, CPP, conn, path), begin(t, sdk, conn, path)
	do(t, d, Create("a", 2))
	do(t, holder, Acquire("a", Infinite))
	do(t, holder, Create("b", 1))
	do(t, holder, Acquire("b", Infinite))
	do(t, d, Acquire("a", Infinite))
	w := begun(d, t, Acquire("b", Infinite))
	eventually(t, "it to wait", func() bool { return heard(d, isPending) == 1 })
	d.Break()
	eventually(t, "it to be back", func() bool { return d.Attaches() == 2 })
	eventually(t, "Pending again", func() bool { return heard(d, isPending) == 2 })
	if n := waiters(t, holder, "b"); n != 1 {
		t.Errorf("%d wait", n)
	}
	do(t, holder, Release("b"))
	if answer := <-w.answer; !answer.GetAcquireSemaphoreResult().GetAcquired() {
		t.Errorf("got %v, %v", answer, w.err)
	}
	if owners := do(t, holder,
		Describe("a",
			false)).GetDescribeSemaphoreResult().GetSemaphoreDescription().GetOwners(); len(owners) != 2 {
		t.Errorf("%d owners", len(owners))
	}
	isFine(t, d)
	isFine(t, holder)
}

func emptyTicket(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	if !sdk.EmptyTicket {
		t.Fatal("it sends none")
	}
	isFine(t, begin(t, sdk, conn, node(t, conn)))
}

func negativeTimeout(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	sdk.Timeout = -5 * time.Second
	d := Start(t.Context(), sdk, conn, node(t, conn))
	<-d.Finished()
	if e := d.Ending(); e.Failure.GetStatus() != Ydb.StatusIds_BAD_REQUEST {
		t.Errorf("ended with %+v", e)
	}
	isFine(t, d)
}

// tablesAreHeld calls as a Go program does that uses tables: from one goroutine, without a pause between its
// attempts.
func tablesAreHeld(t *testing.T, _ SDK, conn *grpc.ClientConn) {
	const calls = 10
	for name, call := range map[string]func() error{
		"Table": func() error {
			answer, err := Ydb_Table_V1.NewTableServiceClient(conn).CreateSession(inDatabase(t),
				&Ydb_Table.CreateSessionRequest{})
			if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_UNSUPPORTED {
				return fmt.Errorf("%v, %w", answer, err)
			}
			return nil
		},
		"Query": func() error {
			_, err := Ydb_Query_V1.NewQueryServiceClient(conn).CreateSession(inDatabase(t),
				&Ydb_Query.CreateSessionRequest{})
			if status.Code(err) != codes.Unimplemented {
				return err
			}
			return nil
		},
	} {
		begin := time.Now()
		for range calls {
			if err := call(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if took := time.Since(begin); took < calls*50*time.Millisecond {
			t.Errorf("%d calls of %s/CreateSession within %v", calls, name, took)
		}
	}
}

// zlibCodec is the deflate of gRPC for C++.
type zlibCodec struct{}

func init() { encoding.RegisterCompressor(zlibCodec{}) }

// Name implements encoding.Compressor.
func (zlibCodec) Name() string { return "deflate" }

// Compress implements encoding.Compressor.
func (zlibCodec) Compress(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }

// Decompress implements encoding.Compressor.
func (zlibCodec) Decompress(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }

// compressing sends everything in one way.
type compressing struct {
	*grpc.ClientConn
	name string
}

// NewStream implements grpc.ClientConnInterface.
func (c compressing) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConn.NewStream(ctx, desc, method, append(opts, grpc.UseCompressor(c.name))...)
}

func deflates(t *testing.T, sdk SDK, conn *grpc.ClientConn) {
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(inDatabase(t),
		&Ydb_Discovery.ListEndpointsRequest{Database: "/local"}, grpc.UseCompressor("deflate"))
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("got %v, %v", answer, err)
	}
	d := Start(t.Context(), sdk, compressing{conn, "deflate"}, node(t, conn))
	defer d.Leave()
	do(t, d, Create("a", 1))
	do(t, d, Update("a", strings.Repeat("data", 1000)))
	if got := do(t, d,
		Describe("a",
			false)).GetDescribeSemaphoreResult().GetSemaphoreDescription().GetData(); len(got) != 4000 {
		t.Errorf("%d bytes", len(got))
	}
	isFine(t, d)
}

// TestListeners is row 18: Go and Python leave out endpoints whose kind is not that of the connection.
func TestListeners(t *testing.T) {
	needProgram(t)
	certificates := filepath.Join(t.TempDir(), "certificates")
	testserver.Run(t, "cert", "--dir", certificates)
	s := startServer(t, "--in-memory", "--listen-tls=127.0.0.1:0", "--tls-cert",
		filepath.Join(certificates, "cert.pem"), "--tls-key", filepath.Join(certificates, "key.pem"))
	show(t, "Go", "wire", "row 18: endpoints of the other listener", "tls", "")
	show(t, Python.SDK, Python.Version, "row 18: endpoints of the other listener", "tls", "")
	ca, err := credentials.NewClientTLSFromFile(filepath.Join(certificates, "ca.pem"), "")
	if err != nil {
		t.Fatal(err)
	}
	secure, err := grpc.NewClient(s.TLSAddress(), grpc.WithTransportCredentials(ca))
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	for _, conn := range []*grpc.ClientConn{dial(t, s.Address), secure} {
		for _, e := range endpoints(t, conn) {
			if e.GetSsl() != (conn == secure) || conn == secure &&
				!strings.HasSuffix(s.TLSAddress(), ":"+strconv.Itoa(int(e.GetPort()))) {
				t.Errorf("%s is told of %v", conn.Target(), e)
			}
		}
	}
}

// TestNodeIDs is row 15: JS and others keep endpoints by their node's id.
func TestNodeIDs(t *testing.T) {
	servers := startCluster(t)
	show(t, "JS", "wire", "row 15: node ids of three servers", "servers", "")
	for _, s := range servers {
		conn := dial(t, s.Address)
		eventually(t, "three endpoints", func() bool { return len(endpoints(t, conn)) == 3 })
		ids := make(map[uint32]bool)
		for _, e := range endpoints(t, conn) {
			ids[e.GetNodeId()] = true
		}
		if len(ids) != 3 || ids[0] {
			t.Errorf("node ids %v", ids)
		}
	}
}

func endpoints(t *testing.T, conn *grpc.ClientConn) []*Ydb_Discovery.EndpointInfo {
	t.Helper()
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(inDatabase(t),
		&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	if err != nil {
		t.Fatal(err)
	}
	var result Ydb_Discovery.ListEndpointsResult
	if err := answer.GetOperation().GetResult().UnmarshalTo(&result); err != nil ||
		len(result.GetEndpoints()) == 0 {
		t.Fatalf("got %v, %v", answer, err)
	}
	return result.GetEndpoints()
}
