package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coordd/coordd/raftstore/membership"
)

// Report is the result of Check.
type Report struct {
	Cluster, Member uint64
	CheckpointIndex uint64
	Rows            uint64 // in the checkpoint
	FirstIndex      uint64 // entries in the log; LastIndex < FirstIndex if it is empty
	LastIndex       uint64 // the newest entry, in the log or in the checkpoint
	// LastTerm is the term of the newest entry, 0 before the first. Of two members' logs the one with the
	// higher last term has everything that was committed, whatever its last entry; with equal terms the
	// longer one has.
	LastTerm uint64
	Members  membership.Members // present ones, as a server that is started on the directory knows them
	Removed  membership.Members // removed ones; without a name where the directory has forgotten it
	// Condemned is why the directory must not be used any more, however sound its files are; empty if it may.
	Condemned string
	Files     []FileReport // in the order they were read, up to the first problem
}

// Check examines a data directory offline and changes nothing. The error is the first problem: a
// *CorruptionError naming file and entry, a *FormatError, ErrLocked while a server runs on the directory,
// ErrHalfRestored, an error of the operating system, or ErrNotData if nothing of ours is there. The report is
// filled as far as the examination got.
func Check(dir string) (Report, error) { return offline().Check(dir) }

// Check is Check on this disk.
func (d *Disk) Check(dir string) (Report, error) {
	lock, err := d.system().Lock(dir, true)
	if err != nil {
		return Report{}, err
	}
	defer lock.Close()
	if err := halfRestored(d, dir); err != nil {
		return Report{}, err
	}
	if made, err := d.HasData(dir); err != nil {
		return Report{}, err
	} else if !made {
		return Report{}, cmp.Or(checkHalfMade(d, dir), fmt.Errorf("%s is empty: %w", dir, ErrNotData))
	}
	var reason string
	var condemnation *CondemnedError
	if err := condemned(d, dir); errors.As(err, &condemnation) {
		reason = condemnation.Reason
	} else if err != nil {
		return Report{}, err
	}
	img, err := d.Examine(dir, nil)
	img.Close()
	report := Report{
		Cluster:         img.Identity.Cluster,
		Member:          img.Identity.Member,
		CheckpointIndex: img.Meta.Index,
		Rows:            img.CheckpointRows(),
		FirstIndex:      img.First,
		Condemned:       reason,
		Files:           img.Files,
	}
	report.LastIndex, report.LastTerm = img.newest()
	if img.Unfit || img.Last < img.First {
		report.FirstIndex = report.LastIndex + 1
	}
	if err == nil {
		report.Members, report.Removed = img.roster()
	}
	return report, err
}

// String lists the report for a person.
func (r Report) String() string {
	s := fmt.Sprintf(
		"member %s of cluster %s\ncheckpoint as of entry %d, %d rows\nlog entries %d to %d, last term %d\n",
		membership.IDText(r.Member), membership.IDText(r.Cluster), r.CheckpointIndex, r.Rows, r.FirstIndex,
		r.LastIndex, r.LastTerm)
	for _, m := range r.Members {
		s += "member " + line(m)
	}
	for _, m := range r.Removed {
		s += "removed " + line(m)
	}
	if r.Condemned != "" {
		s += "CONDEMNED, it must not be used any more: " + r.Condemned + "\n"
	}
	for _, f := range r.Files {
		s += fmt.Sprintf("%-60s %12d bytes", filepath.ToSlash(f.Name), f.Bytes)
		if f.LastIndex > 0 {
			s += fmt.Sprintf("  entries %d to %d", f.FirstIndex, f.LastIndex)
		}
		if f.TornBytes > 0 {
			s += fmt.Sprintf("  %d bytes of an unfinished write at the end", f.TornBytes)
		}
		s += "\n"
	}
	return s
}
