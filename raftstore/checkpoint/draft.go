package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
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
	return d.run.drop(drops)
}

// writeRun writes one piece of a run.
func (d *draft) writeRun() (err error) {
	for before := d.run.Totals().Bytes; len(d.sorted) > 0; d.sorted = d.sorted[1:] {
		if d.run.Totals().Bytes > before {
			return nil
		}
		r, kind := d.sorted[0], kindRow
		if r.Delete {
			kind, r.Value = kindDeleted, nil
		}
		if err = d.run.seal(kind, r.Key, r.Value); err != nil {
			return err
		}
		d.sorted[0] = Row{}
	}
	err = d.run.Complete()
	d.written = append(d.written, d.run.file)
	d.run, d.sorted = nil, nil
	return err
}

// inKeyOrder returns the rows in the order of their keys, of each key the last. It first compares the 16 bytes behind
// the common prefix of all keys, which nearly always decide: that takes half the time of comparing keys.
func inKeyOrder(rows []Row) []Row {
	type place struct {
		high, low uint64
		at        int
	}
	order, same := make([]place, len(rows)), commonPrefix(rows)
	for at, r := range rows {
		var head [16]byte
		copy(head[:], r.Key[same:])
		order[at] = place{binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint64(head[8:]), at}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.high != b.high {
			return cmp.Compare(a.high, b.high)
		}
		if a.low != b.low {
			return cmp.Compare(a.low, b.low)
		}
		return cmp.Or(bytes.Compare(rows[a.at].Key, rows[b.at].Key), cmp.Compare(a.at, b.at))
	})
	sorted := make([]Row, 0, len(rows))
	for i, p := range order {
		if next := order[min(i+1, len(order)-1)]; next.at == p.at || next.high != p.high || next.low != p.low ||
			!bytes.Equal(rows[p.at].Key, rows[next.at].Key) {
			sorted = append(sorted, rows[p.at])
		}
	}
	return sorted
}

// commonPrefix returns how many bytes are the same at the beginning of all keys.
func commonPrefix(rows []Row) (same int) {
	if len(rows) == 0 {
		return 0
	}
	same = len(rows[0].Key)
	for _, r := range rows {
		for same = min(same, len(r.Key)); !bytes.Equal(r.Key[:same], rows[0].Key[:same]); same-- {
		}
	}
	return same
}

// commit makes the next checkpoint the last.
func (s *Store) commit() error {
	d := s.draft
	s.draft = draft{rows: d.rows}
	return s.publish(slices.Concat(s.named, d.written), d.record)
}
