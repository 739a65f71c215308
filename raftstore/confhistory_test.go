package raftstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/testmode"
)

// confScripts are histories of membership: the first members, and then the changes: + adds a learner, ^ gives it a
// vote, - removes a member.
var confScripts = []struct{ name, first, changes string }{
	{"one to three and back", "a", "+b ^b +c ^c -c -b"},
	{"three to five", "abc", "+d ^d +e ^e"},
	{"two of three replaced", "abc", "+d ^d -a +e ^e -b"},
	{"a lone server replaced", "a", "+b ^b -a"},
	{"four to one", "abcd", "-d -c -b"},
	{"five to three", "abcde", "-a -b"},
}

// confReturns are ways in which killed members return, and the others are there meanwhile.
var confReturns = []struct {
	name string
	run  func(w *confWorld, killed []*confMember)
}{
	{"others there", func(w *confWorld, killed []*confMember) {
		w.steps(20)
		w.startAll(killed)
	}},
	{"others late", func(w *confWorld, killed []*confMember) {
		others := w.up()
		w.killAll(others)
		w.startAll(killed)
		w.live()
		w.steps(30)
		w.startAll(others)
	}},
	{"others never", func(w *confWorld, killed []*confMember) {
		w.killAll(w.up())
		w.startAll(killed)
		w.live()
	}},
	{"killed never", func(w *confWorld, killed []*confMember) { w.live() }},
	{"cut off", func(w *confWorld, killed []*confMember) {
		w.steps(20)
		w.apart = map[string]bool{}
		for _, m := range killed {
			w.apart[m.name] = true
		}
		w.startAll(killed)
		w.steps(60)
		w.apart = nil
	}},
}

// After each step of each script each member, and all of them, are killed and return in every way. No term has two
// leaders, no entry has two contents, nothing acknowledged is lost, and a majority of the present members always
// elects a leader.
func TestMembershipHistories(t *testing.T) {
	testmode.WithoutRace(t)
	testmode.Long(t)
	t.Parallel()
	seeds := 1
	if *thorough {
		seeds = 40
	}
	n := 0
	for seed := range seeds {
		for _, script := range confScripts {
			changes := strings.Fields(script.changes)
			for at := range len(changes) {
				for victim := range len(script.first) + len(changes) + 1 { // the last: all
					for _, way := range confReturns {
						n++
						if writes := n%2 == seed%2; n%4 < 2 || *thorough {
							runHistory(t, uint64(1000*n+seed), script.first, changes, at, victim, way.name, way.run,
								writes)
						}
					}
				}
			}
		}
	}
	t.Logf("%d histories", n)
}

func runHistory(t *testing.T, seed uint64, first string, changes []string, at, victim int, way string,
	back func(w *confWorld, killed []*confMember), writes bool) {
	t.Helper()
	w := newConfWorld(t, seed, first)
	w.writes = writes
	for i, change := range changes {
		w.change(change)
		if i != at {
			continue
		}
		killed := w.up()
		if victim < len(w.members) {
			killed = slices.DeleteFunc(killed, func(m *confMember) bool { return m != w.members[victim] })
		}
		if len(killed) == 0 {
			return // like another history
		}
		w.note("kill %d, %s", len(killed), way)
		w.killAll(killed)
		back(w, killed)
		w.startAll(w.members)
		w.live()
		w.agree()
	}
}

// Members are killed at any moment, also in the middle of a change, and the network is cut at any.
func TestRandomMembershipHistories(t *testing.T) {
	testmode.WithoutRace(t)
	testmode.Long(t)
	t.Parallel()
	histories := 100
	if *thorough {
		histories = 20000
	}
	for seed := range histories {
		w := newConfWorld(t, uint64(seed), confScripts[seed%len(confScripts)].first)
		w.writes = seed%3 > 0
		for _, change := range strings.Fields(confScripts[seed%len(confScripts)].changes) {
			w.begin(change)
			for range w.rng.IntN(4) {
				w.steps(w.rng.IntN(25))
				w.disturb()
			}
			w.apart = nil
			w.startAll(w.members)
			w.change(change)
		}
		w.live()
		w.agree()
	}
}

// disturb kills some members, starts some, or cuts the network.
func (w *confWorld) disturb() {
	for _, m := range w.members {
		switch w.rng.IntN(6) {
		case 0, 1:
			w.note("kill %s", m.name)
			m.crash()
		case 2, 3:
			w.note("start %s", m.name)
			m.start()
		}
	}
	w.apart = nil
	if w.rng.IntN(3) == 0 {
		w.apart = map[string]bool{}
		for _, m := range w.members {
			w.apart[m.name] = w.rng.IntN(2) == 0
		}
		w.note("cut %v", w.apart)
	}
}

func (w *confWorld) steps(n int) {
	for range n {
		w.step()
	}
}

func (w *confWorld) killAll(members []*confMember) {
	for _, m := range members {
		m.crash()
	}
}

func (w *confWorld) startAll(members []*confMember) {
	for _, m := range members {
		m.start()
	}
}

// live wants a leader, and a command committed, if a majority of the voters runs: of those before and of those after a
// change that is not complete.
func (w *confWorld) live() {
	w.t.Helper()
	if !w.majorityUp(w.conf.Voters) || w.pending != nil && (!w.majorityUp(w.pending) || !w.majorityUp(w.before)) {
		return
	}
	before, asked := len(w.acked), ""
	w.settle("a command to be committed", func() bool {
		if leader := w.leader(); leader != nil && fmt.Sprint(leader.name, leader.leads) != asked {
			asked = fmt.Sprint(leader.name, leader.leads)
			w.propose(leader)
		}
		return len(w.acked) > before
	})
}

// agree wants all members to have applied all that was acknowledged.
func (w *confWorld) agree() {
	w.t.Helper()
	writes := w.writes
	w.writes = false
	defer func() { w.writes = writes }()
	w.settle("all members to agree", func() bool {
		for _, m := range w.up() {
			if !slices.Contains(w.conf.Voters, m.id) {
				continue
			}
			for _, command := range w.acked {
				if !m.state[command] {
					return false
				}
			}
		}
		return true
	})
}

// begin starts a change through the leader; nil without one, and while the leader is to be removed.
func (w *confWorld) begin(change string) *pursuit {
	id := confID(change[1:])
	w.before = w.conf.Voters
	if w.pending == nil {
		w.pending = votersAfter(w.conf.Voters, change)
	}
	leader := w.leader()
	if leader != nil && change[0] == '-' && leader.id == id {
		others := slices.DeleteFunc(w.up(), func(m *confMember) bool {
			return m.id == id || !slices.Contains(w.conf.Voters, m.id)
		})
		if len(others) > 0 {
			heir := others[w.rng.IntN(len(others))].id
			leader.turn(func() error { return leader.store.loop.transfer(heir) })
		}
		return nil
	}
	if leader == nil {
		return nil
	}
	return leader.pursue(confPursuit(change, id))
}

func votersAfter(voters []uint64, change string) []uint64 {
	id := confID(change[1:])
	switch change[0] {
	case '^':
		return append(slices.Clone(voters), id)
	case '-':
		return slices.DeleteFunc(slices.Clone(voters), func(v uint64) bool { return v == id })
	}
	return voters
}

func confPursuit(kind string, id uint64) *pursuit {
	switch kind[0] {
	case '^':
		return promotion(id)
	case '-':
		return removal(id)
	case '=':
		return sealing()
	}
	return addition(confMemberRecord(kind[1:]))
}

func (m *confMember) pursue(p *pursuit) *pursuit {
	p.result = make(chan error, 1)
	m.turn(func() error { m.store.loop.pursuits = append(m.store.loop.pursuits, p); return nil })
	return p
}

// change makes a change, however often it takes, until it is complete.
func (w *confWorld) change(change string) {
	w.t.Helper()
	w.note("%s", change)
	var now *pursuit
	var at *confMember
	phase := change
	done := func() bool {
		if at != nil && (at.store == nil || at.leads == 0) {
			now, at, phase = nil, nil, change
		}
		if now == nil {
			if now = w.begin(phase); now == nil {
				return false
			}
			at = w.leader()
		}
		select {
		case err := <-now.result:
			now, at = nil, nil
			switch {
			case err != nil && !errors.Is(err, ErrNotMember):
				phase = change
				return false
			case phase == change && change[0] != '+':
				phase = "=" + change[1:]
				return false
			}
			return true
		default:
			return false
		}
	}
	complete := false
	for range 500 { // what is under way then, is not waited for
		if complete = done(); complete {
			break
		}
		w.step()
	}
	if !complete {
		w.settle(change, done)
	}
	w.pending = nil
	w.note("%s is complete", change)
	m := w.byID(confID(change[1:]))
	switch {
	case change[0] == '+' && m == nil:
		leader := w.leader()
		origin, _ := leader.store.log.Origin()
		w.add(change[1:], origin, leader.store.loop.conf).start()
	case change[0] == '-' && w.rng.IntN(2) == 0: // its operator sees that it is done
		m.crash()
		m.gone = true
	}
}

// A leader that removes the only other member counts its vote until the commit index is on the leader's own disk, and
// announces no removal before that: if the leader dies first, it needs that vote.
func TestRemovalIsDurableBeforeItIsKnown(t *testing.T) {
	t.Parallel()
	w := newConfWorld(t, 1, "ab")
	w.live()
	leader := w.leader()
	other := w.members[0]
	if other == leader {
		other = w.members[1]
	}
	leader.pursue(removal(other.id))
	l := leader.store.loop
	committed := func() bool { return l.lastConf() > l.saved && l.node.BasicStatus().GetCommit() >= l.lastConf() }
	for range 100 {
		for _, m := range w.members {
			if !m.store.appender.idle() && !committed() {
				m.write()
			}
		}
		for key := range w.queues {
			w.deliver(key)
		}
		if committed() {
			break
		}
	}
	if !committed() || !l.conf.Has(other.id) {
		w.fail("the removal is committed: %v; the leader counts %v", committed(), l.conf.Voters)
	}
	leader.turn(func() error { l.tick(); l.tick(); return nil })
	for key, messages := range w.queues {
		for _, m := range messages {
			if key.from == leader.id && m.GetCommit() >= l.lastConf() {
				w.fail("%s says that entry %d is committed: %v", leader.name, m.GetCommit(), m.GetType())
			}
		}
	}
	leader.crash()
	leader.start()
	w.live()
}

// Raft puts an empty entry in the place of a membership entry that comes too early. So while a promotion is under way,
// neither another attempt nor another change is proposed: an entry that proves nothing would follow the promotion in
// the log of the new voter. If its leader, which has less, is killed then, it would take itself for a learner for ever.
func TestPromotionIsFollowedByItsSeal(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []string{"", "^b", "+c"} {
		w := newConfWorld(t, 1, "a")
		w.live()
		w.change("+b")
		a, b := w.members[0], w.members[1]
		l, disk := a.store.loop, a.store.appender
		w.settle("b to have all", func() bool {
			return l.node.Status().Progress[b.id].Match == a.applied && l.conf.Index == a.applied
		})
		w.note("^b and %q", meanwhile)
		for _, change := range strings.Fields("^b " + meanwhile) {
			p := confPursuit(change, confID(change[1:]))
			p.result = make(chan error, 1)
			l.pursuits = append(l.pursuits, p)
		}
		tick := func() {
			a.turn(func() error { l.tick(); return nil })
			w.exchange(a, b)
		}
		for range retryTicks + 1 {
			if tick(); len(disk.jobs) > 0 {
				break
			}
		}
		promotion := disk.jobs[:1:1]
		disk.jobs = nil
		disk.write(promotion)
		disk.finished(promotion)
		a.turn(nil) // it is committed
		for range retryTicks + 1 {
			tick() // the disk of b is faster
		}
		disk.write(disk.jobs[:1])
		a.store, a.leads = nil, 0
		clear(w.queues)
		a.start()
		w.live()
	}
}

// A change of the voters is not complete because its leader has lost the leadership: the next leader is asked.
func TestSealingNeedsALeader(t *testing.T) {
	t.Parallel()
	w := newConfWorld(t, 1, "abc")
	w.live()
	l, seal := w.leader().store.loop, sealing()
	w.settle("the leader to know its commit index", func() bool { return l.caughtUp })
	if !seal.done(l) {
		t.Error("a leader with nothing to seal goes on")
	}
	l.leading = false
	if seal.done(l) {
		t.Error("a member that does not lead is done")
	}
	if err := seal.attempt(l); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a member that does not lead: %v", err)
	}
}

// exchange delivers all messages, and has b write.
func (w *confWorld) exchange(a, b *confMember) {
	for busy := true; busy; {
		busy = false
		for key := range w.queues {
			w.deliver(key)
			busy = true
		}
		if !b.store.appender.idle() {
			b.write()
			busy = true
		}
	}
}

// A removal that only its leader knows of is not reported as made when that leader loses the leadership: without it the
// others may need the vote of the removed member, whose directory its operator would delete.
func TestRemovalIsReportedOnceItIsSealed(t *testing.T) {
	t.Parallel()
	w := newConfWorld(t, 1, "abcd")
	w.live()
	leader := w.leader()
	l := leader.store.loop
	gone := w.members[slices.IndexFunc(w.members, func(m *confMember) bool { return m != leader })]
	leader.pursue(removal(gone.id))
	for l.conf.Has(gone.id) {
		w.step()
	}
	sealed := leader.pursue(sealing())
	for range 2 * electionTicks {
		leader.turn(func() error { l.tick(); return nil })
	}
	select {
	case err := <-sealed.result:
		if leader.leads > 0 || !errors.Is(err, ErrNotLeader) {
			w.fail("the removal is complete: %v", err)
		}
	default:
		w.fail("the removal is neither complete nor given up")
	}
	w.live()
	again := w.leader().pursue(removal(gone.id))
	w.settle("the next leader to judge", func() bool { return len(again.result) > 0 })
	if err := <-again.result; !errors.Is(err, ErrNotMember) {
		w.fail("the next leader says %v", err)
	}
}

// A new leader's entries replace a membership entry; the one before is the last again.
func TestLastMembershipEntry(t *testing.T) {
	entries := func(from uint64, types ...pb.EntryType) (list []*pb.Entry) {
		for i, typ := range types {
			list = append(list, &pb.Entry{Index: new(from + uint64(i)), Type: typ.Enum()})
		}
		return list
	}
	var g confGate
	g.noteAppended(entries(1, pb.EntryConfChange, pb.EntryNormal, pb.EntryConfChange))
	g.noteAppended(entries(4, pb.EntryNormal, pb.EntryConfChange))
	for from, want := range map[uint64]uint64{6: 5, 4: 3, 2: 1, 1: 0} {
		later := g
		later.changes = slices.Clone(g.changes)
		later.noteAppended(entries(from, pb.EntryNormal))
		if got := later.lastConf(); got != want {
			t.Errorf("after new entries from %d the last membership entry is %d, want %d", from, got, want)
		}
	}
}
