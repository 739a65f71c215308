package listen

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
)

// Decompress makes a gRPC server unfold compressed messages a few at a time, and none further than a byte
// over the most that they may have. A message of a few kilobytes unfolds to megabytes: each on its own is
// within the limits, and thousands at once are not.
//
// gRPC's way to set a decompressor for one server alone is deprecated in favour of one for the whole process,
// in which other servers and clients may live.
func Decompress(most int) grpc.ServerOption {
	//lint:ignore SA1019 see above
	return grpc.RPCDecompressor(newDecompressor(most, ownSlots))
}

// decompressor unfolds the messages of one server.
type decompressor struct {
	most     int
	slots    slots
	spaces   chan []byte // to unfold in: as many as have been needed at once, for as long as the server lives
	tooLarge []byte      // one byte more than there may be, of which gRPC looks at the length alone
	once     sync.Once
}

func newDecompressor(most int, s slots) *decompressor {
	return &decompressor{most: most, slots: s, spaces: make(chan []byte, cap(s))}
}

// Type implements grpc.Decompressor.
func (*decompressor) Type() string { return "gzip" }

// Do implements grpc.Decompressor.
func (d *decompressor) Do(r io.Reader) ([]byte, error) {
	slot := <-d.slots
	defer func() { d.slots <- slot }()
	if err := slot.gzip.Reset(r); err != nil {
		return nil, err
	}
	space := d.space()
	defer func() { d.spaces <- space }() // before the slot is given back, so there is room
	n, err := io.ReadFull(&slot.gzip, space)
	switch {
	case err == nil:
		d.once.Do(func() { d.tooLarge = make([]byte, d.most+1) })
		return d.tooLarge, nil
	case errors.Is(err, io.EOF) || err == io.ErrUnexpectedEOF && whole(&slot.gzip):
		return bytes.Clone(space[:n]), nil
	}
	return nil, err
}

// space is one that is free, or another. Whoever has a slot has one.
func (d *decompressor) space() []byte {
	select {
	case space := <-d.spaces:
		return space
	default:
		return make([]byte, d.most+1)
	}
}

// whole reports whether the reader ended where its data ended: io.ReadFull has one error for that and for
// data that is cut.
func whole(r *gzip.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err == io.EOF
}
