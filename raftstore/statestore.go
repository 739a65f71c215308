package raftstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
)

// nextPhase is what the buckets of the next checkpoint hold.
type nextPhase int

const (
	nextEmpty   nextPhase = iota
	nextStale             // what a crash left of a checkpoint that does not count: to be removed
	nextFilling           // rows of the open checkpoint
	nextCounts            // a checkpoint that counts: to be moved to the rows
)

// stateStore is state.db opened for writing. One goroutine writes: it says with put, drop and finish what a
// checkpoint consists of, and step writes that, in transactions of bounded size. Each is synced before the
// next begins. A checkpoint of one transaction is written to its place; a larger one beside the last
// checkpoint, which stays whole until one small transaction, the switch, has the other lie over it. DESIGN.md
// says why.
type stateStore struct {
	disk  *disk
	path  string
	steps stepLimits
	pages int // of the steps' limits, those of the present step
	// reading guards readers, and db while it may be replaced, where another goroutine begins to read.
	reading sync.Mutex
	readers map[*pinned]struct{} // whose transactions are open
	// ready is closed once bbolt has opened the file, or has failed to, with openErr. Nobody waits for that
	// while a server starts: what the file says was read before.
	ready   chan struct{}
	openErr error
	db      *bbolt.DB

	meta    checkpointMeta // as stored
	dropped prefixSet      // as stored: with those of next if that counts
	phase   nextPhase

	// The open checkpoint.
	rowCount, sum uint64          // what the totals will be
	adding        prefixSet       // dropped, with the open checkpoint's own
	run           []Row           // said and not yet written
	spare         []Row           // room for the next run
	runBytes      int             //
	runDrops      []string        //
	sorted        bool            // the run is being written, in key order
	finished      *checkpointMark // everything of it was said
}

// openState begins to open a file that was verified.
func openState(d *disk, dir string, img stateImage, steps stepLimits) *stateStore {
	s := &stateStore{disk: d, path: filepath.Join(dir, stateFile), steps: steps, ready: make(chan struct{})}
	s.setImage(img)
	go func() {
		defer close(s.ready)
		s.db, s.openErr = openBolt(s.disk, s.path, stateMapBytes)
	}()
	return s
}

// opened implements rowDevice.
func (s *stateStore) opened() <-chan struct{} { return s.ready }

// bolt returns the file, once it is open.
func (s *stateStore) bolt() (*bbolt.DB, error) {
	<-s.ready
	return s.db, s.openErr
}

// setImage has the store begin with what a verified file has.
func (s *stateStore) setImage(img stateImage) {
	s.meta, s.dropped = img.meta, img.dropped
	s.phase = nextStale // whether there is anything is seen when it is removed
	if s.meta.Next {
		s.phase = nextCounts
	}
	s.open()
}

// open begins with an empty checkpoint.
func (s *stateStore) open() {
	s.rowCount, s.sum, s.adding = s.meta.Rows, s.meta.Sum, s.dropped
	s.run, s.spare, s.runBytes, s.runDrops, s.sorted, s.finished = nil, nil, 0, nil, false, nil
}

// rows calls fn for every live row in key order.
func (s *stateStore) rows(fn func(key, value []byte) error) error {
	p, err := s.pin()
	if err != nil {
		return err
	}
	defer p.release()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.over != nil {
		return p.over
	}
	return guardBolt(s.path, func() error {
		for {
			key, stored, err := p.row()
			if err != nil || key == nil {
				return err
			}
			value, _, err := decodeRow(s.path, key, stored)
			if err != nil {
				return err
			}
			if err := fn(key, value); err != nil {
				return err
			}
		}
	})
}

// pin begins to read the last checkpoint, which stays readable until it is released, replaced or closed.
func (s *stateStore) pin() (*pinned, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	db, err := s.bolt()
	if err != nil {
		return nil, err
	}
	p := &pinned{path: s.path}
	p.released = func() {
		s.reading.Lock()
		defer s.reading.Unlock()
		delete(s.readers, p)
	}
	err = guardBolt(s.path, func() (err error) {
		if p.tx, err = db.Begin(false); err != nil {
			return wrapStep("begin", s.path, err)
		}
		return p.begin()
	})
	if err != nil {
		if p.tx != nil {
			p.tx.Rollback()
		}
		return nil, err
	}
	if s.readers == nil {
		s.readers = map[*pinned]struct{}{}
	}
	s.readers[p] = struct{}{}
	return p, nil
}

// replace puts a received file in the place of this one and gives up what was not finished.
func (s *stateStore) replace(r *received) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if err := s.closeFile(ErrOvertaken); err != nil {
		return err
	}
	if err := s.disk.rename(r.path, s.path); err != nil {
		return s.disk.note(err)
	}
	db, err := openBolt(s.disk, s.path, stateMapBytes)
	if err != nil {
		return s.disk.note(err)
	}
	s.db = db
	s.setImage(stateImage{meta: r.meta})
	return nil
}

// put adds rows to the open checkpoint. Rows under a dropped prefix are left out: they are being swept.
func (s *stateStore) put(rows []Row) {
	if s.run == nil {
		s.run, s.spare = s.spare, nil
	}
	if room := cap(s.run) - len(s.run); room < len(rows) { // a run is long: append would copy it many times
		s.run = slices.Grow(s.run, max(len(s.run), len(rows)))
	}
	s.run = append(s.run, rows...)
	for _, r := range rows {
		s.runBytes += rowBytes(r)
	}
}

// rowBytes is what a row counts for.
func rowBytes(r Row) int { return len(r.Key) + len(r.Value) + entryOverheadEstimate }

// drop adds a dropped prefix to the open checkpoint.
func (s *stateStore) drop(prefix []byte) { s.runDrops = append(s.runDrops, string(prefix)) }

// finish says that the open checkpoint, which is as of mark, has everything.
func (s *stateStore) finish(mark checkpointMark) { s.finished = &mark }

// busy reports whether step has something to do.
func (s *stateStore) busy() bool {
	return s.phase == nextStale || s.phase == nextCounts || s.sorted || s.finished != nil ||
		s.runBytes >= s.steps.run || len(s.runDrops) >= s.steps.rows
}

// step writes one transaction of what is to be done. It reports whether the open checkpoint is durable with
// it; then the next may be opened, and is written once the rows of this one have been moved to their place.
// Rows that lie far apart change a page each, and the log's writes wait while the disk takes those: unless
// there is a hurry, a transaction changes few of them.
func (s *stateStore) step(hurry bool) (durable bool, err error) {
	s.pages = s.steps.pages
	if hurry {
		s.pages = math.MaxInt
	}
	switch {
	case s.phase == nextStale:
		return false, s.empty()
	case s.phase == nextCounts:
		return false, s.move()
	case s.finished != nil && s.phase == nextEmpty && s.small():
		return true, s.finishAtOnce()
	case len(s.runDrops) > 0:
		return false, s.writeDrops()
	case len(s.run) > 0:
		return false, s.writeRows()
	default:
		return true, s.finishNext()
	}
}

// small reports whether the open checkpoint fits into one transaction, though each row may change a page.
func (s *stateStore) small() bool {
	return len(s.run) <= min(s.steps.rows, s.pages) && s.runBytes <= s.steps.bytes && len(s.runDrops) <= s.steps.rows
}

// stateTx is a write transaction with the buckets of state.db.
type stateTx struct {
	rows, dropped, meta, next, nextDropped *bbolt.Bucket
	inRows, inNext                         *bbolt.Cursor // to look rows up with: Bucket.Get makes one each time
}

// lookUp returns what is stored under key, nil if nothing is.
func lookUp(in *bbolt.Cursor, key []byte) []byte {
	if found, stored := in.Seek(key); bytes.Equal(found, key) {
		return stored
	}
	return nil
}

// update runs fn in a transaction of its own. A file of an older format gets the present one with it, and the
// buckets that it lacks, before there is anything in them.
func (s *stateStore) update(fn func(tx stateTx) error) error {
	db, err := s.bolt()
	if err != nil {
		return s.disk.note(err)
	}
	return commitBolt(s.disk, db, func(tx *bbolt.Tx) error {
		var b stateTx
		for name, bucket := range map[string]**bbolt.Bucket{rowsBucket: &b.rows, droppedBucket: &b.dropped,
			metaBucket: &b.meta} {
			var err error
			if *bucket, err = mustBucket(tx, name); err != nil {
				return err
			}
			(*bucket).FillPercent = stateFillPercent
		}
		for name, bucket := range map[string]**bbolt.Bucket{nextBucket: &b.next,
			nextDroppedBucket: &b.nextDropped} {
			var err error
			if *bucket, err = tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
			(*bucket).FillPercent = stateFillPercent
		}
		b.inRows, b.inNext = b.rows.Cursor(), b.next.Cursor()
		if s.meta.Format < checkpointFormat {
			s.meta.Format, s.meta.Dropped = checkpointFormat, len(s.dropped.sorted)
			if err := s.putMeta(b); err != nil {
				return err
			}
		}
		return fn(b)
	})
}

func (s *stateStore) putMeta(tx stateTx) error {
	return tx.meta.Put([]byte(checkpointKey), s.meta.encode())
}

// finishAtOnce writes an open checkpoint of which nothing was written yet, all of it.
func (s *stateStore) finishAtOnce() error {
	s.sortRun()
	s.adding = s.adding.with(s.runDrops...)
	err := s.update(func(tx stateTx) error {
		for _, prefix := range s.runDrops {
			if err := tx.dropped.Put([]byte(prefix), encodeRow([]byte(prefix), nil)); err != nil {
				return err
			}
		}
		for _, r := range s.run {
			if err := s.putRow(tx, r); err != nil {
				return err
			}
		}
		s.settleMeta(false)
		return s.putMeta(tx)
	})
	s.dropped = s.adding
	s.open()
	return err
}

// putRow puts a row to its place.
func (s *stateStore) putRow(tx stateTx, r Row) error {
	if s.adding.covers(r.Key) {
		return nil
	}
	if old := lookUp(tx.inRows, r.Key); old != nil {
		if err := s.uncount(r.Key, old); err != nil {
			return err
		}
	}
	if r.Delete {
		return tx.rows.Delete(r.Key)
	}
	return tx.rows.Put(r.Key, s.count(r))
}

// settleMeta makes the record that of the finished checkpoint.
func (s *stateStore) settleMeta(next bool) {
	s.meta.Index, s.meta.Term, s.meta.Conf = s.finished.index, s.finished.term, s.finished.conf
	s.meta.Rows, s.meta.Sum, s.meta.Dropped, s.meta.Next = s.rowCount, s.sum, len(s.adding.sorted), next
}

// writeDrops writes some of the prefixes that the open checkpoint drops.
func (s *stateStore) writeDrops() error {
	some := s.runDrops[:min(len(s.runDrops), s.steps.rows)]
	s.phase = nextFilling
	err := s.update(func(tx stateTx) error {
		for _, prefix := range some {
			if err := tx.nextDropped.Put([]byte(prefix), encodeRow([]byte(prefix), nil)); err != nil {
				return err
			}
		}
		return nil
	})
	s.adding = s.adding.with(some...)
	s.runDrops = s.runDrops[len(some):]
	return err
}

// sortRun puts the run into key order. Of several versions of a row, which no caller has so far, the last one
// counts.
func (s *stateStore) sortRun() {
	if !s.sorted {
		said := s.run
		s.run, s.sorted = inKeyOrder(said), true
		clear(said)
		s.spare = said[:0]
	}
}

// inKeyOrder returns the rows in the order of their keys, and those of one key in the order in which they came.
// It takes half the time that a stable sort in place would take from the requests.
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
	sorted := make([]Row, len(rows))
	for i, p := range order {
		sorted[i] = rows[p.at]
	}
	return sorted
}

// spent reports whether a transaction changes as many pages as it may.
func (s *stateStore) spent(tx *bbolt.Tx) bool {
	stats := tx.Stats()
	return stats.GetNodeCount() >= int64(s.pages)
}

// writeRows writes some rows of the run to next.
func (s *stateStore) writeRows() error {
	s.sortRun()
	s.phase = nextFilling
	n := 0
	err := s.update(func(tx stateTx) error {
		for bytes := 0; n < len(s.run) && !s.steps.full(n, bytes, rowBytes(s.run[n])) &&
			(n == 0 || !s.spent(tx.next.Tx())); n++ {
			bytes += rowBytes(s.run[n])
			if err := s.putNext(tx, s.run[n]); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range s.run[:n] {
		s.runBytes -= rowBytes(s.run[i])
		s.run[i] = Row{}
	}
	if s.run = s.run[n:]; len(s.run) == 0 {
		s.run, s.sorted = nil, false
	}
	return err
}

// putNext puts a row to next. Only one that is among the rows needs a tombstone.
func (s *stateStore) putNext(tx stateTx, r Row) error {
	if s.adding.covers(r.Key) {
		return nil
	}
	under, over := lookUp(tx.inRows, r.Key), lookUp(tx.inNext, r.Key)
	switch {
	case over != nil:
		_, sum, gone, err := decodeNext(s.path, r.Key, over)
		if err != nil {
			return err
		}
		if !gone {
			s.rowCount, s.sum = s.rowCount-1, s.sum-uint64(sum)
		}
	case under != nil:
		if err := s.uncount(r.Key, under); err != nil {
			return err
		}
	}
	switch {
	case !r.Delete:
		return tx.next.Put(r.Key, s.count(r))
	case under != nil:
		return tx.next.Put(r.Key, encodeTombstone(r.Key))
	default:
		return tx.next.Delete(r.Key)
	}
}

// count adds a row to the totals and returns it as it is stored.
func (s *stateStore) count(r Row) []byte {
	stored := encodeRow(r.Key, r.Value)
	s.rowCount++
	s.sum += uint64(binary.LittleEndian.Uint32(stored[1:]))
	return stored
}

// uncount takes a stored row out of the totals.
func (s *stateStore) uncount(key, stored []byte) error {
	_, sum, err := decodeRow(s.path, key, stored)
	if err != nil {
		return err
	}
	s.rowCount--
	s.sum -= uint64(sum)
	return nil
}

// finishNext is the switch: from here on next counts.
func (s *stateStore) finishNext() error {
	err := s.update(func(tx stateTx) error {
		s.settleMeta(true)
		return s.putMeta(tx)
	})
	s.phase, s.dropped = nextCounts, s.adding
	s.open()
	return err
}

// move brings some of what is in next to its place, and ends the overlay with the last of it.
func (s *stateStore) move() error {
	return s.update(func(tx stateTx) error {
		left := s.steps
		done, err := s.takeSome(tx.next, &left, func(key, stored []byte) error {
			_, _, gone, err := decodeNext(s.path, key, stored)
			switch {
			case err != nil:
				return err
			case gone:
				return tx.rows.Delete(key)
			}
			return tx.rows.Put(key, stored)
		})
		if err != nil || !done {
			return err
		}
		done, err = s.takeSome(tx.nextDropped, &left, tx.dropped.Put)
		if err != nil || !done {
			return err
		}
		s.phase, s.meta.Next = nextEmpty, false
		return s.putMeta(tx)
	})
}

// empty removes some of what is in next and does not count.
func (s *stateStore) empty() error {
	db, err := s.bolt()
	if err != nil {
		return s.disk.note(err)
	}
	clean := false
	err = guardBolt(s.path, func() error {
		return db.View(func(tx *bbolt.Tx) error {
			clean = isEmpty(tx.Bucket([]byte(nextBucket))) && isEmpty(tx.Bucket([]byte(nextDroppedBucket)))
			return nil
		})
	})
	if err != nil {
		return err
	}
	if clean {
		s.phase = nextEmpty
		return nil
	}
	return s.update(func(tx stateTx) error {
		left := s.steps
		remove := func(_, _ []byte) error { return nil }
		if done, err := s.takeSome(tx.next, &left, remove); err != nil || !done {
			return err
		}
		_, err := s.takeSome(tx.nextDropped, &left, remove)
		return err
	})
}

func isEmpty(b *bbolt.Bucket) bool {
	if b == nil {
		return true
	}
	key, _ := b.Cursor().First()
	return key == nil
}

// takeSome passes the first pairs of a bucket to fn, which must not change that bucket, and removes them, as
// many as are left of the limits. It reports whether these were all.
func (s *stateStore) takeSome(b *bbolt.Bucket, left *stepLimits,
	fn func(key, stored []byte) error) (done bool, err error) {
	for c, n := b.Cursor(), 0; ; n++ {
		key, stored := c.First()
		if key == nil {
			return true, nil
		}
		if left.rows <= 0 || n > 0 && (left.bytes <= 0 || s.spent(b.Tx())) {
			return false, nil
		}
		left.rows--
		left.bytes -= len(key) + len(stored)
		if err := fn(key, stored); err != nil {
			return false, err
		}
		if err := c.Delete(); err != nil {
			return false, err
		}
	}
}

// sweep removes up to limit rows under one dropped prefix in a transaction of its own; the prefix itself goes
// with its last row. It reports whether more is to be done. Only while no checkpoint is open and step has
// nothing to do.
func (s *stateStore) sweep(limit int) (more bool, err error) {
	prefix, ok := s.dropped.first()
	if !ok {
		return false, nil
	}
	err = s.update(func(tx stateTx) error {
		done, err := s.sweepRows(tx.rows, prefix, limit)
		if err != nil {
			return err
		}
		if done {
			if err := sweepPrefix(tx.dropped, prefix); err != nil {
				return err
			}
			s.dropped = s.dropped.without(prefix)
		}
		s.meta.Rows, s.meta.Sum, s.meta.Dropped = s.rowCount, s.sum, len(s.dropped.sorted)
		return s.putMeta(tx)
	})
	s.adding = s.dropped
	_, more = s.dropped.first()
	return more, err
}

func (s *stateStore) sweepRows(b *bbolt.Bucket, prefix string, limit int) (done bool, err error) {
	var keys [][]byte
	c := b.Cursor()
	for k, v := c.Seek([]byte(prefix)); ; k, v = c.Next() {
		if k == nil || !strings.HasPrefix(string(k), prefix) {
			done = true
			break
		}
		if len(keys) == limit {
			break
		}
		if err := s.uncount(k, v); err != nil {
			return false, err
		}
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return false, err
		}
	}
	return done, nil
}

// sweepPrefix removes a prefix, and longer ones which it covers.
func sweepPrefix(b *bbolt.Bucket, prefix string) error {
	var covered [][]byte
	c := b.Cursor()
	for k, _ := c.Seek([]byte(prefix)); k != nil && strings.HasPrefix(string(k), prefix); k, _ = c.Next() {
		covered = append(covered, bytes.Clone(k))
	}
	for _, k := range covered {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// close closes the file. What was not finished is given up.
func (s *stateStore) close() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.closeFile(ErrStopped)
}

// closeFile ends all readers, because bbolt waits for them, and closes the file. The mutex is held.
func (s *stateStore) closeFile(why error) error {
	for p := range s.readers {
		p.end(why)
	}
	s.readers = nil
	db, err := s.bolt()
	if err != nil { // told already
		return nil
	}
	return wrapStep("close", s.path, guardBolt(s.path, db.Close))
}
