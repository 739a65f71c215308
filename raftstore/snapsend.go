package raftstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// pinned is a checkpoint that stays readable while later ones are written: a read transaction. No page that
// was in use when it began is used again before it ends, so the file grows by what is written meanwhile:
// whoever pins a checkpoint has a bound on the time (snapshotTimeMax, backupTimeMax). Nothing waits for a reader: the
// store ends the transaction when the file is to be closed.
type pinned struct {
	path     string
	released func()

	mutex   sync.Mutex // held while the transaction is used
	over    error      // why it has ended
	tx      *bbolt.Tx
	meta    checkpointMeta
	dropped prefixSet

	source overlay
	rows   uint64 // rows read so far, and the sum of their checksums
	sum    uint64
	read   int64 // bytes
}

// begin reads everything but rows.
func (p *pinned) begin() error {
	buckets := map[string]*bbolt.Bucket{}
	for _, name := range []string{rowsBucket, droppedBucket, metaBucket} {
		var err error
		if buckets[name], err = mustBucket(p.tx, name); err != nil {
			return err
		}
	}
	var err error
	if p.meta, err = decodeCheckpointMeta(p.path,
		buckets[metaBucket].Get([]byte(checkpointKey))); err != nil {
		return err
	}
	p.source = overlay{path: p.path, rows: &cursorPairs{cursor: buckets[rowsBucket].Cursor()},
		next: noPairs{}}
	lists := []*bbolt.Bucket{buckets[droppedBucket]}
	if p.meta.Next {
		next, err := mustBucket(p.tx, nextBucket)
		if err != nil {
			return err
		}
		nextDropped, err := mustBucket(p.tx, nextDroppedBucket)
		if err != nil {
			return err
		}
		p.source.next = &cursorPairs{cursor: next.Cursor()}
		lists = append(lists, nextDropped)
	}
	var dropped []string
	for _, list := range lists {
		err := list.ForEach(func(k, _ []byte) error {
			dropped = append(dropped, string(k))
			return nil
		})
		if err != nil {
			return err
		}
	}
	p.dropped = newPrefixSet(dropped)
	return nil
}

// release ends the transaction for the reader itself.
func (p *pinned) release() {
	p.end(errReleased)
	p.released()
}

var errReleased = errors.New("the reader is done")

// end ends the transaction, which the reader may still use: next returns why.
func (p *pinned) end(why error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.over == nil {
		p.over = why
		p.tx.Rollback()
	}
}

// row returns the following row that is not dropped, as it is stored; a nil key behind the last. The slices
// are valid until the next call. The mutex is held.
func (p *pinned) row() (key, stored []byte, err error) {
	for {
		key, stored, err = p.source.step()
		if err != nil || key == nil || !p.dropped.covers(key) {
			return key, stored, err
		}
	}
}

// next returns the following rows, about snapshotChunkBytes of them; none at the end.
func (p *pinned) next() (rows []*peerpb.Row, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.over != nil {
		return nil, p.over
	}
	err = guardBolt(p.path, func() error {
		for size := 0; size < snapshotChunkBytes; {
			k, v, err := p.row()
			if err != nil || k == nil {
				return err
			}
			_, sum, err := decodeRow(p.path, k, v)
			if err != nil {
				return err
			}
			p.rows, p.sum = p.rows+1, p.sum+uint64(sum)
			rows = append(rows, &peerpb.Row{Key: append([]byte(nil), k...),
				Stored: append([]byte(nil), v...)})
			size += len(k) + len(v)
			p.read += int64(len(k) + len(v))
		}
		return nil
	})
	return rows, err
}

// record is the checkpoint record of what was read: whole rows, without those that were dropped.
func (p *pinned) record() []byte {
	m := p.meta
	m.Format, m.Next, m.Dropped = sentFormat, false, 0
	m.Rows, m.Sum, m.Restored = p.rows, p.sum, p.meta.Index
	return m.encode()
}

// pins are checkpoints that raft has asked for and not sent yet.
type pins struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]*pinned
}

// add keeps p and returns a token for it.
func (p *pins) add(s *pinned) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[uint64]*pinned{}
	}
	p.next++
	p.open[p.next] = s
	return binary.LittleEndian.AppendUint64(nil, p.next)
}

// take returns what belongs to a token.
func (p *pins) take(token []byte) *pinned {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := binary.LittleEndian.Uint64(token)
	s := p.open[id]
	delete(p.open, id)
	return s
}

// snapshotFor answers raft.Storage's Snapshot: it pins the last checkpoint. The data is a token for
// sendSnapshot. Raft asks again where there is none yet: this is called within a turn, which waits for
// nothing.
func (s *Store) snapshotFor() (*pb.Snapshot, error) {
	select {
	case <-s.rowStore.opened():
	default:
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	p, err := s.rowStore.pin()
	if err != nil {
		return nil, err
	}
	if p == nil || p.meta.Index == 0 {
		if p != nil {
			p.release()
		}
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{
		Data: s.pins.add(p),
		Metadata: &pb.SnapshotMetadata{
			Index: new(p.meta.Index), Term: new(p.meta.Term), ConfState: p.meta.Conf.confState(),
		},
	}, nil
}

// sendSnapshot sends the checkpoint that raft has pinned for m. Raft hears of the outcome and tries again.
func (l *loop) sendSnapshot(m *pb.Message) {
	p := l.s.pins.take(m.GetSnapshot().GetData())
	if p == nil {
		return
	}
	address := l.s.peers.addressOf(m.GetTo())
	if address == "" || l.sending >= snapshotsMax || l.hushes(m.GetTo()) {
		p.release()
		l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	p.meta.Conf = p.meta.Conf.including(m.GetTo(), l.conf)
	l.sending++
	l.s.cfg.Logger.Info("sending a checkpoint", "server", l.conf.nameOf(m.GetTo()), "index", p.meta.Index)
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
		l.s.cfg.Logger.Warn("a checkpoint was not sent", "server", l.conf.nameOf(o.to), "err", o.err)
	} else {
		l.s.cfg.Logger.Info("a checkpoint was sent", "server", l.conf.nameOf(o.to), "bytes", o.bytes)
	}
	l.node.ReportSnapshot(o.to, status)
}

// streamSnapshot sends a pinned checkpoint within bounds on rate and time, and releases it.
func (s *Store) streamSnapshot(address string, m *pb.Message, p *pinned) error {
	defer p.release()
	ctx, cancel := context.WithTimeout(s.peers.ctx, snapshotTimeMax)
	defer cancel()
	first := proto.CloneOf(m)
	first.Snapshot.Data, first.Snapshot.Metadata.ConfState = nil, p.meta.Conf.confState()
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
