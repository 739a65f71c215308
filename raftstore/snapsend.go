package raftstore

import (
	"context"
	"fmt"
	"io"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// snapshotFor answers raft.Storage's Snapshot: it names the last checkpoint, which sendSnapshot sends.
func (s *Store) snapshotFor() (*pb.Snapshot, error) {
	p, err := s.rowStore.pin()
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	defer p.Release()
	if p.meta.Index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(p.meta.Index), Term: new(p.meta.Term), ConfState: p.meta.Conf.ConfState(),
	}}, nil
}

// sendSnapshot sends the checkpoint of m, unless there is a later one by now. Raft hears of the outcome and tries
// again.
func (l *loop) sendSnapshot(m *pb.Message) {
	p, err := l.s.rowStore.pin()
	if err != nil || p.meta.Index != m.GetSnapshot().GetMetadata().GetIndex() ||
		l.sending >= snapshotsMax || l.hushes(m.GetTo()) {
		if err == nil {
			p.Release()
		}
		l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	p.meta.Conf = p.meta.Conf.Including(m.GetTo(), l.conf)
	first := proto.CloneOf(m)
	first.Snapshot.Metadata.ConfState = p.meta.Conf.ConfState()
	sends := l.s.peers.SendSnapshot(m.GetTo(), l.s.chunks(first, p), func(err error) {
		l.s.keeper.release(p)
		l.s.inbox.put(func(mail *mail) {
			mail.snapshots = append(mail.snapshots, snapshotOutcome{m.GetTo(), p.read, err})
		})
	})
	if !sends {
		p.Release()
		l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	l.sending++
	l.s.cfg.Logger.Info("sending a checkpoint", "server", l.conf.NameOf(m.GetTo()), "index", p.meta.Index)
}

// snapshotDone tells raft how sending ended.
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
func (s *Store) chunks(m *pb.Message, p *pinned) func(ctx context.Context) (*peerpb.Chunk, error) {
	var begun time.Time
	ended := false
	return func(ctx context.Context) (*peerpb.Chunk, error) {
		switch {
		case begun.IsZero():
			begun = time.Now()
			message, err := proto.Marshal(m)
			return &peerpb.Chunk{Header: endpoint{s}.Header(m.GetTo(), false), Message: message}, err
		case ended:
			return nil, io.EOF
		}
		ahead := time.Duration(p.read)*time.Second/snapshotRate - time.Since(begun)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("send a checkpoint: %w", ctx.Err())
		case <-time.After(max(ahead, 0)):
		}
		rows, err := p.next()
		if err != nil {
			return nil, err
		}
		if ended = len(rows) == 0; ended {
			return &peerpb.Chunk{Checkpoint: p.record()}, nil
		}
		return &peerpb.Chunk{Rows: rows}, nil
	}
}
