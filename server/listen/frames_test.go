package listen

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestFrameCounter cuts a stream of frames at every place: resets, headers and the bytes of messages are
// found wherever it is cut, and what follows headers is never looked at in one go with them.
func TestFrameCounter(t *testing.T) {
	var stream strings.Builder
	stream.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&stream, nil)
	payload := []byte(strings.Repeat("\x00\x00\x04\x03", 100)) // looks like resets inside
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[uint32]int{}
	const last = 19
	for id := uint32(1); id <= last; id += 2 {
		check(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("whatever"),
			EndHeaders: id%4 == 1}))
		if id%4 == 3 {
			check(framer.WriteContinuation(id, true, []byte("more")))
		}
		check(framer.WriteData(id, false, payload[:id]))
		check(framer.WriteDataPadded(id, false, payload[:2*id], make([]byte, id%3)))
		check(framer.WriteRSTStream(id, http2.ErrCodeCancel))
		want[id] = int(3 * id)
	}
	for size := 1; size < stream.Len(); size++ {
		var f frames
		resets, got := 0, map[uint32]int{}
		var headers []uint32
		for rest := stream.String(); rest != ""; {
			p := f.follow([]byte(rest[:min(size, len(rest))]))
			rest = rest[p.bytes:]
			resets += p.resets
			switch {
			case p.data > 0:
				if got[p.stream] += p.data; len(headers) == 0 || headers[len(headers)-1] != p.stream {
					t.Fatalf("in pieces of %d: data of stream %d behind the headers of %v", size, p.stream,
						headers)
				}
			case p.stream != 0:
				headers = append(headers, p.stream)
			}
		}
		if resets != 10 || len(headers) != 10 {
			t.Fatalf("in pieces of %d: %d resets, want 10, and headers of %v", size, resets, headers)
		}
		for id, bytes := range want {
			if got[id] != bytes {
				t.Fatalf("in pieces of %d: %d bytes of stream %d, want %d", size, got[id], id, bytes)
			}
		}
	}
}

// FuzzFrames has any bytes go by in pieces: none is lost or looked at twice, and no more of a message is
// counted than goes by.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(http2.ClientPreface+"\x00\x00\x03\x00\x08\x00\x00\x00\x01\x05ab"), 3)
	f.Add([]byte(http2.ClientPreface+"\x00\x00\x00\x01\x04\x00\x00\x00\x00"), 1)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if size < 1 {
			return
		}
		var at frames
		for len(b) > 0 {
			p := at.follow(b[:min(size, len(b))])
			if p.bytes < 1 || p.bytes > len(b) || p.data < 0 || p.data > p.bytes {
				t.Fatalf("got %+v", p)
			}
			b = b[p.bytes:]
		}
	})
}

// TestSentFrames cuts what a server writes at every place: the ends of streams and their data are found
// wherever it is cut.
func TestSentFrames(t *testing.T) {
	var stream strings.Builder
	framer := http2.NewFramer(&stream, nil)
	payload := []byte(strings.Repeat("\x00\x00\x04\x03", 100)) // looks like resets inside
	for _, err := range []error{
		framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1,
			BlockFragment: payload, EndHeaders: true}),
		framer.WriteData(1, false, payload), framer.WriteData(3, true, payload),
		framer.WriteWindowUpdate(0, 5), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1,
			EndHeaders: true, EndStream: true}), framer.WriteRSTStream(5, http2.ErrCodeCancel),
		framer.WritePing(true, [8]byte{}), framer.WriteRSTStream(7, http2.ErrCodeNo),
		framer.WriteRSTStream(9, http2.ErrCodeProtocol),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size <= stream.Len(); size++ {
		var f sentFrames
		var data, ends []uint32
		for whole := stream.String(); whole != ""; whole = whole[min(size, len(whole)):] {
			for piece := []byte(whole[:min(size, len(whole))]); len(piece) > 0; {
				n, id, isData, isEnd := f.next(piece)
				piece = piece[n:]
				if isData {
					data = append(data, id)
				}
				if isEnd {
					ends = append(ends, id)
				}
			}
		}
		if !slices.Equal(data, []uint32{1, 3}) || !slices.Equal(ends, []uint32{3, 1, 5, 7, 9}) {
			t.Fatalf("in pieces of %d: data of %v, ends of %v", size, data, ends)
		}
		if f.resets != 2 {
			t.Fatalf("in pieces of %d: %d resets for an error, want 2", size, f.resets)
		}
	}
}
