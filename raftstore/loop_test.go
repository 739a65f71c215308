package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/wal"
)

// manual is a store whose turns the test itself takes, so that it can feed raft what no public method passes on.
type manual struct {
	*recorder
	t    *testing.T
	loop *loop
}

func startByHand(t *testing.T, s *Store) *manual {
	node, err := newNode(s)
	if err != nil {
		t.Fatal(err)
	}
	s.started = true
	makeWriters(s)
	m := &manual{recorder: newRecorder(s), t: t}
	m.loop = newLoop(s, node, m.recorder)
	s.loop, s.appender.loop = m.loop, m.loop
	go s.appender.run()
	go s.keeper.run()
	m.pump("what is known to be committed", func() bool {
		m.loop.noteApplied()
		return node.BasicStatus().Applied >= node.BasicStatus().GetCommit()
	})
	if err := node.Campaign(); err != nil {
		t.Fatal(err)
	}
	m.pump("leadership", func() bool { return m.leading != 0 && len(m.entries) > 0 })
	return m
}

// pump runs the loop until ok.
func (m *manual) pump(what string, ok func() bool) {
	m.t.Helper()
	for {
		if err := m.loop.drain(); err != nil {
			m.t.Fatal(err)
		}
		if ok() {
			return
		}
		select {
		case <-m.store.inbox.bell:
		case <-time.After(patience):
			m.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (m *manual) stop() {
	close(m.store.done)
	stop(m.t, m.store)
}

func TestMembershipEntriesAreHandledInside(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	s := open(t, cfg)
	m := startByHand(t, s)
	const learner = 99
	var want []uint64
	for i, change := range []pb.ConfChangeI{
		&pb.ConfChange{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(learner))},
		&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeRemoveNode.Enum(),
			NodeId: new(uint64(learner))}}},
		&pb.ConfChange{Type: pb.ConfChangeAddLearnerNode.Enum(),
			NodeId: new(uint64(learner + 1))},
	} {
		m.loop.noteApplied() // raft takes one membership change at a time
		if err := m.loop.node.ProposeConfChange(change); err != nil {
			t.Fatal(err)
		}
		m.pump("the membership entry", func() bool { return len(m.entries) == 2+i })
		if e := m.entries[1+i]; e.Data != nil || e.Index != uint64(2+i) {
			t.Fatalf("delivered as %+v", e)
		}
		_, conf, ok := s.log.At(m.last())
		if !ok {
			t.Fatal("no membership")
		}
		want = conf.Learners
	}
	if !slices.Equal(want, []uint64{learner + 1}) {
		t.Fatalf("learners %v", want)
	}
	// A checkpoint as of an entry before the last change has the membership of that entry.
	w := s.Checkpoints.Begin(2)
	w.Finish()
	m.pump("checkpoint", func() bool { return len(m.checkpoints) == 1 })
	m.stop()

	s = open(t, cfg)
	_, conf, _ := s.log.InitialState()
	if !slices.Equal(conf.GetLearners(), []uint64{learner}) ||
		!slices.Equal(conf.GetVoters(), []uint64{s.Member()}) {
		t.Errorf("membership at the checkpoint: %v", conf)
	}
	m = startByHand(t, s)
	m.pump("replay", func() bool { return m.last() >= 5 })
	if _, conf, _ := s.log.At(m.last()); !slices.Equal(conf.Learners, want) {
		t.Errorf("membership after replay: %v", conf)
	}
	m.stop()
}

func TestUnreadableOldEntryFailsTheStore(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	s := open(t, cfg)
	m := startByHand(t, s)
	for n := range 40 {
		s.Propose(m.leading, [][]byte{[]byte(command(n))})
	}
	m.pump("entries", func() bool { return len(m.entries) == 41 })
	entries, err := s.log.Entries(2, 5, 1<<20)
	if err != nil || len(entries) != 3 || string(entries[0].GetData()) != command(0) {
		t.Fatalf("entries from disk: %v, %v", entries, err)
	}
	if entries, _ = s.log.Entries(2, 5, 1); len(entries) != 1 {
		t.Fatalf("%d entries in 1 byte", len(entries))
	}
	files, err := filepath.Glob(filepath.Join(cfg.Dir, datadir.LogDir, "*"+wal.Suffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files { // whichever has the entry
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 4096; at < len(b); at++ {
			b[at] ^= 1
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.log.Entries(3, 4, 1<<20); err == nil {
		t.Fatal("a damaged entry was read")
	}
	var damage *datadir.CorruptionError
	if err := m.loop.drain(); !errors.As(err, &damage) || damage.Index != 3 {
		t.Fatalf("the loop goes on: %v", err)
	}
	m.stop()
}

func TestReplacedSuffixOfTheLog(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	s := open(t, cfg)
	batch := func(term, from, to uint64) (out []*pb.Entry) {
		for i := from; i <= to; i++ {
			out = append(out, &pb.Entry{Index: new(i), Term: new(term),
				Data: []byte(command(int(term*1000 + i)))})
		}
		return out
	}
	// Conflicts inside of the last segment, across segments, and inside of one write.
	steps := [][]*pb.Entry{
		batch(1, 1, 50),
		batch(2, 49, 52),
		batch(3, 20, 40),
		joinEntries(joinEntries(batch(4, 41, 60), batch(5, 55, 58)), batch(6, 41, 44)),
	}
	for i, entries := range steps {
		if err := s.device.Append(&wal.HardState{Term: uint64(i + 3)}, entries); err != nil {
			t.Fatal(err)
		}
		s.log.Append(entries)
		last := entries[len(entries)-1]
		if got, _ := s.log.LastIndex(); got != last.GetIndex() {
			t.Fatalf("step %d: last %d", i, got)
		}
		if term, err := s.log.Term(last.GetIndex()); err != nil || term != last.GetTerm() {
			t.Fatalf("step %d: term %d, %v", i, term, err)
		}
	}
	stop(t, s)
	img, err := datadir.Examine(cfg.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.Last != 44 {
		t.Fatalf("last %d", img.Last)
	}
	for _, e := range img.Entries {
		term := uint64(1)
		switch {
		case e.GetIndex() >= 41:
			term = 6
		case e.GetIndex() >= 20:
			term = 3
		}
		if e.GetTerm() != term || string(e.GetData()) != command(int(term*1000+e.GetIndex())) {
			t.Fatalf("entry %d has term %d", e.GetIndex(), e.GetTerm())
		}
	}
}

func TestCommittedIndexSurvivesInTheHardState(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	for round := range 3 {
		s := open(t, cfg)
		r := start(t, s)
		propose(t, r, r.lead(t), numbered("c", round*10, round*10+10)...)
		stop(t, s)
	}
	img, err := datadir.Examine(cfg.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.Hard.Term != 3 || img.Hard.Vote != img.Identity.Member ||
		img.Hard.Commit > img.Last {
		t.Errorf("hard state %+v, last entry %d", img.Hard, img.Last)
	}
}

func TestRaftMessagesGoToTheLogger(t *testing.T) {
	var l raftLogger
	for name, f := range map[string]func(){
		"Fatal": func() { l.Fatal("a") }, "Fatalf": func() { l.Fatalf("%s", "a") },
		"Panic": func() { l.Panic("a") }, "Panicf": func() { l.Panicf("%s", "a") },
	} {
		func() {
			defer func() {
				if r := recover(); r != "a" {
					t.Errorf("%s: %v", name, r)
				}
			}()
			f()
		}()
	}
	var out strings.Builder
	l = raftLogger{newTextLogger(&out)}
	l.Debug("one")
	l.Debugf("%s", "two")
	l.Info("three")
	l.Infof("%s", "four")
	l.Warning("five")
	l.Warningf("%s", "six")
	l.Error("seven")
	l.Errorf("%s", "eight")
	for level, words := range map[string]string{"DEBUG": "one two three four five six",
		"ERROR": "seven eight"} {
		for _, word := range strings.Fields(words) {
			if !strings.Contains(out.String(), "level="+level+" msg=\"raft: "+word+"\"") {
				t.Errorf("%s is not logged as %s:\n%s", word, level, out.String())
			}
		}
	}
}
