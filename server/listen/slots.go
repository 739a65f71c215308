package listen

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"runtime"
)

// slots bound how many messages are unfolded at a time: each has a slot meanwhile, whatever it is folded by.
// There is one set for the whole process, as there is one list of compressors, with half as many as
// processors: the others are left for what is not compressed.
type slots chan *slot

var ownSlots = newSlots(max(1, runtime.GOMAXPROCS(0)/2))

func newSlots(n int) slots {
	s := make(slots, n)
	for range n {
		s <- &slot{}
	}
	return s
}

// slot has what reads a message of each kind, used again for the next one of it.
type slot struct {
	gzip gzip.Reader
	zlib io.ReadCloser // nil before the first message
}

func (s *slot) resetZlib(r io.Reader) (err error) {
	if s.zlib == nil {
		s.zlib, err = zlib.NewReader(r)
		return err
	}
	return s.zlib.(zlib.Resetter).Reset(r, nil)
}
