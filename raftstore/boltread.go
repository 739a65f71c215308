package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"os"
	"slices"
)

// A reader for bbolt files which trusts nothing in them. bbolt checks only its two meta pages and panics on
// other damage, partly in goroutines of its own where nobody can recover; so every file is read with this
// first, through ordinary reads, and bbolt opens it only if the whole tree is sound. Both meta pages must be
// valid: a meta page fits in a disk sector, so an invalid one is damage and not a torn write, and falling
// back to the other one would silently go back in time.
const (
	boltPageHeaderLen = 16
	boltElementLen    = 16
	boltMetaLen       = 64
	boltMagic         = 0xED0CDAED
	boltVersion       = 2
	boltDepthMax      = 64
	boltPageMin       = 512
	boltPageMax       = 64 << 10

	boltBranchPage = 0x01
	boltLeafPage   = 0x02
	boltMetaPage   = 0x04
)

// boltVisit gets each pair of one top-level bucket in key order. The slices are valid during the call only:
// the reader uses the memory of a page again.
type boltVisit func(key, value []byte) error

type boltReader struct {
	f        *os.File
	pageSize int
	pages    uint64 // number of pages in use
	seen     []uint64
	buckets  []boltBucket // those not read yet
}

// boltBucket is an element of the root tree: the root page of a bucket, or the one page it has, inside of the
// value.
type boltBucket struct {
	name   string
	root   uint64
	inline []byte
}

type boltMeta struct {
	pageSize          uint32
	root, pages, txid uint64
}

// readBolt verifies the structure of a bbolt file and hands over all pairs of its top-level buckets, which
// may not hold further buckets. It returns a *CorruptionError for anything unsound and what visit returned
// otherwise.
func readBolt(path string, visit func(bucket string, key, value []byte) error) error {
	r, err := openBoltFile(path)
	if err != nil {
		return err
	}
	defer r.close()
	for _, name := range r.others() {
		if err := r.each(name, func(key, value []byte) error { return visit(name, key, value) }); err != nil {
			return err
		}
	}
	return nil
}

// openBoltFile reads the meta pages of a bbolt file and the names of its buckets. Only once each of them has
// been read with each, a single time, is the file known to be sound. Errors as of readBolt.
func openBoltFile(path string) (*boltReader, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, corrupt(path, 0, "the file is missing")
	}
	if err != nil {
		return nil, err
	}
	r := &boltReader{f: f}
	if err := r.begin(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *boltReader) begin() error {
	meta, err := r.readMeta()
	if err != nil {
		return r.damage(err)
	}
	r.pageSize, r.pages = int(meta.pageSize), meta.pages
	if info, err := r.f.Stat(); err != nil {
		return err
	} else if uint64(info.Size())/uint64(r.pageSize) < r.pages {
		return corrupt(r.f.Name(), 0, "file of %d bytes is shorter than its %d pages", info.Size(), r.pages)
	}
	r.seen = make([]uint64, r.pages/64+1)
	return r.damage(r.walk(new(pageBuffers), meta.root, 0, keyRange{}, r.bucket))
}

func (r *boltReader) close() { r.f.Close() }

// others names the buckets that have not been read.
func (r *boltReader) others() (names []string) {
	for _, b := range r.buckets {
		names = append(names, b.name)
	}
	return names
}

// each hands over the pairs of one bucket. One that is not there has none.
func (r *boltReader) each(name string, visit boltVisit) error {
	at := slices.IndexFunc(r.buckets, func(b boltBucket) bool { return b.name == name })
	if at < 0 {
		return nil
	}
	b := r.buckets[at]
	r.buckets = slices.Delete(r.buckets, at, at+1)
	return r.damage(r.readBucket(b, visit))
}

// pulledBucket is a bucket of which the reader takes one pair after the other.
type pulledBucket struct {
	pull func() (key, value []byte, ok bool)
	stop func()
	err  error // what the end was due to
}

// pullBolt begins to read a bucket, each pair of which has to pass check; stop has to be called.
func pullBolt(r *boltReader, name string, check boltVisit) *pulledBucket {
	p := &pulledBucket{}
	p.pull, p.stop = iter.Pull2(func(yield func(key, value []byte) bool) {
		err := r.each(name, func(key, value []byte) error {
			if err := check(key, value); err != nil {
				return err
			}
			if !yield(key, value) {
				return errEnough
			}
			return nil
		})
		if err != errEnough {
			p.err = err
		}
	})
	return p
}

// following implements pairs.
func (p *pulledBucket) following() (key, value []byte) {
	key, value, _ = p.pull()
	return key, value
}

var errEnough = errors.New("no more pairs are wanted")

// visitError carries an error of the visitor past damage.
type visitError struct{ error }

func (r *boltReader) damage(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case visitError:
		return e.error
	}
	return corrupt(r.f.Name(), 0, "%v", err)
}

// readMeta reads both meta pages and returns the newer one.
func (r *boltReader) readMeta() (boltMeta, error) {
	first, err := r.readMetaAt(0, 0)
	if err != nil {
		return boltMeta{}, err
	}
	second, err := r.readMetaAt(1, int64(first.pageSize))
	if err != nil {
		return boltMeta{}, err
	}
	if first.pageSize != second.pageSize {
		return boltMeta{}, fmt.Errorf("meta pages disagree on the page size")
	}
	if first.txid+1 == second.txid {
		return second, nil
	}
	if second.txid+1 == first.txid {
		return first, nil
	}
	return boltMeta{}, fmt.Errorf("meta pages are of transactions %d and %d", first.txid, second.txid)
}

func (r *boltReader) readMetaAt(id uint64, off int64) (boltMeta, error) {
	var b [boltPageHeaderLen + boltMetaLen]byte
	if _, err := r.f.ReadAt(b[:], off); err != nil {
		return boltMeta{}, fmt.Errorf("meta page %d: %w", id, err)
	}
	if binary.NativeEndian.Uint64(b[:]) != id || binary.NativeEndian.Uint16(b[8:]) != boltMetaPage {
		return boltMeta{}, fmt.Errorf("page %d is not a meta page", id)
	}
	m := b[boltPageHeaderLen:]
	sum := fnv.New64a()
	sum.Write(m[:boltMetaLen-8])
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(m[i:]) }
	long := func(i int) uint64 { return binary.NativeEndian.Uint64(m[i:]) }
	if word(0) != boltMagic || word(4) != boltVersion || long(boltMetaLen-8) != sum.Sum64() {
		return boltMeta{}, fmt.Errorf("meta page %d has a wrong checksum", id)
	}
	meta := boltMeta{pageSize: word(8), root: long(16), pages: long(40), txid: long(48)}
	if meta.pageSize < boltPageMin || meta.pageSize > boltPageMax || meta.pageSize&(meta.pageSize-1) != 0 {
		return boltMeta{}, fmt.Errorf("page size %d", meta.pageSize)
	}
	if meta.pages > 1<<40 {
		return boltMeta{}, fmt.Errorf("%d pages", meta.pages)
	}
	return meta, nil
}

// keyRange is where the keys of a subtree must lie: from <= key < to. Nil is no bound.
type keyRange struct{ from, to []byte }

func (k keyRange) holds(key []byte) bool {
	return (k.from == nil || bytes.Compare(k.from, key) <= 0) && (k.to == nil || bytes.Compare(key, k.to) < 0)
}

// leafVisit gets each element of a leaf page.
type leafVisit func(flags uint32, key, value []byte) error

// pageBuffers are the pages between the root of a tree and where a walk through it is, by depth.
type pageBuffers [boltDepthMax + 1][]byte

// at returns memory for a page of a depth. What was there is kept as far as it goes.
func (b *pageBuffers) at(depth, size int) []byte {
	if cap(b[depth]) < size {
		b[depth] = append(make([]byte, 0, size), b[depth]...)
	}
	b[depth] = b[depth][:size]
	return b[depth]
}

// walk goes through the subtree at page id.
func (r *boltReader) walk(pages *pageBuffers, id uint64, depth int, within keyRange, visit leafVisit) error {
	if depth > boltDepthMax {
		return fmt.Errorf("page %d: the tree is too deep", id)
	}
	page, err := r.readPage(pages, depth, id)
	if err != nil {
		return err
	}
	switch flags := binary.NativeEndian.Uint16(page[8:]); flags {
	case boltLeafPage:
		return wrapPage(id, readLeaf(page, within, visit))
	case boltBranchPage:
		return r.walkBranch(pages, id, page, depth, within, visit)
	default:
		return fmt.Errorf("page %d has type %#x", id, flags)
	}
}

func wrapPage(id uint64, err error) error {
	if _, ok := err.(visitError); ok || err == nil {
		return err
	}
	return fmt.Errorf("page %d: %w", id, err)
}

// readPage reads a page with its overflow and marks it used.
func (r *boltReader) readPage(pages *pageBuffers, depth int, id uint64) ([]byte, error) {
	if id < 2 || id >= r.pages {
		return nil, fmt.Errorf("page %d is outside of the file's %d pages", id, r.pages)
	}
	page := pages.at(depth, r.pageSize)
	if _, err := r.f.ReadAt(page, int64(id)*int64(r.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	if got := binary.NativeEndian.Uint64(page); got != id {
		return nil, fmt.Errorf("page %d calls itself %d", id, got)
	}
	overflow := uint64(binary.NativeEndian.Uint32(page[12:]))
	if id+overflow >= r.pages {
		return nil, fmt.Errorf("page %d reaches to page %d of %d", id, id+overflow, r.pages)
	}
	for p := id; p <= id+overflow; p++ {
		if r.seen[p/64]&(1<<(p%64)) != 0 {
			return nil, fmt.Errorf("page %d is used twice", p)
		}
		r.seen[p/64] |= 1 << (p % 64)
	}
	if overflow == 0 {
		return page, nil
	}
	page = pages.at(depth, (int(overflow)+1)*r.pageSize)
	if _, err := r.f.ReadAt(page[r.pageSize:], int64(id+1)*int64(r.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return page, nil
}

func (r *boltReader) walkBranch(pages *pageBuffers, id uint64, page []byte, depth int, within keyRange,
	visit leafVisit) error {
	count := int(binary.NativeEndian.Uint16(page[10:]))
	if count == 0 {
		return fmt.Errorf("branch page %d is empty", id)
	}
	keys := make([][]byte, count)
	children := make([]uint64, count)
	for i := range count {
		e, err := element(page, i, count)
		if err != nil {
			return wrapPage(id, err)
		}
		pos, size := int64(binary.NativeEndian.Uint32(e)), int64(binary.NativeEndian.Uint32(e[4:]))
		if keys[i], err = elementBytes(page, i, count, pos, size); err != nil {
			return wrapPage(id, err)
		}
		children[i] = binary.NativeEndian.Uint64(e[8:])
		if !within.holds(keys[i]) || i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 {
			return fmt.Errorf("page %d: keys are out of order", id)
		}
	}
	for i := range count {
		sub := keyRange{from: keys[i], to: within.to}
		if i+1 < count {
			sub.to = keys[i+1]
		}
		if err := r.walk(pages, children[i], depth+1, sub, visit); err != nil {
			return err
		}
	}
	return nil
}

// bucket handles an element of the root tree.
func (r *boltReader) bucket(flags uint32, name, value []byte) error {
	if flags != 1 || len(value) < 16 {
		return fmt.Errorf("the root holds something that is not a bucket")
	}
	r.buckets = append(r.buckets, boltBucket{name: string(name), root: binary.NativeEndian.Uint64(value),
		inline: bytes.Clone(value[16:])})
	return nil
}

func (r *boltReader) readBucket(b boltBucket, visit boltVisit) error {
	inner := func(flags uint32, key, value []byte) error {
		if flags != 0 {
			return fmt.Errorf("bucket %q holds something that is not a pair", b.name)
		}
		if err := visit(key, value); err != nil {
			return visitError{err}
		}
		return nil
	}
	if b.root != 0 {
		return r.walk(new(pageBuffers), b.root, 0, keyRange{}, inner)
	}
	if len(b.inline) < boltPageHeaderLen || binary.NativeEndian.Uint16(b.inline[8:]) != boltLeafPage {
		return fmt.Errorf("bucket %q has no page", b.name)
	}
	return readLeaf(b.inline, keyRange{}, inner)
}

func readLeaf(page []byte, within keyRange, visit leafVisit) error {
	count := int(binary.NativeEndian.Uint16(page[10:]))
	var last []byte
	for i := range count {
		e, err := element(page, i, count)
		if err != nil {
			return err
		}
		pos, ksize, vsize := int64(binary.NativeEndian.Uint32(e[4:])),
			int64(binary.NativeEndian.Uint32(e[8:])), int64(binary.NativeEndian.Uint32(e[12:]))
		pair, err := elementBytes(page, i, count, pos, ksize+vsize)
		if err != nil {
			return err
		}
		key := pair[:ksize:ksize]
		if len(key) == 0 || !within.holds(key) || i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("keys are out of order")
		}
		if err := visit(binary.NativeEndian.Uint32(e), key, pair[ksize:]); err != nil {
			return err
		}
		last = key
	}
	return nil
}

// element returns the fixed part of element i.
func element(page []byte, i, count int) ([]byte, error) {
	if boltPageHeaderLen+count*boltElementLen > len(page) {
		return nil, fmt.Errorf("%d elements do not fit", count)
	}
	return page[boltPageHeaderLen+i*boltElementLen:][:boltElementLen], nil
}

// elementBytes returns the key, or key and value, of element i. Positions count from the element itself and
// lie behind all elements.
func elementBytes(page []byte, i, count int, pos, size int64) ([]byte, error) {
	start := int64(boltPageHeaderLen+i*boltElementLen) + pos
	if start < int64(boltPageHeaderLen+count*boltElementLen) || start+size > int64(len(page)) {
		return nil, fmt.Errorf("element %d lies outside of the page", i)
	}
	return page[start : start+size : start+size], nil
}
