package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/raftlog"
	"github.com/coordd/coordd/raftstore/wal"
)

// loop owns raft. It feeds raft what came in, hands out what raft wants done, and is the only one that calls
// the handler. The holder of the turn does so (see the package's doc): mostly the loop's own goroutine, but where
// nothing else is going on, the goroutine that brought the mail, because waking another one costs more than the work.
type loop struct {
	turn    *turn.Turn
	broken  error // why nothing goes on
	direct  bool  // others may take turns; false in tests that own raft themselves
	s       *Store
	node    *raft.RawNode
	handler Handler

	term      uint64
	leader    uint64
	leading   bool
	caughtUp  bool // an entry of this term has been handed over
	hard      wal.HardState
	held      []proposal    // proposals raft has no room for yet
	reads     []uint64      // questions that wait for caughtUp
	asked     []uint64      // questions that the others have to answer, while this member leads
	process   uint64        // marks the questions of this process, see question
	applying  []*pb.Message // handed over, not yet applied; oldest first
	unapplied int           // bytes of them
	durable   uint64        // last durable index
	wrote     recentWrites

	handedTotal int64 // bytes of entries handed over
	marks       logMarks

	confGate
	control
}

func newLoop(s *Store, node *raft.RawNode, h Handler) *loop {
	l := &loop{turn: turn.New(s.inbox.bell, func() bool { return !s.inbox.empty() }), process: rand.Uint64(),
		s: s, node: node, handler: h, hard: s.log.Hard(), durable: s.log.Last()}
	l.confGate.init(s.log)
	l.control.init(s)
	l.term = l.hard.Term
	return l
}

func (l *loop) run() {
	defer close(l.s.done)
	if err := l.serve(); err != nil {
		l.handler.Failed(err)
		l.handler.Flush(true)
		<-l.s.stop
	}
}

// serve runs until Stop or the first storage failure.
func (l *loop) serve() error {
	var tick *time.Ticker
	var ticks <-chan time.Time
	defer func() {
		if tick != nil {
			tick.Stop()
		}
		l.end()
	}()
	err := l.workInTurn(l.begin)
	for err == nil {
		l.handler.Flush(true)
		switch wanted := l.ticking.Load(); {
		case wanted && tick == nil:
			tick = l.s.cfg.Cluster.clock.ticker(tickInterval)
			ticks = tick.C
		case !wanted && tick != nil:
			tick.Stop()
			tick, ticks = nil, nil
		}
		select {
		case <-l.s.inbox.bell:
			err = l.workInTurn(nil)
		case <-ticks:
			err = l.workInTurn(func() error { l.tick(); return nil })
		case <-l.s.stop:
			return nil
		}
	}
	return err
}

// begin is the first turn.
func (l *loop) begin() error {
	if l.s.Peers.out != nil {
		l.s.Peers.out.Update(l.conf)
	}
	return l.campaignAlone()
}

// campaignAlone has a member that is the whole cluster elect itself at once. Raft refuses that while a
// committed membership entry is not applied, and nothing else would make such a member campaign again.
func (l *loop) campaignAlone() error {
	if l.leading || !l.conf.Alone(l.s.identity.Member) {
		return nil
	}
	switch now := l.node.BasicStatus(); {
	case now.RaftState != raft.StateFollower:
		return nil
	case now.Applied < now.GetCommit():
		l.waitForApplied()
		return nil
	}
	return l.node.Campaign()
}

// end sees to it that there is no further turn.
func (l *loop) end() {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.broken == nil {
		l.broken = errStopped
	}
	if l.campaign != nil {
		l.campaign.Stop()
	}
	l.s.lease.Revoke()
}

var errStopped = errors.New("the store was stopped")

// workInTurn waits for the turn, does first, and deals with everything there is.
func (l *loop) workInTurn(first func() error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.work(first)
}

// work does first, and deals with everything there is. The turn is held. Raft panics when its storage returns
// an error; that is turned back into the error.
func (l *loop) work(first func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = l.s.log.DeviceError(); err == nil {
				panic(r)
			}
		}
		l.broken = err
	}()
	if l.broken != nil {
		return l.broken
	}
	if first != nil {
		if err := first(); err != nil {
			return err
		}
	}
	return l.drain()
}

// kick deals with the mail on the caller's goroutine if nobody else is at it, and reports whether it did:
// then the caller flushes. What is left is for the loop's own goroutine.
func (l *loop) kick() bool {
	if !l.direct {
		l.s.inbox.bell.Ring()
		return false
	}
	if _, free := l.turn.TryLock(); !free {
		return false // its holder looks again
	}
	err := l.work(nil)
	l.turn.Unlock()
	if err != nil {
		l.s.inbox.bell.Ring() // for the loop's own goroutine, which ends
	}
	return err == nil
}

// drain deals with all mail and with everything raft makes of it.
func (l *loop) drain() error {
	m := l.s.inbox.take()
	if m.failure != nil {
		return m.failure
	}
	for _, j := range m.written {
		if err := l.written(j); err != nil {
			return err
		}
	}
	for _, c := range m.checkpoints {
		l.checkpointDone(c)
	}
	l.fromPeers(m)
	for _, task := range m.tasks {
		task(l)
	}
	l.noteApplied()
	if len(l.held) == 0 {
		l.held = m.proposals // which nobody else has any more
	} else {
		l.held = append(l.held, m.proposals...)
	}
	l.propose()
	l.askReads(m.reads)
	for {
		for l.node.HasReady() {
			if err := l.handle(l.node.Ready()); err != nil {
				return err
			}
		}
		l.servePursuits()
		if err := l.campaignAlone(); err != nil {
			return err
		}
		if !l.node.HasReady() {
			break
		}
	}
	l.withdraw()
	l.show()
	if wanted := l.needsTicks(); l.ticking.Swap(wanted) != wanted {
		l.s.inbox.bell.Ring() // for the loop's own goroutine
	}
	return l.s.log.DeviceError()
}

// written delivers what waited for a write.
func (l *loop) written(j *writeJob) error {
	if j.hard != nil {
		l.saved = max(l.saved, j.hard.Commit)
		if err := l.handOverSaved(); err != nil { // before a checkpoint replaces the entries
			return err
		}
	}
	if j.snapshot != nil {
		l.restored(j.snapshot)
	}
	if n := len(j.entries); n > 0 {
		l.s.log.Append(j.entries)
		l.durable = j.entries[n-1].GetIndex()
		l.wrote.add(j.entries[0].GetIndex(), l.durable, &j.append)
	}
	l.deliver(j.responses)
	j.entries, j.responses = nil, nil // for wrote
	return nil
}

// deliver gives responses of the storage to raft and sends those to other members.
func (l *loop) deliver(responses []*pb.Message) {
	for _, r := range responses {
		if r.GetTo() == l.s.identity.Member {
			l.step(r)
		} else {
			l.send(r)
		}
	}
}

// send passes a message on to another member.
func (l *loop) send(m *pb.Message) {
	l.holdBack(m)
	switch {
	case l.s.Peers.out == nil:
	case m.GetType() == pb.MsgSnap:
		l.sendSnapshot(m)
	case l.deaf.hushes(m.GetTo(), l.conf):
	case m.GetType() == pb.MsgPreVote && l.holdsBack():
	case forwarded(m, l.s.identity.Member): // who asked asks again as soon as it hears of the leader
	default:
		l.s.Peers.out.Send(m)
	}
}

// step gives raft a message. Its errors mean that the message has no use any more.
func (l *loop) step(m *pb.Message) {
	if err := l.node.Step(m); err != nil {
		l.s.cfg.Logger.Debug("raft did not take a message", "type", m.GetType(), "err", err)
	}
}

// propose gives raft as many waiting proposals as it has room for. They stay in order; what does not fit
// waits for entries to be applied.
func (l *loop) propose() {
	if !l.sealed() || len(l.held) == 0 {
		return
	}
	status := l.node.BasicStatus()
	leading, term := status.RaftState == raft.StateLeader, status.GetTerm()
	for len(l.held) > 0 {
		p := l.held[0]
		if leading && p.term == term {
			if err := l.node.Step(proposalMessage(&l.s.identity.Member, p)); errors.Is(err, raft.ErrProposalDropped) {
				l.waitForApplied()
				return
			}
		}
		l.s.backlog.Add(-int64(p.bytes))
		l.held = l.held[1:]
	}
	l.held = nil
}

func proposalMessage(from *uint64, p proposal) *pb.Message {
	entries, values := make([]*pb.Entry, len(p.commands)), make([]pb.Entry, len(p.commands))
	for i, c := range p.commands {
		values[i].Data = c
		entries[i] = &values[i]
	}
	return &pb.Message{Type: typeProposal, From: from, Entries: entries}
}

// typeProposal and the member's id are shared by all proposals: raft copies what it keeps, and changes
// nothing.
var typeProposal = pb.MsgProp.Enum()

// waitForApplied asks Applied to ring.
func (l *loop) waitForApplied() {
	if l.s.wake.Swap(true) {
		return
	}
	if len(l.applying) > 0 && l.s.applied.Load() >= lastIndex(l.applying[0].GetEntries()) {
		l.s.inbox.bell.Ring() // it came in between
	}
}

// noteApplied reports to raft the handed-over messages that are applied as a whole.
func (l *loop) noteApplied() {
	applied := l.s.applied.Load()
	for len(l.applying) > 0 && lastIndex(l.applying[0].GetEntries()) <= applied {
		m := l.applying[0]
		l.applying = l.applying[1:]
		l.unapplied -= entriesBytes(m.GetEntries())
		l.deliver(m.GetResponses())
	}
	l.acceptOffer()
	if l.unapplied < handedBytesMax/2 && len(l.held) == 0 && l.offer == nil {
		l.s.wake.Store(false)
	}
}

// askReads passes on read questions. A leader alone in its cluster would answer from an index that does not
// yet include what its predecessor committed, so questions wait for the first entry of the term.
func (l *loop) askReads(ids []uint64) {
	l.reads = append(l.reads, ids...)
	if len(l.reads) == 0 || l.leading && !l.caughtUp {
		return
	}
	for _, id := range l.reads {
		l.node.ReadIndex(question(id, l.process))
	}
	if l.leading {
		l.asked = append(l.asked, l.reads...)
	}
	l.reads = nil
}

// question returns the context by which raft knows a read question. It names the process: the answer to an earlier one,
// which numbered its questions alike, may come late, with an index from before the present question.
func question(id, process uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, id), process)
}

// handle does what raft asks for. Writes start first: they take longest.
func (l *loop) handle(rd raft.Ready) error {
	l.noteRole(rd)
	var committed *pb.Message
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			l.write(m)
		case raft.LocalApplyThread:
			committed = m
		default:
			l.send(m)
		}
	}
	if committed != nil {
		if err := l.queueCommitted(committed); err != nil {
			return err
		}
	}
	for _, r := range rd.ReadStates {
		switch ctx := r.RequestCtx; {
		case len(ctx) == 16:
			if id := binary.LittleEndian.Uint64(ctx); binary.LittleEndian.Uint64(ctx[8:]) == l.process {
				l.asked = slices.DeleteFunc(l.asked, func(other uint64) bool { return other == id })
				l.handler.ReadReady(id, r.Index)
			}
		case l.leading && !l.s.moving.Load():
			l.s.lease.Answered(ctx)
		}
	}
	return nil
}

// noteRole notifies the handler when this member begins or ceases to lead, or hears of another leader or term.
func (l *loop) noteRole(rd raft.Ready) {
	if rd.SoftState == nil && (raft.IsEmptyHardState(rd.HardState) || rd.HardState.GetTerm() == l.term) {
		return
	}
	status := l.node.BasicStatus()
	term, leading := status.GetTerm(), status.RaftState == raft.StateLeader
	leader := status.Lead
	if term == l.term && leading == l.leading && leader == l.leader {
		return
	}
	l.stale = true
	l.tellRole(term, leading, leader)
	if l.leading && (!leading || term != l.term) {
		l.s.lease.Revoke()
		l.s.moving.Store(false)
		l.stuck = false
		l.hearAgain()
	}
	if l.leading || !leading {
		l.handler.Following(term, otherLeader(leading, leader))
	}
	if leading && (!l.leading || term != l.term) {
		l.handler.Leading(term)
	}
	if !leading || term != l.term {
		l.caughtUp, l.reads, l.asked = false, nil, nil
	}
	l.term, l.leading, l.leader = term, leading, leader
}

// otherLeader returns the leader to name in Following when leadership was lost and won again between two looks.
func otherLeader(leading bool, leader uint64) uint64 {
	if leading {
		return 0
	}
	return leader
}

// write starts a storage write. The commit index alone is not worth a write here: it is found again, and
// where it covers a membership entry queueCommitted writes it.
func (l *loop) write(m *pb.Message) {
	l.noteAppended(m.GetEntries())
	j := &writeJob{entries: m.GetEntries(), responses: m.GetResponses()}
	if !raft.IsEmptySnap(m.GetSnapshot()) {
		j.snapshot, l.offered = l.offered, nil
	}
	if term, vote := m.GetTerm(), m.GetVote(); term != 0 && (term != l.hard.Term || vote != l.hard.Vote) {
		l.hard = wal.HardState{Term: term, Vote: vote, Commit: m.GetCommit()}
		h := l.hard
		j.hard = &h
	}
	j.bytes = entriesBytes(j.entries)
	switch {
	case j.hard != nil || len(j.entries) > 0 || j.snapshot != nil:
		l.s.appender.add(j)
	case len(j.responses) == 0:
	case l.s.appender.idle() && !l.s.inbox.hasWritten():
		l.deliver(j.responses)
	default: // responses may not overtake earlier writes
		l.s.appender.add(j)
	}
}

// handOver delivers committed entries and handles membership entries.
func (l *loop) handOver(m *pb.Message) error {
	entries := m.GetEntries()
	out := make([]Entry, len(entries))
	for i, e := range entries {
		out[i] = Entry{Index: e.GetIndex(), Term: e.GetTerm(), Append: l.wrote.of(e.GetIndex())}
		if e.GetType() == pb.EntryNormal {
			out[i].Data = e.GetData()
			continue
		}
		var err error
		if out[i].Change, err = l.changeMembers(e); err != nil {
			return err
		}
	}
	bytes := entriesBytes(entries)
	l.applying = append(l.applying, m)
	l.unapplied += bytes
	l.handedTotal += int64(bytes)
	last := entries[len(entries)-1]
	l.s.Checkpoints.due.handOver(last.GetIndex(), bytes)
	l.s.log.SetHanded(last.GetIndex())
	l.handler.Committed(out)
	if l.unapplied >= handedBytesMax/2 {
		l.waitForApplied()
	}
	if l.leading && !l.caughtUp && last.GetTerm() == l.term {
		l.caughtUp = true
		l.askReads(nil)
		l.confirmLease()
	}
	return nil
}

// changeMembers applies a committed membership entry.
func (l *loop) changeMembers(e *pb.Entry) (*MemberChange, error) {
	change, record, err := l.conf.Judge(e, l.s.forced.Load())
	if err != nil {
		return nil, &datadir.CorruptionError{File: l.s.cfg.Dir, Index: e.GetIndex(),
			Reason: fmt.Sprintf("membership entry: %v", err)}
	}
	next := l.conf.After(l.node.ApplyConfChange(change), record)
	next.Index = max(l.conf.Index, e.GetIndex())
	act, member := l.conf.Changed(next)
	l.setConf(e.GetIndex(), next)
	return &MemberChange{act, member}, nil
}

func lastIndex(entries []*pb.Entry) uint64 { return entries[len(entries)-1].GetIndex() }

func entriesBytes(entries []*pb.Entry) int {
	n := 0
	for _, e := range entries {
		n += raftlog.EntryBytes(e)
	}
	return n
}
