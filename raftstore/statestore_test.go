package raftstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/coordd/coordd/internal/testmode"
)

// stateRig drives a stateStore by hand, next to maps of what the file has to say.
type stateRig struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	id    identity
	state *stateStore
	index uint64
	now   map[string]string // the checkpoint that counts
	then  map[string]string // with the open one
	gone  int               // prefixes dropped so far
}

func newStateRig(t *testing.T, seed int64) *stateRig {
	r := &stateRig{t: t, rng: rand.New(rand.NewSource(seed)), dir: t.TempDir(), id: newIdentity(),
		now: map[string]string{}, then: map[string]string{}}
	if err := createState(&disk{}, r.dir, firstCheckpoint(r.id)); err != nil {
		t.Fatal(err)
	}
	r.open()
	t.Cleanup(r.close)
	return r
}

func (r *stateRig) open() {
	r.t.Helper()
	img, err := loadState(r.dir, r.id, rowReader{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.state = openState(&disk{}, r.dir, img, stepLimits{rows: 5, bytes: 300, pages: 3, run: 1000})
}

func (r *stateRig) close() {
	if err := r.state.close(); err != nil {
		r.t.Fatal(err)
	}
}

// change says some changes of a checkpoint.
func (r *stateRig) change(count int) {
	if r.rng.Intn(3) == 0 {
		prefix := fmt.Sprintf("n%02d/", r.gone)
		r.gone++
		r.state.drop([]byte(prefix))
		maps.DeleteFunc(r.then, func(k, _ string) bool { return strings.HasPrefix(k, prefix) })
	}
	for range count {
		key := fmt.Sprintf("n%02d/%03d", r.gone+r.rng.Intn(4), r.rng.Intn(60))
		if r.rng.Intn(3) == 0 {
			r.state.put([]Row{{Key: []byte(key), Delete: true}})
			delete(r.then, key)
			continue
		}
		value := strings.Repeat("v", r.rng.Intn(120)) + fmt.Sprint(r.rng.Int())
		r.state.put([]Row{row(key, value)})
		r.then[key] = value
	}
}

// drain does all steps that are due and looks at the file before each.
func (r *stateRig) drain() {
	r.t.Helper()
	for r.state.busy() {
		r.look()
		durable, err := r.state.step(r.rng.Intn(2) == 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if durable {
			r.now = maps.Clone(r.then)
		}
	}
	r.look()
}

// look compares what all readers say with what counts.
func (r *stateRig) look() {
	r.t.Helper()
	got := map[string]string{}
	last := ""
	err := r.state.rows(func(k, v []byte) error {
		if string(k) <= last {
			return fmt.Errorf("%q comes behind %q", k, last)
		}
		last = string(k)
		got[last] = string(v)
		return nil
	})
	if err != nil || !maps.Equal(got, r.now) {
		r.t.Fatalf("%d rows, want %d: %v", len(got), len(r.now), err)
	}
	loaded := map[string]string{}
	_, err = loadState(r.dir, r.id,
		rowReader{add: func(k, v []byte) error { loaded[string(k)] = string(v); return nil }})
	if err != nil || !maps.Equal(loaded, r.now) {
		r.t.Fatalf("%d rows are loaded, want %d: %v", len(loaded), len(r.now), err)
	}
	p, err := r.state.pin()
	if err != nil {
		r.t.Fatal(err)
	}
	defer p.release()
	sent := 0
	for {
		rows, err := p.next()
		if err != nil {
			r.t.Fatal(err)
		}
		if sent += len(rows); len(rows) == 0 {
			break
		}
	}
	record, err := decodeCheckpointMeta("sent", p.record())
	if err != nil || sent != len(r.now) || record.Rows != uint64(sent) || record.Format != sentFormat ||
		record.Next {
		r.t.Fatalf("%d rows were sent with %+v, %v", sent, record, err)
	}
	img, err := loadState(r.dir, r.id, rowReader{})
	if err != nil || img.meta.Index != r.state.meta.Index || img.meta.Rows < uint64(len(r.now)) {
		r.t.Fatalf("as of %d with %d rows: %v", img.meta.Index, img.meta.Rows, err)
	}
}

// Whatever a checkpoint consists of, all readers see the last one until it is durable, and it from then on;
// whether the store goes on or is opened anew in the middle. All rows of dropped prefixes are swept in the
// end.
func TestCheckpointsInSteps(t *testing.T) {
	testmode.WithoutRace(t)
	for seed := range int64(sample(5, 20)) {
		r := newStateRig(t, seed)
		for range 12 {
			r.index++
			for range 1 + r.rng.Intn(4) {
				r.change(r.rng.Intn(25))
				r.drain()
			}
			if r.rng.Intn(4) == 0 { // killed before it was finished
				r.close()
				r.open()
				r.then = maps.Clone(r.now)
				continue
			}
			r.state.finish(checkpointMark{index: r.index, term: 1,
				conf: confRecord{Voters: []uint64{r.id.Member}, Index: 1}})
			for range r.rng.Intn(8) {
				if r.state.busy() {
					durable, err := r.state.step(r.rng.Intn(2) == 0)
					if err != nil {
						t.Fatal(err)
					}
					if durable {
						r.now = maps.Clone(r.then)
					}
				}
			}
			if r.rng.Intn(2) == 0 { // killed while it is written or moved
				r.close()
				r.open()
				r.then = maps.Clone(r.now)
			}
			r.drain()
			for r.rng.Intn(3) == 0 {
				if _, err := r.state.sweep(7); err != nil {
					t.Fatal(err)
				}
				r.look()
			}
		}
		for more := true; more; {
			var err error
			if more, err = r.state.sweep(7); err != nil {
				t.Fatal(err)
			}
		}
		if img, err := loadState(r.dir, r.id, rowReader{}); err != nil || img.meta.Rows != uint64(len(r.now)) ||
			len(img.dropped.sorted) > 0 {
			t.Errorf("seed %d: %d rows, want %d; %v", seed, img.meta.Rows, len(r.now), err)
		}
	}
}

// TestRowsInKeyOrder sorts versions of rows: those of one key stay in the order in which they came.
func TestRowsInKeyOrder(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	var rows []Row
	for i := range 2000 {
		rows = append(rows, Row{Key: []byte{byte(random.Intn(100))},
			Value: binary.BigEndian.AppendUint32(nil, uint32(i))})
	}
	sorted := inKeyOrder(rows)
	if len(sorted) != len(rows) {
		t.Fatalf("%d rows, want %d", len(sorted), len(rows))
	}
	for i, r := range sorted[1:] {
		last := sorted[i]
		if order := bytes.Compare(last.Key, r.Key); order > 0 || order == 0 && bytes.Compare(last.Value, r.Value) >= 0 {
			t.Fatalf("%v comes before %v", last, r)
		}
	}
}

// TestStepsChangeFewPages changes rows that lie a page apart from each other: unless there is a hurry, no step
// changes many pages of the file, so none keeps the disk from the log for long.
func TestStepsChangeFewPages(t *testing.T) {
	const rows, apart = 8_000, 40
	const other = 12 // pages: what leads to the others, the records, and what the end of a checkpoint changes
	for _, hurry := range []bool{false, true} {
		r := newStateRig(t, 1)
		r.state.steps = defaultSteps
		r.state.steps.pages = 16
		checkpoint := func(value string, every int) (most int) {
			for i := 0; i < rows; i += every {
				r.state.put([]Row{row(fmt.Sprintf("row/%06d", i), value)})
			}
			r.index++
			r.state.finish(checkpointMark{index: r.index, term: 1,
				conf: confRecord{Voters: []uint64{r.id.Member}, Index: 1}})
			for before := r.pages(); r.state.busy(); {
				if _, err := r.state.step(hurry); err != nil {
					t.Fatal(err)
				}
				now := r.pages()
				changed := 0
				for i, page := range now {
					if i >= len(before) || page != before[i] {
						changed++
					}
				}
				before, most = now, max(most, changed)
			}
			return most
		}
		checkpoint(strings.Repeat("x", 80), 1)
		most := checkpoint(strings.Repeat("y", 80), apart)
		if few := r.state.steps.pages + other; (most > few) != hurry {
			t.Errorf("hurry %v: a step changes %d pages, %d are few", hurry, most, few)
		}
	}
}

// TestMovingCostsWhatIsMoved: a step that brings rows to their place reads those, not what is left behind them
// for the next steps.
func TestMovingCostsWhatIsMoved(t *testing.T) {
	const apart = 40
	perRow := func(changed int) (bytes uint64) {
		r := newStateRig(t, 1)
		r.state.steps = defaultSteps
		r.state.steps.pages = 16
		for every := 1; every <= apart; every += apart - 1 {
			for i := 0; i < changed*apart; i += every {
				r.state.put([]Row{row(fmt.Sprintf("row/%06d", i), strings.Repeat("x", 80))})
			}
			r.index++
			r.state.finish(checkpointMark{index: r.index, term: 1,
				conf: confRecord{Voters: []uint64{r.id.Member}, Index: 1}})
			bytes = 0
			for r.state.busy() {
				var before, after runtime.MemStats
				moves := r.state.phase == nextCounts
				runtime.ReadMemStats(&before)
				if _, err := r.state.step(false); err != nil {
					t.Fatal(err)
				}
				if runtime.ReadMemStats(&after); moves {
					bytes += after.TotalAlloc - before.TotalAlloc
				}
			}
		}
		return bytes / uint64(changed)
	}
	if few, many := perRow(100), perRow(1_000); many > few*3/2 {
		t.Errorf("a row costs %d bytes of memory among 100, %d among 1,000", few, many)
	}
}

// pages are the pages of the file that are in use, each as a text.
func (r *stateRig) pages() (pages []string) {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, stateFile))
	if err != nil {
		r.t.Fatal(err)
	}
	for page := range slices.Chunk(content, os.Getpagesize()) {
		if len(bytes.Trim(page, "\x00")) == 0 {
			page = nil
		}
		pages = append(pages, string(page))
	}
	for len(pages) > 0 && pages[len(pages)-1] == "" { // what the file has grown by
		pages = pages[:len(pages)-1]
	}
	return pages
}

// betweenSwitchAndMove makes a directory whose last checkpoint counts and is not in its place yet.
func betweenSwitchAndMove(t *testing.T, dir string) map[string]string {
	t.Helper()
	s := open(t, smallConfig(dir))
	r := start(t, s)
	term := r.lead(t)
	propose(t, r, term, "one")
	checkpoint(t, r, row("kept", "1"), row("changed", "old"), row("removed", "1"), row("n1/a", "1"))
	r.waitIdle(t)
	propose(t, r, term, "two")
	stop(t, s)
	img, err := examine(dir)
	if err != nil {
		t.Fatal(err)
	}
	state := openState(&disk{}, dir, img.state, stepLimits{rows: 3, bytes: 100, pages: 3, run: 100})
	want := map[string]string{"kept": "1", "changed": "new"}
	state.drop([]byte("n1/"))
	state.put([]Row{row("changed", "new"), {Key: []byte("removed"), Delete: true},
		{Key: []byte("never there"), Delete: true}})
	for n := range 20 {
		state.put([]Row{row(fmt.Sprint("added ", n), "1")})
		want[fmt.Sprint("added ", n)] = "1"
	}
	state.finish(checkpointMark{index: img.last, term: term, conf: img.state.meta.Conf})
	for durable := false; !durable; {
		if durable, err = state.step(false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := state.step(false); err != nil || !state.busy() {
		t.Fatalf("moved in one step, or %v", err)
	}
	if err := state.close(); err != nil {
		t.Fatal(err)
	}
	return want
}

// What reads a directory reads a checkpoint that is being moved like any other.
func TestToolsReadACheckpointThatIsBeingMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := betweenSwitchAndMove(t, dir)
	report, err := Check(dir)
	if err != nil || report.Rows != uint64(len(want))+1 { // the dropped one is not swept
		t.Fatalf("%d rows, %v", report.Rows, err)
	}
	if err := ForceSingle(dir); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	copyDir(t, dir, copied)
	s := open(t, smallConfig(dir))
	if got := rowsOf(t, s); !maps.Equal(got, want) {
		t.Errorf("rows %v", got)
	}
	var b bytes.Buffer
	if _, err := s.Backup(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	r := start(t, s)
	r.lead(t)
	r.waitIdle(t)
	stop(t, s)
	if report, err := Check(dir); err != nil || report.Rows != uint64(len(want)) {
		t.Errorf("%d rows once it is moved and swept, %v", report.Rows, err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if err := RestoreBackup(restored, &b, Cluster{}); err != nil {
		t.Fatal(err)
	}
	s = open(t, smallConfig(restored))
	defer stop(t, s)
	if got := rowsOf(t, s); !maps.Equal(got, want) {
		t.Errorf("rows of the backup %v", got)
	}
}

// visibleRows are the rows as every reader sees them: those of a checkpoint that is being moved lie over the
// others.
func visibleRows(dir string) (map[string]string, error) {
	img, err := examine(dir)
	if err != nil {
		return nil, err
	}
	state := openState(&disk{}, dir, img.state, defaultSteps)
	rows := make(map[string]string)
	err = state.rows(func(key, value []byte) error {
		rows[string(key)] = string(value)
		return nil
	})
	return rows, errors.Join(err, state.close())
}

// A bit that is wrong in what lies over the rows is found like one in the rows.
func TestDamageInNextIsFound(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	want := betweenSwitchAndMove(t, dir)
	path := filepath.Join(dir, stateFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tried, refused := 0, 0
	for at := 0; at <= lastNonZero(good, 0); at++ {
		if good[at] == 0 && at%64 != 0 || at%sample(11, 3) != 0 {
			continue
		}
		tried++
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := visibleRows(dir)
		var damage *CorruptionError
		var format *FormatError
		switch {
		case errors.As(err, &damage), errors.As(err, &format):
			refused++
		case err != nil || !maps.Equal(got, want): // a row that nobody sees any more may be lost
			t.Fatalf("byte %d: %v, %v", at, got, err)
		}
	}
	if refused < tried/8 {
		t.Errorf("only %d of %d flips were noticed", refused, tried)
	}
	t.Logf("%d of %d flips were noticed", refused, tried)
	tombstone := encodeTombstone([]byte("k"))
	tombstone[0] = rowFormat
	if _, _, _, err := decodeNext("f", []byte("k"), tombstone); err == nil {
		t.Error("a tombstone with one bit flipped is a row")
	}
	empty := encodeRow([]byte("k"), nil)
	empty[0] = tombstoneFormat
	if _, _, _, err := decodeNext("f", []byte("k"), empty); err == nil {
		t.Error("a row with one bit flipped is a tombstone")
	}
}

// A state.db of format 1 is read, and gets the present format with the first write: then a program that knows
// only 1 refuses it.
func TestStateOfTheFirstFormatIsUpgraded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, smallConfig(dir))
	r := start(t, s)
	term := r.lead(t)
	propose(t, r, term, "one")
	checkpoint(t, r, row("a", "1"), row("b", "1"))
	stop(t, s)
	db, err := openBolt(&disk{}, filepath.Join(dir, stateFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(metaBucket))
		m, err := decodeCheckpointMeta("f", meta.Get([]byte(checkpointKey)))
		m.Format = 1
		return errors.Join(err, tx.DeleteBucket([]byte(nextBucket)),
			tx.DeleteBucket([]byte(nextDroppedBucket)), meta.Put([]byte(checkpointKey), m.encode()))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	format := func() int {
		t.Helper()
		img, err := examine(dir)
		if err != nil {
			t.Fatal(err)
		}
		return img.state.meta.Format
	}
	s = open(t, smallConfig(dir))
	if got := rowsOf(t, s); !maps.Equal(got, map[string]string{"a": "1", "b": "1"}) || format() != 1 {
		t.Errorf("rows %v, format %d", got, format())
	}
	r = start(t, s)
	term = r.lead(t)
	propose(t, r, term, "two")
	var rows []Row
	want := map[string]string{"a": "1"}
	for _, k := range numbered("k", 0, 50) {
		rows, want[k] = append(rows, row(k, "1")), "1"
	}
	checkpoint(t, r, append(rows, Row{Key: []byte("b"), Delete: true})...)
	stop(t, s)
	if format() != checkpointFormat {
		t.Errorf("format %d", format())
	}
	s = open(t, smallConfig(dir))
	defer stop(t, s)
	if got := rowsOf(t, s); !maps.Equal(got, want) {
		t.Errorf("rows %v", got)
	}
}
