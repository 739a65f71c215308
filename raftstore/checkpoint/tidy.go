package checkpoint

import "slices"

// large reports whether the younger files are to be merged into the oldest.
func (s *Store) large() bool {
	if len(s.named) < 2 {
		return false
	}
	var young int64
	for _, f := range s.named[1:] {
		young += f.Bytes
	}
	return len(s.named) > youngMax+1 || young > max(s.named[0].Bytes/2, int64(s.o.MergeBytes))
}

// crowded reports whether there are so many files that they have to be merged before there are more.
func (s *Store) crowded() bool { return len(s.named) > filesMax }

// Tidy does a part of what may be done at any pace: it removes files that nobody needs, and merges others unless there
// is no room for that. It reports whether there may be more to do.
func (s *Store) Tidy(room bool) (more bool, err error) {
	switch f := s.takeGarbage(); {
	case f != nil:
		return true, s.o.discard(f)
	case s.base != nil:
		return true, s.continueMerge()
	case room && s.large():
		return true, s.beginMerge()
	}
	return false, nil
}

// takeGarbage returns a file that nobody reads and the manifest does not have.
func (s *Store) takeGarbage() *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.garbage, func(f *file) bool { return f.readers == 0 })
	if at < 0 {
		return nil
	}
	f := s.garbage[at]
	s.garbage = slices.Delete(s.garbage, at, at+1)
	return f
}

func (s *Store) beginMerge() error {
	from, err := newMerge(s.named)
	if err != nil {
		return err
	}
	w, err := s.NewFile()
	if err == nil {
		s.base = &base{w, from, len(s.named)}
	}
	return err
}

// continueMerge writes one piece of the next base. It has all that is below it in it, so it needs neither deleted rows
// nor dropped prefixes.
func (s *Store) continueMerge() error {
	b := s.base
	for before := b.Totals().Bytes; b.Totals().Bytes == before; {
		key, stored, err := b.from.next()
		if err != nil {
			return err
		}
		if key == nil {
			s.base = nil
			if err := b.Complete(); err != nil {
				return err
			}
			return s.publish(slices.Concat([]*file{b.file}, s.named[b.inputs:]), s.record)
		}
		if err := b.Row(key, stored); err != nil {
			return err
		}
	}
	return nil
}
