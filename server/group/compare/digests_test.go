package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDigestVerdicts goes through what servers may have reported as of one index. The letters are the digests
// of the servers 1, 2 and so on, the first of them this one; a small letter is that of another hash version,
// "." says that there is no report yet.
func TestDigestVerdicts(t *testing.T) {
	for _, c := range []struct {
		reports   string
		learners  []uint64
		settled   bool // nobody is waited for any more
		want      verdict
		differing []uint64
	}{
		{reports: "A", want: uncontradicted},
		{reports: "AAA", want: uncontradicted},
		{reports: "A..", want: uncontradicted},
		{reports: "A..", settled: true, want: uncontradicted},
		{reports: "AAB", want: agreed, differing: []uint64{3}},
		{reports: "BAA", want: outvoted, differing: []uint64{2, 3}},
		{reports: "BA.", want: pending, differing: []uint64{2}},
		{reports: "BA.", settled: true, want: split, differing: []uint64{2}},
		{reports: "ABC", want: split, differing: []uint64{2, 3}},
		{reports: "AB", want: split, differing: []uint64{2}},
		{reports: "A.", want: uncontradicted},
		{reports: "AABB.", want: pending, differing: []uint64{3, 4}},
		{reports: "AABB.", settled: true, want: split, differing: []uint64{3, 4}},
		{reports: "AAABB", want: agreed, differing: []uint64{4, 5}},
		{reports: "AB...", want: pending, differing: []uint64{2}},
		{reports: "ABCD.", want: split, differing: []uint64{2, 3, 4}}, // whatever the last one says
		{reports: "ABBB.", want: outvoted, differing: []uint64{2, 3, 4}},
		{reports: "AABBBB", want: outvoted, differing: []uint64{3, 4, 5, 6}},
		{reports: "AAABBB", want: split, differing: []uint64{4, 5, 6}},
		{reports: "Abb", want: uncontradicted}, // a rolling upgrade: nothing can be compared
		{reports: "ABb", want: split, differing: []uint64{2}},
		{reports: "AAb", want: uncontradicted},
		{reports: "AABB", learners: []uint64{4}, want: agreed, differing: []uint64{3, 4}},
		{reports: "AB", learners: []uint64{2}, want: agreed, differing: []uint64{2}},
		{reports: "AABBB", learners: []uint64{3, 4, 5}, want: agreed, differing: []uint64{3, 4, 5}},
		// who has no vote proves nothing
		{reports: "A.B", learners: []uint64{3}, settled: true, want: uncontradicted, differing: []uint64{3}},
		{reports: "BAA", learners: []uint64{1}, want: outvoted, differing: []uint64{2, 3}},
		{reports: "BA.", learners: []uint64{1}, settled: true, want: split, differing: []uint64{2}},
		{reports: "AAA", learners: []uint64{1}, want: uncontradicted},
	} {
		d, e := newDigests(), &electorate{self: 1}
		for i := range c.reports {
			id := uint64(i + 1)
			e.members = append(e.members, id)
			if !slices.Contains(c.learners, id) {
				e.voters = append(e.voters, id)
			}
		}
		for i, letter := range c.reports {
			r := report{index: 7, version: 1, digest: uint64(letter)}
			if letter >= 'a' {
				r.version = 2
			}
			switch id := uint64(i + 1); {
			case letter == '.':
				// of another index: it does not count
				d.heard(id, report{index: 6, version: 1, digest: 99}, e.members)
			case id == e.self:
				d.addOwn(r)
			default:
				d.heard(id, r, e.members)
			}
		}
		if c.settled {
			d.giveUp(7)
		}
		found := d.findings(e)
		if len(found) != 1 || found[0].verdict != c.want || !slices.Equal(found[0].differing, c.differing) {
			t.Errorf("%q, settled %v: got %+v, want verdict %d about %v", c.reports, c.settled, found, c.want,
				c.differing)
		}
	}
}

// TestDigestMajorityIsUnique: whatever was reported, of the servers with a vote never two ask each other to
// end, and none ends unless more than half of the voters say the same.
func TestDigestMajorityIsUnique(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ended := 0
	for range 20_000 {
		n := 1 + random.IntN(7)
		e := electorate{}
		digest := make([]uint64, n)
		counts := make(map[uint64]int)
		for i := range n {
			e.members = append(e.members, uint64(i+1))
			digest[i] = random.Uint64N(4) // 0: no report
			counts[digest[i]]++
		}
		e.voters = e.members
		for i := range n {
			if digest[i] == 0 {
				continue
			}
			d := newDigests()
			d.addOwn(report{5, 1, digest[i]})
			for other := range n {
				if other != i && digest[other] != 0 {
					d.heard(uint64(other+1), report{5, 1, digest[other]}, e.members)
				}
			}
			e.self = uint64(i + 1)
			f := d.findings(&e)[0]
			if f.verdict != outvoted {
				continue
			}
			ended++
			if f.majority == digest[i] || 2*counts[f.majority] <= n {
				t.Fatalf("server %d of %v ends for %d", i+1, digest, f.majority)
			}
		}
	}
	if ended < 1000 {
		t.Errorf("only %d servers have ended", ended)
	}
}

// TestDigestReportsAreForgotten: of each server as many reports are kept as may be, those of the highest
// indexes, and none of servers that are no members any more, whichever of the two ways they are looked at.
func TestDigestReportsAreForgotten(t *testing.T) {
	d := newDigests()
	members := []uint64{1, 2, 3}
	for index := uint64(1); index <= 3*ReportsKept; index++ {
		d.addOwn(report{index, 1, index})
		for _, id := range members[1:] {
			d.heard(id, report{3*ReportsKept + 1 - index, 1, index}, members) // in descending order
		}
		if len(d.own) > ReportsKept || len(d.others[2]) > ReportsKept || len(d.others[3]) > ReportsKept {
			t.Fatalf("kept %v, %v", d.own, d.others)
		}
	}
	if len(d.own) != ReportsKept || d.own[0].index != 2*ReportsKept+1 ||
		d.others[2][0].index != 2*ReportsKept+1 {
		t.Errorf("kept %v, %v", d.own, d.others[2])
	}
	d.heard(2, report{3 * ReportsKept, 1, 999}, members)
	if said, _ := reportAt(d.others[2], 3*ReportsKept); said.digest != 999 ||
		len(d.others[2]) != ReportsKept {
		t.Errorf("the last word does not count: %v", d.others[2])
	}
	d.heard(2, report{3 * ReportsKept, 1, 999}, []uint64{1, 2})
	if len(d.others) != 1 {
		t.Errorf("kept of others than members: %v", d.others)
	}
	d.findings(&electorate{self: 1, members: []uint64{1}, voters: []uint64{1}})
	if len(d.others) != 0 {
		t.Errorf("kept of others than members: %v", d.others)
	}
	d.replaced(report{3, 1, 1})
	if now, known := d.newest(); !known || now.index != 3 || len(d.own) != 1 {
		t.Errorf("of the state before: %v", d.own)
	}
	if _, known := d.at(3 * ReportsKept); known {
		t.Error("the report of a state that was replaced is still there")
	}
}

// TestDigestPresent: how things stand is what the newest comparison says, and not one that nobody has
// answered yet.
func TestDigestPresent(t *testing.T) {
	d, e := newDigests(), &electorate{self: 1, members: []uint64{1, 2}, voters: []uint64{1, 2}}
	for _, step := range []struct {
		what string
		do   func()
		want finding
	}{
		{"nothing is known", func() {}, finding{}},
		{"nobody has answered", func() { d.addOwn(report{5, 1, 50}) }, finding{}},
		{"another state", func() { d.heard(2, report{5, 1, 51}, e.members) },
			finding{verdict: split, report: report{5, 1, 50}}},
		{"a further mark", func() { d.addOwn(report{9, 1, 90}) },
			finding{verdict: split, report: report{5, 1, 50}}},
		{"another state there", func() { d.heard(2, report{9, 1, 91}, e.members) },
			finding{verdict: split, report: report{9, 1, 90}}},
		{"the last word", func() { d.heard(2, report{9, 1, 90}, e.members) },
			finding{verdict: uncontradicted, report: report{9, 1, 90}}},
	} {
		step.do()
		if got := present(d.findings(e)); got.verdict != step.want.verdict || got.report != step.want.report {
			t.Errorf("%s: got %s, want %s", step.what, fmt.Sprint(got), fmt.Sprint(step.want))
		}
	}
	e.members, e.voters = []uint64{1}, []uint64{1}
	if got := present(d.findings(e)); got.verdict != uncontradicted {
		t.Errorf("the other one was removed: got %+v", got)
	}
}
