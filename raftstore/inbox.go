package raftstore

import (
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// proposal is one call of Propose.
type proposal struct {
	term     uint64
	commands [][]byte
	bytes    int
}

// mail collects the inputs of a turn.
type mail struct {
	proposals   []proposal
	reads       []uint64
	written     []*writeJob
	checkpoints []checkpointMark

	received      []*pb.Message // from other members
	receivedBytes int
	streams       []streamChange // of other members, in order
	unreachable   []uint64       // members for which messages were dropped
	snapshots     []snapshotOutcome
	tasks         []func(l *loop) // anything else, in order

	failure error // the first one
}

// streamChange reports that a stream of another member was accepted, that its sender has sent a further header on it,
// or that an urgent one has ended.
type streamChange struct {
	header *peerpb.Header // that the stream began with
	again  *peerpb.Header // the further one, nil otherwise
	ended  bool
}

// inbox collects mail for one reader. One bell for everything keeps a burst of events at one wake-up.
type inbox struct {
	mu   sync.Mutex
	mail mail
	bell turn.Bell
}

// put changes the waiting mail and rings.
func (b *inbox) put(change func(m *mail)) {
	b.post(change)
	b.bell.Ring()
}

// post changes the waiting mail; the caller sees to it that somebody reads it.
func (b *inbox) post(change func(m *mail)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.mail)
}

// empty reports whether there is no mail.
func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &b.mail
	return len(m.proposals) == 0 && len(m.reads) == 0 && len(m.written) == 0 && len(m.checkpoints) == 0 &&
		len(m.received) == 0 && len(m.streams) == 0 && len(m.unreachable) == 0 &&
		len(m.snapshots) == 0 && len(m.tasks) == 0
}

// take empties the inbox.
func (b *inbox) take() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mail
	b.mail = mail{failure: m.failure}
	return m
}

// task leaves something to be done in a turn.
func (b *inbox) task(do func(l *loop)) { b.put(func(m *mail) { m.tasks = append(m.tasks, do) }) }

// receive posts a message of another member, or drops it if too many wait: raft sends again what it needs.
func (b *inbox) receive(m *pb.Message) {
	b.post(func(waiting *mail) {
		if size := peers.MessageBytes(m); waiting.receivedBytes == 0 ||
			waiting.receivedBytes+size <= receivedBytesMax {
			waiting.received = append(waiting.received, m)
			waiting.receivedBytes += size
		}
	})
}

// fail reports a storage failure; only the first counts.
func (b *inbox) fail(err error) {
	b.put(func(m *mail) {
		if m.failure == nil {
			m.failure = err
		}
	})
}

// hasWritten reports whether finished writes wait to be looked at.
func (b *inbox) hasWritten() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mail.written) > 0
}

// snapshotOutcome is the result of sending a snapshot.
type snapshotOutcome struct {
	to    uint64
	bytes int64
	err   error
}

// checkpointMark names the entry that a checkpoint is as of, with the term and the membership there.
type checkpointMark struct {
	index, term uint64
	conf        membership.Conf
	restored    uint64 // the last checkpoint from elsewhere; a later one voids this
	void        bool   // it was void from the start
	begun       time.Time
}
