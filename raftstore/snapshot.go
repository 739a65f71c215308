package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/raftlog"
)

// Installation of another member's checkpoint, where that member has truncated the log between. A checkpoint is in one
// of these stages, each of them another goroutine's:
//
//	collected  its rows come in, and are checked and written into a file         the goroutine of the stream
//	offered    the file is whole and durable, and raft is asked                  the holder of the turn
//	installed  raft wants it: the manifest names the file, the log is emptied    the appender, with the keeper
//	restored   the handler rebuilds its state from the rows                      the holder of the turn
//
// There is one at a time. receiver.slot is held from the beginning of the first stage until the checkpoint
// is installed, or given up: by collect's error, by raft, which may have caught up meanwhile (withdraw), or
// by install's error. A crash at any moment leaves either the old checkpoint and log, with a file that no manifest
// names, or the new checkpoint and a log that belongs to the old one, which the next start empties (image.unfit).

// Restorer is a Handler that can go on with another member's checkpoint. The Handler of a member of a cluster
// has to be one.
type Restorer interface {
	// Restore reports that the rows are now those of another member's checkpoint as of index, because the log between
	// is gone: rebuild the state from Store.Rows before anything else. It comes in order with Committed, which goes on
	// with index+1. A checkpoint that was being written is given up: its writer may be used and does nothing, and there
	// is no CheckpointDone for it.
	Restore(index uint64)
}

// receiver collects checkpoints of other members in files, and installs them.
type receiver struct {
	self   datadir.Identity
	rows   rowDevice
	log    raftlog.Device
	keeper *keeper
	space  *Space
	slot   chan struct{} // capacity 1: held while a checkpoint is being received or installed
}

func newReceiver(s *Store) *receiver {
	return &receiver{s.identity, s.rowStore, s.device, s.keeper, &s.Space, make(chan struct{}, 1)}
}

var errReceiving = errors.New("another checkpoint is being received")

// ReceiveSnapshot implements peers.Server. Raft hears of the checkpoint only when the file is whole, checked
// and durable, because it answers at once that this member has everything up to there.
func (e endpoint) ReceiveSnapshot(h *peerpb.Header, next func() (*peerpb.Chunk, error)) error {
	first, err := next()
	if err != nil {
		return err
	}
	m := &pb.Message{}
	if err := proto.Unmarshal(first.GetMessage(), m); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := checkMessage(h, m); err != nil {
		return err
	}
	if m.GetType() != pb.MsgSnap || m.GetSnapshot().GetMetadata().GetIndex() == 0 {
		return errors.New("snapshot: the stream begins with another message")
	}
	select {
	case e.s.receiver.slot <- struct{}{}:
	default:
		return errReceiving
	}
	file, err := e.s.receiver.collect(m, next)
	if err != nil {
		<-e.s.receiver.slot
		e.s.inbox.fail(e.s.disk.Failed()) // nil is no failure; after another nothing is written any more
		return err
	}
	e.s.inbox.put(func(waiting *mail) {
		waiting.tasks = append(waiting.tasks, func(l *loop) {
			l.offered = file
			if e.s.Peers.roster.Open() && e.s.Peers.roster.StillWelcome(h.GetFrom()) == nil {
				l.receive(m)
			}
		})
	})
	return nil
}

// receivedName stands in errors for a checkpoint that comes in.
const receivedName = "a received checkpoint"

// collect writes what the stream brings into a file.
func (c *receiver) collect(m *pb.Message, next func() (*peerpb.Chunk, error)) (*received, error) {
	file, err := c.rows.NewFile()
	if err != nil {
		return nil, err
	}
	r := &received{file: file}
	if r.meta, err = c.fill(file, m, next); err == nil {
		err = file.Complete()
	}
	if err != nil {
		c.keeper.discard(r)
		return nil, err
	}
	return r, nil
}

// fill reads chunks up to the one with the record, and checks the rows one by one and against the record. The
// sender is a member, but its disk may be damaged, and so may the network be.
func (c *receiver) fill(file *checkpoint.FileWriter, m *pb.Message,
	next func() (*peerpb.Chunk, error)) (datadir.Meta, error) {
	for {
		chunk, err := next()
		if errors.Is(err, io.EOF) {
			return datadir.Meta{}, fmt.Errorf("snapshot: the stream ended early: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return datadir.Meta{}, err
		}
		if len(chunk.GetCheckpoint()) > 0 {
			return c.check(m, chunk.GetCheckpoint(), file.Totals())
		}
		if c.space.short.Load() {
			return datadir.Meta{}, fmt.Errorf("snapshot: %w", ErrReserve)
		}
		for _, row := range chunk.GetRows() {
			if err := checkpoint.CheckRow(receivedName, row.GetKey(), row.GetStored()); err != nil {
				return datadir.Meta{}, fmt.Errorf("snapshot: %w", err)
			}
			if err := file.Row(row.GetKey(), row.GetStored()); err != nil {
				return datadir.Meta{}, fmt.Errorf("snapshot: %w", err)
			}
		}
	}
}

// check compares the record, which comes last, with the rows before it and with the message for raft,
// and returns it as this member stores it.
func (c *receiver) check(m *pb.Message, record []byte, came checkpoint.Totals) (datadir.Meta, error) {
	meta, err := datadir.DecodeMeta(receivedName, record)
	if err != nil {
		return meta, err
	}
	want := m.GetSnapshot().GetMetadata()
	switch {
	case meta.Rows != came.Rows || meta.Sum != came.Sum:
		return meta, fmt.Errorf("snapshot: %d rows with sum %x came, %d with sum %x were sent", came.Rows, came.Sum,
			meta.Rows, meta.Sum)
	case meta.Index != want.GetIndex() || meta.Term != want.GetTerm() || meta.Cluster != c.self.Cluster:
		return meta, fmt.Errorf("snapshot: as of entry %d, raft says %d", meta.Index, want.GetIndex())
	case !meta.Conf.IsThatOf(want):
		return meta, fmt.Errorf("snapshot: the members are %v, raft says %v", meta.Conf.ConfState(),
			want.GetConfState())
	}
	if err := meta.Conf.Workable(); err != nil {
		return meta, fmt.Errorf("snapshot: %w", err)
	}
	meta.Member, meta.Restored = c.self.Member, meta.Index
	meta.Format = datadir.MetaFormat
	return meta, nil
}

// withdraw gives up a checkpoint that raft was offered in this turn and did not take: the log has caught up
// with it, or another leader has been elected.
func (l *loop) withdraw() {
	if l.offered != nil {
		l.s.keeper.discard(l.offered)
		l.offered = nil
		<-l.s.receiver.slot
	}
}

// install makes a received checkpoint this member's own: first the manifest names its file, then the log is emptied. A
// crash between the two leaves a log that does not belong to the checkpoint; the next start empties it. Backups and
// outgoing checkpoints go on with the old files. The appender calls it, between writes, so nothing is appended
// meanwhile.
func (c *receiver) install(r *received) error {
	defer func() { <-c.slot }()
	if err := c.keeper.replace(r); err != nil {
		return err
	}
	return c.log.Reset(r.meta.Index, r.meta.Term)
}

// restored has the log and the handler begin anew at a checkpoint that was installed.
func (l *loop) restored(r *received) {
	l.s.log.Restore(r.meta)
	l.durable, l.saved = r.meta.Index, max(l.saved, r.meta.Index)
	l.s.lineage.Store(r.meta.Lineage)
	l.s.forced.Store(r.meta.Forced)
	l.s.Checkpoints.opened(r.meta.Index)
	l.s.apply(r.meta.Index)
	l.setConf(r.meta.Index, r.meta.Conf)
	l.s.cfg.Logger.Info("took over a checkpoint of another server", "index", r.meta.Index, "rows",
		r.meta.Rows)
	l.handler.(Restorer).Restore(r.meta.Index)
}

// lastCheckpoint answers raft.Storage's Snapshot: it names the last checkpoint, which sendSnapshot sends.
func lastCheckpoint(rows rowDevice) (*pb.Snapshot, error) {
	p, err := rows.Pin()
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	defer p.Release()
	if p.Meta.Index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(p.Meta.Index), Term: new(p.Meta.Term), ConfState: p.Meta.Conf.ConfState(),
	}}, nil
}

// sendSnapshot sends the checkpoint of m, unless there is a later one by now. Raft hears of the outcome and tries
// again.
func (l *loop) sendSnapshot(m *pb.Message) {
	p, err := l.s.rowStore.Pin()
	if err != nil || p.Meta.Index != m.GetSnapshot().GetMetadata().GetIndex() ||
		l.sending >= snapshotsMax || l.deaf.hushes(m.GetTo(), l.conf) {
		if err == nil {
			p.Release()
		}
		l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	p.Meta.Conf = p.Meta.Conf.Including(m.GetTo(), l.conf)
	first := proto.CloneOf(m)
	first.Snapshot.Metadata.ConfState = p.Meta.Conf.ConfState()
	sends := l.s.Peers.out.SendSnapshot(m.GetTo(), chunks(first, p), func(err error) {
		l.s.keeper.release(p)
		l.s.inbox.put(func(mail *mail) {
			mail.snapshots = append(mail.snapshots, snapshotOutcome{m.GetTo(), p.Read, err})
		})
	})
	if !sends {
		p.Release()
		l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	l.sending++
	l.s.cfg.Logger.Info("sending a checkpoint", "server", l.conf.NameOf(m.GetTo()), "index", p.Meta.Index)
}

// snapshotDone reports the result of sending to raft.
func (l *loop) snapshotDone(o snapshotOutcome) {
	l.sending--
	status := raft.SnapshotFinish
	if o.err != nil {
		status = raft.SnapshotFailure
		l.s.cfg.Logger.Warn("a checkpoint was not sent", "server", l.conf.NameOf(o.to), "err", o.err)
	} else {
		l.s.cfg.Logger.Info("a checkpoint was sent", "server", l.conf.NameOf(o.to), "bytes", o.bytes)
	}
	l.node.ReportSnapshot(o.to, status)
}

// chunks returns a function that returns the chunks of a pinned checkpoint one after the other, within a bound on the
// rate, and then io.EOF. m is the message that raft has for the receiver.
func chunks(m *pb.Message, p *datadir.Pinned) func(ctx context.Context) (*peerpb.Chunk, error) {
	var begun time.Time
	ended := false
	return func(ctx context.Context) (*peerpb.Chunk, error) {
		switch {
		case begun.IsZero():
			begun = time.Now()
			message, err := proto.Marshal(m)
			return &peerpb.Chunk{Message: message}, err
		case ended:
			return nil, io.EOF
		}
		ahead := time.Duration(p.Read)*time.Second/snapshotRate - time.Since(begun)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("send a checkpoint: %w", ctx.Err())
		case <-time.After(max(ahead, 0)):
		}
		rows, err := nextRows(p)
		if err != nil {
			return nil, err
		}
		if ended = len(rows) == 0; ended {
			return &peerpb.Chunk{Checkpoint: p.Sent()}, nil
		}
		return &peerpb.Chunk{Rows: rows}, nil
	}
}

// nextRows returns the following rows, about snapshotChunkBytes of them; none at the end.
func nextRows(p *datadir.Pinned) (rows []*peerpb.Row, err error) {
	until := p.Read + snapshotChunkBytes
	err = p.Each(func(key, stored []byte) (bool, error) {
		rows = append(rows, &peerpb.Row{Key: append([]byte(nil), key...), Stored: append([]byte(nil), stored...)})
		return p.Read < until, nil
	})
	return rows, err
}
