package raftstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
	"github.com/coordd/coordd/raftstore/settings"
)

// Each refusal names what does not fit, also on the other side of the network.
func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 560)
	c.waitPublished(c.leader())
	s, other := c.ready("a").store, c.nodes["b"].store
	for name, tc := range map[string]struct {
		change func(h *peerpb.Header)
		want   []string
	}{
		"another cluster": {func(h *peerpb.Header) { h.Cluster = 5 },
			[]string{IDText(s.Cluster()), "cluster " + IDText(5)}},
		"another receiver": {func(h *peerpb.Header) { h.To = 6 },
			[]string{IDText(s.Member()), "member " + IDText(6)}},
		"itself": {func(h *peerpb.Header) { h.From = s.Member() },
			[]string{"says that it is member " + IDText(s.Member())}},
		"another directory": {func(h *peerpb.Header) { h.ToIncarnation++ },
			[]string{IDText(s.Member()), "another data directory"}},
	} {
		h := endpointOf(other).Header(s.Member(), true)
		tc.change(h)
		err := acceptStream(s, h, nil)
		crossed := peers.FromStatus(peers.ToStatus(err))
		for _, want := range tc.want {
			if !errors.Is(crossed, ErrOtherCluster) || !strings.Contains(crossed.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, crossed, want)
			}
		}
	}
	c.settle()
}

// A server whose list of first members is not that of another learns both lists.
func TestDifferentFirstMembersAreNamed(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 561)
	c.start("a")
	for name, tc := range map[string]struct {
		change func(cfg *Cluster)
		want   []string
	}{
		"another list": {func(cfg *Cluster) { cfg.Initial = map[string]string{"a": "a:1", "b": "b:1"} },
			[]string{"a=a:1,b=b:1,c=c:1 there", "a=a:1,b=b:1 here"}},
		"another token": {func(cfg *Cluster) { cfg.Token = "other" }, []string{"another token"}},
	} {
		cfg := c.config("b")
		tc.change(&cfg.Cluster)
		c.cfgs["b"] = cfg
		err := c.tryStart("b")
		for _, want := range tc.want {
			if !errors.Is(err, ErrOtherCluster) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
}

// said collects what is logged.
type said struct{ testlog.Buffer }

func (s *said) count(text string) int { return strings.Count(s.String(), text) }

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// A server logs the callers that it refuses, at a limited rate and with bounded memory.
func TestRefusedCallersAreToldRarely(t *testing.T) {
	var log said
	var r refused
	now := time.Unix(1, 0)
	for range 100 {
		r.tell(log.logger(), now, "b", "b:1", roster.ErrCertificate)
		now = now.Add(100 * time.Millisecond)
	}
	if n := log.count("refused a server"); n < 1 || n > 6 {
		t.Errorf("told %d times", n)
	}
	before := log.count("refused a server")
	for n := range 10_000 {
		r.tell(log.logger(), now, fmt.Sprint(n), "x:1", roster.ErrCertificate)
	}
	if n := log.count("refused a server") - before; n > 70 {
		t.Errorf("told %d times of 10000 names", n)
	}
}

// Raft passes a read question on that was put to a member which does not lead any more. That breaks no
// stream, and who has asked gets its answer to a further attempt.
func TestForwardedReadQuestion(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 562)
	var log said
	for _, name := range c.names {
		c.configure(name, func(cfg *Config) { cfg.Logger = log.logger() })
	}
	c.startAll()
	c.waitPublished(c.leader())
	c.settle()
	m := c.leader()
	follows := others(c.names, m.name)
	b, third := c.nodes[follows[0]].store, c.nodes[follows[1]].store
	for range 20 {
		b.inbox.put(func(waiting *mail) {
			waiting.received = append(waiting.received,
				&pb.Message{Type: pb.MsgReadIndex.Enum(), From: new(third.Member()), To: new(b.Member()),
					Entries: []*pb.Entry{{Data: []byte("question")}}})
		})
	}
	// As an older program would send it.
	h := endpointOf(b).Header(m.store.Member(), true)
	if err := endpointOf(m.store).Receive(h, frameOf(t, &pb.Message{Type: pb.MsgReadIndex.Enum(),
		From: new(third.Member()), To: new(m.store.Member()),
		Entries: []*pb.Entry{{Data: []byte("question")}}})); err != nil {
		t.Errorf("a forwarded question ends the stream: %v", err)
	}
	c.settle()
	third.ReadIndex(7)
	c.wait("the answer to the next attempt", func() bool { return c.nodes[follows[1]].reads[7] })
	if n := log.count("is lost"); n > 0 {
		t.Errorf("%d connections were lost", n)
	}
}

// TestAnswerToAnEarlierProcess: the leader's answer to a read question may come after the process that asked, and to
// one that has asked a question of the same number. It answers nothing.
func TestAnswerToAnEarlierProcess(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 564)
	c.waitPublished(c.leader())
	c.settle()
	leader := c.leader()
	m := c.nodes[others(c.names, leader.name)[0]]
	answer := func(question []byte) {
		m.store.inbox.put(func(waiting *mail) {
			waiting.received = append(waiting.received, &pb.Message{Type: pb.MsgReadIndexResp.Enum(),
				From: new(leader.store.Member()), To: new(m.store.Member()), Term: new(leader.term),
				Index: new(uint64(1)), Entries: []*pb.Entry{{Data: question}}})
		})
	}
	process := m.store.loop.process
	answer(question(7, process+1))
	answer(binary.LittleEndian.AppendUint64(nil, 7)) // as an older program asked
	answer(question(8, process))
	c.wait("the answer to this process", func() bool { return m.reads[8] })
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if m.reads[7] {
		t.Error("the answer to an earlier process counts")
	}
}

// A server that waits to be added logs the reason.
func TestWaitingToBeAddedSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCertifiedCluster(t, 1, 563)
	c.leader()
	var log said
	cfg := c.config("x")
	cfg.Dir, cfg.Logger = filepath.Join(c.dir, "x"), log.logger()
	cfg.Cluster.Initial, cfg.Cluster.Join = nil, []string{"a:1", "nowhere:1"}
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s, err := Open(ctx, cfg); err == nil {
			t.Error("joined without being added")
			s.Stop()
		}
	}()
	c.poll("the reasons", func() bool {
		return log.count("certificate") > 0 && log.count("nobody listens") > 0
	})
	cancel()
	<-ended
}

// Servers that were given different lists of first members, and start at the same time, both learn both
// lists.
func TestCallersOfAnotherListLearnBoth(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 566)
	c.waitPublished(c.leader())
	s := c.ready("a").store
	h := endpointOf(c.nodes["b"].store).Header(s.Member(), true)
	h.Cluster, h.Members = 5, "a=a:1,z=z:1\x1b[2J"
	err := peers.FromStatus(peers.ToStatus(acceptStream(s, h, nil)))
	for _, want := range []string{"with the members a=a:1,b=b:1,c=c:1", "with the members a=a:1,z=z:1[2J"} {
		if !errors.Is(err, ErrOtherCluster) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	c.settle()
}

// Two clusters whose servers have the same names and are elsewhere are two clusters, with members of their
// own.
func TestClustersElsewhereDiffer(t *testing.T) {
	first := func(address string) Cluster {
		return Cluster{Name: "a", Initial: map[string]string{"a": address, "b": "b:1"}}
	}
	here, there := firstClusterID(first("a:1")), firstClusterID(first("a:2"))
	if here == there || firstMemberID(here, "a") == firstMemberID(there, "a") {
		t.Errorf("clusters %x and %x, members %x and %x", here, there, firstMemberID(here, "a"),
			firstMemberID(there, "a"))
	}
	if again := firstClusterID(first("a:1")); again != here {
		t.Errorf("%x and then %x", here, again)
	}
}

// Servers that were given different settings say so to each other, once, and when it is over.
func TestUnlikeSettingsAreTold(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 567)
	var mu sync.Mutex
	database := map[string]string{"a": "/local", "b": "/prod", "c": "/local"}
	logs := map[string]*said{}
	for _, name := range c.names {
		logs[name] = &said{}
		c.configure(name, func(cfg *Config) {
			cfg.Logger = logs[name].logger()
			cfg.Cluster.Settings = func() []settings.Setting {
				mu.Lock()
				defer mu.Unlock()
				return []settings.Setting{{Name: "auth", Value: "off"}, {Name: "database", Value: database[name]}}
			}
		})
	}
	c.startAll()
	c.waitPublished(c.leader())
	a, b := c.ready("a").store, c.ready("b").store
	c.poll("the servers to see what differs", func() bool {
		return a.Peers.Unlike()[b.Member()] == "database is /prod there and /local here" &&
			b.Peers.Unlike()[a.Member()] == "database is /local there and /prod here"
	})
	for _, tc := range []struct{ at, server, what string }{
		{"a", "b", "database is /prod there and /local here"},
		{"b", "a", "database is /local there and /prod here"},
		{"b", "c", "database is /local there and /prod here"},
		{"c", "b", "database is /prod there and /local here"},
	} {
		c.poll(tc.at+" to tell of "+tc.server, func() bool {
			return logs[tc.at].count(`server=`+tc.server+` what="`+tc.what+`"`) == 1
		})
	}
	if len(a.Peers.Unlike()) != 1 || logs["a"].count("other settings") != 1 {
		t.Errorf("a also differs from others: %v", a.Peers.Unlike())
	}
	mu.Lock()
	database["b"] = "/local"
	mu.Unlock()
	h := endpointOf(b).Header(a.Member(), true)
	for range 2 {
		a.Peers.unlike.Compare(endpointOf(a).Admitted(), a.cfg.Cluster.settings(), h, a.cfg.Logger,
			time.Now().Add(lograte.MaxPause))
	}
	if len(a.Peers.Unlike()) != 0 || logs["a"].count("the same as here now") != 1 {
		t.Errorf("after the change: %v", a.Peers.Unlike())
	}
	c.settle()
}
