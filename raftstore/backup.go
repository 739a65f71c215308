package raftstore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/membership"
)

// A backup is one checkpoint as a stream of package checkpoint, which ends with the record.
const backupMagic = "coorddbk"

// ErrBackupRuns is returned while another Backup is under way: one at a time, because each holds on to old files.
var ErrBackupRuns = errors.New("another backup is under way")

// Backup writes the last checkpoint to w: all rows as of one entry, each with its checksum, and a checksum
// over everything. What was committed after that checkpoint is not in it; take a checkpoint first to have it.
// Other work goes on meanwhile and does not wait for w. It returns the index of the checkpoint. Call it between Start
// and Stop. Errors: ErrBackupRuns, ErrStopped as soon as w returns, those of w and ctx.
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
	defer s.keeper.release(p)
	if p.meta.Index == 0 {
		return 0, errors.New("backup: there is no checkpoint yet")
	}
	out := checkpoint.NewWriter(w, backupMagic, snapshotChunkBytes)
	err = p.each(func(key, stored []byte) (bool, error) {
		return true, cmp.Or(ctx.Err(), out.Row(key, stored))
	})
	if err == nil {
		_, err = out.Finish(p.record())
	}
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	return p.meta.Index, nil
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
	if err := d.makeDir(filepath.Join(dir, checkpointDir)); err != nil {
		return err
	}
	id := newIdentity()
	if c.networked() {
		id.Incarnation = randomID()
	}
	meta, err := restoreRows(d, dir, r, id, c)
	if err != nil {
		return fmt.Errorf("restore a backup: %w", err)
	}
	if err := createLog(d, filepath.Join(dir, walDir), id, meta); err != nil {
		return err
	}
	return d.writeFile(filepath.Join(dir, identityFile), id.encode())
}

// restoreRows makes the checkpoint.
func restoreRows(d *disk, dir string, r io.Reader, id identity, c Cluster) (checkpointMeta, error) {
	rows := checkpoint.New(rowOptions(d, dir))
	defer rows.Close()
	file, err := rows.NewFile()
	if err != nil {
		return checkpointMeta{}, err
	}
	meta, err := readBackup(r, file.Row)
	if err == nil {
		err = file.Complete()
	}
	if err != nil {
		rows.Discard(file) // Close closes it; the next attempt removes it
		return meta, err
	}
	meta.Cluster, meta.Member = id.Cluster, id.Member
	meta.Restored, meta.Lineage, meta.Forced = meta.Index, id.Cluster, 0
	meta.Conf = membership.Conf{Voters: []uint64{id.Member}}
	if c.Name != "" {
		meta.Conf.Members = []membership.Record{{ID: id.Member, Name: c.Name, Peer: c.address(),
			Client: c.ClientAddress}}
	}
	return meta, rows.Replace(file, meta.stored())
}

// readBackup passes every row to put and returns the record behind them, once all checksums were right.
func readBackup(in io.Reader, put func(key, stored []byte) error) (checkpointMeta, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(len(backupMagic)); len(head) == 0 || !strings.HasPrefix(backupMagic, string(head)) {
		return checkpointMeta{}, errors.New("this is not a coordd backup")
	}
	r := checkpoint.NewReader(b, backupMagic, "backup")
	var rows, sum uint64
	for {
		more, err := r.Next()
		if err != nil {
			return checkpointMeta{}, rowError(err)
		}
		if !more {
			break
		}
		_, n, err := checkpoint.Value("backup", r.Key, r.Stored)
		if err != nil {
			return checkpointMeta{}, rowError(err)
		}
		rows, sum = rows+1, sum+uint64(n)
		if err := put(r.Key, r.Stored); err != nil {
			return checkpointMeta{}, err
		}
	}
	meta, err := decodeCheckpointMeta("backup", r.Record)
	if err == nil && (meta.Rows != rows || meta.Sum != sum) {
		err = fmt.Errorf("%d rows with sum %x, the record says %d with sum %x", rows, sum, meta.Rows, meta.Sum)
	}
	return meta, err
}

// BackupReport is what a backup says about itself.
type BackupReport struct {
	Cluster     uint64 // where it was made
	Index, Term uint64 // as of which entry
	Rows        uint64
}

// VerifyBackup reads a backup to its end and checks everything that RestoreBackup checks.
func VerifyBackup(r io.Reader) (BackupReport, error) {
	meta, err := readBackup(r, func(_, _ []byte) error { return nil })
	if err != nil {
		return BackupReport{}, fmt.Errorf("read a backup: %w", err)
	}
	return BackupReport{Cluster: meta.Cluster, Index: meta.Index, Term: meta.Term, Rows: meta.Rows}, nil
}

// Lineage is 0 for a cluster that was never restored. Otherwise it names the last RestoreBackup or
// ForceSingle, by a number that is never the same twice and that every member gets. Numbers that must never
// come twice have to be moved forward once for each lineage, before anything else is done in it: what was
// committed after the restored moment is not known here. The store remembers the lineage for ever, the caller
// has to remember which it has begun.
func (s *Store) Lineage() uint64 { return s.lineage.Load() }
