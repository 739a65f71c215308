package datadir

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/membership"
)

// AdmissionFile keeps what a member has learnt from others than its log, for a restart before the log has come so far.
const (
	AdmissionFile   = "admission.json"
	admissionFormat = 1
)

// Learnt is the content of AdmissionFile.
type Learnt struct {
	Format  int             `json:"format"`
	Cluster uint64          `json:"cluster"`
	Member  uint64          `json:"member"`
	Lineage uint64          `json:"lineage,omitempty"` // of the cluster where it was learnt
	Conf    membership.Conf `json:"conf"`
	// Incarnations has those of members that have spoken here before the log had theirs, by member.
	Incarnations map[uint64]uint64 `json:"incarnations,omitempty"`
	// Heard has those of members that have opened a stream, which may have said nothing yet.
	Heard map[uint64]uint64 `json:"heard,omitempty"`
}

func saveLearnt(d *Disk, dir string, id Identity, t Learnt) error {
	t.Format, t.Cluster, t.Member = admissionFormat, id.Cluster, id.Member
	return d.writeFile(filepath.Join(dir, AdmissionFile), files.Seal(t))
}

// readLearnt reads what was learnt; the zero record if there is nothing.
func readLearnt(d *Disk, dir string, id Identity) (Learnt, error) {
	path := filepath.Join(dir, AdmissionFile)
	var t Learnt
	stored, err := d.read(path)
	if errors.Is(err, os.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	switch err := files.Unseal(stored, &t); {
	case err != nil:
		return t, corrupt(path, 0, "%v", err)
	case t.Format > admissionFormat:
		return t, &FormatError{File: path, Found: t.Format, Known: admissionFormat}
	case t.Cluster != id.Cluster || t.Member != id.Member:
		return t, corrupt(path, 0, "the file belongs to member %s of cluster %s, not to this directory",
			membership.IDText(t.Member), membership.IDText(t.Cluster))
	}
	return t, nil
}
