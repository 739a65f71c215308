package listen

import (
	"compress/zlib"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

// The C++ SDK lets its users choose "deflate", which on the wire is zlib's format (RFC 1950) and which gRPC
// for Go does not have. gRPC knows compressors by name in one list for the whole process, so a program that
// has a stand-in of this server within itself gets this one too.
func init() { encoding.RegisterCompressor(&deflate{slots: ownSlots}) }

// deflate unfolds messages in the same slots as decompressor. How far is bounded by gRPC, which reads a byte
// more than the server's limit at most.
type deflate struct {
	slots   slots
	writers sync.Pool
}

// Name implements encoding.Compressor.
func (*deflate) Name() string { return "deflate" }

// Compress implements encoding.Compressor.
func (d *deflate) Compress(w io.Writer) (io.WriteCloser, error) {
	z, is := d.writers.Get().(*zlib.Writer)
	if !is {
		z = zlib.NewWriter(io.Discard)
	}
	z.Reset(w)
	return &zlibWriter{z, &d.writers}, nil
}

// Decompress implements encoding.Compressor. gRPC closes what it returns, whatever becomes of the message.
func (d *deflate) Decompress(r io.Reader) (io.Reader, error) {
	slot := <-d.slots
	if err := slot.resetZlib(r); err != nil {
		d.slots <- slot
		return nil, err
	}
	return &zlibReader{slot, d.slots}, nil
}

// zlibReader is one message's use of a slot.
type zlibReader struct {
	slot *slot // nil: given back
	free slots
}

// Read implements io.Reader.
func (r *zlibReader) Read(p []byte) (int, error) { return r.slot.zlib.Read(p) }

// Close gives the slot back.
func (r *zlibReader) Close() error {
	if r.slot != nil {
		r.free <- r.slot
		r.slot = nil
	}
	return nil
}

type zlibWriter struct {
	*zlib.Writer
	free *sync.Pool
}

// Close ends the message.
func (w *zlibWriter) Close() error {
	defer w.free.Put(w.Writer)
	return w.Writer.Close()
}
