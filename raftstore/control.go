package raftstore

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// control is what the holder of the turn knows about the other members.
type control struct {
	conf    confRecord // as of the last entry handed over
	ticks   int
	heard   map[uint64]int            // tick at which a member last said something
	headers map[uint64]*peerpb.Header // what members said about themselves
	streams map[uint64]*peerpb.Header // of the last urgent stream from each member, while that is open
	watches []*watch
	removed bool // this member
	stale   bool // the view has to be shown again
	ticking atomic.Bool

	offered *received // a checkpoint that raft has just been offered
	sending int       // checkpoints on their way to others

	rounds       []leaseRound
	lastRound    uint64
	offer        *leadershipOffer // nil if there is none
	transferring bool             // see setTransferring
	stuck        bool             // it should hand over, and nobody can take it
	ledAt        int              // the last tick at which there was a leader
	deaf         deafness

	replayed    uint64 // up to here the log was known at the start, here or to those who let this member join
	leaderReset bool   // the leader's connection was reset
	heir        uint64 // whom the leader hands over to, 0: nobody
	lastLeader  uint64 // the last that was known

	campaign *time.Timer
	tries    int // campaigns left after the leader's connection was reset
}

func (c *control) init(s *Store) {
	c.conf, c.stale, c.replayed = s.tail.lastConf(), true, max(s.tail.last, s.learnt.Index)
	c.heard, c.headers, c.streams = map[uint64]int{}, map[uint64]*peerpb.Header{}, map[uint64]*peerpb.Header{}
}

// needsTicks tells whether raft's clock has to run. A member alone has nobody to be timed by.
func (l *loop) needsTicks() bool {
	return !l.conf.alone(l.s.identity.Member) || len(l.watches) > 0 || l.leading && l.unpublished() != nil
}

// tick is one step of raft's clock, and what else is done from time to time.
func (l *loop) tick() {
	l.ticks++
	l.stale = true
	l.node.Tick()
	if l.transferring && l.node.BasicStatus().LeadTransferee == raft.None {
		l.setTransferring(false)
		l.heir = raft.None
		l.confirmLease() // clients have waited for a sign of life long enough
	}
	if l.leader != raft.None {
		l.ledAt = l.ticks
	}
	if l.leading && l.s.appender.stuck(slowWriteMax) {
		l.stepAside("the disk is slow")
	}
	l.listen()
	l.watchAdmission()
	if l.ticks%leaseTicks == 0 {
		l.confirmLease()
	}
	if l.ticks%retryTicks == 0 {
		l.publish()
	}
	if l.s.peers != nil {
		l.s.peers.release()
		for _, m := range l.conf.Members {
			talks := l.leading || l.leader == raft.None || l.leader == m.ID // others have nothing to say
			if at, ok := l.heard[m.ID]; ok && talks && (l.ticks-at)%silenceTicks == silenceTicks-1 {
				l.s.peers.renew(m.ID)
			}
		}
	}
}

// fromPeers deals with what came from other members.
func (l *loop) fromPeers(m mail) {
	for _, h := range m.headers {
		l.headers[h.GetFrom()] = h
		if h.GetUrgent() {
			l.streams[h.GetFrom()] = h
		}
	}
	for _, h := range m.retold {
		l.headers[h.GetFrom()] = h
	}
	if len(m.retold) > 0 {
		l.stale = true
		l.publish()
	}
	for _, msg := range m.received {
		l.receive(msg)
	}
	for _, id := range m.unreachable {
		l.node.ReportUnreachable(id)
	}
	for _, h := range m.lost {
		l.lost(h)
	}
	for _, o := range m.snapshots {
		l.snapshotDone(o)
	}
}

// receive gives raft a message of another member.
func (l *loop) receive(m *pb.Message) {
	l.heard[m.GetFrom()] = l.ticks
	// A member that was just started does not remember which leader it confirmed. Until any such lease is over it
	// does not vote.
	voting := m.GetType() == pb.MsgVote || m.GetType() == pb.MsgPreVote
	if voting && l.ticks < electionTicks {
		return
	}
	if voting && string(m.GetContext()) == transferContext {
		l.heir = m.GetFrom()
	}
	// A leader tells a commit index only up to what this member has confirmed to have.
	if m.GetType() == pb.MsgHeartbeat && m.GetCommit() > l.durable && l.conf.has(m.GetFrom()) {
		l.doubt(m.GetFrom())
		return
	}
	if m.GetType() == pb.MsgTimeoutNow {
		l.heir = l.s.identity.Member
		l.offer = &leadershipOffer{m, l.node.BasicStatus().GetCommit()}
		l.takeOffer()
		return
	}
	l.step(m)
}

// transferContext is how raft marks the votes that a member asks for because the leader hands over to it.
const transferContext = "CampaignTransfer"

// leadershipOffer is a leader's request to take over.
type leadershipOffer struct {
	message *pb.Message
	commit  uint64 // what was committed when it came
}

// takeOffer stands for election at the leader's request, once everything is applied that was committed then: raft would
// refuse without a word as long as a change of the members is among it, and the cluster would be without a leader until
// the old one gives up waiting.
func (l *loop) takeOffer() {
	switch {
	case l.offer == nil:
	case l.node.BasicStatus().Applied < l.offer.commit:
		l.waitForApplied()
	default:
		m := l.offer.message
		l.offer = nil
		l.step(m) // void if the term is over
	}
}

// lost notes that a member's urgent stream ended. A newer one has taken the place of an older one, which can stay half dead
// for long after its network was cut. If it was the leader's, the leader has probably died, or makes way: then this member
// forgets it and soon asks the others, who say no if they still hear it.
func (l *loop) lost(h *peerpb.Header) {
	id := h.GetFrom()
	if l.streams[id] != h {
		return
	}
	delete(l.streams, id)
	if l.leading || l.leader != id || l.ticks < electionTicks || !l.hearsAnotherVoter() {
		return
	}
	if err := l.node.ForgetLeader(); err != nil {
		l.s.cfg.Logger.Debug("forget the leader", "err", err)
		return
	}
	l.leaderReset = true
	l.tries = campaignTries
	l.campaignLater(0)
}

// hearsAnotherVoter tells whether there is anybody with a vote to ask.
func (l *loop) hearsAnotherVoter() bool {
	return slices.ContainsFunc(l.conf.Voters, func(id uint64) bool { return id != l.s.identity.Member && l.streams[id] != nil })
}

// campaignLater campaigns after a random delay, so that the others do not do so at the same moment.
func (l *loop) campaignLater(atLeast time.Duration) {
	inbox := &l.s.inbox
	if l.campaign != nil {
		l.campaign.Stop()
	}
	l.campaign = time.AfterFunc(atLeast+rand.N(campaignDelayMax), func() {
		inbox.put(func(m *mail) { m.tasks = append(m.tasks, (*loop).campaignNow) })
	})
}

func (l *loop) campaignNow() {
	if l.node.BasicStatus().Lead != raft.None || l.tries == 0 {
		l.tries = 0
		return
	}
	l.tries--
	if err := l.node.Campaign(); err != nil {
		l.s.cfg.Logger.Debug("campaign", "err", err)
	}
	l.campaignLater(campaignDelayMax)
}

// unpublished returns the record of a member as it should be, if it is not as it should be. Only the leader asks.
func (l *loop) unpublished() *memberRecord {
	if l.s.peers == nil {
		return nil
	}
	self := l.s.identity.Member
	for _, id := range append(append([]uint64{}, l.conf.Voters...), l.conf.Learners...) {
		h := l.headers[id]
		if id == self {
			h = l.s.header(0, false)
		}
		if h == nil {
			continue
		}
		old := memberRecord{ID: id}
		if m := l.conf.member(id); m != nil {
			old = *m
		}
		want := old
		if id == self && want.Name == "" {
			want.Name = l.s.cfg.Cluster.Name
		}
		if want.Incarnation == 0 {
			want.Incarnation = h.GetIncarnation()
		}
		if h.GetAddress() != "" && len(h.GetAddress()) <= memberTextMax {
			want.Peer = h.GetAddress()
		}
		if h.GetClientAddress() != "" && len(h.GetClientAddress()) <= clientTextMax {
			want.Client = h.GetClientAddress()
		}
		want.Version = h.GetVersion()
		if want != old {
			return &want
		}
	}
	return nil
}

// show publishes what Members and the other members may know.
func (l *loop) show() {
	if !l.stale {
		return
	}
	l.stale = false
	status := l.node.BasicStatus()
	v := &memberView{conf: l.conf, leader: status.Lead, leading: l.leading, term: status.GetTerm(), fresh: l.s.tail.fresh()}
	if old := l.s.view.Load(); v.leader != 0 && (v.leader != old.leader || v.term != old.term) {
		l.s.meters.changes.Add(1)
	}
	v.full = map[uint64]bool{l.s.identity.Member: l.s.full.Load()}
	for id, h := range l.headers {
		if h.GetFull() {
			v.full[id] = true
		}
	}
	if l.leading {
		v.match, v.active = map[uint64]uint64{}, map[uint64]bool{}
		for id, p := range l.node.Status().Progress {
			v.match[id], v.active[id] = p.Match, l.active(id)
		}
	}
	l.s.view.Store(v)
}

// setConf takes over a membership that holds from index on.
func (l *loop) setConf(index uint64, conf confRecord) {
	self := l.s.identity.Member
	l.tellMembers(index, conf)
	if err := l.s.cfg.Cluster.readable(conf); err != nil {
		l.s.inbox.fail(err)
	}
	l.removed = l.removed || l.conf.has(self) && !conf.has(self)
	l.conf, l.stale = conf, true
	l.s.tail.setConf(index, conf)
	if l.s.peers != nil {
		l.s.admission.follow(conf)
		l.s.peers.update(conf)
		l.forgetOutsiders()
	}
	l.confirmLease()
	l.askAgain()
}
