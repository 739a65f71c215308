package datadir

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coordd/coordd/raftstore/membership"
)

// Survivor is a member that ForceSingle makes, or would make, the only one of its cluster.
type Survivor struct {
	Cluster, Member     uint64
	Name                string             // empty if it is not known
	LastIndex, LastTerm uint64             // its newest entry; what is newer elsewhere is lost
	Others              membership.Members // the other present members
	Removed             membership.Members // removed earlier; without a name where the directory has forgotten it
}

// PlanForceSingle returns the effect that ForceSingle would have on a directory, and changes nothing. Errors:
// ErrLocked, *CorruptionError, *FormatError, *CondemnedError, and those of the operating system.
func PlanForceSingle(dir string) (Survivor, error) { return offline().PlanForceSingle(dir) }

// PlanForceSingle is PlanForceSingle on this disk.
func (d *Disk) PlanForceSingle(dir string) (Survivor, error) {
	lock, err := d.system().Lock(dir, true)
	if err != nil {
		return Survivor{}, err
	}
	defer lock.Close()
	s, img, err := planForce(d, dir)
	img.Close()
	return s, err
}

// ForceSingle makes the member in dir the only one of its cluster, for when so many others are lost for good
// that no majority is left. It is for a stopped server. Entries that were not committed anywhere else become
// committed; entries that only others had are lost, so the directory gets a new Lineage. The other members
// are removed: they are refused if they come back, and must not be running, for they would go on as a second
// cluster with the same sessions. Of several that are left, take the one whose Check reports the highest last
// term, and among those the highest last entry. Errors: those of PlanForceSingle.
func ForceSingle(dir string) error { return offline().ForceSingle(dir) }

// ForceSingle is ForceSingle on this disk.
func (d *Disk) ForceSingle(dir string) error {
	lock, err := d.system().Lock(dir, false)
	if err != nil {
		return err
	}
	defer lock.Close()
	_, img, err := planForce(d, dir)
	if err != nil {
		img.Close()
		return err
	}
	rows, err := img.openRows(dir)
	if err != nil {
		return err
	}
	return rows.Close()
}

// planForce reads the directory and returns its checkpoint, with a record that makes its member the only one.
func planForce(d *Disk, dir string) (s Survivor, img *Image, err error) {
	if err := cmp.Or(condemned(d, dir), halfRestored(d, dir)); err != nil {
		return s, &Image{}, err
	}
	x := &examiner{dir: dir, disk: d}
	if img, err = &x.img, x.run(); err != nil {
		return s, img, err
	}
	self, meta := img.Identity.Member, &img.Meta
	present, removed := img.roster()
	found, isMember := present.Find(self)
	if !isMember {
		return s, img, fmt.Errorf("%s: this member is not part of the cluster any more", dir)
	}
	s = Survivor{Cluster: img.Identity.Cluster, Member: self, Name: found.Name, Removed: removed}
	s.LastIndex, s.LastTerm = img.newest()
	s.Others = slices.DeleteFunc(present, func(m membership.Member) bool { return m.ID == self })
	meta.Forced, meta.Lineage = s.LastIndex, RandomID()
	meta.Conf = membership.Conf{Index: s.LastIndex, Voters: []uint64{self}}
	if m := img.record(self); m != nil {
		meta.Conf.Members = []membership.Record{*m}
		meta.Conf.Members[0].Included = false
	}
	for _, m := range slices.Concat(s.Others, removed) {
		meta.Conf.Removed = append(meta.Conf.Removed, m.ID)
	}
	return s, img, nil
}
