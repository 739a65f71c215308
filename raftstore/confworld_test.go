package raftstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/memory"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// confWorld is a cluster whose disks, network and elections the test moves, one step at a time, so that a seed
// decides everything. Its members have the real loop, log and roster; nothing of them runs by itself.
type confWorld struct {
	t       testing.TB
	rng     *rand.Rand
	history []string
	members []*confMember
	queues  map[confLane][]*pb.Message // under way, oldest first
	apart   map[string]bool            // these reach each other, and none of the rest
	writes  bool                       // clients write
	tried   int                        // commands so far

	// The oracle.
	entries map[uint64]Entry
	leaders map[uint64]string // by term
	acked   []string
	conf    membership.Conf // the latest that any member has applied
	before  []uint64        // the voters before the last change
	pending []uint64        // those after it, until it is complete; then nil
}

type confLane struct {
	from, to uint64
	lane     int // 0: urgent, 1: bulk
}

// confMember is one server: a disk, and a store while it runs.
type confMember struct {
	w       *confWorld
	id      uint64
	name    string
	disk    *memory.Kept
	learnt  membership.Conf
	store   *Store // nil: it is down
	applied uint64
	leads   uint64          // the term, 0: none
	state   map[string]bool // commands that it has applied
	own     map[string]bool // commands that it has proposed
	refused bool            // another server does not accept it any more
	gone    bool            // for ever: it has ended because it was removed, or its operator has shut it down
}

// stillClock never moves.
type stillClock struct{ realClock }

func (stillClock) now() time.Time { return time.Unix(1e9, 0) }

func newConfWorld(t testing.TB, seed uint64, first string) *confWorld {
	w := &confWorld{t: t, rng: rand.New(rand.NewPCG(seed, 36)), queues: map[confLane][]*pb.Message{},
		entries: map[uint64]Entry{}, leaders: map[uint64]string{}}
	for _, name := range first {
		w.conf.Voters = append(w.conf.Voters, confID(string(name)))
		w.conf.Members = append(w.conf.Members, confMemberRecord(string(name)))
	}
	for _, name := range first {
		w.add(string(name), w.conf, membership.Conf{}).start()
	}
	return w
}

func confID(name string) uint64 { return uint64(name[0]-'a') + 1 }

func confMemberRecord(name string) membership.Record {
	return membership.Record{ID: confID(name), Name: name, Peer: name + ":1"}
}

func (w *confWorld) add(name string, origin, learnt membership.Conf) *confMember {
	id := datadir.Identity{Cluster: 77, Member: confID(name), Incarnation: 1}
	meta := datadir.FirstMeta(id)
	meta.Conf = origin
	m := &confMember{w: w, id: id.Member, name: name, disk: memory.New(id, meta), learnt: learnt,
		own: map[string]bool{}}
	w.members = append(w.members, m)
	return m
}

func (w *confWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *confWorld) fail(format string, args ...any) {
	w.t.Helper()
	var state strings.Builder
	for _, m := range w.members {
		fmt.Fprintf(&state, "\n%s: up %v, gone %v, leads %d, applied %d, hard state %+v", m.name, m.store != nil,
			m.gone,
			m.leads, m.applied, m.disk.Image().Hard)
		if m.store != nil {
			fmt.Fprintf(&state, ", voters %v as of %d", m.store.loop.conf.Voters, m.store.loop.conf.Index)
		}
	}
	w.t.Fatalf("%s\nafter: %s%s", fmt.Sprintf(format, args...), strings.Join(w.history, "; "), state.String())
}

func (w *confWorld) byID(id uint64) *confMember {
	at := slices.IndexFunc(w.members, func(m *confMember) bool { return m.id == id })
	if at < 0 {
		return nil
	}
	return w.members[at]
}

func (w *confWorld) up() (up []*confMember) {
	for _, m := range w.members {
		if m.store != nil {
			up = append(up, m)
		}
	}
	return up
}

// leader is the running member that leads in the highest term.
func (w *confWorld) leader() (leader *confMember) {
	for _, m := range w.up() {
		if m.leads > 0 && (leader == nil || m.leads > leader.leads) {
			leader = m
		}
	}
	return leader
}

func (w *confWorld) reach(a, b uint64) bool {
	return w.apart == nil || w.apart[w.byID(a).name] == w.apart[w.byID(b).name]
}

func (m *confMember) start() {
	if m.gone || m.store != nil {
		return
	}
	_ = m.disk.Log().Close()
	s := &Store{stop: make(chan struct{}), done: make(chan struct{}),
		disk: &datadir.Disk{}, Peers: Peers{network: newMemNet(1).at(m.name + ":1")},
		cfg: Config{InMemory: true, Memory: m.disk, Logger: noLog,
			Cluster: Cluster{Name: m.name, AdvertisePeer: m.name + ":1", Version: 1, clock: stillClock{}}}}
	s.inbox.bell = turn.NewBell()
	s.Peers.client.Store(&s.cfg.Cluster.ClientAddress)
	s.lease.Begin(stillClock{}.now)
	if err := s.open(m.w.t.Context()); err != nil {
		m.w.fail("open %s: %v", m.name, err)
	}
	s.learnt.Conf = m.learnt
	node, err := newNode(s)
	if err != nil {
		m.w.fail("start %s: %v", m.name, err)
	}
	m.store, m.applied, m.leads, m.refused = s, s.loaded, 0, false
	m.own, m.state = map[string]bool{}, map[string]bool{}
	s.assemble(node, m)
	s.Peers.out.Close()
	s.Peers.out = &confPeers{self: m.id, learned: map[uint64]bool{}} // no goroutine sends: the test takes the messages
	s.loop.ticks = electionTicks
	m.turn(s.loop.begin)
}

// crash is a kill -9, in the middle of the writes under way.
func (m *confMember) crash() {
	if m.store == nil {
		return
	}
	if !m.store.appender.idle() && m.w.rng.IntN(2) == 0 {
		m.writeSome()
	}
	m.store, m.leads = nil, 0
	lost := m.w.rng.IntN(2) == 0
	for lane := range m.w.queues { // what it has sent may still arrive
		if lane.to == m.id || lane.from == m.id && lost {
			delete(m.w.queues, lane)
		}
	}
}

// writeSome makes durable some of what waits for the disk, in one write.
func (m *confMember) writeSome() []*writeJob {
	a := m.store.appender
	jobs := a.jobs
	some := 1 + m.w.rng.IntN(len(jobs))
	a.jobs = jobs[:some:some]
	written := a.next()
	a.jobs = append(a.jobs, jobs[some:]...)
	if err := a.write(written); err != nil {
		m.w.fail("write of %s: %v", m.name, err)
	}
	return written
}

var errKilled = errors.New("killed")

// turn runs the loop, and puts into the queues what it sends.
func (m *confMember) turn(first func() error) {
	s := m.store
	if err := s.loop.workInTurn(first); errors.Is(err, ErrRemoved) {
		m.end()
		return
	} else if err != nil {
		m.w.fail("%s: %v", m.name, err)
	}
	if conf := s.loop.conf; conf.Index > m.w.conf.Index {
		m.w.conf = conf
	}
	m.w.take(m, s.Peers.out.(*confPeers))
}

// confPeers keeps what a member sends to members whose addresses it knows.
type confPeers struct {
	transport
	self    uint64
	members membership.Conf
	learned map[uint64]bool
	sent    []*pb.Message
}

func (p *confPeers) Update(conf membership.Conf)   { p.members = conf }
func (p *confPeers) Learn(id uint64, _ string)     { p.learned[id] = true }
func (p *confPeers) Connected(uint64) (bool, bool) { return false, false }
func (p *confPeers) Release()                      {}
func (p *confPeers) Renew(uint64)                  {}
func (p *confPeers) Announce()                     {}

func (p *confPeers) Send(m *pb.Message) {
	if to := p.members.Member(m.GetTo()); to != nil && to.Peer != "" || p.learned[m.GetTo()] {
		p.sent = append(p.sent, proto.CloneOf(m))
	}
}

// SendSnapshot reports that no address is known.
func (p *confPeers) SendSnapshot(uint64, func(context.Context) (*peerpb.Chunk, error), func(error)) bool {
	return false
}

// take puts what a member sends into the queues, in the order of each lane.
func (w *confWorld) take(m *confMember, p *confPeers) {
	for _, message := range p.sent {
		key := confLane{m.id, message.GetTo(), 0}
		if message.GetType() == pb.MsgApp {
			key.lane = 1
		}
		w.queues[key] = append(w.queues[key], message)
	}
	p.sent = nil
}

// end is the end of a member that was removed.
func (m *confMember) end() {
	m.w.note("%s ends", m.name)
	m.crash()
	m.gone = true
}

func (m *confMember) write() {
	m.store.appender.finished(m.writeSome())
	m.turn(nil)
}

// deliver takes the oldest message out of a queue.
func (w *confWorld) deliver(key confLane) {
	message := w.queues[key][0]
	if w.queues[key] = w.queues[key][1:]; len(w.queues[key]) == 0 {
		delete(w.queues, key)
	}
	from, to := w.byID(key.from), w.byID(key.to)
	switch {
	case to == nil || to.store == nil || !w.reach(key.from, key.to):
	case endpointOf(to.store).Admitted().IsRemoved(key.from):
		from.refused = true
	default:
		to.store.Peers.out.Learn(key.from, from.name+":1")
		to.store.inbox.post(func(m *mail) { m.received = append(m.received, message) })
		to.turn(nil)
	}
}

// elect makes a member stand for election, after everybody has missed the leader.
func (w *confWorld) elect(m *confMember) {
	for _, o := range w.up() {
		if o.leads == 0 && w.reach(o.id, m.id) {
			o.turn(o.store.loop.node.ForgetLeader)
		}
	}
	if m.store != nil && m.leads == 0 {
		m.turn(m.store.loop.node.Campaign)
	}
}

// ask judges the answers of the others as a roster does.
func (m *confMember) ask() {
	roster := m.store.Peers.roster
	q := roster.Plan(roster.List())
	for i := range q.Servers {
		o := m.w.byID(q.Servers[i].ID)
		if o.store == nil || !m.w.reach(m.id, o.id) {
			q.Servers[i].Tries = membership.StrandedTries
			continue
		}
		answer, err := endpointOf(o.store).Hello(&peerpb.HelloRequest{Cluster: 77, Member: m.id}, nil)
		if err != nil {
			q.Servers[i].Removed = errors.Is(err, ErrRemoved)
		} else if conf, err := membership.Decode(answer.GetMembership()); err == nil {
			q.Servers[i].Conf = &conf
		}
	}
	end := q.Judge()
	if end.Adopt != nil {
		m.learnt = *end.Adopt.Conf
		if err := roster.Learn(m.learnt, end.Adopt.Lineage); err != nil {
			m.w.fail("%v", err)
		}
	}
	if end.Removed || end.Emptied {
		m.end()
	}
}

func (w *confWorld) propose(m *confMember) {
	w.tried++
	command := fmt.Sprintf("c%d", w.tried)
	m.own[command] = true
	m.store.Propose(m.leads, [][]byte{[]byte(command)})
	m.turn(nil)
}

// step does one thing that may happen.
func (w *confWorld) step() {
	var may []func()
	keys := make([]confLane, 0, len(w.queues))
	for key := range w.queues {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b confLane) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.lane, b.lane))
	})
	for _, key := range keys {
		may = append(may, func() { w.deliver(key) }, func() { w.deliver(key) })
	}
	for _, m := range w.up() {
		if !m.store.appender.idle() {
			may = append(may, m.write, m.write)
		}
		if m.leads > 0 {
			may = append(may, func() { m.turn(func() error { m.store.loop.tick(); return nil }) })
			if w.writes && w.rng.IntN(8) == 0 {
				may = append(may, func() { w.propose(m) })
			}
		}
		if m.refused || !m.store.loop.conf.Has(m.id) {
			may = append(may, m.ask)
		}
		if leader := w.leader(); leader == nil || !w.reach(leader.id, m.id) || w.rng.IntN(100) == 0 {
			may = append(may, func() { w.elect(m) })
		}
	}
	if len(may) > 0 {
		may[w.rng.IntN(len(may))]()
	}
}

// settle goes on fairly until ok: everything is delivered and written, and elections are held until one succeeds.
func (w *confWorld) settle(what string, ok func() bool) {
	w.t.Helper()
	for round := range 200 {
		if ok() {
			return
		}
		for busy := true; busy; {
			busy = false
			for _, m := range w.up() {
				if m.store != nil && !m.store.appender.idle() {
					busy = true
					m.write()
				}
			}
			for _, from := range w.members {
				for _, to := range w.members {
					for lane := range 2 {
						if key := (confLane{from.id, to.id, lane}); len(w.queues[key]) > 0 {
							busy = true
							w.deliver(key)
						}
					}
				}
			}
		}
		up := w.up()
		if leader := w.leader(); leader != nil && round%20 != 19 {
			leader.turn(func() error { leader.store.loop.tick(); return nil })
		} else if len(up) > 0 {
			w.elect(up[round%len(up)])
		}
		for _, m := range up {
			if m.store != nil && (m.refused || !m.store.loop.conf.Has(m.id)) {
				m.ask()
			}
		}
	}
	w.fail("waited in vain for %s", what)
}

// The handler of a member.

func (m *confMember) Committed(entries []Entry) {
	for _, e := range entries {
		old, known := m.w.entries[e.Index]
		switch {
		case e.Index != m.applied+1:
			m.w.fail("%s applies entry %d after entry %d", m.name, e.Index, m.applied)
		case known && (old.Term != e.Term || string(old.Data) != string(e.Data)):
			m.w.fail("entry %d of %s is %d %q, elsewhere it is %d %q", e.Index, m.name, e.Term, e.Data, old.Term,
				old.Data)
		}
		m.applied = e.Index
		m.w.entries[e.Index] = e
		if command := string(e.Data); len(command) > 0 {
			m.state[command] = true
			if m.leads > 0 && m.own[command] {
				m.w.acked = append(m.w.acked, command)
			}
		}
	}
	m.store.Applied(m.applied, len(entries))
}

func (m *confMember) Leading(term uint64) {
	if other := m.w.leaders[term]; other != "" {
		m.w.fail("%s leads in term %d, in which %s has led", m.name, term, other)
	}
	m.w.note("%s leads %d", m.name, term)
	m.w.leaders[term], m.leads = m.name, term
}

func (m *confMember) Following(uint64, uint64) { m.leads = 0 }
func (m *confMember) ReadReady(uint64, uint64) {}
func (m *confMember) CheckpointDone(uint64)    {}
func (m *confMember) Failed(error)             {}
func (m *confMember) Flush(bool)               {}
func (m *confMember) Restore(index uint64) {
	m.w.fail("%s is given a checkpoint as of %d", m.name, index)
}

// majorityUp reports whether a majority of some voters runs.
func (w *confWorld) majorityUp(ids []uint64) bool {
	n := 0
	for _, id := range ids {
		if m := w.byID(id); m != nil && m.store != nil {
			n++
		}
	}
	return n > len(ids)/2
}
