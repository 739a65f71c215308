package listen

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"sync"

	"google.golang.org/grpc"
)

// Decompress makes a gRPC server unfold compressed messages a few at a time, and none further than a byte over the most
// that they may have. A message of a few kilobytes unfolds to megabytes: each on its own is within the limits, and
// thousands at once are not.
//
// gRPC's way to set a decompressor for one server alone is deprecated in favour of one for the whole process, in which
// other servers and clients may live.
func Decompress(most int) grpc.ServerOption {
	d := &decompressor{most: most, turns: make(chan *unfolding, max(1, runtime.GOMAXPROCS(0)/2))}
	for range cap(d.turns) {
		d.turns <- &unfolding{}
	}
	//lint:ignore SA1019 see above
	return grpc.RPCDecompressor(d)
}

// decompressor takes turns, so that half of the processors are left for what is not compressed.
type decompressor struct {
	most     int
	turns    chan *unfolding
	tooLarge []byte // one byte more than there may be, of which gRPC looks at the length alone
	once     sync.Once
}

// unfolding is a place to work at, which one message has at a time.
type unfolding struct {
	reader gzip.Reader
	space  []byte
}

// Type implements grpc.Decompressor.
func (*decompressor) Type() string { return "gzip" }

// Do implements grpc.Decompressor.
func (d *decompressor) Do(r io.Reader) ([]byte, error) {
	turn := <-d.turns
	defer func() { d.turns <- turn }()
	if err := turn.reader.Reset(r); err != nil {
		return nil, err
	}
	if turn.space == nil {
		turn.space = make([]byte, d.most+1)
	}
	n, err := io.ReadFull(&turn.reader, turn.space)
	switch {
	case err == nil:
		d.once.Do(func() { d.tooLarge = make([]byte, d.most+1) })
		return d.tooLarge, nil
	case errors.Is(err, io.EOF) || err == io.ErrUnexpectedEOF && whole(&turn.reader):
		return bytes.Clone(turn.space[:n]), nil
	}
	return nil, err
}

// whole reports whether the reader ended where its data ended: io.ReadFull has one error for that and for data that is cut.
func whole(r *gzip.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err == io.EOF
}
