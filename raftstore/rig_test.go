package raftstore

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/rig"
	"github.com/coordd/coordd/raftstore/wal"
)

var memberImages = flag.Int("member-images", 1000, "make at least so many crash images of a member")

// memberState is the part of a member's data that a crash must not change.
type memberState struct {
	hard       wal.HardState // without the commit index
	base       uint64        // the entry as of which the last received checkpoint is
	baseTerm   uint64
	entries    []rigEntry // from base+1 on
	checkpoint uint64
}

type rigEntry struct {
	term uint64
	text string
}

func (m memberState) last() uint64 { return m.base + uint64(len(m.entries)) }

func (m memberState) at(index uint64) rigEntry { return m.entries[index-m.base-1] }

func (m memberState) term(index uint64) uint64 {
	if index == m.base {
		return m.baseTerm
	}
	return m.at(index).term
}

// write is the state after a write.
func (m memberState) write(j *writeJob) memberState {
	if j.snapshot != nil {
		m = m.install(j.snapshot.meta)
	}
	if j.hard != nil {
		m.hard = wal.HardState{Term: j.hard.Term, Vote: j.hard.Vote}
	}
	for _, e := range j.entries {
		m.entries = append(m.entries[:e.GetIndex()-m.base-1:e.GetIndex()-m.base-1],
			rigEntry{e.GetTerm(), string(e.GetData())})
	}
	return m
}

func (m memberState) install(c datadir.Meta) memberState {
	if c.Term > m.hard.Term {
		m.hard = wal.HardState{Term: c.Term}
	}
	return memberState{hard: m.hard, base: c.Index, baseTerm: c.Term, checkpoint: c.Index}
}

// differs returns in what an opened member differs from the state. Committed entries are those of the leader.
func (m memberState) differs(f *handDriven, leader []rigEntry) error {
	s := f.s
	switch h := s.log.Hard(); {
	case h.Term != m.hard.Term || h.Vote != m.hard.Vote:
		return fmt.Errorf("term %d and vote %x, should be %d and %x", h.Term, h.Vote, m.hard.Term, m.hard.Vote)
	case s.loaded != m.checkpoint:
		return fmt.Errorf("the checkpoint is as of entry %d, should be of %d", s.loaded, m.checkpoint)
	case s.log.Last() != m.last():
		return fmt.Errorf("ends at entry %d, should at %d", s.log.Last(), m.last())
	}
	first, _ := s.log.FirstIndex()
	for index := first; index <= m.last(); index++ {
		if index <= m.base {
			return fmt.Errorf("entry %d is before the received checkpoint", index)
		}
		got, err := s.log.Entries(index, index+1, 1<<20)
		if err != nil {
			return err
		}
		if want := m.at(index); got[0].GetTerm() != want.term || string(got[0].GetData()) != want.text {
			return fmt.Errorf("entry %d is %.20q of term %d, should be %.20q of term %d", index, got[0].GetData(),
				got[0].GetTerm(), want.text, want.term)
		}
	}
	if term, err := s.log.Term(first - 1); err != nil || term != m.term(first-1) {
		return fmt.Errorf("entry %d has term %d, %v", first-1, term, err)
	}
	rows := map[string]string{}
	for index := uint64(2); index <= m.checkpoint; index++ {
		rows[rigKey(index)] = leader[index-1].text
	}
	if got := rowsOf(f.t, s); !maps.Equal(got, rows) {
		return fmt.Errorf("%d rows, should be %d as of entry %d", len(got), len(rows), m.checkpoint)
	}
	return nil
}

func rigKey(index uint64) string { return fmt.Sprintf("c/%06d", index) }

// memberRig lets a follower live through crashes. The test is the two other members: the leader of each term writes
// what it likes behind what is committed.
type memberRig struct {
	t      *testing.T
	seed   uint64
	r      *rand.Rand
	files  *rig.Memory
	mu     sync.Mutex // held while an image is made and judged: the keeper works beside an installation
	images int
	marks  rig.Marks

	acked    memberState
	underway []memberState // besides, of the call under way; nobody writes beside a change of both

	term      uint64
	leader    uint64
	log       []rigEntry // of the leader, from entry 1 on
	committed uint64
	sent      uint64 // the follower may have the leader's entries up to here
	applied   uint64 // of the checkpoint's rows: they are up to here
}

func newMemberRig(t *testing.T, seed uint64) *memberRig {
	return &memberRig{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 3)), files: rig.New("/"), marks: rig.Marks{},
		log: []rigEntry{{1, ""}}, term: 1, leader: firstLeader, committed: 1, sent: 1,
		acked: memberState{base: 1, baseTerm: 1, checkpoint: 1, hard: wal.HardState{Term: 1}}}
}

func (g *memberRig) fatal(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("seed %d, %d images: %s", g.seed, g.images, fmt.Sprintf(format, args...))
}

// rigDir is the data directory in a rig's file system.
const rigDir = "/member"

func (g *memberRig) config(files *rig.Memory) Config {
	cfg := smallConfig(rigDir)
	cfg.SegmentBytes, cfg.TailEntriesKept, cfg.LagEntriesKept, cfg.fs = 5<<10, 3, 3, files
	if g.seed%2 == 0 { // files are merged only because there are many
		cfg.steps.Merge = 1 << 20
	}
	return cfg
}

// watch makes images in front of steps of which one in so many is chosen.
func (g *memberRig) watch(files *rig.Memory, each, depth int) {
	files.Before = func(step, _ string) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if rig.Changes(step) && g.r.IntN(each) == 0 {
			g.check(files.Crash(g.r), depth)
		}
		return nil
	}
}

// check opens the member in an image, and at times kills it again and again while it starts: it has what was
// acknowledged, with or without the call under way. It returns the image, which may be another one then.
func (g *memberRig) check(image *rig.Memory, depth int) *rig.Memory {
	g.images++
	g.examine(image)
	for kills := 0; depth > 0 && kills < 5 && g.r.IntN(3) == 0; kills++ {
		left := 1 + g.r.IntN(12)
		image.Before = func(step, _ string) error {
			if !rig.Changes(step) {
				return nil
			}
			if left--; left < 0 {
				return errKilled
			}
			return nil
		}
		f, err := assembleHandDriven(g.t, g.config(image))
		image.Before = nil
		if err == nil {
			g.closed(f)
			break
		}
		if !errors.Is(err, errKilled) {
			g.fatal("killed while it starts: %v", err)
		}
		g.marks[fmt.Sprintf("killed %d times while it starts", kills+1)]++
		image = image.Crash(g.r)
	}
	f, err := assembleHandDriven(g.t, g.config(image))
	if err != nil {
		g.fatal("%v", err)
	}
	defer g.closed(f)
	g.matching(f)
	if err := f.s.loop.workInTurn(f.s.loop.begin); err != nil {
		g.fatal("%v", err)
	}
	g.handed(f)
	return image
}

// examine reads an image as the check command does, which refuses none.
func (g *memberRig) examine(image *rig.Memory) {
	d := &datadir.Disk{FS: image}
	if made, err := d.HasData(rigDir); err != nil || !made {
		g.marks["half made"]++
		return
	}
	img, err := d.Examine(rigDir, nil)
	if err != nil {
		g.fatal("examined: %v", err)
	}
	img.Close()
	if img.Unfit {
		g.marks["a log of before"]++
	}
}

func (g *memberRig) closed(f *handDriven) {
	if err := f.s.closeFiles(); err != nil {
		g.fatal("close: %v", err)
	}
}

// matching returns the state that an opened member has.
func (g *memberRig) matching(f *handDriven) memberState {
	g.t.Helper()
	differs := g.acked.differs(f, g.log)
	if differs == nil {
		return g.acked
	}
	var all []error
	for _, also := range g.underway {
		err := also.differs(f, g.log)
		if err == nil {
			g.marks["the call under way"]++
			return also
		}
		all = append(all, err)
	}
	g.fatal("%v; with the call under way: %v", differs, all)
	return memberState{}
}

// handed checks that what a member takes for committed is.
func (g *memberRig) handed(f *handDriven) {
	g.t.Helper()
	for _, e := range f.recorder.entries {
		if e.Index > g.committed || string(e.Data) != g.log[e.Index-1].text {
			g.fatal("entry %d %.20q is handed over, up to %d are committed", e.Index, e.Data, g.committed)
		}
	}
}

// live opens the member and lets it do some steps, then ends: by a power cut, a kill, or an error.
func (g *memberRig) live(steps int) {
	g.watch(g.files, 14, 1)
	f, err := assembleHandDriven(g.t, g.config(g.files))
	if err != nil {
		g.fatal("%v", err)
	}
	g.acked = g.matching(f)
	g.underway, g.applied = nil, g.acked.checkpoint
	end, failAt := g.r.IntN(4), -1
	if end >= 2 {
		failAt = g.files.Steps() + g.r.IntN(steps*6)
	}
	kind := rig.Faults[g.r.IntN(len(rig.Faults))]
	images := g.files.Before
	g.files.Before = func(step, path string) error {
		_ = images(step, path)
		at := g.files.Steps()
		if failAt >= 0 && rig.Changes(step) && (at == failAt || at > failAt && kind == syscall.EROFS) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.marks["an error at "+step]++
			return kind
		}
		return nil
	}
	err = f.s.loop.workInTurn(f.s.loop.begin)
	for range steps {
		if err == nil {
			err = g.step(f)
		}
	}
	if err != nil && failAt < 0 {
		g.fatal("%v", err)
	}
	g.files.Before = nil
	g.handed(f)
	_ = f.s.closeFiles()
	g.sent = g.committed // the follower may have lost what was not acknowledged
	if end%2 == 0 {
		g.files = g.check(g.files.Crash(g.r), 0)
	} else { // the page cache survives
		g.files = g.check(g.files, 0)
	}
}

// step does something at random.
func (g *memberRig) step(f *handDriven) error {
	switch g.r.IntN(12) {
	case 0:
		return g.newTerm(f)
	case 1:
		return g.vote(f)
	case 2:
		return g.checkpoint(f)
	case 3:
		if g.r.IntN(3) == 0 {
			return g.received(f)
		}
		return g.write(f)
	case 4, 5, 6, 7:
		return g.write(f)
	}
	return g.append(f)
}

func (g *memberRig) receive(f *handDriven, m *pb.Message) error {
	m.To = new(uint64(ownID))
	return f.s.loop.workInTurn(func() error { f.s.loop.receive(m); return nil })
}

// append has the leader write entries, and send them from somewhere on behind what is committed.
func (g *memberRig) append(f *handDriven) error {
	for range g.r.IntN(4) {
		text := fmt.Sprintf("%d.%d", len(g.log)+1, g.term) + string(bytes.Repeat([]byte("x"), g.r.IntN(3)*700))
		g.log = append(g.log, rigEntry{g.term, text})
	}
	known := f.s.log.Last() // raft has at least that
	prev := min(max(g.committedOf(f), min(g.sent, known)), uint64(len(g.log)))
	m := &pb.Message{Type: pb.MsgApp.Enum(), From: &g.leader, Term: &g.term, Index: &prev,
		LogTerm: new(g.log[prev-1].term), Commit: &g.committed}
	for i := prev; i < uint64(len(g.log)); i++ {
		e := g.log[i]
		m.Entries = append(m.Entries, &pb.Entry{Index: new(i + 1), Term: &e.term, Data: []byte(e.text)})
	}
	if err := g.receive(f, m); err != nil {
		return err
	}
	g.sent = uint64(len(g.log))
	if g.r.IntN(2) == 0 {
		g.committed += g.r.Uint64N(uint64(len(g.log)) - g.committed + 1)
	}
	return nil
}

// committedOf is the commit index of the follower.
func (g *memberRig) committedOf(f *handDriven) uint64 { return f.s.loop.node.BasicStatus().GetCommit() }

// newTerm has another leader replace what is not committed.
func (g *memberRig) newTerm(f *handDriven) error {
	g.term++
	g.leader = firstLeader + nextLeader - g.leader
	keep := g.committed + g.r.Uint64N(uint64(len(g.log))-g.committed+1)
	g.log, g.sent = slices.Clone(g.log[:keep]), g.committed
	return g.receive(f, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &g.leader, Term: &g.term,
		Commit: new(uint64(0))})
}

// vote asks for the follower's vote; nobody wins this election.
func (g *memberRig) vote(f *handDriven) error {
	g.term++
	g.leader = firstLeader + nextLeader - g.leader
	last := uint64(len(g.log))
	g.sent = g.committed
	return g.receive(f, &pb.Message{Type: pb.MsgVote.Enum(), From: &g.leader, Term: &g.term, Index: &last,
		LogTerm: new(g.log[last-1].term), Context: []byte("CampaignTransfer")})
}

// received sends a checkpoint as of an entry that the follower does not have, but may have others in its place.
func (g *memberRig) received(f *handDriven) error {
	err := g.writeAll(f)
	if err == nil && g.r.IntN(2) == 0 {
		if err = g.newTerm(f); err == nil {
			err = g.writeAll(f)
		}
	}
	if err != nil {
		return err
	}
	for range 1 + g.r.IntN(4) {
		g.log = append(g.log, rigEntry{g.term, "not sent"})
	}
	index := uint64(len(g.log))
	g.committed, g.sent = index, index
	if g.acked.last() >= index {
		g.marks["a checkpoint for a longer log"]++
	}
	record := receivedRecord(index, g.term)
	chunks := []*peerpb.Chunk{{Rows: g.rows(&record)}, {Checkpoint: record.Encode()}}
	m := &pb.Message{Type: pb.MsgSnap.Enum(), From: &g.leader, Term: &g.term, To: new(uint64(ownID)),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &g.term,
			ConfState: record.Conf.ConfState()}}}
	f.s.receiver.slot <- struct{}{}
	file, err := f.s.receiver.collect(m, func() (*peerpb.Chunk, error) {
		next := chunks[0]
		chunks = chunks[1:]
		return next, nil
	})
	if err != nil {
		return err
	}
	g.marks["a received checkpoint"]++
	return f.s.loop.workInTurn(func() error {
		f.s.loop.offered = file
		f.s.loop.receive(m)
		return nil
	})
}

// rows returns the rows of a checkpoint of all entries, and counts them in its record.
func (g *memberRig) rows(record *datadir.Meta) (rows []*peerpb.Row) {
	var sent checkpoint.Totals
	for index := uint64(2); index <= record.Index; index++ {
		key, value := []byte(rigKey(index)), []byte(g.log[index-1].text)
		stored := checkpoint.Stored(key, value)
		rows = append(rows, &peerpb.Row{Key: key, Stored: stored})
		sent.Add(stored)
	}
	record.Rows, record.Sum = sent.Rows, sent.Sum
	return rows
}

func (g *memberRig) writeAll(f *handDriven) (err error) {
	for err == nil && len(f.s.appender.jobs) > 0 {
		err = g.write(f)
	}
	return err
}

// write makes some of what has gathered durable, in one write.
func (g *memberRig) write(f *handDriven) error {
	a := f.s.appender
	if len(a.jobs) == 0 {
		return nil
	}
	jobs := a.jobs
	some := 1 + g.r.IntN(len(jobs))
	a.jobs = jobs[:some:some]
	written := a.next()
	a.jobs = append(a.jobs, jobs[len(written):]...)
	after := g.acked
	for _, j := range written {
		after = after.write(j)
	}
	g.underway = []memberState{after}
	stop := func() {}
	if r := written[0].snapshot; r != nil {
		early := g.acked
		early.hard = after.hard
		g.underway = append(g.underway, early, early.install(r.meta), g.acked.install(r.meta))
		stop = g.keep(f.s.keeper)
	}
	if len(written) > 1 {
		g.marks["several jobs in a write"]++
	}
	if slices.ContainsFunc(written, func(j *writeJob) bool {
		return len(j.entries) > 0 && j.entries[0].GetIndex() <= g.acked.last()
	}) {
		g.marks["a replaced end"]++
	}
	err := a.write(written)
	if stop(); err != nil {
		return err
	}
	if err = f.s.disk.Failed(); err != nil {
		return err
	}
	g.acked, g.underway = after, nil
	if written[0].snapshot != nil {
		g.applied = after.base
	}
	f.s.inbox.post(func(m *mail) { m.written = append(m.written, written...) })
	return f.s.loop.workInTurn(nil)
}

// keep is the keeper's goroutine until its result is called.
func (g *memberRig) keep(k *keeper) (stop func()) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-k.bell:
				_, _ = k.work()
			case <-over:
				return
			}
		}
	})
	return func() { close(over); wg.Wait() }
}

// checkpoint writes the rows of what was applied, and cuts the log.
func (g *memberRig) checkpoint(f *handDriven) error {
	if err := g.writeAll(f); err != nil {
		return err
	}
	index := f.s.applied.Load()
	if index <= g.acked.checkpoint {
		return nil
	}
	after := g.acked
	after.checkpoint = index
	g.underway = []memberState{after}
	w := f.s.Checkpoints.Begin(index)
	for i := g.applied + 1; i <= index; i++ {
		if !w.Put([]Row{row(rigKey(i), g.log[i-1].text)}) {
			g.fatal("the queue is full")
		}
	}
	w.Finish()
	k := f.s.keeper
	for k.active() {
		_, err := k.work()
		if err == nil {
			err = f.s.loop.workInTurn(nil)
		}
		if err != nil {
			return err
		}
	}
	g.marks["a checkpoint"]++
	g.acked, g.underway, g.applied = after, nil, index
	if err := f.s.loop.workInTurn(nil); err != nil {
		return err
	}
	before := g.rowFiles()
	for range 20 { // cut the log, merge, remove
		if _, err := k.work(); err != nil {
			return err
		}
	}
	if after := g.rowFiles(); after > 1 && after < before {
		g.marks["merged runs"]++
	}
	return nil
}

// rowFiles returns how many files of rows there are.
func (g *memberRig) rowFiles() (count int) {
	for _, path := range g.files.Paths() {
		if strings.HasSuffix(path, ".rows") {
			count++
		}
	}
	return count
}

// TestMemberCrashImages: whatever a power cut, a kill or an error leaves of a member's log, checkpoints and their
// exchange by received ones, and however often the start after it is killed, what was acknowledged is there.
func TestMemberCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	marks, made, lives := rig.Marks{}, 0, 0
	for seed := uint64(1); made < *memberImages; seed++ {
		g := newMemberRig(t, seed)
		for range 6 {
			g.live(10 + g.r.IntN(40))
			lives++
		}
		made += g.images
		marks.Add(g.marks)
	}
	t.Logf("%d images of %d lives", made, lives)
	marks.Report(t, "half made", "a log of before", "a checkpoint", "a received checkpoint",
		"a replaced end", "several jobs in a write", "a checkpoint for a longer log", "the call under way",
		"killed 2 times while it starts", "merged runs", "an error at sync", "an error at write")
}
