package raftstore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"
)

// A backup is one checkpoint as a stream, little-endian:
//
//	"coorddbk", format (4)
//	each row: length of the key (4, not 0), length of the stored row (4), key, stored row
//	0 (4), length of the checkpoint record (4), the record as in state.db
//	CRC32C of everything before (4)
const (
	backupMagic  = "coorddbk"
	backupFormat = 1
)

// ErrBackupRuns says that there is another Backup under way: one at a time, because each holds on to old
// pages of state.db.
var ErrBackupRuns = errors.New("another backup is under way")

// ErrOvertaken says that a received checkpoint has replaced the one that was being read: this member had fallen too
// far back for the log.
var ErrOvertaken = errors.New("overtaken: another server's checkpoint has replaced the one that was being read")

// Backup writes the last checkpoint to w: all rows as of one entry, each with its checksum, and a checksum
// over everything. What was committed after that checkpoint is not in it; take a checkpoint first to have it.
// Other work goes on meanwhile and does not wait for w. It returns the index of the checkpoint. Call it between Start
// and Stop. Errors, the middle two as soon as w returns: ErrBackupRuns, ErrOvertaken, ErrStopped, those of w and ctx.
func (s *Store) Backup(ctx context.Context, w io.Writer) (index uint64, err error) {
	if !s.backups.TryLock() {
		return 0, ErrBackupRuns
	}
	defer s.backups.Unlock()
	ctx, cancel := context.WithTimeout(ctx, backupTimeMax)
	defer cancel()
	p, err := s.rowStore.pin()
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, errors.New("backup: there are no checkpoints in memory")
	}
	defer p.release()
	if p.meta.Index == 0 {
		return 0, errors.New("backup: there is no checkpoint yet")
	}
	sum := crc32.New(castagnoli)
	out := bufio.NewWriter(io.MultiWriter(w, sum))
	out.WriteString(backupMagic)
	writeUint32(out, backupFormat)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rows, err := p.next()
		if err != nil {
			return 0, fmt.Errorf("backup: %w", err)
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			writeUint32(out, uint32(len(r.GetKey())))
			writeUint32(out, uint32(len(r.GetStored())))
			out.Write(r.GetKey())
			out.Write(r.GetStored())
		}
		if err := out.Flush(); err != nil {
			return 0, fmt.Errorf("backup: %w", err)
		}
	}
	record := p.record()
	writeUint32(out, 0)
	writeUint32(out, uint32(len(record)))
	out.Write(record)
	if err := out.Flush(); err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	_, err = w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return p.meta.Index, err
}

func writeUint32(w *bufio.Writer, v uint32) {
	w.Write(binary.LittleEndian.AppendUint32(nil, v)) // the writer keeps its first error for Flush
}

// RestoreBackup makes a data directory from a backup: a cluster of this member alone, with new ids, to which
// others can be added. Only Name, AdvertisePeer or ListenPeer, and ClientAddress of the configuration count.
// The directory must be empty, missing or left by a restore that was cut short. The store that opens it has a new
// Lineage. A damaged backup is refused. The directory then is as after a restore that was cut short: only another
// RestoreBackup accepts it (ErrHalfRestored).
func RestoreBackup(dir string, r io.Reader, c Cluster) error {
	return restoreBackup(&disk{}, dir, r, c)
}

func restoreBackup(d *disk, dir string, r io.Reader, c Cluster) error {
	if err := d.makeDir(dir); err != nil {
		return err
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if made, err := hasData(dir); made && halfRestored(dir) == nil || err != nil {
		return errors.Join(err, fmt.Errorf("restore a backup: %s has data", dir))
	}
	if err := checkHalfMade(dir); err != nil {
		return err
	}
	marker := filepath.Join(dir, restoringFile)
	if err := d.writeFile(marker, []byte(restoringText)); err != nil {
		return err
	}
	if err := clearHalfMade(d, dir); err != nil {
		return err
	}
	if err := fillFromBackup(d, dir, r, c); err != nil {
		return err
	}
	if err := d.remove(marker); err != nil {
		return err
	}
	return d.syncDir(dir)
}

const restoringText = "A backup is being restored into this directory. It is not complete while this file is here.\n"

// fillFromBackup makes all files of a data directory.
func fillFromBackup(d *disk, dir string, r io.Reader, c Cluster) error {
	if err := d.makeDir(filepath.Join(dir, walDir)); err != nil {
		return err
	}
	id := newIdentity()
	if c.networked() {
		id.Incarnation = randomID()
	}
	b := newBackupReader(r)
	err := createBolt(d, filepath.Join(dir, stateFile),
		func(db *bbolt.DB) error { return b.restore(d, db, id, c) })
	if err != nil {
		return fmt.Errorf("restore a backup: %w", err)
	}
	if err := createLog(d, filepath.Join(dir, walDir), id, checkpointMeta{Index: b.index, Term: b.term}); err != nil {
		return err
	}
	return d.writeFile(filepath.Join(dir, identityFile), id.encode())
}

// backupReader reads a backup and sums it up.
type backupReader struct {
	in  io.Reader
	sum hash.Hash32
	buf [8]byte

	index, term uint64 // of what was restored
}

func newBackupReader(r io.Reader) *backupReader {
	b := &backupReader{sum: crc32.New(castagnoli)}
	b.in = io.TeeReader(bufio.NewReader(r), b.sum)
	return b
}

// read passes every row to put and returns the record behind them, once all checksums were right.
func (b *backupReader) read(put func(key, stored []byte) error) (checkpointMeta, error) {
	meta, err := b.readAll(put)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early: the backup is not complete")
	}
	return meta, err
}

func (b *backupReader) readAll(put func(key, stored []byte) error) (checkpointMeta, error) {
	head := make([]byte, len(backupMagic)+4)
	n, err := io.ReadFull(b.in, head)
	if !strings.HasPrefix(backupMagic, string(head[:min(n, len(backupMagic))])) || n == 0 {
		return checkpointMeta{}, errors.New("this is not a coordd backup")
	}
	if err != nil {
		return checkpointMeta{}, err
	}
	if f := binary.LittleEndian.Uint32(head[len(backupMagic):]); f != backupFormat {
		return checkpointMeta{}, &FormatError{File: "backup", Found: int(f), Known: backupFormat}
	}
	meta, err := b.rows(put)
	if err != nil {
		return checkpointMeta{}, err
	}
	want := b.sum.Sum32()
	if _, err := io.ReadFull(b.in, b.buf[:4]); err != nil {
		return checkpointMeta{}, err
	}
	if got := binary.LittleEndian.Uint32(b.buf[:4]); got != want {
		return checkpointMeta{}, fmt.Errorf("checksum %08x, stored %08x", want, got)
	}
	return meta, nil
}

// BackupReport is what a backup says about itself.
type BackupReport struct {
	Cluster     uint64 // where it was made
	Index, Term uint64 // as of which entry
	Rows        uint64
}

// VerifyBackup reads a backup to its end and checks everything that RestoreBackup checks.
func VerifyBackup(r io.Reader) (BackupReport, error) {
	meta, err := newBackupReader(r).read(func(_, _ []byte) error { return nil })
	if err != nil {
		return BackupReport{}, fmt.Errorf("read a backup: %w", err)
	}
	return BackupReport{Cluster: meta.Cluster, Index: meta.Index, Term: meta.Term, Rows: meta.Rows}, nil
}

// restore fills a new state.db.
func (b *backupReader) restore(d *disk, db *bbolt.DB, id identity, c Cluster) error {
	if err := createBuckets(db); err != nil {
		return err
	}
	rows := rowAppender{db: db, steps: defaultSteps, disk: d}
	meta, err := b.read(rows.add)
	if err == nil {
		err = rows.flush()
	}
	if err != nil {
		return err
	}
	b.index, b.term = meta.Index, meta.Term
	meta.Cluster, meta.Member = id.Cluster, id.Member
	meta.Restored, meta.Lineage, meta.Forced = meta.Index, id.Cluster, 0
	meta.Conf = confRecord{Voters: []uint64{id.Member}}
	if c.Name != "" {
		meta.Conf.Members = []memberRecord{{ID: id.Member, Name: c.Name, Peer: c.address(),
			Client: c.ClientAddress}}
	}
	return putRecord(db, meta)
}

// rows puts all rows and returns the record behind them, which must agree.
func (b *backupReader) rows(put func(key, stored []byte) error) (checkpointMeta, error) {
	var rows, sum uint64
	for {
		if _, err := io.ReadFull(b.in, b.buf[:]); err != nil {
			return checkpointMeta{}, err
		}
		keyLen, storedLen := binary.LittleEndian.Uint32(b.buf[:]), binary.LittleEndian.Uint32(b.buf[4:])
		if keyLen > bbolt.MaxKeySize || storedLen > backupRowMax {
			return checkpointMeta{}, fmt.Errorf("a row of %d and %d bytes", keyLen, storedLen)
		}
		both := make([]byte, keyLen+storedLen)
		if _, err := io.ReadFull(b.in, both); err != nil {
			return checkpointMeta{}, err
		}
		if keyLen == 0 {
			meta, err := decodeCheckpointMeta("backup", both)
			if err == nil && (meta.Rows != rows || meta.Sum != sum) {
				err = fmt.Errorf("%d rows with sum %x, the record says %d with sum %x", rows, sum, meta.Rows,
					meta.Sum)
			}
			return meta, err
		}
		_, n, err := decodeRow("backup", both[:keyLen], both[keyLen:])
		if err != nil {
			return checkpointMeta{}, err
		}
		rows, sum = rows+1, sum+uint64(n)
		if err := put(both[:keyLen], both[keyLen:]); err != nil {
			return checkpointMeta{}, err
		}
	}
}

// Lineage is 0 for a cluster that was never restored. Otherwise it names the last RestoreBackup or
// ForceSingle, by a number that is never the same twice and that every member gets. Numbers that must never
// come twice have to be moved forward once for each lineage, before anything else is done in it: what was
// committed after the restored moment is not known here. The store remembers the lineage for ever, the caller
// has to remember which it has begun.
func (s *Store) Lineage() uint64 { return s.lineage.Load() }
