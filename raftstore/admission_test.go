package raftstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// newCertifiedCluster is newTestCluster with certificates: each server shows one for the host in its address.
func newCertifiedCluster(t *testing.T, members int, seed uint64, without ...string) *testCluster {
	t.Helper()
	c := preparedTestCluster(t, members, seed)
	c.tls = &peers.TLS{Server: &tls.Config{}, Client: &tls.Config{}}
	for _, name := range c.names {
		c.cfgs[name] = c.config(name)
		if !slices.Contains(without, name) {
			c.start(name)
		}
	}
	return c
}

// outsider is somebody with a certificate of the members' authority who is no member (any more).
type outsider struct {
	id          uint64
	incarnation uint64
	host        string
}

var stranger = outsider{id: 77, incarnation: 1, host: "stranger"}

func (o outsider) certificate() *x509.Certificate {
	return &x509.Certificate{DNSNames: []string{o.host}}
}

func (o outsider) header(s *Store, urgent bool) *peerpb.Header {
	return &peerpb.Header{Format: peers.Format, Cluster: s.identity.Cluster, From: o.id,
		To: s.identity.Member, Incarnation: o.incarnation, Address: o.host + ":1", Version: 1, Urgent: urgent}
}

const injectedTerm = 1 << 30

// injected returns a message by which an outsider tries to make a member commit an entry of its own.
func (o outsider) injected(s *Store, typ pb.MessageType) *pb.Message {
	last := s.log.Last()
	term, _ := s.log.Term(last)
	m := &pb.Message{Type: typ.Enum(), From: new(o.id), To: new(s.identity.Member),
		Term: new(uint64(injectedTerm)), Index: new(last), LogTerm: new(term), Commit: new(last + 1),
		Context: []byte("CampaignTransfer")}
	if typ == pb.MsgApp {
		m.Entries = []*pb.Entry{{Index: new(last + 1), Term: new(uint64(injectedTerm)),
			Data: []byte("injected")}}
	}
	return m
}

// attack has an outsider try everything on a member. Nothing reaches raft, and the member lives on.
func (o outsider) attack(t *testing.T, m *machine) {
	t.Helper()
	s := m.store
	kill := o.header(s, true)
	kill.ToIncarnation = s.identity.Incarnation + 1
	if err := acceptStream(s, kill, o.certificate()); err == nil {
		t.Error("a stream was accepted that says that the directory was emptied")
	}
	for _, urgent := range []bool{true, false} {
		h := o.header(s, urgent)
		if err := acceptStream(s, h, o.certificate()); err == nil {
			t.Errorf("a stream was accepted, urgent: %v", urgent)
		}
		for _, typ := range []pb.MessageType{pb.MsgVote, pb.MsgPreVote, pb.MsgApp, pb.MsgHeartbeat,
			pb.MsgTimeoutNow,
			pb.MsgVoteResp, pb.MsgAppResp, pb.MsgHeartbeatResp, pb.MsgReadIndex, pb.MsgReadIndexResp} {
			if err := endpointOf(s).Receive(h, frameOf(t, o.injected(s, typ))); err == nil {
				t.Errorf("a message of type %v was taken", typ)
			}
		}
	}
	snapshot := o.injected(s, pb.MsgSnap)
	snapshot.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(1 << 40)),
		Term: new(uint64(injectedTerm)), ConfState: &pb.ConfState{Voters: []uint64{o.id}}}}
	sent := 0
	err := sendSnapshot(s, o.header(s, false), o.certificate(), func() (*peerpb.Chunk, error) {
		if sent++; sent > 1 {
			return nil, io.EOF
		}
		return &peerpb.Chunk{Message: encoded(t, snapshot)}, nil
	})
	if err == nil || sent != 0 {
		t.Errorf("%d chunks of a checkpoint were read: %v", sent, err)
	}
	if answer, err := endpointOf(s).Hello(&peerpb.HelloRequest{Cluster: s.identity.Cluster, Member: o.id},
		o.certificate()); err == nil {
		t.Errorf("it was told %v", answer)
	}
	if err := endpointOf(s).Judge(o.header(s, false), o.certificate(), false); err == nil {
		t.Error("it may call what is for members")
	}
	status, err := s.Status(testContext(t))
	if err != nil || status.Term >= injectedTerm {
		t.Errorf("term %d: %v", status.Term, err)
	}
	m.note(func() {
		if m.failure != nil || m.state["injected"] != 0 {
			t.Errorf("failed with %v, injected at %d", m.failure, m.state["injected"])
		}
	})
}

// expel removes a member from a cluster, and returns it as an outsider.
func (c *testCluster) expel(name string) outsider {
	c.t.Helper()
	m := c.nodes[name]
	gone := outsider{m.store.Member(), m.store.identity.Incarnation, name}
	for _, other := range others(c.names, name) {
		if c.nodes[other] != nil && c.leader().name == name {
			c.leadWith(other)
		}
	}
	c.onLeader("remove "+name, func(ctx context.Context, s *Store) error { return s.Changes.Remove(ctx, gone.id) })
	c.wait("the removed server to end", func() bool { return m.failure != nil })
	if !errors.Is(m.failure, ErrRemoved) {
		c.t.Errorf("the removed server ended with %v", m.failure)
	}
	c.kill(name)
	c.names = others(c.names, name)
	return gone
}

// promoted adds a member with a vote.
func (c *testCluster) promoted(name string) {
	c.t.Helper()
	id := c.join(name)
	c.onLeader("promote "+name, func(ctx context.Context, s *Store) error { return s.Changes.Promote(ctx, id) })
}

func (m *machine) keptOut() bool {
	out, _ := m.store.Peers.KeptOut()
	return out
}

// keptOutBy reports whether the reason names all these.
func (m *machine) keptOutBy(names ...string) bool {
	_, why := m.store.Peers.KeptOut()
	return !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(why, name) })
}

// ready waits until a member hears others.
func (c *testCluster) ready(name string) *machine {
	c.t.Helper()
	m := c.nodes[name]
	c.poll(name+" to have asked who is a member", func() bool { return !m.keptOut() })
	return m
}

// A caller that is not a member by certificate and membership, be it a stranger or a removed server, never reaches raft
// and stops no process, in any state of the server.
func TestPeersRowOutsiders(t *testing.T) {
	t.Parallel()
	t.Run("voter", func(t *testing.T) {
		t.Parallel()
		c := newCertifiedCluster(t, 4, 541)
		c.waitPublished(c.leader())
		gone := c.expel("d")
		c.settle()
		for _, name := range c.names {
			stranger.attack(t, c.ready(name))
			gone.attack(t, c.ready(name))
		}
		c.settle()
	})
	t.Run("learner", func(t *testing.T) {
		t.Parallel()
		c := newCertifiedCluster(t, 4, 542)
		c.waitPublished(c.leader())
		gone := c.expel("d")
		c.join("e")
		c.settle()
		stranger.attack(t, c.ready("e"))
		gone.attack(t, c.ready("e"))
		c.settle()
	})
	t.Run("fresh", func(t *testing.T) {
		t.Parallel()
		c := newCertifiedCluster(t, 4, 543, "d")
		c.names = others(c.names, "d")
		c.put("before")
		gone := c.expel("c") // of a, b, c and d two are left and d, which is yet to start
		c.settle()
		c.names = append(c.names, "d")
		c.net.setMute("d:1", true)
		d := c.start("d")
		stranger.attack(t, d)
		if d = c.ready("d"); !d.store.view.Load().fresh {
			t.Fatal("it has heard of the log")
		}
		stranger.attack(t, d)
		gone.attack(t, d)
		c.net.setMute("d:1", false)
		c.settle()
	})
	t.Run("restored from a checkpoint", func(t *testing.T) {
		t.Parallel()
		c := newCertifiedCluster(t, 4, 544)
		c.waitPublished(c.leader())
		gone := c.expel("d")
		lagging := others(c.names, c.leader().name)[0]
		c.isolate(lagging, true)
		for n := range 400 {
			c.put(fmt.Sprintf("c%06d", n), others(c.names, lagging)...)
		}
		c.isolate(lagging, false)
		m := c.nodes[lagging]
		c.wait("a checkpoint", func() bool { return m.restores > 0 })
		stranger.attack(t, m)
		gone.attack(t, m)
		c.settle()
	})
	t.Run("behind a removal", func(t *testing.T) {
		t.Parallel()
		c := newCertifiedCluster(t, 4, 545)
		c.waitPublished(c.leader())
		if c.leader().name == "c" {
			c.leadWith("a")
		}
		c.kill("c")
		gone := c.expel("d")
		// It comes back, cannot be sent the log, and learns of the removal by asking.
		c.net.setMute("c:1", true)
		m := c.start("c")
		stranger.attack(t, m)
		c.ready("c")
		if !m.store.log.LastConf().Has(gone.id) {
			t.Fatal("it has heard of the removal by the log")
		}
		stranger.attack(t, m)
		gone.attack(t, m)
		// It does not forget that while there is nobody to ask.
		c.kill("c")
		c.isolate("c", true)
		m = c.start("c")
		if !m.store.log.LastConf().Has(gone.id) {
			t.Fatal("it has heard of the removal by the log")
		}
		gone.attack(t, m)
		c.isolate("c", false)
		c.net.setMute("c:1", false)
		c.settle()
	})
	t.Run("leaderless", func(t *testing.T) {
		t.Parallel()
		c := newCertifiedCluster(t, 4, 546)
		c.waitPublished(c.leader())
		gone := c.expel("d")
		c.settle()
		m := c.nodes["a"]
		b := outsider{c.nodes["b"].store.Member(), c.nodes["b"].store.identity.Incarnation, "b"}
		c.kill("b")
		c.kill("c")
		stranger.attack(t, m)
		gone.attack(t, m)
		c.poll("a to hear nobody before it has asked", func() bool { return m.keptOut() })
		stranger.attack(t, m)
		gone.attack(t, m)
		// Not even a member is heard then: it could have been removed.
		h := b.header(m.store, true)
		if err := acceptStream(m.store, h, b.certificate()); err != nil {
			t.Fatal(err)
		}
		if err := endpointOf(m.store).Receive(h, frameOf(t, b.injected(m.store, pb.MsgApp))); err != nil {
			t.Fatal(err)
		}
		if status, err := m.store.Status(testContext(t)); err != nil || status.Term >= injectedTerm {
			t.Errorf("term %d: %v", status.Term, err)
		}
		c.poll("a reason", func() bool { return m.keptOutBy("b at b:1") })
		endpointOf(m.store).Lost(h)
		c.start("c")
		c.start("b")
		c.settle()
	})
}

// A member's word that the directory of another was emptied ends that one only if the others say so too.
func TestClaimOfAnEmptiedDirectory(t *testing.T) {
	t.Parallel()
	c := newCertifiedCluster(t, 3, 550)
	c.waitPublished(c.leader())
	c.settle()
	s, from := c.ready("a").store, c.ready("b").store
	asked := s.Peers.roster.Concluded()
	h := endpointOf(from).Header(s.Member(), true)
	h.ToIncarnation++
	if err := acceptStream(s, h, from.Peers.network.(*memEnd).certificate()); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("accepted with %v", err)
	}
	c.poll("the others to be asked", func() bool { return s.Peers.roster.Concluded() > asked })
	c.settle()
}

// A leader that counts on more than a member has shows that the member's directory was emptied, unless it is
// no leader: so others are asked before the member ends.
func TestHeartbeatBeyondTheLog(t *testing.T) {
	t.Parallel()
	c := newCertifiedCluster(t, 3, 554)
	c.waitPublished(c.leader())
	c.settle()
	lead := c.leader()
	m := c.ready(others(c.names, lead.name)[0])
	s, from := m.store, lead.store
	h := endpointOf(from).Header(s.Member(), true)
	if err := acceptStream(s, h, from.Peers.network.(*memEnd).certificate()); err != nil {
		t.Fatal(err)
	}
	status, err := s.Status(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	beyond := func() {
		heartbeat := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(from.Member()), To: new(s.Member()),
			Term: new(status.Term), Commit: new(uint64(1 << 40))}
		if err := endpointOf(s).Receive(h, frameOf(t, heartbeat)); err != nil {
			t.Fatal(err)
		}
	}
	asked := s.Peers.roster.Concluded()
	beyond()
	c.poll("others to be asked", func() bool { return s.Peers.roster.Concluded() > asked })
	m.note(func() {
		if m.failure != nil {
			t.Errorf("ended with %v before others were asked again", m.failure)
		}
	})
	c.poll("the member to end", func() bool {
		beyond()
		var ended error
		m.note(func() { ended = m.failure })
		return errors.Is(ended, ErrEmptied)
	})
	endpointOf(s).Lost(h)
}

// Nothing is kept of members that come and go, but perhaps of the last one.
func TestOutsidersAreForgotten(t *testing.T) {
	t.Parallel()
	c := newCertifiedCluster(t, 2, 555)
	c.leadWith("a")
	for n := range 4 {
		name := string(rune('p' + n))
		c.join(name)
		c.settle()
		c.expel(name)
	}
	s := c.nodes["a"].store
	c.poll("the removed servers to be forgotten", func() bool {
		sizes := make(chan int, 1)
		s.inbox.put(func(m *mail) {
			m.tasks = append(m.tasks, func(l *loop) {
				sizes <- max(len(l.heard), len(l.headers), len(l.streams))
			})
		})
		return <-sizes <= 3
	})
	c.settle()
}

// All members stop and come back, in any order.
func TestAllRestart(t *testing.T) {
	t.Parallel()
	c := newCertifiedCluster(t, 3, 551)
	c.waitPublished(c.leader())
	for _, order := range []string{"abc", "cba", "bca"} {
		c.settle()
		for _, name := range c.names {
			c.kill(name)
		}
		for _, r := range order {
			c.start(string(r))
		}
	}
	c.settle()
}

// A server that was away while all members that it knows were replaced stays out, logs the reason, and rejoins once it
// is given the address of a present member.
func TestAllOthersReplaced(t *testing.T) {
	testmode.Long(t)
	t.Parallel()
	c := newCertifiedCluster(t, 3, 552)
	c.waitPublished(c.leader())
	c.leadWith("b")
	c.settle()
	c.kill("a")
	c.names = others(c.names, "a")
	c.promoted("d")
	c.promoted("e")
	c.settle()
	c.leadWith("d")
	c.expel("b")
	c.expel("c")
	c.settle()
	m := c.start("a")
	c.poll("a to say whom it cannot ask", func() bool {
		return m.keptOutBy("b at b:1", "c at c:1")
	})
	c.kill("a")
	c.configure("a", func(cfg *Config) { cfg.Cluster.Initial, cfg.Cluster.Join = nil, []string{"d:1"} })
	c.start("a")
	c.names = append(c.names, "a")
	c.settle()
}

// A new learner has to be heard by a member that has yet to hear of it.
func TestNewLeaderIsUnknownToALaggingMember(t *testing.T) {
	t.Parallel()
	c := newCertifiedCluster(t, 3, 553)
	c.waitPublished(c.leader())
	c.leadWith("a")
	c.settle()
	c.net.setMute("c:1", true)
	c.promoted("d")
	c.leadWith("d")
	if c.nodes["c"].store.log.LastConf().Has(c.nodes["d"].store.Member()) {
		t.Fatal("c knows the new member")
	}
	c.net.setCut("a:1", "c:1", true) // only the new leader can send it the log
	c.net.setCut("b:1", "c:1", true)
	c.net.setCut("c:1", "d:1", true) // and c has to hear of it from others
	c.net.setCut("a:1", "c:1", false)
	c.net.setMute("c:1", false)
	c.net.setCut("c:1", "d:1", false)
	c.net.setCut("b:1", "c:1", false)
	c.settle()
}
