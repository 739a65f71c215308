package standin_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-sdk/v3"

	"github.com/coordd/coordd/server/standin"
	"github.com/coordd/coordd/server/standin/faults"
)

// The times of sessions.
const (
	// unhurried sessions outlast whatever a busy machine may do.
	unhurried = time.Minute
	// brief ones are for what an SDK notices by its own clock alone, such as that its session has ended.
	brief = 2 * time.Second
)

// trial is a fault of docs/faults.md that happens to an example.
type trial struct {
	fault   string        // as the page has it
	detail  string        // distinguishes trials of one name
	several bool          // servers
	timeout time.Duration // of sessions; 0: unhurried
	// early is ordered before there are any clients.
	early func(*standin.Server)
	// late is ordered once all is well. The victims are the sessions that have most to lose.
	late func(s *standin.Server, node string, victims ...uint64)
}

func (tr trial) name() string { return strings.TrimSpace(tr.fault + " " + tr.detail) }

// trials are the whole catalogue.
var trials = []trial{
	{fault: "fail-next", detail: "start", early: failing(faults.Start, Ydb.StatusIds_UNAVAILABLE)},
	{fault: "fail-next", detail: "acquire", early: failing(faults.Acquire, Ydb.StatusIds_UNAUTHORIZED)},
	{fault: "fail-next", detail: "create", early: failing(faults.Create, Ydb.StatusIds_UNAUTHORIZED)},
	{fault: "fail-next", detail: "create-node", early: failing(faults.CreateNode, Ydb.StatusIds_OVERLOADED)},
	{fault: "fail-next", detail: "describe", late: describing(func(s *standin.Server, more ...faults.Option) {
		s.FailNext(faults.Describe, 1, Ydb.StatusIds_UNAUTHORIZED, "", more...)
	})},
	{fault: "fail-some", early: func(s *standin.Server) {
		s.FailSome(faults.Describe, 0.3, 1)
		s.FailSome(faults.Start, 0.3, 2)
	}},
	{fault: "delay-next", early: func(s *standin.Server) {
		s.DelayNext(faults.Acquire, 2, 50*time.Millisecond)
		s.DelayNext(faults.Describe, 2, 50*time.Millisecond)
	}},
	{fault: "answer-lost", detail: "acquire",
		early: func(s *standin.Server) { s.AnswerLost(faults.Acquire, 1) }},
	{fault: "answer-lost", detail: "create", early: func(s *standin.Server) {
		s.AnswerLost(faults.Create, 1)
	}}, {fault: "answer-lost", detail: "describe",
		late: describing(func(s *standin.Server, more ...faults.Option) {
			s.AnswerLost(faults.Describe, 1, more...)
		})},
	{fault: "repeat-next", early: func(s *standin.Server) { s.RepeatNext(faults.Acquire, 1) }},
	{fault: "drop-streams how=clean", late: dropping(faults.Clean)},
	{fault: "drop-streams how=reset", late: dropping(faults.Reset)},
	{fault: "drop-streams how=silence", timeout: brief, late: dropping(faults.Silence)},
	{fault: "drop-streams how=black-hole", timeout: brief, late: dropping(faults.BlackHole)},
	{fault: "spurious-notice", late: func(s *standin.Server, node string, _ ...uint64) {
		notice(s, faults.Filter{Node: node}, func() bool { return false })
	}},
	{fault: "detach-session", late: each(func(s *standin.Server, node string, victim uint64) {
		s.DetachSession(node, victim)
	})},
	{fault: "expire-session", timeout: brief, late: each((*standin.Server).ExpireSession)},
	{fault: "lose-leader", detail: "of one",
		late: every(func(s *standin.Server) { s.LoseLeader(50 * time.Millisecond) })},
	{fault: "restart", late: every((*standin.Server).Restart)},
	{fault: "restart empty=true", timeout: brief, late: every((*standin.Server).RestartEmpty)},
	{fault: "drop-node", timeout: brief,
		late: func(s *standin.Server, node string, _ ...uint64) { s.DropNode(node) }},
	{fault: "lose-leader", detail: "of several", several: true, late: every(func(s *standin.Server) {
		s.LoseLeader(time.Second)
	})},
	{fault: "partition", several: true, timeout: brief, late: every(func(s *standin.Server) {
		s.Partition(1, 2)
		s.Partition(1, 3)
	})},
	{fault: "full-disk", several: true, late: every(func(s *standin.Server) { s.FullDisk(1, true) })},
	{fault: "slow-disk", several: true, late: every(func(s *standin.Server) {
		s.SlowDisk(1, 20*time.Millisecond)
	})},
}

// describing orders a fault of the next description that a victim asks for, and has it ask. The loss of the first
// victim may end another one before its turn.
func describing(order func(*standin.Server, ...faults.Option)) func(*standin.Server, string, ...uint64) {
	return func(s *standin.Server, node string, victims ...uint64) {
		for i, victim := range victims {
			f := faults.Filter{Node: node, Session: victim}
			more := []faults.Option{faults.Where(f)}
			if i > 0 {
				more = append(more, faults.MayMiss())
			}
			waiting := s.Faults().Pending()
			order(s, more...)
			notice(s, f, func() bool { return s.Faults().Pending() <= waiting })
		}
	}
}

// notice fires the watches that f picks, once there is one: a client may just be about to watch again. A session that
// met the fault before that, as it had something to describe anyway, may have ended or be without a stream.
func notice(s *standin.Server, f faults.Filter, met func() bool) {
	for late := time.Now().Add(patience); s.SpuriousNotice(f, "", faults.MayMiss()) == 0; time.Sleep(time.Millisecond) {
		if met() {
			return
		}
		picked := func(o standin.Session) bool { return o.ID == f.Session }
		if f.Session != 0 && !slices.ContainsFunc(s.Sessions(f.Node), picked) {
			return
		}
		if time.Now().After(late) {
			s.SpuriousNotice(f, "") // which fails the test, and lists the watches
			return
		}
	}
}

// failing has one request fail.
func failing(kind faults.Kind, status faults.Status) func(*standin.Server) {
	return func(s *standin.Server) { s.FailNext(kind, 1, status, "") }
}

// every does something to all clients.
func every(do func(*standin.Server)) func(*standin.Server, string, ...uint64) {
	return func(s *standin.Server, _ string, _ ...uint64) { do(s) }
}

// each does something to one victim after another.
func each(do func(*standin.Server, string, uint64)) func(*standin.Server, string, ...uint64) {
	return func(s *standin.Server, node string, victims ...uint64) {
		for _, victim := range victims {
			do(s, node, victim)
		}
	}
}

// dropping loses the streams of the victims.
func dropping(how faults.Drop) func(*standin.Server, string, ...uint64) {
	return each(func(s *standin.Server, node string, victim uint64) {
		s.DropStreams(faults.Filter{Node: node, Session: victim}, how)
	})
}

// TestTrialsAreTheCatalogue compares the list with the page.
func TestTrialsAreTheCatalogue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	_, catalogue, _ := strings.Cut(string(page), "\n## The catalogue\n")
	catalogue, _, _ = strings.Cut(catalogue, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| ([^|]*`[^|]*) \\|").FindAllStringSubmatch(catalogue, -1)
	if len(rows) < 15 {
		t.Fatalf("the catalogue has %d rows", len(rows))
	}
	for _, row := range rows {
		for _, order := range regexp.MustCompile("`([A-Za-z]+[^`]*)`").FindAllStringSubmatch(row[1], -1) {
			known := func(tr trial) bool { return tr.fault == order[1] }
			if order[1] != "heal" && !slices.ContainsFunc(trials, known) {
				t.Errorf("no example goes through %s", order[1])
			}
		}
	}
}

// several is a stand-in of three servers, which take a second or two to start: so the trials share it, one
// after another.
var several struct {
	sync.Mutex
	*standin.Server
}

func TestMain(m *testing.M) {
	code := m.Run()
	if several.Server != nil {
		several.Stop()
	}
	os.Exit(code)
}

// begin is a stand-in on which the fault is going to happen.
func (tr *trial) begin(t *testing.T) *standin.Server {
	t.Helper()
	if tr.timeout == 0 {
		tr.timeout = unhurried
	}
	if tr.several {
		several.Lock()
		t.Cleanup(several.Unlock)
		if several.Server == nil {
			var err error
			several.Server, err = standin.Run(context.Background(), standin.Servers(3),
				standin.Patience(patience))
			if err != nil {
				t.Fatal(err)
			}
		}
		return several.In(t)
	}
	s := standin.Start(t, standin.Patience(patience))
	if tr.early != nil {
		tr.early(s)
	}
	return s
}

// cast are the programs that a fault happens to, each with an SDK of its own, as if it were a process.
type cast struct {
	t       *testing.T
	s       *standin.Server
	scene   context.Context // of all of them, until the test ends
	running sync.WaitGroup
	drivers []*ydb.Driver
}

// onStage is a cast that has left when the test ends, and has released what it held.
func onStage(t *testing.T, s *standin.Server) *cast {
	scene, end := context.WithCancel(context.Background())
	c := &cast{t: t, s: s, scene: scene}
	t.Cleanup(func() {
		s.Reset()
		end()
		c.running.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, db := range c.drivers {
			_ = db.Close(ctx)
		}
	})
	return c
}

// open opens an SDK.
func (c *cast) open() *ydb.Driver {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.scene, patience)
	defer cancel()
	db, err := ydb.Open(ctx, c.s.ConnectionString())
	if err != nil {
		c.t.Fatal(err)
	}
	c.drivers = append(c.drivers, db)
	return db
}
