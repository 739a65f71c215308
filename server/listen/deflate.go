package listen

import (
	"compress/zlib"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

const deflateName = "deflate"

// The C++ SDK lets its users choose "deflate", which on the wire is zlib's format (RFC 1950) and which gRPC
// for Go does not have. gRPC knows compressors by name in one list for the whole process, so a program that
// has a stand-in of this server within itself gets this one too.
func init() { encoding.RegisterCompressor(new(deflate)) }

// deflate compresses what a server answers, and decompresses for clients in the process.
type deflate struct{ writers sync.Pool }

// Name implements encoding.Compressor.
func (*deflate) Name() string { return deflateName }

// Compress implements encoding.Compressor.
func (d *deflate) Compress(w io.Writer) (io.WriteCloser, error) {
	z, is := d.writers.Get().(*zlib.Writer)
	if !is {
		z = zlib.NewWriter(io.Discard)
	}
	z.Reset(w)
	return &zlibWriter{z, &d.writers}, nil
}

// Decompress implements encoding.Compressor.
func (*deflate) Decompress(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }

type zlibWriter struct {
	*zlib.Writer
	free *sync.Pool
}

// Close ends the message.
func (w *zlibWriter) Close() error {
	defer w.free.Put(w.Writer)
	return w.Writer.Close()
}
