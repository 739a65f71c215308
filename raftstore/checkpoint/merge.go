package checkpoint

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

// source is one file of a checkpoint while it is read.
type source struct {
	*Reader
	file   *file
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
		return s.damage("something follows its end")
	}
	if s.Totals() != s.file.Totals {
		return s.damage(fmt.Sprintf("it is sound, but not the file of the manifest: %+v, not %+v", s.Totals(),
			s.file.Totals))
	}
	return nil
}

// merge gives the rows of several files in the order of their keys: of one key that of the youngest file.
type merge struct {
	sources []*source // oldest first
	at      *source   // whose row was given last, nil before the first
	bound   []byte    // the smallest key of the others; nil if they are over
}

func newMerge(files []*file) (*merge, error) {
	m := &merge{sources: make([]*source, len(files))}
	var hidden Prefixes
	for i := len(files) - 1; i >= 0; i-- {
		s, dropped, err := openSource(files[i])
		if err != nil {
			return nil, err
		}
		s.hidden = hidden
		hidden = hidden.with(dropped)
		m.sources[i] = s
	}
	return m, nil
}

// next returns the next row, valid until the next call; a nil key at the end, once all files were right.
func (m *merge) next() (key, stored []byte, err error) {
	for {
		s, err := m.step()
		if err != nil || s == nil {
			return nil, nil, err
		}
		if s.Stored[0] == kindRow && !s.hidden.Covers(s.Key) {
			return s.Key, s.Stored, nil
		}
	}
}

// step returns the source with the next key, nil at the end.
func (m *merge) step() (*source, error) {
	if m.at != nil {
		if err := m.at.advance(); err != nil {
			return nil, err
		}
		if !m.at.over && (m.bound == nil || bytes.Compare(m.at.Key, m.bound) < 0) {
			return m.at, nil
		}
	}
	return m.smallest()
}

// smallest finds the next key, and passes over what older files have of it.
func (m *merge) smallest() (*source, error) {
	m.at = nil
	for _, s := range m.sources {
		if s.over {
			continue
		}
		if m.at == nil || bytes.Compare(s.Key, m.at.Key) <= 0 {
			m.at = s
		}
	}
	m.bound = nil
	for _, s := range m.sources {
		if s == m.at || s.over {
			continue
		}
		if bytes.Equal(s.Key, m.at.Key) {
			if err := s.advance(); err != nil {
				return nil, err
			}
		}
		if !s.over && (m.bound == nil || bytes.Compare(s.Key, m.bound) < 0) {
			m.bound = s.Key
		}
	}
	return m.at, nil
}
