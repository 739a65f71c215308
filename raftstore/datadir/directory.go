package datadir

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/raft/v3"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// Names inside a data directory.
const (
	LockFile     = "LOCK"
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
	// taken for what it was; 0 for a server alone.
	Incarnation uint64
}

// Origin lists the content of a new data directory.
type Origin struct {
	ID     Identity
	First  Meta
	Learnt Learnt // the senders that it admits, as far as First does not have them
}

// identityText is identity.json. The checksum covers the other fields.
type identityText struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	Member  string `json:"member"`

	Incarnation string `json:"incarnation,omitempty"`

	Checksum string `json:"checksum"`
}

func (t identityText) sum() string {
	text := fmt.Appendf(nil, "%d %s %s", t.Format, t.Cluster, t.Member)
	if t.Incarnation != "" {
		text = fmt.Appendf(text, " %s", t.Incarnation)
	}
	return fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli))
}

// NewIdentity returns a random identity, without an incarnation.
func NewIdentity() Identity { return Identity{Cluster: RandomID(), Member: RandomID()} }

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
	t.Checksum = t.sum()
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic(err) // a struct of strings
	}
	return append(b, '\n')
}

// HasData reports whether a directory belongs to a member already.
func HasData(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, IdentityFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// readIdentity reads identity.json; os.ErrNotExist if there is none.
func readIdentity(dir string) (Identity, error) {
	path := filepath.Join(dir, IdentityFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return Identity{}, err
	}
	var t identityText
	if err := json.Unmarshal(b, &t); err != nil {
		return Identity{}, corrupt(path, 0, "%v", err)
	}
	if t.Checksum != t.sum() {
		return Identity{}, corrupt(path, 0, "checksum %s, stored %q", t.sum(), t.Checksum)
	}
	if t.Format > identityFormat {
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

// lockDirectory takes the directory for this process; the file returned holds the lock until it is closed.
func lockDirectory(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, false); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := probeLog(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// shareDirectory keeps a server from starting while Check reads. Without a lock file there is nothing to
// share.
func shareDirectory(dir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, LockFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := flock(f, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// prepare leaves a complete directory behind: it makes a new one, or finishes one whose making was
// cut short. A directory that has identity.json is not touched.
func (d *Disk) prepare(dir string, find func() (Origin, error)) error {
	if made, err := HasData(dir); made || err != nil {
		return err
	}
	if err := checkHalfMade(dir); err != nil {
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
func halfRestored(dir string) error {
	_, err := os.Lstat(filepath.Join(dir, RestoringFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return cmp.Or(err, fmt.Errorf("%s: %w", dir, ErrHalfRestored))
}

// checkHalfMade refuses a directory that holds more than a cut-short creation can leave behind: then
// identity.json was lost, or the directory belongs to somebody else.
func checkHalfMade(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case LockFile, IdentityFile, IdentityFile + tmpSuffix, CheckpointDir, AdmissionFile,
			AdmissionFile + tmpSuffix, RestoringFile, RestoringFile + tmpSuffix, LogDir, "lost+found":
		default:
			return fmt.Errorf("%s holds %s but no %s: %w and not empty", dir, e.Name(), IdentityFile,
				ErrNotData)
		}
	}
	log, err := filepath.Glob(filepath.Join(dir, LogDir, "*"+wal.Suffix))
	if err != nil {
		return err
	}
	if len(log) > 0 && filepath.Base(log[len(log)-1]) > wal.FileName(2) { // a store has opened it
		return corrupt(filepath.Join(dir, IdentityFile), 0, "the file is missing but there is a log in %s",
			filepath.Join(dir, LogDir))
	}
	return refuseFormer(dir)
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

// logOptions are those of a member's log. d is nil where nothing may be changed.
func logOptions(d *Disk, id Identity, c Meta, segmentBytes int64) wal.Options {
	o := wal.Options{Cluster: id.Cluster, Member: id.Member, SegmentBytes: segmentBytes, Checkpoint: c.Index,
		CheckpointTerm: c.Term}
	if d != nil {
		o.Files = d.logFiles()
	}
	return o
}

// createLog makes the log of a new directory, which begins behind a checkpoint.
func createLog(d *Disk, dir string, id Identity, c Meta) error {
	o := logOptions(d, id, c, 0) // the next start makes a file in its size
	o.New = true
	log, err := wal.Open(dir, o)
	if err != nil {
		return logError(err)
	}
	return log.Close()
}

// probeLog returns ErrLocked if a store has its log open in dir, though somebody has removed its lock file.
func probeLog(dir string) error {
	f, err := os.Open(filepath.Join(dir, LogDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(flock(f, false), f.Close())
}

// logError returns an error of the log as one of this package.
func logError(err error) error { return corruptAt(err, 0) }

// corruptAt is logError for an error that concerns an entry.
func corruptAt(err error, index uint64) error {
	var damage *wal.DamageError
	var format *wal.FormatError
	switch {
	case errors.As(err, &damage):
		return corrupt(damage.File, index, "byte %d: %s", damage.Offset, damage.Reason)
	case errors.As(err, &format):
		return &FormatError{File: format.File, Found: format.Format, Known: wal.Format}
	}
	return err
}

// ErrFormer is returned for a directory of a version before the first release.
var ErrFormer = errors.New("the file has the format of a version before the first release, which this program does " +
	"not read: take a backup with the version that wrote it, and restore that")

// refuseFormer returns an error if dir has a log or a checkpoint of former versions.
func refuseFormer(dir string) error {
	for _, former := range []string{filepath.Join(LogDir, "wal-meta.db"), "state.db"} {
		path := filepath.Join(dir, former)
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return cmp.Or(err, fmt.Errorf("%s: %w", path, ErrFormer))
		}
	}
	return nil
}
