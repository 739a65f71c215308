package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// ErrCut reports that an entry is not in the log any more.
var ErrCut = errors.New("the entry was removed from the log")

// Run is the term of the entries from Index on, up to the next run.
type Run struct{ Index, Term uint64 }

// ref is the place of a batch with entries that count, first to last.
type ref struct {
	first, last uint64
	segment     *segment
	at, end     int64 // of its records
}

// state is the content of the log. last is first-1 if there is no entry. Written and read batches change it by the same
// code.
type state struct {
	first, last uint64
	base        uint64 // the term of entry first-1, 0 if it is not known
	runs        []Run
	refs        []ref
	hard        HardState
}

// stateBefore is the state in front of a file that begins a chain.
func stateBefore(h header) state {
	return state{first: h.Last + 1, last: h.Last, base: h.LastTerm, hard: h.Hard}
}

func (s *state) clone() state {
	c := *s
	c.runs, c.refs = slices.Clone(s.runs), slices.Clone(s.refs)
	return c
}

func (s *state) lastTerm() uint64 {
	if len(s.runs) == 0 {
		return s.base
	}
	return s.runs[len(s.runs)-1].Term
}

// change is the effect of a batch on the state.
type change struct {
	first, last uint64 // of the entries; first is 0 without entries
	runs        []Run
	hard        *HardState
	next        *link // the next file; its other fields are not set
}

// change decodes a batch and checks that it may follow the state.
func (s *state) change(payload []byte, count int) (change, error) {
	var c change
	err := records(payload, count, func(r record) error {
		switch {
		case r.kind == kindEntry && c.hard == nil && c.next == nil:
			return s.addEntry(&c, r)
		case r.kind == kindHard && len(r.data) == 8 && c.hard == nil:
			c.hard = &HardState{Term: r.term, Vote: binary.LittleEndian.Uint64(r.data), Commit: r.index}
			return nil
		case r.kind == kindNext && count == 1 && len(r.data) == len(salt{}):
			c.next = &link{Sequence: r.index, Salt: salt(r.data)}
			return nil
		}
		return fmt.Errorf("a record of kind %d with %d bytes", r.kind, len(r.data))
	})
	if err == nil {
		err = s.checkHard(c)
	}
	return c, err
}

func (s *state) addEntry(c *change, r record) error {
	switch {
	case c.first != 0 && r.index != c.last+1, c.first == 0 && r.index > s.last+1:
		return fmt.Errorf("entry %d is behind entry %d", r.index, max(c.last, s.last))
	case r.index <= s.hard.Commit:
		return fmt.Errorf("entry %d is written again, entry %d is committed", r.index, s.hard.Commit)
	}
	if c.first == 0 {
		c.first = r.index
	}
	if n := len(c.runs); n == 0 || c.runs[n-1].Term != r.term {
		if n > 0 && c.runs[n-1].Term > r.term || n == 0 && s.term(r.index-1) > r.term {
			return fmt.Errorf("entry %d has the lower term %d", r.index, r.term)
		}
		c.runs = append(c.runs, Run{r.index, r.term})
	}
	c.last = r.index
	return nil
}

// checkHard checks that terms and commits are never ahead of what they rest on, and never go back.
func (s *state) checkHard(c change) error {
	hard, last, term := s.hard, s.last, s.lastTerm()
	if c.first != 0 {
		last, term = c.last, c.runs[len(c.runs)-1].Term
	}
	if c.hard != nil {
		hard = *c.hard
	}
	switch {
	case hard.Term < s.hard.Term || hard.Commit < s.hard.Commit:
		return fmt.Errorf("the hard state goes back from %+v to %+v", s.hard, hard)
	case hard.Term == s.hard.Term && s.hard.Vote != 0 && hard.Vote != s.hard.Vote:
		return fmt.Errorf("the vote of term %d changes from %x to %x", hard.Term, s.hard.Vote, hard.Vote)
	case hard.Commit > last:
		return fmt.Errorf("entry %d is committed, the log ends at %d", hard.Commit, last)
	case hard.Term < term:
		return fmt.Errorf("the term is %d, that of entry %d is %d", hard.Term, last, term)
	}
	return nil
}

// apply takes a batch that stands at a place into the state.
func (s *state) apply(c change, segment *segment, b batch) {
	if c.hard != nil {
		s.hard = *c.hard
	}
	if c.first == 0 {
		return
	}
	s.truncate(c.first)
	if n := len(s.runs); n > 0 && s.runs[n-1].Term == c.runs[0].Term {
		c.runs = c.runs[1:]
	}
	s.runs = append(s.runs, c.runs...)
	s.refs = append(s.refs, ref{c.first, c.last, segment, b.at + batchHeaderBytes, b.end})
	s.last = c.last
}

// truncate removes the entries from index on.
func (s *state) truncate(index uint64) {
	for n := len(s.refs); n > 0 && s.refs[n-1].last >= index; n-- {
		if s.refs[n-1].first < index {
			s.refs[n-1].last = index - 1
			break
		}
		s.refs = s.refs[:n-1]
	}
	for n := len(s.runs); n > 0 && s.runs[n-1].Index >= index; n-- {
		s.runs = s.runs[:n-1]
	}
	if s.last = index - 1; index < s.first {
		s.first, s.base = index, 0
	}
}

// cut forgets the entries in files that are gone. What is left begins with the batch that keeps index, or behind the
// end.
func (s *state) cut(gone map[*segment]bool) {
	n := 0
	for n < len(s.refs) && gone[s.refs[n].segment] {
		n++
	}
	if n == 0 {
		return
	}
	first := s.last + 1
	if n < len(s.refs) {
		first = s.refs[n].first
	}
	s.base = s.term(first - 1)
	s.first, s.refs = first, slices.Clone(s.refs[n:])
	for len(s.runs) > 0 && (len(s.runs) > 1 && s.runs[1].Index <= first || s.runs[0].Index < first && first > s.last) {
		s.runs = s.runs[1:]
	}
	if len(s.runs) > 0 {
		s.runs[0].Index = max(s.runs[0].Index, first)
	}
}

// term returns the term of an entry, 0 if it is not known.
func (s *state) term(index uint64) uint64 {
	if index+1 == s.first {
		return s.base
	}
	if index < s.first || index > s.last {
		return 0
	}
	return s.runs[sort.Search(len(s.runs), func(i int) bool { return s.runs[i].Index > index })-1].Term
}

// find returns the batches that hold entries lo to hi-1.
func (s *state) find(lo, hi uint64) ([]ref, error) {
	if lo < s.first {
		return nil, ErrCut
	}
	if lo >= hi || hi > s.last+1 {
		return nil, errors.New("no such entries")
	}
	from := sort.Search(len(s.refs), func(i int) bool { return s.refs[i].last >= lo })
	to := sort.Search(len(s.refs), func(i int) bool { return s.refs[i].first >= hi })
	return slices.Clone(s.refs[from:to]), nil
}
