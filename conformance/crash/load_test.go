//go:build linux

package crash

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/client"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/trace"
	"github.com/coordd/coordd/coordination"
)

// load is clients of the simulation on a cluster, of which each stays with the server of its stream.
type load struct {
	*cluster
	violations violations
	trace      *trace.Trace
	history    check.History
	clients    []*client.Client
	plans      []plan.Client
	judged     int                     // events that check has seen
	streams    map[int]*opened         // by number
	last       map[int]*opened         // stream of each client
	sessions   map[int]map[uint64]bool // of each client
	late       int                     // sessions that ran out before their clients came from a fallible server
	stop       func()
}

// Sessions live so long after the last sign of life: shorter than a fault may take in the long form, and longer where
// other tests run beside.
var sessionTimeout = inLongForm(8*time.Second, 16*time.Second)

// opened is a stream.
type opened struct {
	*check.Opened
	former  int // the server of the client's stream before, or the same one
	failure *Ydb_Coordination.SessionResponse_Failure
}

// late reports whether the failure is that of a session that ran out before its client came, from another server.
func (o *opened) late() bool {
	return o.former != o.Server && slices.ContainsFunc(o.failure.GetIssues(), func(i *Ydb_Issue.IssueMessage) bool {
		return i.GetMessage() == coordination.SessionMissing.Text
	})
}

// startLoad starts clients at each server.
func startLoad(c *cluster, seed uint64) *load {
	l := &load{cluster: c, trace: trace.New(nil, c.dir), streams: map[int]*opened{}, last: map[int]*opened{},
		sessions: map[int]map[uint64]bool{}}
	think := plan.Duration(inLongForm(3*time.Millisecond, 30*time.Millisecond))
	for server := range servers {
		for _, kind := range []plan.ClientKind{plan.Watcher, plan.Mutex, plan.Counting, plan.Keeper,
			plan.Caller} {
			l.plans = append(l.plans, plan.Client{Kind: kind, Server: server, Timeout: plan.Duration(sessionTimeout),
				Think: think, Pipeline: 1, Names: 2, Stays: true})
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	chance := plan.Plan{Seed: seed}
	for i, p := range l.plans {
		c := client.New(i, p, plan.Node{}, chance.Chance(fmt.Sprint("client ", i)), l)
		l.clients = append(l.clients, c)
		running.Go(func() { c.Run(ctx) })
	}
	l.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	return l
}

// The environment of the clients.

func (l *load) Servers() int            { return servers }
func (l *load) Bounded() bool           { return false }
func (l *load) Trace() *trace.Trace     { return l.trace }
func (l *load) History() *check.History { return &l.history }
func (l *load) Granted(int, uint64)     {}

func (l *load) Violation(format string, args ...any) { l.violations.add(format, args...) }

func (l *load) Dial(ctx context.Context, _ string, server int) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", l.listen[server])
}

func (l *load) Shared(server int) (*grpc.ClientConn, error) { return client.Connect(l, "", server) }

// steps counts the steps of each client, without those whose home is one of the servers.
func (l *load) steps(besides serverSet) (list []int) {
	for i, c := range l.clients {
		if !besides.has(l.plans[i].Server) {
			list = append(list, c.Steps())
		}
	}
	return list
}

func (l *load) operations() (sum int) {
	for _, n := range l.steps(0) {
		sum += n
	}
	return sum
}

// check goes through the events since the last time. Streams may have ended on the fallible servers alone. Of each
// stream of another server that was there all the time since from, and whose client never waits for tokens, it returns
// the longest time without an answer.
func (l *load) check(fallible serverSet, from time.Duration) (gaps []time.Duration) {
	events := l.history.Events()
	last, longest := map[int]time.Duration{}, map[int]time.Duration{}
	for _, e := range events[l.judged:] {
		switch fact := e.Fact.(type) {
		case *check.Opened:
			o := &opened{Opened: fact, former: fact.Server}
			if before := l.last[fact.Client]; before != nil {
				o.former = before.Server
			}
			l.streams[fact.Stream], l.last[fact.Client] = o, o
			last[fact.Stream] = -1 // not from the beginning
		case *check.Got:
			if started := fact.Message.GetSessionStarted(); started != nil {
				l.note(fact.Client, started.GetSessionId())
			}
			if failure := fact.Message.GetFailure(); failure != nil {
				l.streams[fact.Stream].failure = failure
			}
			if before, known := last[fact.Stream]; fact.Message.GetPing() == nil && e.At >= from && before >= 0 {
				if !known {
					before = from
				}
				longest[fact.Stream] = max(longest[fact.Stream], e.At-before)
				last[fact.Stream] = e.At
			}
		case *check.Ended:
			delete(longest, fact.Stream)
			last[fact.Stream] = -1
			o := l.streams[fact.Stream]
			// Three servers beside many busy processes may be without a leader for longer than a client waits.
			excused := !longForm && strings.Contains(fact.Text, "Canceled")
			late := fallible.has(o.former) && o.late()
			if late {
				l.late++
			}
			if !fact.Abandoned && !fallible.has(o.Server) && !excused && !late {
				l.violations.add("stream %d of client %d ended on server %d, which was well: %s %s", fact.Stream,
					fact.Client, o.Server, fact.Text, o.failure)
			}
		}
	}
	l.judged = len(events)
	for stream, gap := range longest {
		opened := l.streams[stream]
		kind := l.plans[opened.Client].Kind
		if !fallible.has(opened.Server) && (kind == plan.Watcher || kind == plan.Keeper) {
			gaps = append(gaps, gap)
		}
	}
	return gaps
}

func (l *load) note(client int, session uint64) {
	if l.sessions[client] == nil {
		l.sessions[client] = map[uint64]bool{}
	}
	l.sessions[client][session] = true
}

// expired counts the sessions that were lost, but for those of clients that came late from a fallible server.
func (l *load) expired() (n int) {
	n = -l.late
	for _, sessions := range l.sessions {
		n += len(sessions) - 1
	}
	return n
}

// believed judges the beliefs of all clients.
func (l *load) believed() {
	found, _ := check.Judge(l.history.Events(), check.Options{Drift: 0.01, WithoutModel: true})
	for _, v := range found {
		l.violations.add("%v", v)
	}
}

// serverSet is a set of servers.
type serverSet uint64

func setOf(members ...int) (s serverSet) {
	for _, m := range members {
		s |= 1 << m
	}
	return s
}

func (s serverSet) has(member int) bool { return s&(1<<member) != 0 }
