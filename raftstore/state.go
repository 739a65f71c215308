package raftstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
)

// state.db holds one checkpoint: all rows, the prefixes that were dropped and are not swept yet, and one record that
// says as of which entry the rows are.
const (
	rowsBucket    = "rows"
	droppedBucket = "dropped"
	metaBucket    = "meta"
	checkpointKey = "checkpoint"
)

const (
	checkpointFormat = 1
	rowFormat        = 1
	rowHeaderLen     = 5 // format, CRC32C over key and value
)

// checkpointMeta is the record of a checkpoint. Rows and Sum count the rows in the file and add up their checksums:
// they show a row that vanished or came back, which no row's own checksum can.
type checkpointMeta struct {
	Format  int        `json:"format"`
	Cluster uint64     `json:"cluster"`
	Member  uint64     `json:"member"`
	Index   uint64     `json:"index"`
	Term    uint64     `json:"term"`
	Conf    confRecord `json:"conf"`
	Rows    uint64     `json:"rows"`
	Sum     uint64     `json:"sum"`

	// Restored is the last entry that came with a checkpoint from elsewhere. The log begins behind it, so as long as
	// it is also Index there need not be a log.
	Restored uint64 `json:"restored,omitempty"`
	// Lineage is of the last restore or forced recovery, see Store.Lineage.
	Lineage uint64 `json:"lineage,omitempty"`
	// Forced is the last entry of the log when this member was made the only one; membership entries up to it are void.
	Forced uint64 `json:"forced,omitempty"`
}

// confRecord is raft's membership as stored.
type confRecord struct {
	Voters         []uint64 `json:"voters"`
	Learners       []uint64 `json:"learners,omitempty"`
	VotersOutgoing []uint64 `json:"voters_outgoing,omitempty"`
	LearnersNext   []uint64 `json:"learners_next,omitempty"`
	AutoLeave      bool     `json:"auto_leave,omitempty"`

	Index   uint64         `json:"index,omitempty"`   // of the last membership entry, or a later one as of which it holds
	Members []memberRecord `json:"members,omitempty"` // ascending by id
	Removed []uint64       `json:"removed,omitempty"` // ids that may never come back
}

func confRecordOf(c *pb.ConfState) confRecord {
	return confRecord{
		Voters:         slices.Clone(c.GetVoters()),
		Learners:       slices.Clone(c.GetLearners()),
		VotersOutgoing: slices.Clone(c.GetVotersOutgoing()),
		LearnersNext:   slices.Clone(c.GetLearnersNext()),
		AutoLeave:      c.GetAutoLeave(),
	}
}

func (c confRecord) confState() *pb.ConfState {
	return &pb.ConfState{
		Voters:         slices.Clone(c.Voters),
		Learners:       slices.Clone(c.Learners),
		VotersOutgoing: slices.Clone(c.VotersOutgoing),
		LearnersNext:   slices.Clone(c.LearnersNext),
		AutoLeave:      new(c.AutoLeave),
	}
}

func (m checkpointMeta) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers and lists of numbers
	}
	return sealed(b)
}

func decodeCheckpointMeta(path string, stored []byte) (checkpointMeta, error) {
	var m checkpointMeta
	if stored == nil {
		return m, missingValue(path, "the checkpoint record")
	}
	b, err := unseal(stored)
	if err != nil {
		return m, badValue(path, "the checkpoint record", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, badValue(path, "the checkpoint record", err)
	}
	if m.Format > checkpointFormat {
		return m, &FormatError{File: path, Found: m.Format, Known: checkpointFormat}
	}
	if m.Conf.Index == 0 { // written by a program that did not note it
		m.Conf.Index = m.Index
	}
	return m, nil
}

// rowSum is the checksum of one row.
func rowSum(key, value []byte) uint32 {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(key)))
	sum := crc32.Checksum(n[:], castagnoli)
	return crc32.Update(crc32.Update(sum, castagnoli, key), castagnoli, value)
}

func encodeRow(key, value []byte) []byte {
	b := make([]byte, rowHeaderLen, rowHeaderLen+len(value))
	b[0] = rowFormat
	binary.LittleEndian.PutUint32(b[1:], rowSum(key, value))
	return append(b, value...)
}

// decodeRow checks a stored row and returns its value and checksum.
func decodeRow(path string, key, stored []byte) (value []byte, sum uint32, err error) {
	if len(stored) < rowHeaderLen {
		return nil, 0, corrupt(path, 0, "row %q is too short", key)
	}
	value = stored[rowHeaderLen:]
	sum = binary.LittleEndian.Uint32(stored[1:])
	if got := rowSum(key, value); got != sum {
		return nil, 0, corrupt(path, 0, "row %q has checksum %08x, stored %08x", key, got, sum)
	}
	if stored[0] != rowFormat {
		if stored[0] > rowFormat {
			return nil, 0, &FormatError{File: path, Found: int(stored[0]), Known: rowFormat}
		}
		return nil, 0, corrupt(path, 0, "row %q has format %d", key, stored[0])
	}
	return value, sum, nil
}

// createState makes state.db with the first checkpoint, which has no rows.
func createState(d *disk, dir string, first checkpointMeta) error {
	return createBolt(d, filepath.Join(dir, stateFile), func(tx *bbolt.Tx) error {
		for _, name := range []string{rowsBucket, droppedBucket} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucket([]byte(metaBucket))
		if err != nil {
			return err
		}
		return meta.Put([]byte(checkpointKey), first.encode())
	})
}

func firstCheckpoint(id identity) checkpointMeta {
	return checkpointMeta{
		Format:  checkpointFormat,
		Cluster: id.Cluster,
		Member:  id.Member,
		Conf:    confRecord{Voters: []uint64{id.Member}},
	}
}

// stateImage is what verifyState learned about state.db.
type stateImage struct {
	meta    checkpointMeta
	dropped []string
}

// verifyState reads all of state.db, checks every row and the totals, and changes nothing.
func verifyState(dir string, id identity) (stateImage, error) {
	path := filepath.Join(dir, stateFile)
	var img stateImage
	var record []byte
	var rows, sum uint64
	err := readBolt(path, func(bucket string, key, value []byte) error {
		switch bucket {
		case rowsBucket:
			_, s, err := decodeRow(path, key, value)
			rows, sum = rows+1, sum+uint64(s)
			return err
		case droppedBucket:
			img.dropped = append(img.dropped, string(key))
			_, _, err := decodeRow(path, key, value)
			return err
		case metaBucket:
			if string(key) == checkpointKey {
				record = append([]byte(nil), value...)
			}
		}
		return nil
	})
	if err != nil {
		return img, err
	}
	if img.meta, err = decodeCheckpointMeta(path, record); err != nil {
		return img, err
	}
	if img.meta.Cluster != id.Cluster || img.meta.Member != id.Member {
		return img, corrupt(path, 0, "the file belongs to member %016x of cluster %016x, not to this directory",
			img.meta.Member, img.meta.Cluster)
	}
	if rows != img.meta.Rows || sum != img.meta.Sum {
		return img, corrupt(path, 0, "%d rows with sum %x, the checkpoint has %d with sum %x", rows, sum, img.meta.Rows, img.meta.Sum)
	}
	return img, nil
}

// stateStore is state.db opened for writing. One goroutine writes; rows are read before that starts.
type stateStore struct {
	disk *disk
	// reading is held by who begins to read from another goroutine, while db may be replaced. dropped does not change
	// between a replacement and the first checkpoint after it.
	reading sync.RWMutex
	db      *bbolt.DB
	tx      *bbolt.Tx // open while a checkpoint is being collected
	meta    checkpointMeta
	dropped prefixSet
}

func openState(d *disk, dir string, img stateImage) (*stateStore, error) {
	db, err := openBolt(filepath.Join(dir, stateFile), stateMapBytes)
	if err != nil {
		return nil, err
	}
	return &stateStore{disk: d, db: db, meta: img.meta, dropped: newPrefixSet(img.dropped)}, nil
}

func (s *stateStore) path() string { return s.db.Path() }

// rows calls fn for every live row in key order.
func (s *stateStore) rows(fn func(key, value []byte) error) error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	return guardBolt(s.path(), func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			b, err := mustBucket(tx, rowsBucket)
			if err != nil {
				return err
			}
			return b.ForEach(func(k, stored []byte) error {
				if s.dropped.covers(k) {
					return nil
				}
				value, _, err := decodeRow(s.path(), k, stored)
				if err != nil {
					return err
				}
				return fn(k, value)
			})
		})
	})
}

// pin begins to read the last checkpoint, which stays readable until it is released.
func (s *stateStore) pin() (*pinned, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	p := &pinned{path: s.path()}
	err := guardBolt(s.path(), func() (err error) {
		if p.tx, err = s.db.Begin(false); err != nil {
			return wrapStep("begin", s.path(), err)
		}
		meta, err := mustBucket(p.tx, metaBucket)
		if err != nil {
			return err
		}
		if p.meta, err = decodeCheckpointMeta(s.path(), meta.Get([]byte(checkpointKey))); err != nil {
			return err
		}
		dropped, err := mustBucket(p.tx, droppedBucket)
		if err != nil {
			return err
		}
		return dropped.ForEach(func(k, _ []byte) error {
			p.dropped = p.dropped.with(string(k))
			return nil
		})
	})
	if err != nil && p.tx != nil {
		p.release()
	}
	return p, err
}

// replace puts a received file in the place of this one and gives up what was not committed.
func (s *stateStore) replace(r *received) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	path := s.path()
	if err := s.close(); err != nil {
		return err
	}
	if err := s.disk.rename(r.path, path); err != nil {
		return s.disk.note(err)
	}
	db, err := openBolt(path, stateMapBytes)
	if err != nil {
		return s.disk.note(err)
	}
	s.db, s.meta, s.dropped = db, r.meta, prefixSet{}
	return nil
}

// begin opens the transaction of a checkpoint unless it is open.
func (s *stateStore) begin() error {
	if s.tx != nil {
		return nil
	}
	return guardBolt(s.path(), func() (err error) {
		s.tx, err = s.db.Begin(true)
		return wrapStep("begin", s.path(), err)
	})
}

// put adds rows to the open checkpoint. Rows under a dropped prefix are left out: they are being swept.
func (s *stateStore) put(rows []Row) error {
	if err := s.begin(); err != nil {
		return err
	}
	return guardBolt(s.path(), func() error {
		b, err := mustBucket(s.tx, rowsBucket)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if s.dropped.covers(r.Key) {
				continue
			}
			if err := s.putRow(b, r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *stateStore) putRow(b *bbolt.Bucket, r Row) error {
	if old := b.Get(r.Key); old != nil {
		if err := s.uncount(r.Key, old); err != nil {
			return err
		}
	}
	if r.Delete {
		return wrapStep("write", s.path(), b.Delete(r.Key))
	}
	stored := encodeRow(r.Key, r.Value)
	s.meta.Rows++
	s.meta.Sum += uint64(binary.LittleEndian.Uint32(stored[1:]))
	return wrapStep("write", s.path(), b.Put(r.Key, stored))
}

// uncount takes a stored row out of the totals.
func (s *stateStore) uncount(key, stored []byte) error {
	_, sum, err := decodeRow(s.path(), key, stored)
	if err != nil {
		return err
	}
	s.meta.Rows--
	s.meta.Sum -= uint64(sum)
	return nil
}

// drop adds a dropped prefix to the open checkpoint.
func (s *stateStore) drop(prefix []byte) error {
	if err := s.begin(); err != nil {
		return err
	}
	if s.dropped.covers(prefix) {
		return nil
	}
	return guardBolt(s.path(), func() error {
		b, err := mustBucket(s.tx, droppedBucket)
		if err != nil {
			return err
		}
		for _, longer := range s.dropped.under(string(prefix)) {
			s.dropped = s.dropped.without(longer)
			if err := b.Delete([]byte(longer)); err != nil {
				return wrapStep("write", s.path(), err)
			}
		}
		s.dropped = s.dropped.with(string(prefix))
		return wrapStep("write", s.path(), b.Put(prefix, encodeRow(prefix, nil)))
	})
}

// commit makes the open checkpoint durable as of index.
func (s *stateStore) commit(index, term uint64, conf confRecord) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.meta.Index, s.meta.Term, s.meta.Conf = index, term, conf
	return s.disk.note(guardBolt(s.path(), func() error {
		if err := s.putMeta(s.tx); err != nil {
			return err
		}
		if err := s.disk.check("commit", s.path()); err != nil {
			return err
		}
		err := s.tx.Commit()
		s.tx = nil
		return wrapStep("commit", s.path(), err)
	}))
}

func (s *stateStore) putMeta(tx *bbolt.Tx) error {
	b, err := mustBucket(tx, metaBucket)
	if err != nil {
		return err
	}
	return wrapStep("write", s.path(), b.Put([]byte(checkpointKey), s.meta.encode()))
}

// sweep removes up to limit rows under one dropped prefix in a transaction of its own; the prefix itself goes with its
// last row. It reports whether more is to be done. Not while a checkpoint is open.
func (s *stateStore) sweep(limit int) (more bool, err error) {
	prefix, ok := s.dropped.first()
	if !ok {
		return false, nil
	}
	err = commitBolt(s.disk, s.db, func(tx *bbolt.Tx) error {
		b, err := mustBucket(tx, rowsBucket)
		if err != nil {
			return err
		}
		done, err := s.sweepRows(b, prefix, limit)
		if err != nil {
			return err
		}
		if done {
			d, err := mustBucket(tx, droppedBucket)
			if err != nil {
				return err
			}
			if err := d.Delete([]byte(prefix)); err != nil {
				return err
			}
			s.dropped = s.dropped.without(prefix)
		}
		return s.putMeta(tx)
	})
	_, more = s.dropped.first()
	return more, err
}

func (s *stateStore) sweepRows(b *bbolt.Bucket, prefix string, limit int) (done bool, err error) {
	var keys [][]byte
	c := b.Cursor()
	for k, v := c.Seek([]byte(prefix)); ; k, v = c.Next() {
		if k == nil || !strings.HasPrefix(string(k), prefix) {
			done = true
			break
		}
		if len(keys) == limit {
			break
		}
		if err := s.uncount(k, v); err != nil {
			return false, err
		}
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return false, err
		}
	}
	return done, nil
}

// close gives up an open checkpoint and closes the file.
func (s *stateStore) close() error {
	if s.tx != nil {
		s.tx.Rollback()
		s.tx = nil
	}
	return wrapStep("close", s.path(), guardBolt(s.path(), s.db.Close))
}
