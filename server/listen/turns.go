package listen

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"runtime"
)

// turns are the places to unfold messages at, which one message has at a time, whatever it is folded by.
// There is one set for the whole process, as there is one list of compressors, with half as many as
// processors: the others are left for what is not compressed.
type turns chan *turn

var ownTurns = newTurns(max(1, runtime.GOMAXPROCS(0)/2))

func newTurns(n int) turns {
	t := make(turns, n)
	for range n {
		t <- &turn{}
	}
	return t
}

// turn has what reads a message of each kind, for the next one of it.
type turn struct {
	gzip gzip.Reader
	zlib io.ReadCloser // nil before the first message
}

func (t *turn) resetZlib(r io.Reader) (err error) {
	if t.zlib == nil {
		t.zlib, err = zlib.NewReader(r)
		return err
	}
	return t.zlib.(zlib.Resetter).Reset(r, nil)
}
