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
)

// This file is what state.db looks like, and how it is verified. Its five buckets hold one checkpoint:
//
//	rows          every row, each with a checksum over its key and value
//	dropped       prefixes that were dropped as a whole: rows below them do not count, and are swept later
//	next          what the next checkpoint changes, rows and tombstones
//	next-dropped  the prefixes that it drops
//	meta          one record, checkpointMeta, which says as of which entry the rest is, and whether next counts
//
// A checkpoint may change more than one transaction may hold, so it is written in steps. Until the last step
// next means nothing: a crash leaves the old checkpoint, whole, and something beside it that the next start
// throws away. The last step writes the record anew, with the new index and Next set; from that moment next
// lies over rows, and what is in both is as next has it. Moving next into rows is then done in steps again,
// and can be interrupted anywhere, because to move a row twice changes nothing. So there is always exactly
// one checkpoint in the file, and one small transaction decides which.
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
	// sentFormat is that of the record which goes to other members and into backups. These carry a checkpoint
	// as plain rows, with nothing in next, which is what format 1 was.
	sentFormat = 1

	rowFormat       = 1
	tombstoneFormat = 0
	rowHeaderLen    = 5 // format, CRC32C over key and value
)

// checkpointMeta is the record of a checkpoint. Rows is how many rows it has, those included that were
// dropped and are not swept yet, and Sum adds up their checksums. A row's own checksum cannot show that the
// row has vanished, or has come back; these two do.
type checkpointMeta struct {
	Format  int        `json:"format"`
	Cluster uint64     `json:"cluster"`
	Member  uint64     `json:"member"`
	Index   uint64     `json:"index"`
	Term    uint64     `json:"term"`
	Conf    confRecord `json:"conf"`
	Rows    uint64     `json:"rows"`
	Sum     uint64     `json:"sum"`

	// Restored is the last entry that came with a checkpoint of another member, or with a backup. The log
	// begins behind it. As long as Index is the same, nothing has been stored since, and there need not be a
	// log.
	Restored uint64 `json:"restored,omitempty"`
	// Lineage is of the last restore or forced recovery, see Store.Lineage.
	Lineage uint64 `json:"lineage,omitempty"`
	// Forced is the last entry of the log when this member was made the only one; membership entries up to it
	// are void.
	Forced uint64 `json:"forced,omitempty"`
	// Next says that next counts: it lies over the rows until it has been moved there. Without it next is
	// what a crash has left of a checkpoint that was never finished.
	Next bool `json:"next,omitempty"`
	// Dropped counts the dropped prefixes that are not swept yet, without those that others cover.
	Dropped int `json:"dropped,omitempty"`
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
	if m.Conf.Index == 0 { // a program from before the field has written the record
		m.Conf.Index = m.Index
	}
	return m, nil
}

// rowSum is the checksum of one row. It begins with the key's length, so that a byte which moves from the key
// to the value shows.
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

// encodeTombstone makes what stands in next for a row that the next checkpoint does not have.
func encodeTombstone(key []byte) []byte {
	b := make([]byte, rowHeaderLen)
	b[0] = tombstoneFormat
	// the checksum covers no format: this keeps it from being a row
	binary.LittleEndian.PutUint32(b[1:], ^rowSum(key, nil))
	return b
}

// decodeNext is decodeRow for what is in next. gone says that it is a tombstone, which has neither value nor
// checksum.
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

// putRecord writes the record of a new state.db whose rows are all in rows. Without a record the file is no
// checkpoint, so this comes last.
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

// stateImage is a verified state.db, without its rows.
type stateImage struct {
	meta    checkpointMeta
	dropped prefixSet
}

// rowReader is given the rows of a checkpoint while they are verified, so that a start reads the file once.
type rowReader struct {
	add    func(key, value []byte) error // see Config.Load; nil if nobody wants them
	logger *slog.Logger                  // is told how far it is; nil: nobody
	period time.Duration                 // see progress
}

// loadState reads all of state.db, checks every row and the totals, and changes nothing. The reader receives the
// rows. It must drop them if there is an error: the totals are compared after the last row.
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

// stateVerifier is one verification of a file.
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
		return corrupt(v.path, 0, "the file belongs to member %s of cluster %s, not to this directory",
			IDText(meta.Member), IDText(meta.Cluster))
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

// checkBuckets compares the names of the buckets with those that the format has. Damage can change a name,
// and then the bucket would be missing without a trace.
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

// readRows checks the rows, passes those that are not dropped to the reader, and compares them with the
// totals.
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
		if v.reader.add == nil || v.img.dropped.covers(key) {
			return nil
		}
		return v.reader.add(key, value)
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
		return corrupt(v.path, 0, "%d rows with sum %x, the checkpoint has %d with sum %x", rows, sum,
			meta.Rows, meta.Sum)
	}
	return nil
}

// readOverlaid calls fn for each row of a file in which next counts, in key order.
func (v *stateVerifier) readOverlaid(fn func(key, stored []byte) error) error {
	rows := pullBolt(v.file, rowsBucket, func(key, stored []byte) error { // also of those that next hides
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
