package checkpoint

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
)

var images = flag.Int("images", 3000, "make at least so many crash images")

const dir = "data"

// state is the content of a checkpoint.
type state struct {
	record string
	rows   map[string]string
}

func (s state) clone() state { return state{s.record, maps.Clone(s.rows)} }

// differs returns an error if a checkpoint that was found is another one.
func (s state) differs(i *Image, found map[string]string) error {
	if string(i.Record) != s.record {
		return fmt.Errorf("the record is %s, not %s", i.Record, s.record)
	}
	if i.Rows != uint64(len(found)) {
		return fmt.Errorf("%d rows, %d were read", i.Rows, len(found))
	}
	return s.differsRows(found)
}

func (s state) differsRows(found map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		if value, ok := found[key]; !ok || value != s.rows[key] {
			return fmt.Errorf("row %q is %q (%v), not %q", key, value, ok, s.rows[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if _, ok := s.rows[key]; !ok {
			return fmt.Errorf("row %q is there", key)
		}
	}
	return nil
}

// world lets a store live through crashes: it writes checkpoints at random, makes images of what a power cut may leave
// in front of every step, and goes on with one of them. Every image has to have the last checkpoint, or the one that
// was becoming durable.
type world struct {
	t        testing.TB
	seed     uint64
	r        *rand.Rand
	fs       *rig.Memory
	durable  state
	underway state // what the call under way makes durable; durable without one
	images   int
	marks    rig.Marks
	count    int // of records and values

	s     *Store
	draft state // of the next checkpoint
	drops []string
	pins  []pin
	// a checkpoint from elsewhere is being received
	installing bool
}

// pin is a reader with what it has to find.
type pin struct {
	*Pinned
	want state
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 7)), fs: rig.New(dir), marks: rig.Marks{}}
	w.durable = state{w.nextRecord(), map[string]string{}}
	w.underway = w.durable
	s := New(w.options(w.fs))
	if err := s.Replace(nil, []byte(w.durable.record)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	return w
}

func (w *world) options(fs *rig.Memory) Options {
	merge := 600
	if w.manyRuns() {
		merge = 1 << 20
	}
	return Options{FS: fs, Dir: dir, RunBytes: 1500, StepBytes: 400, MergeBytes: merge}
}

// manyRuns reports whether files are merged only because there are many.
func (w *world) manyRuns() bool { return w.seed%2 == 1 }

func (w *world) fatal(fs *rig.Memory, format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\nfiles: %v", w.seed, fmt.Sprintf(format, args...), fs.Paths())
}

func (w *world) nextRecord() string {
	w.count++
	return fmt.Sprintf(`{"n":%d}`, w.count)
}

// watch makes images of a file system in front of its steps.
func (w *world) watch(fs *rig.Memory, depth, each int) {
	fs.Before = func(step, path string) error {
		if rig.Changes(step) && w.r.IntN(each) == 0 {
			w.check(fs.Crash(w.r), depth)
		}
		return nil
	}
}

// check reads an image: it has one of the two states. Then it opens it, with images of that as well, and reads it once
// more after a second crash.
func (w *world) check(image *rig.Memory, depth int) state {
	w.t.Helper()
	w.images++
	state, i := w.inspect(image)
	w.note(image, i)
	if depth == 0 {
		i.Close()
		return state
	}
	durable, underway := w.durable, w.underway
	w.durable, w.underway = state, state
	w.watch(image, depth-1, 3)
	s, err := i.Open(i.Record)
	if err != nil {
		w.fatal(image, "open: %v", err)
	}
	_ = s.Close()
	image.Before = nil
	again, i := w.inspect(image.Crash(w.r))
	i.Close()
	w.durable, w.underway = durable, underway
	if again.record != state.record {
		w.fatal(image, "a start had %s, the one after it has %s", state.record, again.record)
	}
	return state
}

// inspect reads an image and returns which of the states it has.
func (w *world) inspect(image *rig.Memory) (state, *Image) {
	w.t.Helper()
	found := map[string]string{}
	var last []byte
	i, err := Inspect(w.options(image), func(key, value []byte) error {
		if bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("%q comes behind %q", key, last)
		}
		last = bytes.Clone(key)
		found[string(key)] = string(value)
		return nil
	})
	if err != nil {
		w.fatal(image, "%v", err)
	}
	err = w.durable.differs(i, found)
	if err == nil {
		return w.durable, i
	}
	if also := w.underway.differs(i, found); also != nil {
		w.fatal(image, "%v; with the call under way: %v", err, also)
	}
	return w.underway, i
}

// note counts what was found in an image.
func (w *world) note(image *rig.Memory, i *Image) {
	unnamed, _ := i.m.unnamed(i.o)
	for mark, reached := range map[string]bool{
		"several files":        len(i.Files) > 2,
		"many files":           len(i.Files) > runsMax,
		"one file":             len(i.Files) == 1,
		"unnamed files":        len(unnamed) > 1,
		"half a manifest":      slices.Contains(unnamed, "manifest.tmp"),
		"the one under way":    string(i.Record) == w.underway.record && w.underway.record != w.durable.record,
		"not the one underway": string(i.Record) == w.durable.record && w.underway.record != w.durable.record,
		"a base under way":     w.s != nil && w.s.merged != nil && w.s.merged.first == 0,
		"merged runs":          w.s != nil && w.s.merged != nil && w.s.merged.first > 0,
		"a torn file":          slices.ContainsFunc(unnamed, func(name string) bool { return w.torn(image, name) }),
	} {
		if reached {
			w.marks[mark]++
		}
	}
}

func (w *world) torn(image *rig.Memory, name string) bool {
	f := &file{open: nil, path: filepath.Join(dir, name)}
	var err error
	if f.open, err = image.Open(f.path); err != nil {
		return false
	}
	s, _, err := openSource(f)
	for err == nil && !s.over {
		err = s.advance()
	}
	size, _ := f.open.Size()
	return size > headBytes && err != nil && !strings.Contains(err.Error(), "sound")
}

// live opens the store and writes to it, then ends: by a power cut, a kill, or a step that fails.
func (w *world) live(steps int) {
	w.watch(w.fs, 1, 12)
	state, i := w.inspect(w.fs)
	s, err := i.Open(i.Record)
	for ; errors.Is(err, syscall.ENOSPC) && w.fs.Capacity > 0; s, err = i.Open(i.Record) {
		w.marks["a start without room"]++
		w.fs.Capacity += 2000
		_, i = w.inspect(w.fs)
	}
	if err != nil {
		w.fatal(w.fs, "%v", err)
	}
	w.fs.Capacity = 0
	w.durable, w.underway = state, state
	w.s, w.draft, w.drops, w.pins, w.installing = s, state.clone(), nil, nil, false
	failing, full, filling := false, false, false
	switch w.r.IntN(6) {
	case 0, 1:
		failing = true
		w.failSometime(w.r.IntN(2 * steps))
	case 2:
		full = true
		w.fs.Capacity = w.fs.Used() + int64(w.r.IntN(4000))
	case 3:
		full, filling = true, true
	}
	for range steps {
		if filling && w.s.merged != nil { // the disk becomes full in between
			filling, w.fs.Capacity = false, w.fs.Used()+int64(w.r.IntN(300))
		}
		err := w.act()
		if full && errors.Is(err, syscall.ENOSPC) {
			w.noteFull()
			break
		}
		if err != nil && !failing {
			w.fatal(w.fs, "%v", err)
		}
		if err != nil {
			break
		}
	}
	if w.fs.Before = nil; w.r.IntN(2) == 0 {
		_ = w.s.Close() // which makes nothing durable
	}
	switch end := w.r.IntN(3); {
	case failing:
		w.marks["a failed step"]++
		if w.fs.Lost() {
			w.marks["a failed sync"]++
		}
	case end == 0:
		w.marks["a kill"]++
	default:
		w.marks["a power cut"]++
		w.fs = w.fs.Crash(w.r)
	}
	w.s = nil
}

// noteFull notes what did not come to its end for want of space.
func (w *world) noteFull() {
	w.marks["a full disk"]++
	merge := ""
	switch m := w.s.merged; {
	case m == nil:
		return
	case m.first > 0:
		merge = "merged runs"
	default:
		merge = "a base"
	}
	if w.installing {
		merge += " beside an install"
	}
	w.marks[merge+" on a full disk"]++
}

// failSometime makes a step fail, and each one after it.
func (w *world) failSometime(in int) {
	before := w.fs.Before
	var failed error
	w.fs.Before = func(step, path string) error {
		if failed != nil {
			return failed
		}
		if in--; in < 0 && rig.Changes(step) {
			failed = rig.Faults[w.r.IntN(len(rig.Faults))]
			return failed
		}
		return before(step, path)
	}
}

// act does one thing.
func (w *world) act() error {
	switch what := w.r.IntN(20); {
	case w.fs.Capacity > 0 && w.s.merged != nil && what < 10:
		return w.replace()
	case what < 7:
		w.put()
	case what < 9:
		w.drop()
	case what < 11:
		return w.finish()
	case what < 12:
		if w.manyRuns() && w.r.IntN(8) > 0 {
			return w.finish()
		}
		return w.replace()
	case what < 15:
		more, err := w.s.Tidy(true)
		if !more && err == nil {
			w.marks["tidy"]++
		}
		return err
	case what < 16:
		return w.pin()
	case what < 18:
		return w.read()
	}
	return w.stepSome(w.r.IntN(6))
}

func (w *world) key() string { return fmt.Sprintf("%d/%d/%d", w.r.IntN(3), w.r.IntN(8), w.r.IntN(6)) }

func (w *world) put() {
	var rows []Row
	for range 1 + w.r.IntN([]int{8, 8, 8, 100}[w.r.IntN(4)]) {
		w.count++
		key, value := w.key(), fmt.Sprintf("%d %s", w.count, strings.Repeat("x", w.r.IntN(60)))
		if w.r.IntN(100) == 0 {
			value = strings.Repeat("y", 3000)
		}
		row := Row{Key: []byte(key), Value: []byte(value), Delete: w.r.IntN(3) == 0}
		if row.Delete {
			row.Value = nil
		}
		rows = append(rows, row)
		dropped := slices.ContainsFunc(w.drops, func(p string) bool { return strings.HasPrefix(key, p) })
		if row.Delete {
			delete(w.draft.rows, key)
		} else if !dropped {
			w.draft.rows[key] = value
		}
	}
	w.s.Put(rows)
}

func (w *world) drop() {
	key := w.key()
	prefix := key[:strings.LastIndex(key, "/")+1]
	w.drops = append(w.drops, prefix)
	maps.DeleteFunc(w.draft.rows, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	w.s.Drop([]byte(prefix))
}

func (w *world) stepSome(n int) error {
	for ; n > 0 && w.s.Busy(); n-- {
		if durable, err := w.s.Step(); err != nil || durable {
			return err
		}
	}
	return nil
}

// finish writes the checkpoint to its end.
func (w *world) finish() error {
	w.draft.record = w.nextRecord()
	w.s.Finish([]byte(w.draft.record))
	w.underway = w.draft.clone()
	for {
		if w.r.IntN(5) == 0 {
			if _, err := w.s.Tidy(true); err != nil {
				return err
			}
		}
		durable, err := w.s.Step()
		if err != nil {
			return err
		}
		if durable {
			w.settle()
			return nil
		}
	}
}

// settle makes the state under way the durable one.
func (w *world) settle() {
	w.durable, w.drops = w.underway, nil
	w.draft = w.durable.clone()
}

// replace puts rows from elsewhere in the place of all, or gives them up.
func (w *world) replace() error {
	if w.r.IntN(6) == 0 { // a checkpoint without rows
		w.underway = state{w.nextRecord(), map[string]string{}}
		return w.replaceBy(nil)
	}
	w.installing = true
	f, err := w.s.NewFile()
	if err != nil {
		return err
	}
	next := state{w.nextRecord(), map[string]string{}}
	for range w.r.IntN(30) {
		w.count++
		next.rows[w.key()] = fmt.Sprint(w.count)
	}
	for _, key := range slices.Sorted(maps.Keys(next.rows)) {
		if err := f.Row([]byte(key), Stored([]byte(key), []byte(next.rows[key]))); err != nil {
			return err
		}
		if w.r.IntN(10) == 0 {
			if err := w.stepSome(1); err != nil {
				return err
			}
		}
	}
	if w.r.IntN(4) == 0 {
		w.s.Discard(f)
		w.installing = false
		return nil
	}
	if err := f.Complete(); err != nil {
		return err
	}
	w.underway = next
	return w.replaceBy(f)
}

func (w *world) replaceBy(f *FileWriter) error {
	if w.s.merged != nil {
		w.marks["a merge given up"]++
	}
	err := w.s.Replace(f, []byte(w.underway.record))
	if err == nil {
		w.installing = false
		w.settle()
	}
	return err
}

func (w *world) pin() error {
	p := w.s.Pin()
	if string(p.Record) != w.durable.record {
		w.fatal(w.fs, "pinned %s, not %s", p.Record, w.durable.record)
	}
	w.pins = append(w.pins, pin{p, w.durable.clone()})
	return nil
}

// read reads a checkpoint that was pinned before.
func (w *world) read() error {
	if len(w.pins) == 0 {
		return nil
	}
	p := w.pins[0]
	w.pins = w.pins[1:]
	defer p.Release()
	found := map[string]string{}
	for {
		key, stored, err := p.Next()
		if err != nil {
			return err
		}
		if key == nil {
			break
		}
		found[string(key)] = string(Value(stored))
	}
	if err := p.want.differsRows(found); err != nil {
		w.fatal(w.fs, "a pinned checkpoint: %v", err)
	}
	if string(p.Record) != w.durable.record {
		w.marks["an older pinned checkpoint"]++
	}
	return nil
}

// TestCrashes makes images of what a crash may leave, until there are enough. It has to come by everything.
func TestCrashes(t *testing.T) {
	marks := rig.Marks{}
	sum := 0
	for seed := uint64(1); sum < *images; seed++ {
		w := newWorld(t, seed)
		for range 6 {
			w.live(40)
		}
		sum += w.images
		marks.Add(w.marks)
	}
	t.Logf("%d images", sum)
	marks.Report(t, "several files", "many files", "one file", "unnamed files", "half a manifest",
		"the one under way", "not the one underway", "a base under way", "merged runs", "a torn file",
		"a failed step", "a kill", "a power cut", "a merge given up", "an older pinned checkpoint", "tidy",
		"a failed sync", "a start without room", "a base on a full disk", "merged runs on a full disk",
		"a base beside an install on a full disk", "merged runs beside an install on a full disk")
}

// TestFilesThatAreMissingOrBack removes a file that counts, which has to be found, and puts one back that does not,
// which changes nothing.
func TestFilesThatAreMissingOrBack(t *testing.T) {
	missing, back := 0, 0
	for seed := uint64(1); seed <= 40; seed++ {
		w := newWorld(t, seed)
		w.live(60)
		w.fs = w.fs.Clone()
		_, i := w.inspect(w.fs)
		i.Close()
		for _, path := range w.fs.Paths() {
			image := w.fs.Clone()
			image.Lose(path)
			_, err := Inspect(w.options(image), nil)
			named := slices.ContainsFunc(i.Files, func(f FileInfo) bool { return filepath.Join(dir, f.Name()) == path })
			switch {
			case named:
				missing++
				if !errors.As(err, new(*files.DamageError)) {
					t.Fatalf("seed %d: without %s: %v", seed, path, err)
				}
			case filepath.Base(path) == ManifestName:
				if !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("seed %d: without a manifest: %v", seed, err)
				}
			case err != nil:
				t.Fatalf("seed %d: without %s, which nobody names: %v", seed, path, err)
			}
		}
		for _, path := range w.fs.Removed() {
			if slices.Contains(w.fs.Paths(), path) {
				continue
			}
			back++
			image := w.fs.Clone()
			image.Return(path)
			w.check(image, 1)
			if slices.Contains(image.Paths(), path) {
				t.Fatalf("seed %d: %s is back and stays", seed, path)
			}
		}
	}
	if missing < 40 || back < 40 {
		t.Errorf("%d files were missing, %d were back", missing, back)
	}
}
