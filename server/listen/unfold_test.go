package listen

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/coordd/coordd/server/share"
)

func packed(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(bytes.Repeat([]byte("a"), n))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnfold unfolds what is within the limit, a byte over it, cut and broken, and empty, one after the other
// with the same tools.
func TestUnfold(t *testing.T) {
	const most = 100_000
	var u unfolder
	deflater := encoding.GetCompressor(deflateName).(*deflate)
	for range 2 {
		for name, pack := range map[string]func(int) []byte{
			"gzip":      func(n int) []byte { return packed(t, n) },
			deflateName: func(n int) []byte { return deflated(t, deflater, n) },
		} {
			for _, n := range []int{0, 1, most - 1, most, most + 1, 100 * most} {
				got, tooLarge, err := u.unfold(name, bytes.NewReader(pack(n)), most)
				if err != nil || tooLarge != (n > most) || n <= most && (len(got) != n ||
					bytes.Count(got, []byte("a")) != n) {
					t.Errorf("%s: %d bytes: got %d, too large %v, %v", name, n, len(got), tooLarge, err)
				}
			}
			whole := pack(1000)
			for _, broken := range [][]byte{nil, []byte("nothing of the kind"), whole[:len(whole)/2],
				whole[:len(whole)-1]} {
				if got, _, err := u.unfold(name, bytes.NewReader(broken), most); err == nil {
					t.Errorf("%s: %d bytes of what is broken", name, len(got))
				}
			}
		}
	}
	if len(u.space) != most+1 {
		t.Errorf("the space has %d bytes", len(u.space))
	}
	if _, _, err := u.unfold("identity", bytes.NewReader(nil), most); err == nil {
		t.Error("what is not compressed is unfolded")
	}
}

// gzipped is a stream whose messages are compressed.
type gzipped struct{ grpc.ServerTransportStream }

func (gzipped) RecvCompress() string { return "gzip" }

// TestTurnsOfUnfolding has one subject unfold at all places that it may have: the messages of others are
// unfolded meanwhile, and its next one is not.
func TestTurnsOfUnfolding(t *testing.T) {
	bob, alice := share.Subject{Class: share.Known, Name: "bob"}, share.Subject{Class: share.Known, Name: "alice"}
	stranger := share.Subject{Class: share.Unknown, Name: "192.0.2.1"}
	c := NewConnections(Limits{ReceivedBytes: 1 << 20}, slog.New(slog.DiscardHandler))
	receive := func(ctx context.Context, from share.Subject) error {
		conn := c.meter(nopConn{}, nil)
		call := &Call{set: c, conn: conn, stream: 1, subject: from, most: 10,
			ctx: grpc.NewContextWithServerTransportStream(ctx, gzipped{})}
		call.attach()
		message := packed(t, 10)
		conn.receiveAlone(1, append([]byte{compressedFlag, 0, 0, 0, byte(len(message))}, message...))
		return call.Receive(func(m any) error {
			return codec{unread{}}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, m)
		}, new(int))
	}
	for _, greedy := range []share.Subject{bob, stranger} {
		for places := share.NewPool(unfoldingPlaces()); places.Enter(greedy); {
			if _, err := c.unfolding.Acquire(t.Context(), greedy); err != nil {
				t.Fatal(err)
			}
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := receive(over, greedy); !errors.Is(err, context.Canceled) {
			t.Errorf("one more message of %v: %v", greedy, err)
		}
		if err := receive(t.Context(), alice); err != nil {
			t.Errorf("a message of %v: %v", alice, err)
		}
		c.unfolding = newUnfolding()
	}
}
