package listen

import "encoding/binary"

// frames follows the frames in a stream of bytes from an HTTP/2 client (RFC 9113, 3.4 and 4.1). It checks
// nothing: what is no HTTP/2 ends at gRPC.
type frames struct {
	preface int // bytes of it that have gone by
	header  [frameHeaderBytes]byte
	have    int // bytes of header
	left    int // bytes of the payload that are still to come
	// padding at the end of a DATA payload; padUnknown before its length is known
	padding int
	kind    byte
	flags   byte
	stream  uint32
	begun   bool
}

// greeted reports whether the preface and a whole frame have gone by; gRPC waits for both.
func (f *frames) greeted() bool { return f.begun && f.left == 0 }

const (
	prefaceBytes     = 24
	frameHeaderBytes = 9

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9

	flagEndHeaders = 0x4
	flagPadded     = 0x8

	padUnknown = -1
)

// passage describes the bytes that go by at a time.
type passage struct {
	bytes  int    // that are looked at
	resets int    // RST_STREAM frames that begin, one at most
	reset  uint32 // the stream that it is about
	stream uint32 // of the headers that end behind these bytes, or to which the data belongs
	data   int    // bytes of messages
	at     int    // where among the bytes these begin
}

// follow looks at the next bytes, and stops where headers end, behind each piece of data, and where a reset
// begins: so the headers of a stream are seen before its data goes by.
func (f *frames) follow(b []byte) (p passage) {
	length := len(b)
	skipped := min(prefaceBytes-f.preface, length)
	f.preface += skipped
	b = b[skipped:]
	for len(b) > 0 {
		if f.left > 0 {
			p.at = length - len(b)
			n := f.pass(b, &p)
			b = b[n:]
		} else {
			n := copy(f.header[f.have:], b)
			f.have += n
			b = b[n:]
			if f.have < frameHeaderBytes {
				break
			}
			f.begin(&p)
		}
		if f.left == 0 && f.endsHeaders() || p.data > 0 {
			p.stream = f.stream
			break
		}
		if p.resets > 0 {
			break
		}
	}
	p.bytes = length - len(b)
	return p
}

// begin takes a frame's header, which is whole.
func (f *frames) begin(p *passage) {
	f.have, f.begun = 0, true
	f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	f.kind, f.flags = f.header[3], f.header[4]
	f.stream = binary.BigEndian.Uint32(f.header[5:]) & (1<<31 - 1)
	f.padding = 0
	if f.kind == frameData && f.flags&flagPadded != 0 {
		f.padding = padUnknown
	}
	if f.kind == frameReset {
		p.resets, p.reset = 1, f.stream
	}
}

// pass takes bytes of a payload, and returns how many.
func (f *frames) pass(b []byte, p *passage) int {
	n := min(f.left, len(b))
	switch {
	case f.kind != frameData:
	case f.padding == padUnknown:
		n, f.padding = 1, int(b[0])
	default:
		p.data = max(0, min(n, f.left-f.padding))
	}
	f.left -= n
	return n
}

func (f *frames) endsHeaders() bool {
	return (f.kind == frameHeaders || f.kind == frameContinuation) && f.flags&flagEndHeaders != 0
}
