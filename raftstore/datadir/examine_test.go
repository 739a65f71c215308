package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/wal"
)

// A log that was emptied for a checkpoint of an earlier entry has nothing that is newer than the checkpoint.
func TestNewestOfAnEmptiedLog(t *testing.T) {
	img := Image{First: 92, Last: 91}
	img.Meta = Meta{Index: 3, Term: 2, Restored: 3}
	if index, term := img.newest(); index != 3 || term != 2 {
		t.Errorf("the newest entry is %d of term %d", index, term)
	}
}

// TestCheckLogRules goes through what the log and the checkpoint must agree on.
func TestCheckLogRules(t *testing.T) {
	base := func() *examiner {
		x := &examiner{dir: "dir"}
		x.img.First, x.img.Last = 5, 20
		x.img.Runs = []wal.Run{{Index: 5, Term: 2}, {Index: 15, Term: 3}}
		x.img.Meta = Meta{Index: 10, Term: 2}
		x.img.Hard = wal.HardState{Term: 3, Commit: 12}
		return x
	}
	if err := base().checkLog("wal"); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(x *examiner){
		"hole behind the checkpoint":     func(x *examiner) { x.img.First = 12 },
		"log ends before the checkpoint": func(x *examiner) { x.img.Last = 9 },
		"log ends before the commit":     func(x *examiner) { x.img.Last = 11 },
		"other term at the checkpoint":   func(x *examiner) { x.img.Meta.Term = 1 },
	} {
		x := base()
		spoil(x)
		if x.checkLog("wal") == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// A file that does not say why condemns as well, and one of any length is read in part.
func TestCondemnedForAnyReason(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]int{"": 1, "\n": 1,
		strings.Repeat("x", 2*condemnedReasonMax): condemnedReasonMax} {
		if err := os.WriteFile(filepath.Join(dir, CondemnedFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var condemnation *CondemnedError
		if err := condemned(offline(), dir); !errors.As(err, &condemnation) || len(condemnation.Reason) < want ||
			len(condemnation.Reason) > condemnedReasonMax {
			t.Errorf("%d bytes: %v", len(content), err)
		}
	}
}

func TestNewerFormatsAreRefused(t *testing.T) {
	dir := t.TempDir()
	text := identityText{Format: identityFormat + 1, Cluster: "01", Member: "02"}
	if err := os.WriteFile(filepath.Join(dir, IdentityFile), files.Seal(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir, Disk: new(Disk)})
	var format *FormatError
	if !errors.As(err, &format) || format.Found != identityFormat+1 ||
		!strings.Contains(err.Error(), "later") {
		t.Errorf("identity: %v", err)
	}
	if _, err := DecodeMeta("f",
		Meta{Format: MetaFormat + 1}.Encode()); !errors.As(err, &format) {
		t.Errorf("checkpoint: %v", err)
	}
}
