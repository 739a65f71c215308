package raftstore

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// logBook collects what members log from info on.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(line))
	return len(line), nil
}

// with counts the lines that contain all of the texts.
func (b *logBook) with(texts ...string) int { return len(b.of(texts...)) }

// of is the lines that contain all of the texts.
func (b *logBook) of(texts ...string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			found = append(found, line)
		}
	}
	return found
}

// What an operator reads: who leads and why the last one does not, who came and went, by name and once for
// each change, and not again for what a restart reads from the log.
func TestChronicle(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 570)
	books := map[string]*logBook{}
	keep := func(name string) {
		books[name] = &logBook{}
		c.configure(name, func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(books[name], nil)).With("at", name)
		})
	}
	for _, name := range c.names {
		keep(name)
	}
	c.startAll()
	c.leadWith("a")
	c.put("x")
	c.settle()
	want := func(n int, at string, texts ...string) {
		t.Helper()
		c.poll(at+" to tell: "+strings.Join(texts, " "), func() bool { return books[at].with(texts...) >= n })
	}
	once := func(at string, texts ...string) { // elections may come again on a busy machine, these may not
		t.Helper()
		want(1, at, texts...)
		if got := books[at].with(texts...); got != 1 {
			t.Errorf("%s tells %d times: %v", at, got, texts)
		}
	}
	c.leadWith("b")
	want(1, "a", "leads the cluster no more", "handed over", "to=b")
	want(1, "b", "this server leads the cluster\"", `"took over from"=a`)
	want(1, "c", "another server leads", "leader=b", `"took over from"=a`)

	d := c.join("d")
	once("a", "a server was added", "server=d", "d:1")
	c.onLeader("promote d", func(ctx context.Context, s *Store) error { return s.Changes.Promote(ctx, d) })
	once("a", "was given a vote", "server=d")
	c.onLeader("remove d", func(ctx context.Context, s *Store) error { return s.Changes.Remove(ctx, d) })
	once("a", "was removed", "server=d")
	c.kill("d")
	c.names = others(c.names, "d")
	c.settle() // or c, which a majority does not need, would hear of d only when it is back

	lost := books["a"].with("connection to a server is lost", "server=c")
	c.kill("c")
	want(lost+1, "a", "connection to a server is lost", "server=c")
	keep("c")
	connected := books["a"].with("connected to a server", "server=c")
	c.start("c")
	want(connected+1, "a", "connected to a server", "server=c")
	c.settle()
	// It may have tried to connect to d before it learnt that d was removed, which is no change of the members.
	if lines := books["c"].of(`msg="a server `, "server=d "); len(lines) > 0 {
		t.Errorf("a restarted member tells of d: %q", lines)
	}

	c.leadWith("b")
	c.settle()
	before := map[string]int{}
	for _, name := range []string{"a", "c"} {
		before[name] = books[name].with("the leader is lost", "leader=b")
	}
	c.kill("b")
	c.put("y", "a", "c")
	for _, name := range []string{"a", "c"} {
		want(before[name]+1, name, "the leader is lost", "leader=b")
	}
	if books["a"].with("this server leads the cluster\"")+books["c"].with("this server leads the cluster\"") == 0 {
		t.Error("nobody tells that it leads")
	}
	c.start("b")
	c.settle()
}

// A single server logs no changes of members.
func TestNoChronicleOfOne(t *testing.T) {
	book := &logBook{}
	cfg := smallConfig(t.TempDir())
	cfg.Logger = slog.New(slog.NewTextHandler(book, nil))
	r := start(t, open(t, cfg))
	propose(t, r, r.lead(t), "x")
	stop(t, r.store)
	if n := book.with(""); n > 0 {
		t.Errorf("%v", book.lines)
	}
}

// A server that joins does not log earlier changes as news.
func TestNoHistoryAsNews(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 571)
	c.put("x")
	c.settle()
	d := c.join("d")
	c.onLeader("remove d", func(ctx context.Context, s *Store) error { return s.Changes.Remove(ctx, d) })
	c.kill("d")
	c.names = others(c.names, "d")
	c.onLeader("add e", func(ctx context.Context, s *Store) error {
		_, err := s.Changes.AddLearner(ctx, "e", "e:1")
		return err
	})
	book := &logBook{}
	cfg := c.config("e")
	cfg.Cluster.Initial, cfg.Cluster.Join = nil, []string{"a:1", "b:1", "c:1"}
	cfg.Logger = slog.New(slog.NewTextHandler(book, nil))
	c.names, c.cfgs["e"] = append(c.names, "e"), cfg
	c.start("e")
	c.put("y")
	c.settle()
	c.poll("e to have everything", func() bool {
		return c.nodes["e"].store.applied.Load() >= c.leader().store.applied.Load()
	})
	for _, text := range []string{"a server with a vote is there", "a server was added",
		"a server was removed"} {
		if n := book.with(text); n > 0 {
			t.Errorf("told %d times: %s", n, text)
		}
	}
}

// What comes late of a hand-over that is over, since votes and entries travel on streams of their own, is not taken for
// a further hand-over: the leader's death would be logged as one.
func TestLateWordOfAHandOver(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 572)
	a, b := c.nodes["a"], c.nodes["b"].store.Member()
	follows := false
	for !follows {
		c.leadWith("b")
		c.put("x")
		a.ask(func(l *loop) {
			if follows = l.leader == b; !follows {
				return // yet
			}
			c.late(l, pb.MsgVote, b, l.term)
			c.late(l, pb.MsgTimeoutNow, b, l.term-1)
			if l.heir != 0 {
				t.Errorf("a takes %s for the heir of its leader %s", IDText(l.heir), IDText(b))
			}
		})
	}
}

func (c *testCluster) late(l *loop, typ pb.MessageType, from, term uint64) {
	l.receive(&pb.Message{Type: typ.Enum(), From: new(from), To: new(l.s.identity.Member), Term: new(term),
		Context: []byte(transferContext)})
}
