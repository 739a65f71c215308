package listen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// This file holds every dependency on gRPC's internals: methods of types that it does not export, and its buffers,
// which it counts and pools by rules of its own. TestGRPCInternalsAreInOneFile in package conformance lists the
// names. After an update of gRPC this is the file to check: the tests that its comments name fail if something is
// gone.

// StatusWriter ends a call from outside of its handler. gRPC's own SendMsg and RecvMsg do the same when they
// fail; it spares every stream a second goroutine. TestStreamEndsFromOutside shows that the linked gRPC has
// it.
type StatusWriter interface {
	WriteStatus(*status.Status) error
}

// transportStream is gRPC's stream below a call. SendCompress names the compression of the answers, "" without
// one.
type transportStream interface {
	grpc.ServerTransportStream
	StatusWriter
	SendCompress() string
}

var errNoTransportStream = status.Error(codes.Internal,
	"gRPC's server stream has no WriteStatus, or no SendCompress")

func transportOf(ctx context.Context) (transportStream, error) {
	stream, is := grpc.ServerTransportStreamFromContext(ctx).(transportStream)
	if !is {
		return nil, errNoTransportStream
	}
	return stream, nil
}

// StatusWriterOf returns the StatusWriter of a call. Errors: INTERNAL if the linked gRPC has no such interface.
func StatusWriterOf(ctx context.Context) (StatusWriter, error) { return transportOf(ctx) }

// WithStatusWriter returns the context of a call that is ended by w in the place of gRPC, and whose answers are
// not compressed.
func WithStatusWriter(ctx context.Context, w StatusWriter) context.Context {
	return grpc.NewContextWithServerTransportStream(ctx,
		redirected{grpc.ServerTransportStreamFromContext(ctx), w})
}

// redirected is a transportStream whose call is ended by something else.
type redirected struct {
	grpc.ServerTransportStream
	StatusWriter
}

// SendCompress implements transportStream.
func (redirected) SendCompress() string { return "" }

// SendUncompressed switches the compression of a call's answers off. Errors: INTERNAL if the linked gRPC cannot.
func SendUncompressed(ctx context.Context) error {
	stream, err := transportOf(ctx)
	if err != nil || stream.SendCompress() == "" {
		return err
	}
	return grpc.SetSendCompressor(ctx, encoding.Identity)
}

// EndCall ends a call from outside of its handler.
func EndCall(ctx context.Context, err error) {
	if stream, missing := transportOf(ctx); missing == nil {
		_ = stream.WriteStatus(status.Convert(err)) // the call is over if that fails
	}
}

// encodingOf names the compression of a call's messages, as its headers do; "" without one.
func encodingOf(ctx context.Context) string {
	if stream, is := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string }); is {
		return stream.RecvCompress()
	}
	return ""
}

// gRPC keeps each frame of data in a buffer of a fixed size. Its own sizes are so far apart that a client who
// sends frames just larger than one of them takes four times what is counted as received. With these it is
// half as much again at most, for frames that are large enough to have such a buffer (1 KiB), up to the
// largest that a client may send (16 KiB).
var receiveBuffers = mem.NewTieredBufferPool(256, 1536, 2<<10, 3<<10, 4<<10, 6<<10, 8<<10, 12<<10, 16<<10,
	32<<10, 1<<20)

// ReceiveBuffers makes a gRPC server keep what it receives in buffers of these sizes.
func ReceiveBuffers() grpc.ServerOption { return experimental.BufferPool(receiveBuffers) }

// plainConn is a connection that is not encrypted. With its method gRPC takes a buffer only when there is something to
// read, so that idle connections hold no buffers. gRPC does so by itself only for connection types that it knows.
type plainConn struct {
	*meteredConn
	raw syscall.RawConn

	// ReadOnReady's. A function made for each read, with what it reads, would be four allocations.
	tryRead func(file uintptr) bool
	size    int
	pool    mem.BufferPool
	buffer  *[]byte // nil while nothing is read
	n       int
	err     error
}

// plain returns the connection with that method if it can have it: what is read from an encrypted
// connection's socket is not what the client says.
func (c *meteredConn) plain() net.Conn {
	conn, is := c.Conn.(*connection)
	if !is {
		return c
	}
	system, is := conn.Conn.Conn.(syscall.Conn)
	if !is || !socketsAreFiles {
		return c
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return c // it is closed already, which Read will say
	}
	p := &plainConn{meteredConn: c, raw: raw}
	p.tryRead = p.readSocket
	return p
}

// ReadOnReady waits until there is something to read, and reads it into a buffer of the given size in bytes,
// as Read does.
func (c *plainConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if len(c.rest) > 0 {
		buffer := pool.Get(size)
		n, err := c.Read(*buffer)
		if err == nil {
			return buffer, n, nil
		}
		pool.Put(buffer)
		return nil, 0, err
	}
	c.size, c.pool = size, pool
	waitErr := c.raw.Read(c.tryRead)
	buffer, n, err := c.buffer, c.n, c.err
	c.buffer, c.err = nil, nil
	switch {
	case err == nil && waitErr != nil:
		err = waitErr
	case err == nil && n == 0:
		err = io.EOF
	case err == nil:
		var taken int
		if taken, err = c.watch((*buffer)[:n]); taken < n {
			c.rest = bytes.Clone((*buffer)[taken:n])
			n = taken
		}
	}
	if err == nil {
		return buffer, n, nil
	}
	if buffer != nil {
		pool.Put(buffer)
	}
	return nil, 0, err
}

// readSocket reads what there is, and reports whether that was anything, or an error.
func (c *plainConn) readSocket(file uintptr) bool {
	c.buffer = c.pool.Get(c.size)
	if c.n, c.err = readSocket(file, *c.buffer); c.err != nil {
		c.pool.Put(c.buffer)
		c.buffer = nil
	}
	return !errors.Is(c.err, syscall.EAGAIN)
}

// codec wraps gRPC's own and reports a message's size to the call before it is decoded. A stats.Handler would hear of
// that as well, but gRPC allocates for it at each message that comes or goes, and asks for the time.
type codec struct{ encoding.CodecV2 }

// Codec is the codec of a server's messages: gRPC's own, for messages of the rings as well.
func Codec() grpc.ServerOption {
	return grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)})
}

// inPieces is a message that encodes itself, and wants to know when it has left.
type inPieces interface {
	Pieces() [][]byte
	Gone()
}

// direct is a message that encodes itself: it is a few bytes, or another message is to be encoded.
type direct interface {
	Encode() (encoded []byte, other any)
}

// decoding is a message that decodes itself. It keeps nothing of the bytes.
type decoding interface {
	Decode([]byte) error
}

// leaving is a pool that no buffer is taken from; it notifies a message when gRPC puts back one of its buffers.
type leaving struct{ message inPieces }

// Get implements mem.BufferPool.
func (leaving) Get(length int) *[]byte { b := make([]byte, length); return &b }

// Put implements mem.BufferPool.
func (l leaving) Put(*[]byte) { l.message.Gone() }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case direct:
		encoded, other := m.Encode()
		if other != nil {
			return c.CodecV2.Marshal(other)
		}
		return mem.BufferSlice{mem.SliceBuffer(encoded)}, nil
	case inPieces:
		return marshalPieces(m), nil
	}
	return c.CodecV2.Marshal(v)
}

func marshalPieces(m inPieces) mem.BufferSlice {
	pieces := m.Pieces()
	buffers := make(mem.BufferSlice, len(pieces))
	for i, piece := range pieces {
		buffers[i] = mem.SliceBuffer(piece)
	}
	// gRPC lets go of them in order; it does not count references to small ones
	for i := len(pieces) - 1; i >= 0; i-- {
		if !mem.IsBelowBufferPoolingThreshold(cap(pieces[i])) {
			buffers[i] = mem.NewBuffer(&pieces[i], leaving{m})
			break
		}
	}
	return buffers
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if receiving, is := v.(*receiving); is {
		call, into := (*Call)(receiving), receiving.into
		if call.folded() {
			folded := data.Reader()
			defer folded.Close()
			return call.unfold(folded, func(message []byte) error {
				return c.decode(mem.BufferSlice{mem.SliceBuffer(message)}, into)
			})
		}
		call.take(data.Len())
		v = into
	}
	return c.decode(data, v)
}

func (c codec) decode(data mem.BufferSlice, v any) error {
	if m, is := v.(decoding); is {
		whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer whole.Free()
		return m.Decode(whole.ReadOnlyData())
	}
	return c.CodecV2.Unmarshal(data, v)
}
