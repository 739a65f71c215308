package checkpoint

import (
	"bytes"
	"cmp"
	"slices"
)

// Put adds rows to the next checkpoint, which belong to the store from then on. Of several with one key the last one
// counts.
func (s *Store) Put(rows []Row) {
	d := &s.draft
	if room := cap(d.rows) - len(d.rows); room < len(rows) { // append would copy a long slice many times
		d.rows = slices.Grow(d.rows, max(len(d.rows), len(rows)))
	}
	d.rows = append(d.rows, rows...)
	for _, r := range rows {
		d.bytes += r.Bytes()
	}
}

// Drop removes all rows whose key begins with a prefix, also what the next checkpoint has of them, whether it was put
// before or comes later.
func (s *Store) Drop(prefix []byte) {
	s.draft.drops = append(s.draft.drops, string(prefix))
	s.draft.bytes += len(prefix) + rowOverhead
}

// Finish ends the next checkpoint: it has everything. The record is JSON.
func (s *Store) Finish(record []byte) { s.draft.record, s.draft.finished = record, true }

// Busy reports whether there is a step to be done before more rows are put.
func (s *Store) Busy() bool {
	d := &s.draft
	return d.run != nil || d.finished || d.bytes >= s.o.RunBytes || s.crowded()
}

// Step does a part of what is to be done, with one piece of a file at most. It reports whether a checkpoint became
// durable with it.
func (s *Store) Step() (durable bool, err error) {
	switch d := &s.draft; {
	case s.crowded():
		_, err := s.Tidy(true)
		return false, err
	case d.run != nil:
		return false, d.writeRun()
	case d.bytes > 0:
		return false, s.beginRun()
	case d.finished:
		return true, s.commit()
	}
	return false, nil
}

// beginRun sorts what was gathered, and leaves out what was dropped.
func (s *Store) beginRun() (err error) {
	d := &s.draft
	drops := NewPrefixes(d.drops)
	d.dropped = d.dropped.with(drops)
	d.sorted = inKeyOrder(slices.DeleteFunc(d.rows, func(r Row) bool { return d.dropped.Covers(r.Key) }))
	clear(d.rows)
	d.rows, d.drops, d.bytes = d.rows[:0], nil, 0
	if d.run, err = s.NewFile(); err != nil {
		return err
	}
	for _, prefix := range drops.sorted {
		if err := d.run.seal(kindPrefix, []byte(prefix), nil); err != nil {
			return err
		}
	}
	return nil
}

// writeRun writes one piece of a run.
func (d *draft) writeRun() (err error) {
	for before := d.run.Totals().Bytes; len(d.sorted) > 0; d.sorted = d.sorted[1:] {
		if d.run.Totals().Bytes > before {
			return nil
		}
		switch r := d.sorted[0]; {
		case r.Delete:
			err = d.run.seal(kindDeleted, r.Key, nil)
		default:
			err = d.run.seal(kindRow, r.Key, r.Value)
		}
		if err != nil {
			return err
		}
		d.sorted[0] = Row{}
	}
	err = d.run.Complete()
	d.written = append(d.written, d.run.file)
	d.run, d.sorted = nil, nil
	return err
}

// inKeyOrder returns the rows in the order of their keys, of each key the last. It takes half the time that a stable
// sort in place would take.
func inKeyOrder(rows []Row) []Row {
	type place struct {
		key []byte
		at  int
	}
	order := make([]place, len(rows))
	for i := range rows {
		order[i] = place{rows[i].Key, i}
	}
	slices.SortFunc(order, func(a, b place) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.at, b.at))
	})
	sorted := make([]Row, 0, len(rows))
	for i, p := range order {
		if i+1 == len(order) || !bytes.Equal(p.key, order[i+1].key) {
			sorted = append(sorted, rows[p.at])
		}
	}
	return sorted
}

// commit makes the next checkpoint the last.
func (s *Store) commit() error {
	d := s.draft
	s.draft = draft{rows: d.rows}
	return s.publish(slices.Concat(s.named, d.written), d.record)
}
