package listen

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/coordd/coordd/server/share"
)

// Decompression of messages. gRPC would decompress before the caller is known. So messages.pass clears the compressed
// flag in the bytes that gRPC gets, and the codec decompresses. A message of a few kilobytes unfolds to megabytes, and
// one of four megabytes to nothing takes a second: so callers take turns, and none unfolds further than its method
// allows.

// newUnfolding returns the places for decompressing.
func newUnfolding() *share.Line { return share.NewLine(unfoldingPlaces(), 0) }

// unfoldingPlaces limits concurrent decompressions: half as many as there are processors, but at least two, so that one
// is left for unknown callers.
func unfoldingPlaces() int { return max(2, runtime.GOMAXPROCS(0)/2) }

// unfolders are used again until the collector has come twice: a server that is sent nothing large keeps nothing.
var unfolders = sync.Pool{New: func() any { return new(unfolder) }}

// unfolder reads one message at a time.
type unfolder struct {
	gzip  gzip.Reader
	zlib  io.ReadCloser // nil before the first message
	space []byte
}

// encodings has a decompressor for each supported value of grpc-encoding.
var encodings = map[string]func(u *unfolder, data io.Reader) (io.Reader, error){
	"gzip":      func(u *unfolder, data io.Reader) (io.Reader, error) { return &u.gzip, u.gzip.Reset(data) },
	deflateName: (*unfolder).resetZlib,
}

func (u *unfolder) resetZlib(data io.Reader) (_ io.Reader, err error) {
	if u.zlib == nil {
		u.zlib, err = zlib.NewReader(data)
		return u.zlib, err
	}
	return u.zlib, u.zlib.(zlib.Resetter).Reset(data, nil)
}

// unfold returns the message in space that it uses again, or tooLarge if there is more than most bytes of it.
func (u *unfolder) unfold(encoding string, data io.Reader, most int) (message []byte, tooLarge bool, err error) {
	open, known := encodings[encoding]
	if !known {
		return nil, false, fmt.Errorf("a message is compressed, and the call's encoding is %q", encoding)
	}
	from, err := open(u, data)
	if err != nil {
		return nil, false, err
	}
	if len(u.space) <= most {
		u.space = make([]byte, most+1)
	}
	n, err := io.ReadFull(from, u.space[:most+1])
	switch {
	case err == nil:
		return nil, true, nil
	case errors.Is(err, io.EOF) || err == io.ErrUnexpectedEOF && ended(from):
		return u.space[:n], false, nil
	}
	return nil, false, err
}

// ended reports whether the reader ended where its data ended: io.ReadFull has one error for that and for
// data that is cut.
func ended(r io.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err == io.EOF
}

// folded reports whether the message is compressed that is taken next.
func (c *Call) folded() bool {
	if c.conn == nil || c.messages.odd.Load() == 0 {
		return false
	}
	c.conn.mutex.Lock()
	defer c.conn.mutex.Unlock()
	return c.messages.folded()
}

// unfold decompresses a message when it is the turn of the call's subject, and has decode read it. The
// handler's goroutine calls it.
func (c *Call) unfold(folded io.Reader, decode func(message []byte) error) error {
	subject := c.subject
	if subject.Name == "" {
		subject.Name = c.address()
	}
	release, err := c.set.unfolding.Acquire(c.ctx, subject)
	if err != nil {
		return err
	}
	defer release()
	u := unfolders.Get().(*unfolder)
	defer unfolders.Put(u)
	message, tooLarge, err := u.unfold(encodingOf(c.ctx), folded, c.most)
	switch {
	case err != nil:
		return err
	case tooLarge:
		c.take(0)
		c.last = c.most + 1 // its handler refuses it
		return nil
	}
	c.take(len(message))
	return decode(message)
}
