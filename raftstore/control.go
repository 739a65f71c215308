package raftstore

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// control is the part of the loop that knows the other members: who they are, who of them is heard, and who
// leads or should. Raft itself decides by what is written in messages; control decides when to ask it, by
// what raft cannot see: connections that break, disks that are slow, and members that have just been started.
// Like everything of the loop it belongs to the holder of the turn.
//
// A member may be known in four ways, each from another source, and they may disagree for a while:
//
//	conf     what the log says, as of the last entry handed over; all rules about votes and rights go by this
//	headers  the member's last announcement on a stream, which the leader then writes into the log (publish)
//	streams  whether its urgent stream is open, by which a death is noticed in milliseconds
//	heard    when it last said anything at all, by which a connection is found that is open and dead
type control struct {
	conf     membership.Conf
	ticks    int                       // of raft's clock, since the start
	heard    map[uint64]int            // by member: the tick at which it last said something
	headers  map[uint64]*peerpb.Header // by member: the last it has sent
	streams  map[uint64]openStream     // by member: its last urgent stream, while that is open
	pursuits []*pursuit
	stale    bool // show has something new to publish
	// the loop's goroutine is to have a ticker; changed within the turn, read by that goroutine
	ticking atomic.Bool

	// Checkpoints. offered was received and is being handed to raft; it is nil again before the turn is over, because
	// raft takes it at once or never. sending counts those on their way to other members.
	offered *received
	sending int

	// Handing over, see Store.moving. offer is a leader's request that this member take over, while it cannot yet.
	// stuck is set while this member, as the leader, should hand over and nobody can take it. heir takes over, on
	// whichever side of it this member is; 0: nobody.
	offer *leadershipOffer
	stuck bool
	heir  uint64

	// Losing a leader. ledAt is the last tick at which there was one, and lastLeader who it was. leaderReset
	// is set when its connection broke and this member therefore forgot it; then it campaigns by itself,
	// tries times at most, whenever the timer campaign goes off. deaf is about a leader that is heard and
	// hears nobody.
	ledAt       int
	ledFirst    int // the first such tick, 0 before
	lastLeader  uint64
	leaderReset bool
	campaign    *time.Timer
	tries       int
	deaf        deafness
	doubts      doubts

	// replayed is the last entry that was there before this member began: in its own log at the start, or in
	// the log of those who let it join. Until it is handed over, what this member knows is old.
	replayed uint64
}

func (c *control) init(s *Store) {
	c.conf, c.stale, c.replayed = s.log.LastConf(), true, max(s.log.Last(), s.learnt.Conf.Index)
	c.heard, c.headers, c.streams = map[uint64]int{}, map[uint64]*peerpb.Header{}, map[uint64]openStream{}
}

// needsTicks reports whether raft's clock has to run. A member alone waits for nobody, so an idle server need
// not wake up; it needs a clock only while somebody waits for a change of the members, or the leader has
// something about a member to write.
func (l *loop) needsTicks() bool {
	return !l.conf.Alone(l.s.identity.Member) || len(l.pursuits) > 0 || l.leading && l.unpublished() != nil
}

// tick is one step of raft's clock, and everything that is done again and again as long as there are other
// members.
func (l *loop) tick() {
	l.ticks++
	l.stale = true
	l.node.Tick()
	if l.s.moving.Load() && l.node.BasicStatus().LeadTransferee == raft.None {
		l.s.moving.Store(false)
		l.heir = raft.None
		// the heir did not take over: this member leads on, and its clients have had no replies meanwhile
		l.confirmLease()
	}
	if l.leader != raft.None {
		l.ledAt, l.ledFirst = l.ticks, cmp.Or(l.ledFirst, l.ticks)
	}
	if l.leading && l.s.appender.stuck(slowWriteMax) {
		l.stepAside("the disk is slow")
	}
	l.listen()
	if l.s.Peers.roster != nil {
		heard, ok := l.heard[l.leader]
		led := l.leading || l.leader != raft.None && ok && l.ticks-heard <= electionTicks
		l.doubts.watch(led, l.ticks, l.s.Peers.roster)
	}
	if l.ticks%leaseTicks == 0 {
		l.confirmLease()
	}
	if l.ticks%retryTicks == 0 {
		l.publish()
	}
	if l.s.Peers.out != nil {
		l.s.Peers.out.Release()
		for _, m := range l.conf.Members {
			// Followers say nothing to each other while there is a leader, so their silence means nothing.
			talks := l.leading || l.leader == raft.None || l.leader == m.ID
			if at, ok := l.heard[m.ID]; ok && talks && (l.ticks-at)%silenceTicks == silenceTicks-1 {
				l.s.Peers.out.Renew(m.ID)
			}
		}
	}
}

// fromPeers deals with what came from other members.
func (l *loop) fromPeers(m mail) {
	// What a leader said on a stream must not have it taken back once the stream has ended; and a member that
	// opens another stream at once has still ended the first.
	for _, msg := range m.received {
		l.receive(msg)
	}
	for _, change := range m.streams {
		switch {
		case change.ended:
			l.lost(change.header)
		case change.again != nil:
			l.announced(change)
		default:
			l.opened(change.header)
		}
	}
	for _, id := range m.unreachable {
		l.node.ReportUnreachable(id)
	}
	for _, o := range m.snapshots {
		l.snapshotDone(o)
	}
}

// receive gives raft a message of another member, unless it is one of three that raft must not be given as
// they are.
func (l *loop) receive(m *pb.Message) {
	l.heard[m.GetFrom()] = l.ticks
	voting := m.GetType() == pb.MsgVote || m.GetType() == pb.MsgPreVote
	handedTo := voting && string(m.GetContext()) == transferContext
	// A member that was just started does not remember which leader's lease it has confirmed. It does not
	// help to elect another one before any such lease is over, unless the leader itself has asked for that: it
	// has given up its lease before.
	if voting && !handedTo && l.ticks < electionTicks {
		return
	}
	// Votes and entries travel on streams of their own, so such a request may come behind the first entries of
	// the term that it was for.
	if now := l.node.BasicStatus(); handedTo && m.GetTerm() > now.GetTerm() {
		l.heir = m.GetFrom()
	}
	// A leader announces a commit index only up to the entries that this member has confirmed. If it announces more,
	// this member has lost what it confirmed: its directory is an old copy, or its disk lied.
	if m.GetType() == pb.MsgHeartbeat && m.GetCommit() > l.durable && l.conf.Has(m.GetFrom()) {
		if l.doubts.emptied(m.GetFrom(), l.s.Peers.roster) {
			l.s.inbox.fail(ErrEmptied)
		}
		return
	}
	if m.GetType() == pb.MsgTimeoutNow {
		now := l.node.BasicStatus()
		if now.Lead == m.GetFrom() && now.GetTerm() == m.GetTerm() {
			l.heir = l.s.identity.Member
		}
		l.offer = &leadershipOffer{m, now.GetCommit()}
		l.acceptOffer()
		return
	}
	l.step(m)
}

// transferContext marks a request for votes by a member to which the leader hands over; raft writes it.
const transferContext = "CampaignTransfer"

// leadershipOffer is a leader's request to take over.
type leadershipOffer struct {
	message *pb.Message
	commit  uint64 // what was committed when it came
}

// acceptOffer stands for election at the leader's request, as soon as everything is applied that was committed
// when the request came. Raft refuses to campaign while a committed change of the members is not applied, and
// does so silently; the cluster would then be without a leader until the old one gives up waiting.
func (l *loop) acceptOffer() {
	switch {
	case l.offer == nil:
	case l.node.BasicStatus().Applied < l.offer.commit:
		l.waitForApplied()
	default:
		m := l.offer.message
		l.offer = nil
		l.step(m) // raft drops it if the leader's term is over
	}
}

// openStream is the urgent stream of another member.
type openStream struct {
	header *peerpb.Header // that it began with
	since  int            // the tick at which it was opened
}

// opened notes that a member has opened a stream that begins with h. While its urgent stream is open, only the
// headers on that one count: they arrive in the order in which they were written.
func (l *loop) opened(h *peerpb.Header) {
	from := h.GetFrom()
	if h.GetUrgent() {
		l.streams[from] = openStream{h, l.ticks}
	}
	if h.GetUrgent() || l.streams[from].header == nil {
		l.headers[from], l.stale = h, true
	}
}

// announced notes a further header on a member's urgent stream, unless the member has opened another one since.
func (l *loop) announced(change streamChange) {
	from := change.header.GetFrom()
	if l.streams[from].header != change.header {
		return
	}
	l.headers[from], l.stale = change.again, true
	l.publish()
}

// lost notes that a member's urgent stream has ended; h is the header that the stream began with. If the
// member has opened another one since, this end says nothing: a stream can hang for long after its network
// was cut.
//
// If it was the leader's stream, the leader has probably died, or has ended on purpose. This member then
// forgets it, and soon asks the others for their votes instead of waiting for the election timeout. If they
// still hear the leader they refuse, and nothing has happened.
func (l *loop) lost(h *peerpb.Header) {
	id := h.GetFrom()
	if l.streams[id].header != h {
		return
	}
	delete(l.streams, id)
	l.stale = true
	canAsk := slices.ContainsFunc(l.conf.Voters, // another member that has a vote can be asked for it
		func(id uint64) bool { return id != l.s.identity.Member && l.streams[id].header != nil })
	if l.leading || l.leader != id || l.ticks < electionTicks || !canAsk {
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

// campaignLater has this member campaign after a delay, which is random so that two members that have lost
// the same leader do not split the votes.
func (l *loop) campaignLater(atLeast time.Duration) {
	inbox := &l.s.inbox
	if l.campaign != nil {
		l.campaign.Stop()
	}
	l.campaign = time.AfterFunc(atLeast+rand.N(campaignDelayMax), func() {
		inbox.task((*loop).campaignNow)
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

// awaits reports whether a member may still be awaited: until a moment after it has opened its stream, and after
// this member first had a leader, before which nobody serves clients.
func (l *loop) awaits(id uint64) bool {
	return l.ledFirst == 0 || l.ticks-max(l.streams[id].since, l.ledFirst) < awaitTicks
}

// show publishes what is known of the members to those who ask outside the turn, if anything of it has
// changed.
func (l *loop) show() {
	if !l.stale {
		return
	}
	l.stale = false
	status := l.node.BasicStatus()
	v := &memberView{conf: l.conf, leader: status.Lead, leading: l.leading, term: status.GetTerm(),
		fresh: l.s.log.Fresh()}
	if old := l.s.view.Load(); v.leader != 0 && (v.leader != old.leader || v.term != old.term) {
		l.s.meters.changes.Add(1)
	}
	v.full = map[uint64]bool{l.s.identity.Member: l.s.Space.full.Load()}
	v.clients, v.open, v.waits = map[uint64]string{}, map[uint64]bool{}, map[uint64]bool{}
	for id, h := range l.headers {
		v.full[id], v.clients[id] = h.GetFull(), clientAddressIn(h)
	}
	for _, m := range l.conf.Members {
		v.open[m.ID], v.waits[m.ID] = l.streams[m.ID].header != nil, l.awaits(m.ID)
	}
	if l.leading {
		v.match, v.active = map[uint64]uint64{}, map[uint64]bool{}
		for id, p := range l.node.Status().Progress {
			v.match[id], v.active[id] = p.Match, l.active(id)
		}
	}
	l.s.view.Store(v)
}

// setConf installs a membership from index on and notifies everything that depends on it.
func (l *loop) setConf(index uint64, conf membership.Conf) {
	self := l.s.identity.Member
	if index > l.replayed { // earlier ones are from the log of an earlier run
		tellMembers(l.s.cfg.Logger, l.conf, conf)
	}
	if err := l.s.cfg.Cluster.readable(conf); err != nil {
		l.s.inbox.fail(err)
	}
	removed := l.conf.Has(self) && !conf.Has(self)
	l.noteConf(l.conf, conf, index)
	l.conf, l.stale = conf, true
	l.s.log.SetConf(index, conf)
	if l.s.Peers.out != nil {
		l.s.Peers.roster.Follow(conf)
		l.s.Peers.out.Update(conf)
		l.forgetOutsiders()
		if removed { // others may still need its vote: it ends once enough of them know of the removal
			l.s.Peers.roster.Ask()
		}
	}
	l.confirmLease()
	if l.leading && conf.Alone(self) { // nobody is left to answer, and raft goes on only with another's message
		l.reads, l.asked = append(l.asked, l.reads...), nil
		l.askReads(nil)
	}
}
