package faults_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"

	"github.com/coordd/coordd/server/standin/faults"
)

// A refused request is not executed, the next one is, and the stream goes on.
func TestFailNextAsAResult(t *testing.T) {
	r := start(t)
	if troubled, err := r.FailNext(faults.Acquire, 1, Ydb.StatusIds_PRECONDITION_FAILED, ""); err != nil || troubled == "" {
		t.Fatal(troubled, err)
	}
	c := r.attach(0)
	c.send(acquire(7, "lock"))
	refused := c.next().GetAcquireSemaphoreResult()
	if refused.GetReqId() != 7 || refused.GetStatus() != Ydb.StatusIds_PRECONDITION_FAILED || refused.GetAcquired() ||
		refused.GetIssues()[0].GetMessage() != "Semaphore ephemeral mode mismatch" {
		t.Fatalf("got %v", refused)
	}
	if owners := r.owners("lock"); len(owners) != 0 {
		t.Errorf("it was executed: %v has it", owners)
	}
	c.send(acquire(8, "lock"))
	if got := c.next().GetAcquireSemaphoreResult(); !got.GetAcquired() {
		t.Fatalf("got %v", got)
	}
	if n := r.Pending(); n != 0 {
		t.Errorf("%d faults are still to come", n)
	}
}

// A status that the specification has for the whole stream ends it.
func TestFailNextAsAFailure(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.Update, 1, Ydb.StatusIds_SESSION_EXPIRED, "Session has expired"); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	c.next()
	c.send(update(2, "config", "new"))
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_SESSION_EXPIRED || got.GetIssues()[0].GetMessage() != "Session has expired" {
		t.Fatalf("got %v", got)
	}
	c = r.attach(c.session)
	c.send(describe(1, "config", false))
	if data := c.next().GetDescribeSemaphoreResult().GetSemaphoreDescription().GetData(); len(data) != 0 {
		t.Errorf("it was executed: the data is %q", data)
	}
}

func TestFailNextStart(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.Start, 1, Ydb.StatusIds_UNAVAILABLE, ""); err != nil {
		t.Fatal(err)
	}
	c := r.open(&pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 1000})
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		t.Fatalf("got %v", got)
	}
	if c := r.attach(0); c.session != 1 {
		t.Errorf("the refused start was executed: the next session is %d", c.session)
	}
}

func TestFailNextCall(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.CreateNode, 1, Ydb.StatusIds_OVERLOADED, ""); err != nil {
		t.Fatal(err)
	}
	if got := r.createNode("/local/other"); got != Ydb.StatusIds_OVERLOADED {
		t.Fatalf("got %s", got)
	}
	answer, err := r.nodes().DescribeNode(t.Context(), &pb.DescribeNodeRequest{Path: "/local/other"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SCHEME_ERROR {
		t.Errorf("it was executed: %v, %v", answer, err)
	}
}

// What the specification does not know is refused, unless it is asked for.
func TestImpossible(t *testing.T) {
	r := start(t)
	if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_OVERLOADED, "no"); err == nil {
		t.Error("a release failed with OVERLOADED")
	}
	if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_SUCCESS, "", faults.Impossible()); err == nil {
		t.Error("a request that was not executed succeeded")
	}
	if _, err := r.FailNext("renew", 1, Ydb.StatusIds_UNAVAILABLE, ""); err == nil {
		t.Error("there is a kind renew")
	}
	if _, err := r.FailNext(faults.Release, 0, Ydb.StatusIds_UNAVAILABLE, ""); err == nil {
		t.Error("no request at all can fail")
	}
	if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_OVERLOADED, "no", faults.Impossible()); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(release(1, "lock"))
	if got := c.next().GetReleaseSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_OVERLOADED || got.GetIssues()[0].GetMessage() != "no" {
		t.Errorf("got %v", got)
	}
}

// Each kind fails in each of its ways with that status and that text.
func TestEveryRefusal(t *testing.T) {
	r := start(t)
	for _, kind := range faults.Kinds() {
		for _, refusal := range kind.Refusals() {
			if _, err := r.FailNext(kind, 1, refusal.Status, refusal.Text); err != nil {
				t.Errorf("%s %s: %v", kind, refusal.Status, err)
			}
		}
	}
	if got, want := r.Pending(), 0; got == want {
		t.Error("nothing was tried")
	}
	r.Reset()
	if got := r.Pending(); got != 0 {
		t.Errorf("%d are still to come", got)
	}
}

func TestDelayNext(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.Create, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	c := r.attachFor(0, 30*time.Millisecond) // which is pinged every 10 ms, and gone if a pong does not reach the server
	c.send(create(1, "config"))
	c.send(update(2, "config", "x")) // waits behind it
	r.eventually("the create waits", func() bool { return turned.running() == 1 })
	for range 20 {
		<-c.pings
	}
	other := r.attach(0)
	other.send(describe(1, "config", false))
	if got := other.next().GetDescribeSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("it was executed at once: %v", got)
	}
	turned.advance(time.Hour)
	if got := c.next().GetCreateSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
	if got := c.next().GetUpdateSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
}

// A request whose client has gone meanwhile is not executed.
func TestDelayOutlivesItsClient(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.Create, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	r.eventually("the create waits", func() bool { return turned.running() == 1 })
	c.cancel()
	r.eventually("nothing waits", func() bool { return turned.running() == 0 })
	other := r.attach(0)
	other.send(describe(1, "config", false))
	if got := other.next().GetDescribeSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("it was executed: %v", got)
	}
}

func TestDelayNextCall(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.CreateNode, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	created := make(chan Ydb.StatusIds_StatusCode)
	go func() { created <- r.createNode("/local/other") }()
	r.eventually("the call waits", func() bool { return turned.running() == 1 })
	turned.advance(time.Hour)
	if got := <-created; got != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %s", got)
	}
}

// What a seed has picked once it picks again.
func TestFailSome(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	play := func(seed uint64) (failed []bool) {
		if _, err := r.FailSome(faults.Release, 0.5, seed, faults.With(Ydb.StatusIds_UNAUTHORIZED, "")); err != nil {
			t.Fatal(err)
		}
		defer r.Reset()
		for i := range 64 {
			c.send(release(uint64(i), "lock"))
			failed = append(failed, c.next().GetReleaseSemaphoreResult().GetStatus() == Ydb.StatusIds_UNAUTHORIZED)
		}
		return failed
	}
	first := play(1)
	if !slices.Contains(first, true) || !slices.Contains(first, false) {
		t.Errorf("with 1/2: %v", first)
	}
	if again := play(1); !slices.Equal(first, again) {
		t.Errorf("the same seed: %v, then %v", first, again)
	}
	if other := play(2); slices.Equal(first, other) {
		t.Errorf("another seed: %v as well", other)
	}
	if _, err := r.FailSome(faults.Release, 1.5, 1); err == nil {
		t.Error("a probability of 1.5")
	}
}

// The lock is taken, and its owner is told nothing but that the stream is over.
func TestAnswerLost(t *testing.T) {
	r := start(t)
	if err := r.AnswerLost(faults.Acquire, 1); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(acquire(1, "lock"))
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	if owners := r.owners("lock"); !slices.Equal(owners, []uint64{c.session}) {
		t.Errorf("owned by %v, want %d", owners, c.session)
	}
}

// A session was made of which its client does not know.
func TestAnswerLostOfAStart(t *testing.T) {
	r := start(t)
	if err := r.AnswerLost(faults.Start, 1); err != nil {
		t.Fatal(err)
	}
	c := r.open(&pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 1000})
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	if c := r.attach(0); c.session != 2 {
		t.Errorf("the next session is %d", c.session)
	}
}

func TestAnswerLostOfACall(t *testing.T) {
	r := start(t)
	if err := r.AnswerLost(faults.CreateNode, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nodes().CreateNode(t.Context(), &pb.CreateNodeRequest{Path: "/local/other"}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	answer, err := r.nodes().DescribeNode(t.Context(), &pb.DescribeNodeRequest{Path: "/local/other"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("it was not executed: %v, %v", answer, err)
	}
}

// A create comes a second time once the session is back, before what its client says then.
func TestRepeatNext(t *testing.T) {
	r := start(t)
	if err := r.RepeatNext(faults.Create, 1); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	remover := r.attach(0)
	remover.send(&pb.SessionRequest{Request: &pb.SessionRequest_DeleteSemaphore_{DeleteSemaphore: &pb.SessionRequest_DeleteSemaphore{Name: "config"}}})
	if got := remover.next().GetDeleteSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("got %v", got)
	}
	c = r.attach(c.session)
	c.send(create(1, "config")) // as from an SDK that repeats it, too
	if got := c.next().GetCreateSemaphoreResult(); got.GetReqId() != 1 || got.GetStatus() != Ydb.StatusIds_ALREADY_EXISTS {
		t.Errorf("it was not executed before: %v", got)
	}
	if err := r.RepeatNext(faults.Start, 1); err == nil {
		t.Error("a start was repeated")
	}
}

func TestDropStreamsCleanly(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	n, err := r.DropStreams(faults.Filter{Session: c.session, Node: "local//dir/node/"}, faults.Clean)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := c.failed(); got.GetStatus() != Ydb.StatusIds_UNAVAILABLE || got.GetIssues()[0].GetMessage() != "Link failure" {
		t.Errorf("got %v", got)
	}
	other.send(acquire(1, "lock"))
	if !other.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("the other stream is concerned")
	}
	if c = r.attach(c.session); c.session == 0 {
		t.Error("the session is gone")
	}
	if n, err := r.DropStreams(faults.Filter{}, "gently"); n != 0 || err == nil {
		t.Error(n, err)
	}
}

func TestDropStreamsByReset(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	there := r.openOn(dial(t, r.server), &pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 10_000})
	there.started()
	if n, err := r.DropStreams(faults.Filter{Session: c.session}, faults.Reset); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	there.send(acquire(1, "lock"))
	if !there.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("another connection is concerned")
	}
	r.attach(c.session)
}

// Nothing is said on the stream, what is asked for is executed, and the rest of the connection answers.
func TestDropStreamsBySilence(t *testing.T) {
	r := start(t)
	c, other := r.attachFor(0, time.Minute), r.attach(0)
	if n, err := r.DropStreams(faults.Filter{Session: c.session}, faults.Silence); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	c.send(acquire(1, "lock"))
	r.eventually("the lock is taken", func() bool { return slices.Equal(r.owners("lock"), []uint64{c.session}) })
	other.send(acquire(1, "other"))
	if !other.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("another stream of the connection is concerned")
	}
	r.Reset()
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
}

// brief is the timeout of a session that is to run out in a test, but not before the client's part in it: a
// third of it is how soon pings must be answered, on a busy machine as well.
const brief = 3 * time.Second

// The client of a silent stream is not told that its session has come to an end.
func TestSilenceOutlastsTheSession(t *testing.T) {
	r := start(t)
	c := r.attachFor(0, brief)
	c.send(acquire(1, "lock"))
	c.next()
	if n, err := r.DropStreams(faults.Filter{Session: c.session}, faults.Silence); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.eventually("the session has timed out", func() bool { return len(r.owners("lock")) == 0 })
	if len(c.got) > 0 {
		t.Errorf("got %v", c.next())
	}
	r.Reset()
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
}

// Nothing passes, and then everything does that was sent meanwhile.
func TestDropStreamsByABlackHole(t *testing.T) {
	r := start(t)
	c := r.attachFor(0, time.Minute)
	own := dial(t, r.server)
	there := r.openOn(own, &pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 60_000})
	there.started()
	if n, err := r.DropStreams(faults.Filter{Session: there.session}, faults.BlackHole); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	there.send(acquire(1, "lock"))
	c.send(acquire(1, "other"))
	if !c.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("another connection is concerned")
	}
	if owners := r.owners("lock"); len(owners) > 0 || len(there.got) > 0 {
		t.Errorf("something has passed: %v", owners)
	}
	r.Reset()
	if !there.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("nothing passes again")
	}
}

func TestDetachSession(t *testing.T) {
	r := start(t)
	c := r.attachFor(0, brief)
	c.send(acquire(1, "lock"))
	c.next()
	if !r.Set.DetachSession(node, c.session) {
		t.Fatal("no such session")
	}
	c.failed()
	r.eventually("its timeout has run out", func() bool { return len(r.owners("lock")) == 0 })
	if r.Set.DetachSession(node, 77) {
		t.Error("session 77 was detached")
	}
}

// A watch fires once: what changes behind a spurious notice is not told.
func TestSpuriousNotice(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	c.send(create(1, "config"))
	c.next()
	if n := r.SpuriousNotice(faults.Filter{}, ""); n != 0 {
		t.Errorf("%d watches", n)
	}
	c.send(describe(2, "config", true))
	if !c.next().GetDescribeSemaphoreResult().GetWatchAdded() {
		t.Fatal("no watch")
	}
	if n := r.SpuriousNotice(faults.Filter{Session: c.session}, "another"); n != 0 {
		t.Errorf("%d watches of another semaphore", n)
	}
	if n := r.SpuriousNotice(faults.Filter{Session: c.session}, "config"); n != 1 {
		t.Errorf("%d watches", n)
	}
	if got := c.next().GetDescribeSemaphoreChanged(); got.GetReqId() != 2 || got.GetDataChanged() || got.GetOwnersChanged() {
		t.Errorf("got %v", got)
	}
	other.send(update(1, "config", "x"))
	other.next()
	c.send(describe(3, "config", true)) // its answer comes behind the notice that the server has given
	if got := c.next().GetDescribeSemaphoreResult(); string(got.GetSemaphoreDescription().GetData()) != "x" {
		t.Errorf("got %v", got)
	}
	other.send(update(2, "config", "y"))
	if got := c.next().GetDescribeSemaphoreChanged(); got.GetReqId() != 3 || !got.GetDataChanged() {
		t.Errorf("got %v", got)
	}
	if n := r.SpuriousNotice(faults.Filter{}, ""); n != 0 {
		t.Errorf("%d watches, although it has fired", n)
	}
}

// Filters pick by node, session, client and server; a request that they do not pick is let through.
func TestFilters(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	for _, passing := range []faults.Filter{{Node: "/local/other"}, {Session: 77}, {Client: "10.0.0.1"}, {Server: 2}, {Client: "ydb-"}} {
		if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_UNAUTHORIZED, "", faults.Where(passing)); err != nil {
			t.Fatal(err)
		}
		c.send(release(1, "lock"))
		if got := c.next().GetReleaseSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("%+v: %v", passing, got)
		}
	}
	for _, meeting := range []faults.Filter{{Node: node}, {Session: c.session}, {Client: "127.0.0.1"}, {Server: 1}} {
		r.Reset()
		if _, err := r.FailNext(faults.Release, 1, Ydb.StatusIds_UNAUTHORIZED, "", faults.Where(meeting)); err != nil {
			t.Fatal(err)
		}
		c.send(release(1, "lock"))
		if got := c.next().GetReleaseSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_UNAUTHORIZED {
			t.Errorf("%+v: %v", meeting, got)
		}
	}
}

func TestOnRequest(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	r.OnRequest(func(q faults.Request) faults.Action {
		if q.Kind == faults.Acquire && q.Name == "forbidden" {
			refuse, err := faults.Refuse(q.Kind, Ydb.StatusIds_NOT_FOUND, "gone")
			if err != nil {
				t.Error(err)
			}
			return refuse
		}
		if q.Kind == faults.Acquire && q.Name == "lost" {
			return faults.LoseAnswer()
		}
		return faults.Action{}
	})
	c.send(acquire(1, "allowed"))
	if !c.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("not acquired")
	}
	c.send(acquire(2, "forbidden"))
	if got := c.next().GetAcquireSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("got %v", got)
	}
	c.send(acquire(3, "lost"))
	if _, code := c.ended(); code != codes.Unavailable {
		t.Errorf("ended with %v", code)
	}
}

func TestRequests(t *testing.T) {
	r := start(t)
	c := r.open(&pb.SessionRequest_SessionStart{Path: "local/dir//node", TimeoutMillis: 10_000, ProtectionKey: []byte("secret"), Description: "me"})
	c.started()
	c.send(acquire(7, "lock"))
	c.next()
	var kinds []faults.Kind
	for _, q := range r.Requests() {
		kinds = append(kinds, q.Kind)
	}
	if want := []faults.Kind{faults.CreateNode, faults.Start, faults.Acquire}; !slices.Equal(kinds, want) {
		t.Fatalf("got %v, want %v", kinds, want)
	}
	q := r.Requests()[2]
	if q.Node != node || q.Session != c.session || q.Name != "lock" || q.ReqID != 7 || !q.Ephemeral || q.Server != 1 || q.Client == "" {
		t.Errorf("got %+v", q)
	}
	r.ForgetRequests()
	if left := r.Requests(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// The requests that are remembered have 1 MiB, whatever clients send.
func TestRequestsAreBounded(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	c.send(create(1, "config"))
	c.next()
	const many = 400
	for i := range uint64(many) {
		c.send(update(i, "config", string(make([]byte, 100_000))))
		c.next()
	}
	kept, bytes := r.Requests(), 0
	for _, q := range kept {
		bytes += 256 + len(q.Data) + len(q.Client) + len(q.Node) + len(q.Name) + len(q.SDK)
	}
	if bytes > 1<<20 || bytes < 1<<19 {
		t.Errorf("%d requests with %d bytes", len(kept), bytes)
	}
	if last := kept[len(kept)-1]; last.ReqID != many-1 {
		t.Errorf("the last one is %d", last.ReqID)
	}
	if dropped := r.RequestsDropped(); dropped != many+3-uint64(len(kept)) {
		t.Errorf("%d are dropped, and %d kept", dropped, len(kept))
	}
}

// At most so many faults wait at once.
func TestRulesAreBounded(t *testing.T) {
	r := start(t)
	for i := range 1000 {
		if err := r.AnswerLost(faults.Delete, 1); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := r.AnswerLost(faults.Delete, 1); err == nil {
		t.Error("one more")
	}
	r.Reset()
	if err := r.AnswerLost(faults.Delete, 1); err != nil {
		t.Error(err)
	}
}

// A client whose request is delayed cannot have the stand-in keep more than some MiB of what it says
// meanwhile.
func TestDelayIsBounded(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.Create, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	r.eventually("the create waits", func() bool { return turned.running() == 1 })
	const many = 40
	sent := make(chan struct{}, many)
	go func() {
		defer close(sent)
		for i := range uint64(many) {
			c.send(update(i+2, "config", string(make([]byte, 1<<20))))
			sent <- struct{}{}
		}
	}()
	r.eventually("8 MiB wait", func() bool { return len(sent) >= 8 })
	for before := -1; before != len(sent); time.Sleep(200 * time.Millisecond) { // until no more are taken
		before = len(sent)
	}
	if n := len(sent); n > 12 { // with what is under way
		t.Errorf("%d MiB were taken", n)
	}
	turned.advance(time.Hour)
	for range many + 1 {
		c.next()
	}
	<-sent
}

// What is to come twice has 16 MiB; one more does not come again.
func TestRepeatsAreBounded(t *testing.T) {
	r := start(t)
	owner := r.attach(0)
	owner.send(create(1, "config"))
	owner.next()
	const many = 20
	sessions := make([]uint64, many)
	for i := range sessions {
		if err := r.RepeatNext(faults.Update, 1); err != nil {
			t.Fatal(err)
		}
		c := r.attachFor(0, time.Minute)
		c.send(update(1, "config", string(make([]byte, 1<<20))))
		c.ended()
		sessions[i] = c.session
	}
	owner.send(describe(2, "config", true))
	owner.next()
	repeated := 0
	for _, session := range sessions {
		owner.send(update(3, "config", "x"))
		for owner.next().GetUpdateSemaphoreResult() == nil { // a notice comes before or behind it
		}
		c := r.attach(session)
		c.send(describe(1, "config", false))
		if got := c.next().GetDescribeSemaphoreResult().GetSemaphoreDescription(); len(got.GetData()) == 1<<20 {
			repeated++
		}
	}
	if repeated != 15 { // with their names they have a little more than 1 MiB each
		t.Errorf("%d of %d have come again", repeated, many)
	}
}

// Calls of rate limiters fail before they take anything, come late, or are executed and their answers lost.
func TestFaultsOfRateLimiters(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	limiter := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(r.conn)
	if _, err := r.FailNext(faults.CreateResource, 1, Ydb.StatusIds_UNAVAILABLE, ""); err != nil {
		t.Fatal(err)
	}
	create := func(rate float64) Ydb.StatusIds_StatusCode {
		answer, err := limiter.CreateResource(t.Context(), &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: node, Resource: &Ydb_RateLimiter.Resource{ResourcePath: "r",
			Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: rate, PrefetchCoefficient: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOperation().GetStatus()
	}
	for i, want := range []Ydb.StatusIds_StatusCode{Ydb.StatusIds_UNAVAILABLE, Ydb.StatusIds_SUCCESS, Ydb.StatusIds_ALREADY_EXISTS} {
		if got := create(0.001); got != want {
			t.Fatalf("create %d: %s, want %s", i, got, want)
		}
	}
	call := func(request *Ydb_RateLimiter.AcquireResourceRequest) (Ydb.StatusIds_StatusCode, error) {
		request.CoordinationNodePath, request.ResourcePath = node, "r"
		answer, err := limiter.AcquireResource(t.Context(), request)
		return answer.GetOperation().GetStatus(), err
	}
	use := func() (Ydb.StatusIds_StatusCode, error) {
		return call(&Ydb_RateLimiter.AcquireResourceRequest{Units: &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: 1000}})
	}
	acquire := func() (Ydb.StatusIds_StatusCode, error) { // nothing, which is had unless there is a debt
		return call(&Ydb_RateLimiter.AcquireResourceRequest{Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{}})
	}
	if err := r.DelayNext(faults.AcquireResource, 1, time.Hour, faults.Where(faults.Filter{Node: node})); err != nil {
		t.Fatal(err)
	}
	granted := make(chan Ydb.StatusIds_StatusCode)
	go func() {
		status, _ := acquire()
		granted <- status
	}()
	r.eventually("the call waits", func() bool { return turned.running() == 1 })
	turned.advance(time.Hour)
	if got := <-granted; got != Ydb.StatusIds_SUCCESS {
		t.Errorf("behind a delay: %s", got)
	}
	if _, err := r.FailNext(faults.AcquireResource, 1, Ydb.StatusIds_OVERLOADED, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := use(); got != Ydb.StatusIds_OVERLOADED || err != nil {
		t.Errorf("refused: %s, %v", got, err)
	}
	if got, err := acquire(); got != Ydb.StatusIds_SUCCESS || err != nil {
		t.Errorf("the refused one was executed: %s, %v", got, err)
	}
	if err := r.AnswerLost(faults.AcquireResource, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := use(); status.Code(err) != codes.Unavailable {
		t.Errorf("lost: %v", err)
	}
	if got, err := acquire(); got != Ydb.StatusIds_TIMEOUT || err != nil {
		t.Errorf("the lost one was not executed: %s, %v", got, err)
	}
	if _, err := r.FailNext(faults.AcquireResource, 1, Ydb.StatusIds_NOT_FOUND, ""); err == nil {
		t.Error("an acquire failed with NOT_FOUND")
	}
	seen := r.Requests()
	if last := seen[len(seen)-2]; last.Kind != faults.AcquireResource || last.Node != node || last.Name != "r" || last.Count != 1000 || !last.Used {
		t.Errorf("the last use was %+v", last)
	}
	for _, kind := range []faults.Kind{faults.AlterResource, faults.DropResource, faults.DescribeResource, faults.ListResources} {
		if _, err := r.FailNext(kind, 1, Ydb.StatusIds_NOT_FOUND, "no"); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(what string, answer interface {
		GetOperation() *Ydb_Operations.Operation
	}, err error) {
		t.Helper()
		if o := answer.GetOperation(); err != nil || o.GetStatus() != Ydb.StatusIds_NOT_FOUND || o.GetIssues()[0].GetMessage() != "no" {
			t.Errorf("%s: %v, %v", what, o, err)
		}
	}
	altered, err := limiter.AlterResource(t.Context(), &Ydb_RateLimiter.AlterResourceRequest{CoordinationNodePath: node})
	wants("alter", altered, err)
	dropped, err := limiter.DropResource(t.Context(), &Ydb_RateLimiter.DropResourceRequest{CoordinationNodePath: node, ResourcePath: "r"})
	wants("drop", dropped, err)
	described, err := limiter.DescribeResource(t.Context(), &Ydb_RateLimiter.DescribeResourceRequest{CoordinationNodePath: node, ResourcePath: "r"})
	wants("describe", described, err)
	listed, err := limiter.ListResources(t.Context(), &Ydb_RateLimiter.ListResourcesRequest{CoordinationNodePath: node})
	wants("list", listed, err)
	if got := create(0.001); got != Ydb.StatusIds_ALREADY_EXISTS {
		t.Errorf("it was dropped: %s", got)
	}
}
