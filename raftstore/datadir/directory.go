package datadir

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/raft/v3"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// Names inside a data directory.
const (
	IdentityFile = "identity.json"
	LogDir       = "wal"
	// RestoringFile marks a directory into which a backup is being restored: it is there before anything else of
	// that, and removed last. Its content is for people.
	RestoringFile = "restoring.txt"
)

// identityFormat is the version of identity.json.
const identityFormat = 1

// Identity says whose data a directory holds. It is written last when a directory is made, so its presence
// means that everything else is there.
type Identity struct {
	Cluster uint64
	Member  uint64
	// Incarnation is random and made with the directory, so that a member whose directory was emptied is not
	// taken for what it was; 0 for a server alone that an older version started.
	Incarnation uint64
}

// Origin lists the content of a new data directory.
type Origin struct {
	ID     Identity
	First  Meta
	Learnt Learnt // the senders that it admits, as far as First does not have them
}

// identityText is identity.json.
type identityText struct {
	Format      int    `json:"format"`
	Cluster     string `json:"cluster"`
	Member      string `json:"member"`
	Incarnation string `json:"incarnation,omitempty"`
}

// NewIdentity returns a random identity.
func NewIdentity() Identity {
	return Identity{Cluster: RandomID(), Member: RandomID(), Incarnation: RandomID()}
}

// RandomID returns an id that raft accepts: not 0 and none of its local targets.
func RandomID() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:])
		id := binary.LittleEndian.Uint64(b[:])
		if id != 0 && !raft.IsLocalMsgTarget(id) {
			return id
		}
	}
}

func (id Identity) encode() []byte {
	t := identityText{
		Format:  identityFormat,
		Cluster: membership.IDText(id.Cluster),
		Member:  membership.IDText(id.Member),
	}
	if id.Incarnation != 0 {
		t.Incarnation = membership.IDText(id.Incarnation)
	}
	return files.Seal(t)
}

// HasData reports whether a directory belongs to a member already.
func (d *Disk) HasData(dir string) (bool, error) { return d.exists(filepath.Join(dir, IdentityFile)) }

// readIdentity reads identity.json, or returns os.ErrNotExist.
func readIdentity(d *Disk, dir string) (Identity, error) {
	path := filepath.Join(dir, IdentityFile)
	b, err := d.read(path)
	if err != nil {
		return Identity{}, err
	}
	var t identityText
	if err := files.Unseal(b, &t); err != nil {
		return Identity{}, corrupt(path, 0, "%v", err)
	}
	if t.Format != identityFormat {
		return Identity{}, &FormatError{File: path, Found: t.Format, Known: identityFormat}
	}
	var id Identity
	if _, err := fmt.Sscanf(t.Cluster+" "+t.Member, "%x %x", &id.Cluster, &id.Member); err != nil {
		return Identity{}, corrupt(path, 0, "%v", err)
	}
	if t.Incarnation != "" {
		if _, err := fmt.Sscanf(t.Incarnation, "%x", &id.Incarnation); err != nil {
			return Identity{}, corrupt(path, 0, "%v", err)
		}
	}
	return id, nil
}

// prepare leaves a complete directory behind: it makes a new one, or finishes one whose making was
// cut short. A directory that has identity.json is not touched.
func (d *Disk) prepare(dir string, find func() (Origin, error)) error {
	if made, err := d.HasData(dir); made || err != nil {
		return err
	}
	if err := checkHalfMade(d, dir); err != nil {
		return err
	}
	if err := clearHalfMade(d, dir); err != nil {
		return err
	}
	o, err := find()
	if err != nil {
		return err
	}
	if err := d.makeDir(filepath.Join(dir, LogDir)); err != nil {
		return err
	}
	if err := d.makeDir(filepath.Join(dir, CheckpointDir)); err != nil {
		return err
	}
	if err := createLog(d, filepath.Join(dir, LogDir), o.ID, o.First); err != nil {
		return err
	}
	if err := createState(d, dir, o.First); err != nil {
		return err
	}
	if o.Learnt.Conf.Index > 0 {
		if err := saveLearnt(d, dir, o.ID, o.Learnt); err != nil {
			return err
		}
	}
	return d.writeFile(filepath.Join(dir, IdentityFile), o.ID.encode())
}

// halfRestored returns ErrHalfRestored if a restore of a backup into dir has not come to its end.
func halfRestored(d *Disk, dir string) error {
	half, err := d.exists(filepath.Join(dir, RestoringFile))
	if err == nil && half {
		err = fmt.Errorf("%s: %w", dir, ErrHalfRestored)
	}
	return err
}

// checkHalfMade refuses a directory that holds more than a cut-short creation can leave behind: then
// identity.json was lost, or the directory belongs to somebody else.
func checkHalfMade(d *Disk, dir string) error {
	names, err := d.system().List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		switch name {
		case IdentityFile, IdentityFile + tmpSuffix, CheckpointDir, AdmissionFile,
			AdmissionFile + tmpSuffix, RestoringFile, RestoringFile + tmpSuffix, LogDir, "lost+found":
		default:
			return fmt.Errorf("%s holds %s but no %s: %w and not empty", dir, name, IdentityFile, ErrNotData)
		}
	}
	log, err := d.system().List(filepath.Join(dir, LogDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range log {
		if strings.HasSuffix(name, wal.Suffix) && name > wal.FileName(2) { // a store has opened it
			return corrupt(filepath.Join(dir, IdentityFile), 0, "the file is missing but there is a log in %s",
				filepath.Join(dir, LogDir))
		}
	}
	return refuseFormer(d, dir)
}

func clearHalfMade(d *Disk, dir string) error {
	leftovers := []string{IdentityFile, IdentityFile + tmpSuffix, AdmissionFile, AdmissionFile + tmpSuffix,
		RestoringFile + tmpSuffix}
	for folder, ours := range map[string]func(name string) bool{
		LogDir:        func(name string) bool { return strings.HasSuffix(name, wal.Suffix) },
		CheckpointDir: checkpoint.IsFile,
	} {
		names, err := d.system().List(filepath.Join(dir, folder))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if ours(name) {
				leftovers = append(leftovers, filepath.Join(folder, name))
			}
		}
	}
	slices.Sort(leftovers)
	for _, name := range leftovers {
		if err := d.remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// logOptions are those of a member's log.
func logOptions(d *Disk, id Identity, c Meta, segmentBytes int64) wal.Options {
	return wal.Options{Cluster: id.Cluster, Member: id.Member, SegmentBytes: segmentBytes, Checkpoint: c.Index,
		CheckpointTerm: c.Term, Files: d.logFiles()}
}

// createLog makes the log of a new directory, which begins behind a checkpoint.
func createLog(d *Disk, dir string, id Identity, c Meta) error {
	o := logOptions(d, id, c, 0) // the next start makes a file in its size
	o.New = true
	log, err := wal.Open(dir, o)
	if err != nil {
		return corruptAt(err, 0)
	}
	return log.Close()
}

// ErrFormer is returned for a directory of a version before the first release.
var ErrFormer = errors.New("the file has the format of a version before the first release, which this program does " +
	"not read")

// refuseFormer returns an error if dir has a log or a checkpoint of former versions.
func refuseFormer(d *Disk, dir string) error {
	for _, former := range []string{filepath.Join(LogDir, "wal-meta.db"), "state.db"} {
		path := filepath.Join(dir, former)
		if there, err := d.exists(path); there || err != nil {
			return cmp.Or(err, fmt.Errorf("%s: %w", path, ErrFormer))
		}
	}
	return nil
}
