package raftstore

import (
	"context"
	"fmt"
	"io"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
)

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
