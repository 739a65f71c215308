package checkpoint

import "slices"

// mergeFrom returns the first of the files that are to be merged with all younger ones, -1 if no merge is due: the base
// once the runs exceed half of it; if there are many runs, the oldest that is no larger than all younger ones together.
func (s *Store) mergeFrom() int {
	var young int64
	for _, f := range s.named {
		young += f.Bytes
	}
	for at, f := range s.named {
		young -= f.Bytes
		switch {
		case at == 0 && young > max(f.Bytes/2, int64(s.o.MergeBytes)),
			at > 0 && young >= f.Bytes && len(s.named) > runsMax+1:
			return at
		}
	}
	return -1
}

// crowded reports whether there are so many files that they have to be merged before there are more.
func (s *Store) crowded() bool { return len(s.named) > filesMax }

// Tidy does a part of what may be done at any pace: it removes files that nobody needs, and merges others unless there
// is no room for that. It reports whether there may be more to do.
func (s *Store) Tidy(room bool) (more bool, err error) {
	if f := s.takeGarbage(); f != nil {
		return true, s.o.discard(f)
	}
	if s.merged != nil {
		return true, s.continueMerge()
	}
	if at := s.mergeFrom(); room && at >= 0 {
		return true, s.beginMerge(at)
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

// beginMerge begins to merge the files from one on. A base needs neither deleted rows nor dropped prefixes; a run does,
// for older files.
func (s *Store) beginMerge(at int) error {
	from, err := newMerge(s.named[at:])
	if err != nil {
		return err
	}
	w, err := s.NewFile()
	if err != nil {
		return err
	}
	s.merged = &merged{w, from, at, len(s.named)}
	if at == 0 {
		return nil
	}
	from.deleted = true
	return w.drop(from.dropped)
}

// continueMerge writes one piece of a merged file.
func (s *Store) continueMerge() error {
	m := s.merged
	for before := m.Totals().Bytes; m.Totals().Bytes == before; {
		key, stored, err := m.from.next()
		if err != nil {
			return err
		}
		if key == nil {
			s.merged = nil
			if err := m.Complete(); err != nil {
				return err
			}
			return s.publish(slices.Concat(s.named[:m.first], []*file{m.file}, s.named[m.end:]), s.record)
		}
		if err := m.Row(key, stored); err != nil {
			return err
		}
	}
	return nil
}
