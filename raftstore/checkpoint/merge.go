package checkpoint

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/coordd/coordd/raftstore/files"
)

// source is one file of a checkpoint while it is read.
type source struct {
	*Reader
	file   *file
	age    int      // the youngest file has the highest
	hidden Prefixes // what younger files have dropped
	over   bool
}

// openSource begins to read a file, and returns the prefixes that it drops.
func openSource(f *file) (*source, Prefixes, error) {
	s := &source{file: f,
		Reader: NewReader(io.NewSectionReader(f.open, 0, math.MaxInt64), magic, f.path)}
	var dropped []string
	for {
		if err := s.advance(); err != nil {
			return nil, Prefixes{}, err
		}
		if s.over || s.Stored[0] != kindPrefix {
			return s, NewPrefixes(dropped), nil
		}
		dropped = append(dropped, string(s.Key))
	}
}

// advance goes on to the next row. Behind the last one it compares the file with the manifest.
func (s *source) advance() error {
	more, err := s.Next()
	if err != nil || more {
		return err
	}
	s.over = true
	if _, err := s.in.ReadByte(); err != io.EOF {
		return files.Damage(s.name, "something follows its end")
	}
	if s.Totals() != s.file.Totals {
		return files.Damage(s.name, "it is sound, but not the file of the manifest: %+v, not %+v", s.Totals(),
			s.file.Totals)
	}
	return nil
}

// merge gives the rows of several files in the order of their keys: of one key that of the youngest file.
type merge struct {
	heap    []*source // those that are not over; the first one has the smallest key
	last    []byte    // the key that was given last
	totals  Totals    // rows that were given, and the sum of their checksums
	dropped Prefixes  // by any of the files
	deleted bool      // deleted rows are given as well
}

func newMerge(of []*file) (*merge, error) {
	m := &merge{}
	for age, f := range slices.Backward(of) {
		s, dropped, err := openSource(f)
		if err != nil {
			return nil, err
		}
		s.age, s.hidden = age, m.dropped
		m.dropped = m.dropped.with(dropped)
		if !s.over {
			m.heap = append(m.heap, s)
		}
	}
	for at := range slices.Backward(m.heap) {
		m.sink(at)
	}
	return m, nil
}

// next returns the next row, valid until the next call; a nil key at the end, once all files were right.
func (m *merge) next() (key, stored []byte, err error) {
	for {
		for len(m.heap) > 0 && bytes.Equal(m.heap[0].Key, m.last) { // the row that was given, and older ones
			if err := m.advance(); err != nil {
				return nil, nil, err
			}
		}
		if len(m.heap) == 0 {
			return nil, nil, nil
		}
		s := m.heap[0]
		m.last = append(m.last[:0], s.Key...)
		if (s.Stored[0] == kindRow || m.deleted) && !s.hidden.Covers(s.Key) {
			m.totals.Add(s.Stored)
			return s.Key, s.Stored, nil
		}
	}
}

// advance passes over the smallest key of the first file.
func (m *merge) advance() error {
	s := m.heap[0]
	if err := s.advance(); err != nil {
		return err
	}
	if n := len(m.heap) - 1; s.over {
		m.heap[0] = m.heap[n]
		m.heap = m.heap[:n]
	}
	m.sink(0)
	return nil
}

// sink moves a file to its place in the heap below.
func (m *merge) sink(at int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(m.heap); child++ {
			a, b := m.heap[child], m.heap[least]
			if cmp.Or(bytes.Compare(a.Key, b.Key), b.age-a.age) < 0 {
				least = child
			}
		}
		if least == at {
			return
		}
		m.heap[at], m.heap[least] = m.heap[least], m.heap[at]
		at = least
	}
}
