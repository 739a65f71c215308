package datadir

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

// backupChunkBytes is the size of the pieces in which a backup is written.
const backupChunkBytes = 256 << 10

// Backup writes the rows of p that were not read yet, and its record. Errors: those of w and ctx.
func (p *Pinned) Backup(ctx context.Context, w io.Writer) error {
	out := checkpoint.NewWriter(w, backupMagic, backupChunkBytes)
	err := p.Each(func(key, stored []byte) (bool, error) {
		return true, cmp.Or(ctx.Err(), out.Row(key, stored))
	})
	if err == nil {
		_, err = out.Finish(p.Sent())
	}
	return err
}

// RestoreBackup makes a data directory from a backup: a cluster of one member alone, with new ids.
// The directory must be empty, missing or left by a restore that was cut short. The store that opens it has a new
// Lineage. A damaged backup is refused. The directory then is as after a restore that was cut short: only another
// RestoreBackup accepts it (ErrHalfRestored).
func RestoreBackup(dir string, r io.Reader) error {
	return offline().RestoreBackup(dir, r)
}

// RestoreBackup is RestoreBackup on this disk.
func (d *Disk) RestoreBackup(dir string, r io.Reader) error {
	if err := d.makeDir(dir); err != nil {
		return err
	}
	lock, err := d.system().Lock(dir, false)
	if err != nil {
		return err
	}
	defer lock.Close()
	if made, err := d.HasData(dir); made && halfRestored(d, dir) == nil || err != nil {
		return errors.Join(err, fmt.Errorf("restore a backup: %s has data", dir))
	}
	if err := checkHalfMade(d, dir); err != nil {
		return err
	}
	marker := filepath.Join(dir, RestoringFile)
	if err := d.writeFile(marker, []byte(restoringText)); err != nil {
		return err
	}
	if err := clearHalfMade(d, dir); err != nil {
		return err
	}
	if err := fillFromBackup(d, dir, r); err != nil {
		return err
	}
	if err := d.remove(marker); err != nil {
		return err
	}
	return d.syncDir(dir)
}

const restoringText = "A backup is being restored into this directory. It is not complete while this file is here.\n"

// fillFromBackup makes all files of a data directory.
func fillFromBackup(d *Disk, dir string, r io.Reader) error {
	if err := d.makeDir(filepath.Join(dir, LogDir)); err != nil {
		return err
	}
	if err := d.makeDir(filepath.Join(dir, CheckpointDir)); err != nil {
		return err
	}
	id := NewIdentity()
	meta, err := restoreRows(d, dir, r, id)
	if err != nil {
		return fmt.Errorf("restore a backup: %w", err)
	}
	if err := createLog(d, filepath.Join(dir, LogDir), id, meta); err != nil {
		return err
	}
	return d.writeFile(filepath.Join(dir, IdentityFile), id.encode())
}

// restoreRows makes the checkpoint.
func restoreRows(d *Disk, dir string, r io.Reader, id Identity) (Meta, error) {
	rows := checkpoint.New(rowOptions(d, dir))
	defer rows.Close()
	file, err := rows.NewFile()
	if err != nil {
		return Meta{}, err
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
	meta.Conf = membership.Conf{Index: meta.Index, Voters: []uint64{id.Member}}
	return meta, rows.Replace(file, meta.stored())
}

// readBackup passes every row to put and returns the record behind them, once all checksums were right.
func readBackup(in io.Reader, put func(key, stored []byte) error) (Meta, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(len(backupMagic)); len(head) == 0 || !strings.HasPrefix(backupMagic, string(head)) {
		return Meta{}, errors.New("this is not a coordd backup")
	}
	r := checkpoint.NewReader(b, backupMagic, "backup")
	for more := true; more; {
		var err error
		if more, err = r.Next(); more && err == nil {
			err = put(r.Key, r.Stored)
		}
		if err != nil {
			return Meta{}, corruptAt(err, 0)
		}
	}
	meta, err := DecodeMeta("backup", r.Record)
	if read := r.Totals(); err == nil && (meta.Rows != read.Rows || meta.Sum != read.Sum) {
		err = fmt.Errorf("%d rows with sum %x, the record says %d with sum %x", read.Rows, read.Sum, meta.Rows,
			meta.Sum)
	}
	return meta, err
}

// BackupReport is the description that a backup carries.
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
