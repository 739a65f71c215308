package wal

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
)

var images = flag.Int("images", 4000, "make at least so many crash images")

var failures = flag.Int("failures", 1, "logs in which every step fails once")

// lives lets a log live through crashes: it writes at random, makes images of what a power cut may leave in front of
// every step, and goes on with one of them. Every image has to open, and to hold what was acknowledged, with or
// without the write under way.
type lives struct {
	t          testing.TB
	seed       uint64
	r          *rand.Rand
	fs         *rig.Memory
	o          Options
	acked      model
	underway   model // what the call under way leaves; acked without one
	images     int
	marks      rig.Marks
	everyImage int // one of so many steps has an image
}

func newLives(t testing.TB, seed uint64) *lives {
	g := &lives{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 2)), marks: rig.Marks{}, everyImage: 3}
	g.fs = rig.New(dir)
	g.o = small.in(nil)
	g.o.New = true
	return g
}

func (g *lives) fatal(m *rig.Memory, format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("seed %d: %s\n%v", g.seed, fmt.Sprintf(format, args...), dump(m))
}

// watch makes images of a file system in front of every step.
func (g *lives) watch(m *rig.Memory, depth int) {
	m.Before = func(step, path string) error {
		if step == "sync" && g.everyImage < 10 || rig.Changes(step) && g.r.IntN(g.everyImage) == 0 {
			g.image(m, depth)
		}
		return nil
	}
}

// image checks one image of a file system, and returns it.
func (g *lives) image(m *rig.Memory, depth int) *rig.Memory {
	image := m.Crash(g.r)
	g.images++
	g.check(image, depth)
	return image
}

// check opens the log in an image, and cuts the power again: what was there must be there, and nothing else.
func (g *lives) check(image *rig.Memory, depth int) model {
	if g.r.IntN(2) == 0 {
		g.note(image)
	}
	before := image
	if depth > 0 && g.r.IntN(6) == 0 {
		before = image.Clone()
		g.watch(image, depth-1)
		defer func() { image.Before = nil }()
	}
	l, err := Open(dir, g.o.in(image))
	image.Before = nil
	if err != nil {
		g.fatal(before, "%v", err)
	}
	found := g.acked
	if err = found.differs(l, g.o.Checkpoint); err != nil {
		found = g.underway
		if also := found.differs(l, g.o.Checkpoint); also != nil {
			g.fatal(before, "%v; with the call under way: %v", err, also)
		}
	}
	if depth == 0 {
		return found
	}
	again := image.Crash(g.r)
	g.images++
	if l, err = Open(dir, g.o.in(again)); err == nil {
		err = found.differs(l, g.o.Checkpoint)
	}
	if err != nil && !(g.o.New && errors.As(err, new(*files.DamageError))) {
		g.fatal(again, "after a second crash: %v", err)
	}
	return found
}

// note counts what the start on an image will find.
func (g *lives) note(image *rig.Memory) {
	s := newScan(dir, g.o.in(image.Clone()))
	if s.run() != nil || len(s.chain) == 0 {
		return
	}
	head := s.chain[len(s.chain)-1]
	torn := func(f *segment) bool { return f.torn > 0 }
	noHeader := func(f *segment) bool { return f.Magic == [8]byte{} }
	older := func(f *segment) bool { return f.Sequence < head.Sequence }
	for mark, reached := range map[string]bool{
		"a torn write":               head.torn > 0,
		"a torn write in a new file": slices.ContainsFunc(s.garbage, torn),
		"a name in doubt":            s.change.next != nil,
		"entries in doubt":           s.change.first != 0,
		"a hard state in doubt":      s.change.first == 0 && s.change.hard != nil,
		"a replaced end in doubt":    s.change.first != 0 && s.change.first <= s.last,
		"a file without header":      slices.ContainsFunc(s.found, noHeader),
		"a file left aside":          slices.ContainsFunc(s.garbage, older),
		"files from before a reset":  s.chain[0].Reset == 1 && s.found[0].Sequence < s.chain[0].Sequence,
		"a log that was cut":         s.chain[0].Reset == 0,
		"a file of one large batch":  head.size > g.o.SegmentBytes,
		"a bridge from a bridge":     len(s.chain) > 2 && s.chain[len(s.chain)-2].size < g.o.SegmentBytes,
		"a first batch in doubt":     s.beforeDoubt.End == headerBytes,
		"an old file, not truncated": len(s.chain) > 1 && s.chain[len(s.chain)-2].size > head.Before.End,
		"several files beside":       len(s.garbage) > 1,
		"the first file alone":       len(s.found) == 1,
		"many files":                 len(s.chain) > 6,
	} {
		if reached {
			g.marks[mark]++
		}
	}
}

// live opens the log and writes to it, then ends: by a power cut, a kill, a failed sync or another error.
func (g *lives) live(steps int) {
	g.watch(g.fs, 1)
	l, err := Open(dir, g.o.in(g.fs))
	if err != nil {
		g.fatal(g.fs, "%v", err)
	}
	if err = g.acked.differs(l, g.o.Checkpoint); err != nil {
		g.acked = g.underway
		if also := g.acked.differs(l, g.o.Checkpoint); also != nil {
			g.fatal(g.fs, "%v; %v", err, also)
		}
	}
	g.underway, g.o.New = g.acked, false
	end := g.r.IntN(4) // of the life
	failAt := -1
	if end >= 2 {
		failAt = g.fs.Steps() + g.r.IntN(steps*4)
	}
	kind := rig.Faults[g.r.IntN(len(rig.Faults))]
	g.watch(g.fs, 1)
	images := g.fs.Before
	g.fs.Before = func(step, path string) error {
		_ = images(step, path)
		at := g.fs.Steps()
		if failAt >= 0 && rig.Changes(step) && (at == failAt || at > failAt && kind == syscall.EROFS) {
			g.marks["an error at "+step]++
			return kind
		}
		return nil
	}
	for range steps {
		if g.call(l) != nil {
			if l.Append(&HardState{Term: 1 << 40, Commit: g.acked.hard.Commit}, nil) == nil {
				g.fatal(g.fs, "a log goes on after an error")
			}
			break
		}
	}
	g.fs.Before = nil
	_ = l.Close()
	if g.fs.Lost() {
		g.marks["a failed sync's data lost"]++
	}
	if end%2 == 0 { // else the page cache survives
		g.fs = g.image(g.fs, 0)
	}
}

// call calls one method of the log.
func (g *lives) call(l *Log) error {
	var err error
	switch g.r.IntN(14) {
	case 0:
		g.o.Checkpoint = max(g.o.Checkpoint, g.acked.base+g.r.Uint64N(g.acked.hard.Commit-g.acked.base+1))
		err = l.Cut(g.o.Checkpoint + 1)
	case 1:
		g.o.Checkpoint = g.acked.hard.Commit + g.r.Uint64N(10)
		term := g.acked.hard.Term + uint64(g.r.IntN(2))
		g.underway = g.acked.reset(g.o.Checkpoint, term)
		err = l.Reset(g.o.Checkpoint, term)
	default:
		hard, entries := g.acked.write(g.r)
		g.underway = g.acked.append(hard, entries)
		err = l.Append(hard, entries)
	}
	if err == nil {
		g.acked = g.underway
	}
	return err
}

// TestCrashImages: whatever a power cut, a kill or an error leaves, what was acknowledged is there.
func TestCrashImages(t *testing.T) {
	marks, made, lives := rig.Marks{}, 0, 0
	for seed := uint64(1); made < *images; seed++ {
		g := newLives(t, seed)
		for range 12 {
			g.live(5 + g.r.IntN(25))
			lives++
		}
		made += g.images
		marks.Add(g.marks)
	}
	t.Logf("%d images of %d lives", made, lives)
	marks.Report(t, wanted...)
}

// wanted are the marks that the short form reaches as well.
var wanted = []string{"a torn write", "a torn write in a new file", "a name in doubt", "entries in doubt",
	"a hard state in doubt", "a replaced end in doubt", "a file without header", "a file left aside",
	"files from before a reset", "a log that was cut", "a file of one large batch", "a bridge from a bridge",
	"a first batch in doubt", "an old file, not truncated", "several files beside", "the first file alone",
	"many files", "an error at sync", "an error at write", "a failed sync's data lost"}

// settled returns the files of a log that has lived for a while, all of them durable, and what it holds.
func settled(t testing.TB, seed uint64) *lives {
	g := newLives(t, seed)
	g.everyImage = 1 << 30
	for range 3 {
		g.live(12)
	}
	l, err := Open(dir, g.o.in(g.fs))
	if err != nil {
		g.fatal(g.fs, "%v", err)
	}
	if err := g.acked.differs(l, g.o.Checkpoint); err != nil {
		g.acked = g.underway
		if also := g.acked.differs(l, g.o.Checkpoint); also != nil {
			g.fatal(g.fs, "%v; %v", err, also)
		}
	}
	g.underway = g.acked
	for range g.r.IntN(12) {
		if err := g.call(l); err != nil {
			g.fatal(g.fs, "%v", err)
		}
	}
	return g
}

// refusedOr wants the image to be refused, or to hold everything.
func (g *lives) refusedOr(image *rig.Memory, what string) (refused bool) {
	g.t.Helper()
	before := image.Clone()
	l, err := Open(dir, g.o.in(image))
	if errors.As(err, new(*files.DamageError)) {
		if dump(image) != dump(before) || image.Unsynced() {
			g.fatal(image, "%s: a refused log was changed", what)
		}
		return true
	}
	if err == nil {
		err = g.acked.differs(l, g.o.Checkpoint)
	}
	if err != nil {
		g.fatal(before, "%s: %v", what, err)
	}
	return false
}

// TestMissingFiles: a durable file that is missing is missed, or was not needed; one that was removed and is back
// changes nothing.
func TestMissingFiles(t *testing.T) {
	missed, unneeded, back := 0, 0, 0
	for seed := range uint64(30) {
		g := settled(t, seed)
		for _, name := range g.fs.Paths() {
			image := g.fs.Clone()
			image.Lose(name)
			if g.refusedOr(image, name+" is missing") {
				missed++
			} else {
				unneeded++
			}
		}
		for _, name := range g.fs.Removed() {
			image := g.fs.Clone()
			image.Return(name)
			g.refusedOr(image, name+" is back")
			back++
		}
	}
	t.Logf("%d missed, %d not needed, %d back", missed, unneeded, back)
	if missed < 50 || back < 50 || unneeded > missed {
		t.Error("too few")
	}
}

// TestFlippedBits: one flipped bit, or a sector of other bytes, is found in the last batch, and never goes unnoticed
// elsewhere.
func TestFlippedBits(t *testing.T) {
	found, harmless := 0, 0
	for seed := range uint64(20) {
		g := settled(t, seed)
		s := newScan(dir, g.o.in(g.fs.Clone()))
		if err := s.run(); err != nil {
			g.fatal(g.fs, "%v", err)
		}
		for at := s.doubt.at; at < s.doubt.end; at += 1 + g.r.Int64N(s.doubt.end/16) {
			image := g.fs.Clone()
			image.Content(s.doubtIn.name)[at] ^= 1 << g.r.IntN(8)
			if !g.refusedOr(image, fmt.Sprintf("a bit at %d of %s", at, s.doubtIn.name)) {
				g.fatal(g.fs, "a flipped bit of the last batch at %d is not found", at)
			}
			image = g.fs.Clone()
			content := image.Content(s.doubtIn.name)
			for i := at - at%sectorBytes; i < min(at-at%sectorBytes+sectorBytes, s.doubt.end); i++ {
				content[i] = byte(g.r.Uint32())
			}
			if !g.refusedOr(image, fmt.Sprintf("a sector at %d of %s", at, s.doubtIn.name)) {
				g.fatal(g.fs, "an overwritten sector of the last batch at %d is not found", at)
			}
		}
		for range 60 {
			image := g.fs.Clone()
			names := image.Paths()
			name := names[g.r.IntN(len(names))]
			content := image.Content(name)
			at := g.r.IntN(len(content))
			content[at] ^= 1 << g.r.IntN(8)
			if g.refusedOr(image, fmt.Sprintf("a bit at %d of %s", at, name)) {
				found++
			} else {
				harmless++
			}
		}
	}
	t.Logf("elsewhere %d found, %d harmless", found, harmless)
	if found == 0 || harmless == 0 {
		t.Error("too few")
	}
}

// TestEveryFailure: an error at any step of a start and of one call each ends the log, and what was acknowledged is
// there after a restart, with the page cache or without it.
func TestEveryFailure(t *testing.T) {
	tried := 0
	for seed := range uint64(*failures) {
		base := settled(t, seed)
		for _, kind := range rig.Faults {
			for n := 1; ; n++ {
				g := *base
				g.fs, g.marks = base.fs.Clone(), rig.Marks{}
				g.r = rand.New(rand.NewPCG(seed, uint64(n)))
				g.underway = g.acked
				failed := false
				steps := 0
				g.fs.Before = func(step, _ string) error {
					if steps++; steps == n || steps > n && kind == syscall.EROFS && rig.Changes(step) {
						failed = true
						return kind
					}
					return nil
				}
				l, err := Open(dir, g.o.in(g.fs))
				for range 4 {
					if err == nil {
						err = g.call(l)
					}
				}
				g.fs.Before = nil
				if !failed {
					break
				}
				if err != nil && errors.As(err, new(*files.DamageError)) {
					g.fatal(g.fs, "%v at step %d is taken for damage: %v", kind, n, err)
				}
				tried++
				g.image(g.fs, 1)
				g.underway = g.check(g.fs, 1)
				g.acked = g.underway
				g.image(g.fs, 1)
			}
		}
	}
	t.Logf("%d failures", tried)
}

// TestReadOnly: Inspect needs no right to write, and Open fails without it.
func TestReadOnly(t *testing.T) {
	g := settled(t, 1)
	g.fs.Before = func(step, _ string) error {
		if rig.Changes(step) {
			return syscall.EROFS
		}
		return nil
	}
	report, err := Inspect(dir, g.o.in(g.fs))
	if err != nil || report.Last != g.acked.last() || report.Hard != g.acked.hard ||
		len(report.Files) != len(g.fs.Paths()) {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := Open(dir, g.o.in(g.fs)); !errors.Is(err, syscall.EROFS) {
		t.Error(err)
	}
	if _, err := Open(dir, g.o.in(rig.New(dir))); !errors.As(err, new(*files.DamageError)) {
		t.Error(err)
	}
	other := g.o.in(g.fs)
	other.Member++
	if _, err := Inspect(dir, other); !errors.As(err, new(*files.DamageError)) {
		t.Error(err)
	}
	if _, err := (files.Disk{}).Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
