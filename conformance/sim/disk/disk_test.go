package disk

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/conformance/sim/rt"
)

// files drives a disk as the patched standard library does.
type files struct {
	*testing.T
	disk *Disk
	dirs string
	n    int
}

func newFiles(t *testing.T) *files {
	t.Helper()
	f := &files{T: t, dirs: t.TempDir()}
	f.disk = New(f.next(), rand.New(rand.NewPCG(1, 2)))
	if err := os.MkdirAll(f.disk.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *files) next() string {
	f.n++
	return filepath.Join(f.dirs, strings.Repeat("d", f.n))
}

func (f *files) do(op rt.Op, name, to string, offset int64, data string) error {
	f.Helper()
	if _, err := f.disk.Hook(op, name, to, offset, []byte(data)); err != nil {
		return err
	}
	path := filepath.Join(f.disk.Dir(), name)
	switch op {
	case rt.Rename:
		return os.Rename(path, filepath.Join(f.disk.Dir(), to))
	case rt.Remove:
		return os.Remove(path)
	case rt.Create, rt.Write:
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = file.WriteAt([]byte(data), offset)
		return err
	}
	return nil
}

func (f *files) must(op rt.Op, name, to string, offset int64, data string) {
	f.Helper()
	if err := f.do(op, name, to, offset, data); err != nil {
		f.Fatal(err)
	}
}

// sync makes a file, or a directory, durable.
func (f *files) sync(name string) {
	f.Helper()
	f.must(rt.Sync, name, "", 0, "")
	f.must(rt.Synced, name, "", 0, "")
}

// crash loses power, and returns what is left: name=content of all files.
func (f *files) crash(loss Loss) string {
	f.Helper()
	if _, err := f.disk.Crash(f.next(), loss); err != nil {
		f.Fatal(err)
	}
	return f.all()
}

func (f *files) all() string {
	f.Helper()
	entries, err := os.ReadDir(f.disk.Dir())
	if err != nil {
		f.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(f.disk.Dir(), e.Name()))
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, e.Name()+"="+string(content))
	}
	return strings.Join(all, " ")
}

func TestPowerLossLeavesWhatWasSynced(t *testing.T) {
	f := newFiles(t)
	f.must(rt.Create, "a", "", 0, "")
	f.must(rt.Write, "a", "", 0, "one")
	f.sync("a")
	f.must(rt.Create, "nameless", "", 0, "")
	f.sync(".")
	f.must(rt.Write, "a", "", 3, "two")
	f.must(rt.Create, "b", "", 0, "")
	f.must(rt.Write, "b", "", 0, "new")
	f.sync("b") // but not its directory
	if got := f.crash(Loss{}); got != "a=one nameless=" {
		t.Errorf("left: %s", got)
	}
}

func TestProcessEndLosesNothingAndSyncsNothing(t *testing.T) {
	f := newFiles(t)
	f.must(rt.Create, "a", "", 0, "")
	f.sync(".")
	f.must(rt.Write, "a", "", 0, "one")
	if err := f.disk.Restart(f.next()); err != nil {
		t.Fatal(err)
	}
	if got := f.all(); got != "a=one" {
		t.Errorf("after the end of the process: %s", got)
	}
	if got := f.crash(Loss{}); got != "a=" {
		t.Errorf("after the loss of power: %s", got)
	}
}

func TestRenameIsDurableWithItsDirectory(t *testing.T) {
	f := newFiles(t)
	f.must(rt.Create, "a", "", 0, "")
	f.must(rt.Write, "a", "", 0, "old")
	f.sync("a")
	f.sync(".")
	f.must(rt.Create, "t", "", 0, "")
	f.must(rt.Write, "t", "", 0, "new")
	f.sync("t")
	f.must(rt.Rename, "t", "a", 0, "")
	if got := f.crash(Loss{}); got != "a=old" {
		t.Errorf("without a sync of the directory: %s", got)
	}
	f.must(rt.Create, "t", "", 0, "")
	f.must(rt.Write, "t", "", 0, "new")
	f.sync("t")
	f.must(rt.Rename, "t", "a", 0, "")
	f.sync(".")
	if got := f.crash(Loss{}); got != "a=new" {
		t.Errorf("with it: %s", got)
	}
}

func TestTornWritesAreTornAtSectors(t *testing.T) {
	const sectors = 64
	f := newFiles(t)
	f.must(rt.Create, "a", "", 0, "")
	f.must(rt.Write, "a", "", 0, strings.Repeat("o", sectors*sectorBytes))
	f.sync("a")
	f.sync(".")
	f.must(rt.Write, "a", "", 0, strings.Repeat("n", sectors*sectorBytes))
	left := strings.TrimPrefix(f.crash(Loss{Share: 0.5, Torn: true}), "a=")
	news := 0
	for i := range sectors {
		switch left[i*sectorBytes : (i+1)*sectorBytes] {
		case strings.Repeat("n", sectorBytes):
			news++
		case strings.Repeat("o", sectorBytes):
		default:
			t.Fatalf("sector %d is mixed", i)
		}
	}
	if news == 0 || news == sectors {
		t.Errorf("%d of %d sectors are new", news, sectors)
	}
}

func TestFullDiskTakesNothingThatNeedsRoom(t *testing.T) {
	f := newFiles(t)
	f.must(rt.Create, "a", "", 0, "")
	f.must(rt.Write, "a", "", 0, "one")
	f.disk.Set(func(faults *Faults) { faults.Full = true })
	f.must(rt.Write, "a", "", 0, "two")
	if f.disk.Failed() {
		t.Error("a write within the file failed")
	}
	if f.do(rt.Write, "a", "", 3, "more") == nil || f.do(rt.Create, "b", "", 0, "") == nil || !f.disk.Failed() {
		t.Error("a full disk took more")
	}
}

func TestTriggerCountsOperations(t *testing.T) {
	f := newFiles(t)
	f.must(rt.Create, "a", "", 0, "")
	f.disk.Trigger(2, rt.Write, func(rt.Op) (int, error) { return 0, os.ErrInvalid })
	f.sync("a")
	f.must(rt.Write, "a", "", 0, "x")
	if f.do(rt.Write, "a", "", 1, "y") == nil {
		t.Error("the second write succeeded")
	}
	f.must(rt.Write, "a", "", 1, "y")
}
