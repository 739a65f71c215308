package raftstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
)

// state.db holds one checkpoint: all rows, the prefixes that were dropped and are not swept yet, and one record that
// says as of which entry the rows are. What the next checkpoint changes is written beside them first, in the two buckets
// of that name; checkpointMeta.Next says whether it counts.
const (
	rowsBucket        = "rows"
	droppedBucket     = "dropped"
	metaBucket        = "meta"
	nextBucket        = "next"
	nextDroppedBucket = "next-dropped"
	checkpointKey     = "checkpoint"
)

const (
	// checkpointFormat is that of a state.db; 1 had no next. A file of format 1 gets it with the first write.
	checkpointFormat = 2
	// sentFormat is that of the record which goes to other members and into backups. They carry whole checkpoints,
	// which have not changed.
	sentFormat = 1

	rowFormat       = 1
	tombstoneFormat = 0
	rowHeaderLen    = 5 // format, CRC32C over key and value
)

// checkpointMeta is the record of a checkpoint. Rows and Sum count its rows, dropped ones that are not swept included,
// and add up their checksums: they show a row that vanished or came back, which no row's own checksum can.
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
	// Next says that what is in next counts: it lies over the rows until it has been moved there. Without it next is what
	// a crash left of a checkpoint that was never finished.
	Next bool `json:"next,omitempty"`
	// Dropped counts the dropped prefixes that are not swept yet, without those that others cover.
	Dropped int `json:"dropped,omitempty"`
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

// A tombstone stands in next for a row that is gone.
func encodeTombstone(key []byte) []byte {
	b := make([]byte, rowHeaderLen)
	b[0] = tombstoneFormat
	binary.LittleEndian.PutUint32(b[1:], ^rowSum(key, nil)) // the checksum covers no format: this keeps it from being a row
	return b
}

// decodeNext is decodeRow for what is in next; gone if it is a tombstone.
func decodeNext(path string, key, stored []byte) (value []byte, sum uint32, gone bool, err error) {
	if len(stored) == rowHeaderLen && stored[0] == tombstoneFormat {
		if !bytes.Equal(stored, encodeTombstone(key)) {
			return nil, 0, false, corrupt(path, 0, "the deletion of row %q has a wrong checksum", key)
		}
		return nil, 0, true, nil
	}
	value, sum, err = decodeRow(path, key, stored)
	return value, sum, false, err
}

// createState makes state.db with the first checkpoint, which has no rows.
func createState(d *disk, dir string, first checkpointMeta) error {
	return createBolt(d, filepath.Join(dir, stateFile), func(db *bbolt.DB) error {
		if err := createBuckets(db); err != nil {
			return err
		}
		return putRecord(db, first)
	})
}

// createBuckets makes what every state.db has.
func createBuckets(db *bbolt.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{rowsBucket, droppedBucket, metaBucket, nextBucket, nextDroppedBucket} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// putRecord completes a new state.db. Before that it is no checkpoint.
func putRecord(db *bbolt.DB, m checkpointMeta) error {
	m.Format, m.Next, m.Dropped = checkpointFormat, false, 0
	return db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(metaBucket)).Put([]byte(checkpointKey), m.encode())
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
	dropped prefixSet
}

// verifyState reads all of state.db, checks every row and the totals, and changes nothing.
func verifyState(dir string, id identity) (stateImage, error) { return loadState(dir, id, rowReader{}) }

// rowReader is who gets the rows of a checkpoint while they are verified.
type rowReader struct {
	take   func(key, value []byte) error // see Config.Load; nil if nobody wants them
	logger *slog.Logger                  // is told how far it is; nil: nobody
	period time.Duration                 // see progress
}

// loadState is verifyState for somebody who wants the rows, too.
func loadState(dir string, id identity, reader rowReader) (stateImage, error) {
	path := filepath.Join(dir, stateFile)
	r, err := openBoltFile(path)
	if err != nil {
		return stateImage{}, err
	}
	defer r.close()
	v := stateVerifier{path: path, file: r, reader: reader}
	if err := v.readMeta(id); err != nil {
		return v.img, err
	}
	return v.img, v.readRows()
}

// stateVerifier is a verifyState under way.
type stateVerifier struct {
	path   string
	file   *boltReader
	img    stateImage
	reader rowReader
}

// readMeta reads everything but rows.
func (v *stateVerifier) readMeta(id identity) error {
	var record []byte
	err := v.file.each(metaBucket, func(key, value []byte) error {
		if string(key) == checkpointKey {
			record = bytes.Clone(value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.img.meta, err = decodeCheckpointMeta(v.path, record); err != nil {
		return err
	}
	if err := v.checkBuckets(v.img.meta.Format); err != nil {
		return err
	}
	if meta := v.img.meta; meta.Cluster != id.Cluster || meta.Member != id.Member {
		return corrupt(v.path, 0, "the file belongs to member %016x of cluster %016x, not to this directory", meta.Member, meta.Cluster)
	}
	var dropped []string
	for _, bucket := range []string{droppedBucket, nextDroppedBucket} {
		err := v.file.each(bucket, func(key, stored []byte) error {
			if bucket == droppedBucket || v.img.meta.Next {
				dropped = append(dropped, string(key))
			}
			_, _, err := decodeRow(v.path, key, stored)
			return err
		})
		if err != nil {
			return err
		}
	}
	v.img.dropped = newPrefixSet(dropped)
	if n := len(v.img.dropped.sorted); n != v.img.meta.Dropped && v.img.meta.Format >= 2 {
		return corrupt(v.path, 0, "%d dropped prefixes, the checkpoint has %d", n, v.img.meta.Dropped)
	}
	return nil
}

// checkBuckets, called once meta was read, finds a bucket that is missing, or has another name than it had.
func (v *stateVerifier) checkBuckets(format int) error {
	want := []string{droppedBucket, metaBucket, rowsBucket}
	if format >= 2 {
		want = []string{droppedBucket, metaBucket, nextBucket, nextDroppedBucket, rowsBucket}
	}
	got := slices.Sorted(slices.Values(append(v.file.others(), metaBucket)))
	if !slices.Equal(want, got) {
		return corrupt(v.path, 0, "the buckets are %q, not %q", got, want)
	}
	return nil
}

// readRows checks the rows, passes those that are not dropped to the reader, and compares them with the totals.
func (v *stateVerifier) readRows() error {
	var rows, sum uint64
	p := newProgress(v.reader.logger, v.reader.period, "reading the checkpoint", "rows", v.img.meta.Rows)
	count := func(key, stored []byte) error {
		value, n, err := decodeRow(v.path, key, stored)
		if err != nil {
			return err
		}
		rows, sum = rows+1, sum+uint64(n)
		p.step()
		if v.reader.take == nil || v.img.dropped.covers(key) {
			return nil
		}
		return v.reader.take(key, value)
	}
	var err error
	if v.img.meta.Next {
		err = v.readOverlaid(count)
	} else if err = v.file.each(rowsBucket, count); err == nil {
		err = v.file.each(nextBucket, func(key, stored []byte) error {
			_, _, _, err := decodeNext(v.path, key, stored)
			return err
		})
	}
	if err != nil {
		return err
	}
	if meta := v.img.meta; rows != meta.Rows || sum != meta.Sum {
		return corrupt(v.path, 0, "%d rows with sum %x, the checkpoint has %d with sum %x", rows, sum, meta.Rows, meta.Sum)
	}
	return nil
}

// readOverlaid calls fn for each row of a file in which next counts, in key order.
func (v *stateVerifier) readOverlaid(fn func(key, stored []byte) error) error {
	rows := pullBolt(v.file, rowsBucket, func(key, stored []byte) error { // also those that are hidden
		_, _, err := decodeRow(v.path, key, stored)
		return err
	})
	next := pullBolt(v.file, nextBucket, func(_, _ []byte) error { return nil })
	defer rows.stop()
	defer next.stop()
	o := overlay{path: v.path, rows: rows, next: next}
	for {
		key, stored, err := o.step()
		if err := cmp.Or(err, rows.err, next.err); err != nil {
			return err
		}
		if key == nil {
			return nil
		}
		if err := fn(key, stored); err != nil {
			return err
		}
	}
}
