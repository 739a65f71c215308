package server

import (
	"bytes"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// ended reads until a stream is over and returns its gRPC status.
func (c *frameClient) ended(t *testing.T, id uint32) codes.Code {
	t.Helper()
	return c.allEnded(t, id)[id]
}

// allEnded reads until several streams are over, in whatever order.
func (c *frameClient) allEnded(t *testing.T, ids ...uint32) map[uint32]codes.Code {
	t.Helper()
	decoder := hpack.NewDecoder(4096, nil)
	for ends := make(map[uint32]codes.Code); ; {
		frame, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		headers, is := frame.(*http2.HeadersFrame)
		if !is {
			continue
		}
		fields, err := decoder.DecodeFull(headers.HeaderBlockFragment())
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			if field.Name == "grpc-status" && slices.Contains(ids, headers.StreamID) {
				code, _ := strconv.Atoi(field.Value)
				ends[headers.StreamID] = codes.Code(code)
			}
		}
		if len(ends) == len(ids) {
			return ends
		}
	}
}

// TestFrames is the row "Frames" of the catalogue of bad input: the reply to each client. Every other stream on the
// connection lives on.
func TestFrames(t *testing.T) {
	patient, _ := startTest(t, nil)
	hurried, _ := startTest(t, func(c *Config) { c.Hardening.FirstMessage = 50 * time.Millisecond })
	brief := framed(startMessage(briefTimeoutMillis))
	bomb, zlibbed := gzipBomb(), zlibBomb()
	unknown := append(bytes.Clone(brief[5:]), bytes.Repeat([]byte{0xf8, 0x7f, 0x01}, 10_000)...)
	for _, test := range []struct {
		name    string
		headers []string
		data    []byte
		end     bool
		want    codes.Code
	}{
		{"truncated protobuf", nil, prefixed(0, 10, brief[5:15]), false, codes.Internal},
		{"truncated message", nil, brief[:len(brief)-1], true, codes.Internal},
		{"length of 2^31", nil, prefixed(0, 1<<31, brief), false, codes.ResourceExhausted},
		{"length of 2^32-1", nil, prefixed(0, 1<<32-1, brief), false, codes.ResourceExhausted},
		{"length one over the limit", nil, prefixed(0, maxRequestBytes+1, brief), false,
			codes.ResourceExhausted}, {"compressed bomb", []string{"grpc-encoding", "gzip"},
			prefixed(1, uint32(len(bomb)), bomb), false, codes.ResourceExhausted},
		{"compressed bomb of zlib's", []string{"grpc-encoding", "deflate"},
			prefixed(1, uint32(len(zlibbed)), zlibbed), false, codes.ResourceExhausted},
		{"compressed without saying how", nil, prefixed(1, uint32(len(brief)-5), brief[5:]), false,
			codes.Internal}, {"unknown compression", []string{"grpc-encoding", "zstd"},
			prefixed(1, uint32(len(brief)-5), brief[5:]), false, codes.Unimplemented},
		{"not gzip", []string{"grpc-encoding", "gzip"}, prefixed(1, uint32(len(brief)-5), brief[5:]), false,
			codes.Internal}, {"not zlib", []string{"grpc-encoding", "deflate"},
			prefixed(1, uint32(len(brief)-5), brief[5:]), false, codes.Internal},
		{"flag that means nothing", nil, prefixed(2, uint32(len(brief)-5), brief[5:]), false, codes.Internal},
		{"empty message", nil, prefixed(0, 0, nil), false, codes.InvalidArgument},
		{"half-closed", nil, brief, true, codes.Canceled},
		{"half-closed without a message", nil, nil, true, codes.Canceled},
		{"never whole", nil, brief[:len(brief)-1], false, codes.DeadlineExceeded},
		{"nothing", nil, nil, false, codes.DeadlineExceeded},
		{"10,000 unknown fields, half-closed", nil, prefixed(0, uint32(len(unknown)), unknown), true,
			codes.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := patient
			if test.want == codes.DeadlineExceeded {
				s = hurried
			}
			c := dialFramesTest(t, s)
			if err := c.headers(1, false, callHeaders(sessionMethod, test.headers...)); err != nil {
				t.Fatal(err)
			}
			if err := errorsOf(writePieces(c, test.data), c.finishIf(test.end)); err != nil {
				t.Fatal(err)
			}
			if got := c.ended(t, 1); got != test.want {
				t.Errorf("ended with %v, want %v", got, test.want)
			}
			if s == hurried {
				return // the next stream might be too late as well
			}
			if err := errorsOf(c.headers(3, false, callHeaders(sessionMethod)), c.data(3, false, brief),
				c.await(3, http2.FrameData)); err != nil {
				t.Errorf("the next stream on the connection: %v", err)
			}
		})
	}
}

// finishIf closes the client's side of stream 1.
func (c *frameClient) finishIf(end bool) error {
	if !end {
		return nil
	}
	return c.data(1, true, nil)
}
