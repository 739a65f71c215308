package raftstore

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/rig"
)

// TestMemberDamageIsFoundOrHarmless: of a member's files that all were synced each is missing once, each that was ever
// removed or replaced is back once, and a bit of the last batch of the log is another one. Then a start is refused, or
// has everything.
func TestMemberDamageIsFoundOrHarmless(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	marks := map[string]int{}
	for seed := uint64(1); seed <= uint64(sample(8, 200)); seed++ {
		g := newMemberRig(t, seed)
		for range 3 {
			g.live(10 + g.r.IntN(40))
			g.damage()
		}
		for mark, n := range g.marks {
			marks[mark] += n
		}
	}
	for _, mark := range []string{"missing .log: refused", "missing .log: harmless", "missing .rows: refused",
		"missing manifest: refused", "missing identity.json: refused", "back .log: harmless", "back .rows: harmless",
		"a flipped bit: refused"} {
		t.Logf("%5d  %s", marks[mark], mark)
		if marks[mark] == 0 {
			t.Errorf("never: %s", mark)
		}
	}
}

func (g *memberRig) damage() {
	each := func(what string, paths []string, change func(image *rig.Memory, path string)) {
		for _, path := range paths {
			kind := filepath.Base(path)
			if ext := filepath.Ext(path); ext == ".log" || ext == ".rows" {
				kind = ext
			}
			image := g.files.Clone()
			change(image, path)
			g.foundOrHarmless(image, what+" "+kind)
		}
	}
	each("missing", g.files.Paths(), (*rig.Memory).Lose)
	each("back", g.files.Removed(), (*rig.Memory).Return)
	image := g.files.Clone()
	log := slices.DeleteFunc(image.Paths(), func(path string) bool {
		return !strings.HasSuffix(path, ".log") || lastByte(image.Content(path)) < 4096
	})
	content := image.Content(log[len(log)-1])
	at := lastByte(content)
	at -= g.r.IntN(min(at-4095, 64))
	content[at] ^= 1 << g.r.IntN(8)
	if g.foundOrHarmless(image, "a flipped bit") == nil {
		g.fatal("bit flipped at byte %d of %s: the member starts", at, log[len(log)-1])
	}
}

func lastByte(b []byte) int { return len(strings.TrimRight(string(b), "\x00")) - 1 }

// foundOrHarmless opens the member in a damaged image.
func (g *memberRig) foundOrHarmless(image *rig.Memory, what string) error {
	f, err := assembleHandDriven(g.t, g.config(image))
	if errors.As(err, new(*datadir.CorruptionError)) {
		g.marks[what+": refused"]++
		return err
	}
	if err != nil {
		g.fatal("%s: %v", what, err)
	}
	defer g.closed(f)
	states := append([]memberState{g.acked}, g.underway...)
	if what == "back manifest" { // an older one, for which the log may still have all that follows
		for i := range states {
			states[i].checkpoint = f.s.loaded
		}
	}
	var all []error
	for _, state := range states {
		if err := state.differs(f, g.log); err == nil {
			g.marks[what+": harmless"]++
			return nil
		} else {
			all = append(all, err)
		}
	}
	g.fatal("%s: %v", what, all)
	return nil
}
