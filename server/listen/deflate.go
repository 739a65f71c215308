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
func init() { encoding.RegisterCompressor(&deflate{turns: ownTurns}) }

// deflate unfolds messages in the same turns as decompressor. How far is bounded by gRPC, which reads a byte
// more than the server's limit at most.
type deflate struct {
	turns   turns
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
	turn := <-d.turns
	if err := turn.resetZlib(r); err != nil {
		d.turns <- turn
		return nil, err
	}
	return &zlibReader{turn, d.turns}, nil
}

// zlibReader is one message's use of a turn.
type zlibReader struct {
	turn *turn // nil: given back
	free turns
}

// Read implements io.Reader.
func (r *zlibReader) Read(p []byte) (int, error) { return r.turn.zlib.Read(p) }

// Close gives the turn back.
func (r *zlibReader) Close() error {
	if r.turn != nil {
		r.free <- r.turn
		r.turn = nil
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
