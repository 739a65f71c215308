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
	address := l.s.peers.addressOf(m.GetTo())
	if err != nil || p.meta.Index != m.GetSnapshot().GetMetadata().GetIndex() || address == "" ||
		l.sending >= snapshotsMax || l.hushes(m.GetTo()) {
		if err == nil {
			p.Release()
		}
		l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	p.meta.Conf = p.meta.Conf.Including(m.GetTo(), l.conf)
	l.sending++
	l.s.cfg.Logger.Info("sending a checkpoint", "server", l.conf.NameOf(m.GetTo()), "index", p.meta.Index)
	l.s.peers.wg.Add(1)
	go func() {
		defer l.s.peers.wg.Done()
		err := l.s.streamSnapshot(address, m, p)
		l.s.inbox.put(func(mail *mail) {
			mail.snapshots = append(mail.snapshots, snapshotOutcome{m.GetTo(), p.read, err})
		})
	}()
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

// streamSnapshot sends a pinned checkpoint within bounds on rate and time, and releases it.
func (s *Store) streamSnapshot(address string, m *pb.Message, p *pinned) error {
	defer s.keeper.release(p)
	ctx, cancel := context.WithTimeout(s.peers.ctx, snapshotTimeMax)
	defer cancel()
	first := proto.CloneOf(m)
	first.Snapshot.Metadata.ConfState = p.meta.Conf.ConfState()
	message, err := proto.Marshal(first)
	if err != nil {
		return err
	}
	begun := time.Now()
	stage := 0
	return s.network.snapshot(ctx, address, func() (*peerpb.Chunk, error) {
		if stage == 0 {
			stage = 1
			return &peerpb.Chunk{Header: s.header(m.GetTo(), false), Message: message}, nil
		}
		if stage == 2 {
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
		if len(rows) == 0 {
			stage = 2
			return &peerpb.Chunk{Checkpoint: p.record()}, nil
		}
		return &peerpb.Chunk{Rows: rows}, nil
	})
}
