package listen

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/mem"
)

// envelope is a message as it comes.
func envelope(squeezed bool, length int) []byte {
	b := make([]byte, prefixBytes, prefixBytes+length)
	if squeezed {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(length))
	return append(b, bytes.Repeat([]byte{1}, length)...)
}

// TestMessages has messages go by in pieces of every size, compressed ones among others, and takes each when
// it is whole or later: at the end nothing is kept, and in between as much as waits.
func TestMessages(t *testing.T) {
	lengths := []int{0, 1, 3, 7, 0, 12}
	squeezed := func(i int) bool { return i%3 == 1 }
	var all []byte
	for i, length := range lengths {
		all = append(all, envelope(squeezed(i), length)...)
	}
	for size := 1; size <= len(all); size++ {
		for late := range len(lengths) {
			var m messages
			kept, taken, ends := 0, 0, 0
			for rest := bytes.Clone(all); len(rest) > 0; {
				piece := rest[:min(size, len(rest))]
				rest = rest[len(piece):]
				kept += len(piece) + m.pass(piece)
				for taken+late < len(lengths) && len(all)-len(rest) >= bytesOf(lengths[:taken+late+1]) {
					kept -= m.take(decompressed(squeezed(taken), lengths[taken]))
					taken++
					ends = bytesOf(lengths[:taken])
				}
				if waits := len(all) - len(rest) - ends + m.more(); kept != waits {
					t.Fatalf("in pieces of %d, taken %d late: %d bytes are kept, want %d", size, late, kept,
						waits)
				}
			}
			for ; taken < len(lengths); taken++ {
				kept -= m.take(decompressed(squeezed(taken), lengths[taken]))
			}
			if kept != 0 || m.uneven != nil {
				t.Fatalf("in pieces of %d, taken %d late: %d bytes are kept of nothing, of %v", size, late,
					kept, m.uneven)
			}
		}
	}
}

// more sums what is kept beyond the received bytes.
func (m *messages) more() (sum int) {
	for _, u := range m.uneven {
		sum += u.more
	}
	return sum
}

// TestPieces sends a message byte by byte: gRPC's buffer for each piece is charged until the message is taken, and a
// message that comes as a whole is charged nothing more.
func TestPieces(t *testing.T) {
	const length = 1000
	var m messages
	kept := 0
	for _, b := range envelope(false, length) {
		kept += 1 + m.pass([]byte{b})
	}
	if want := prefixBytes + length + unevenBytes + length*pieceBytes; kept != want {
		t.Errorf("%d bytes are kept, want %d", kept, want)
	}
	if more := m.pass(envelope(false, length)); more != 0 {
		t.Errorf("%d bytes are kept beyond a whole message", more)
	}
	if m.skip() {
		t.Error("what is kept for a message in pieces is never given back")
	}
	if took := m.take(length); took != kept || !m.skip() || m.uneven != nil {
		t.Errorf("%d bytes are given back of %d, then %v are remembered", took, kept, m.uneven)
	}
}

// bytesOf returns the size of messages of these lengths.
func bytesOf(lengths []int) (bytes int) {
	for _, length := range lengths {
		bytes += prefixBytes + length
	}
	return bytes
}

func decompressed(squeezed bool, length int) int {
	if squeezed {
		return 1000 * length
	}
	return length
}

// FuzzMessages has any bytes go by in pieces: as many messages come as in one go, and no less is kept for
// them.
func FuzzMessages(f *testing.F) {
	f.Add(append(envelope(true, 3), envelope(false, 2)...), 2)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if size < 1 {
			return
		}
		var once, pieces messages
		want, got := once.pass(bytes.Clone(b)), 0
		for len(b) > 0 {
			n := min(size, len(b))
			got += pieces.pass(b[:n])
			b = b[n:]
		}
		if got < want || want != once.more() || got != pieces.more() || pieces.came != once.came ||
			pieces.left != once.left {
			t.Fatalf("kept %d of %v, %d came and %d are to come; want %d, %d and %d", got, pieces.uneven,
				pieces.came, pieces.left, want, once.came, once.left)
		}
	})
}

// TestReceiveAllocatesNothing receives messages: what is counted for each is cheap.
func TestReceiveAllocatesNothing(t *testing.T) {
	c := NewConnections(Limits{ReceivedBytes: 1 << 20}, slog.New(slog.DiscardHandler))
	conn := c.meter(nil, nil)
	call := &Call{set: c, conn: conn, stream: 1}
	call.attach()
	message := envelope(false, 3)
	unmarshal := codec{unread{}}
	receive := func(m any) error {
		return unmarshal.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message[prefixBytes:])}, m)
	}
	m := new(int)
	receives := testing.AllocsPerRun(100, func() {
		conn.receiveAlone(1, message)
		if err := call.Receive(receive, m); err != nil {
			t.Fatal(err)
		}
	})
	itself := testing.AllocsPerRun(100, func() { _ = receive(m) })
	if receives > itself {
		t.Errorf("%v allocations for a message, and %v without the limits", receives, itself)
	}
	if *m != 0 || c.Received() != prefixBytes+3 || call.LastBytes() != 3 {
		t.Errorf("%d bytes are kept of a message of %d that is being worked on", c.Received(),
			call.LastBytes())
	}
}

// receiveAlone has bytes of one message come.
func (c *meteredConn) receiveAlone(stream uint32, b []byte) {
	c.mutex.Lock()
	c.keep(c.receive(stream, b))
	c.mutex.Unlock()
	c.set.bytes.enforce(c.set)
}

// unread is a codec that reads nothing.
type unread struct{}

func (unread) Marshal(any) (mem.BufferSlice, error) { return nil, nil }
func (unread) Unmarshal(_ mem.BufferSlice, m any) error {
	*m.(*int) = 0
	return nil
}
func (unread) Name() string { return "unread" }

// TestCallsShareAPlace has messages come for calls that are remembered in the same place, in turns: each call
// keeps its own, and one that has left nothing.
func TestCallsShareAPlace(t *testing.T) {
	c := NewConnections(Limits{ReceivedBytes: 1 << 20}, slog.New(slog.DiscardHandler))
	conn := c.meter(nil, nil)
	calls := []*Call{{set: c, conn: conn, stream: 1}, {set: c, conn: conn, stream: 1 + 2*latelyOpen}}
	for _, call := range calls {
		call.attach()
	}
	message := envelope(false, 3)
	for range 3 {
		for _, call := range calls {
			conn.receiveAlone(call.stream, message)
		}
	}
	each := int64(3 * len(message))
	if calls[0].kept != each || calls[1].kept != each || c.Received() != 2*each {
		t.Errorf("%d and %d bytes are kept, %d in all; want %d for each", calls[0].kept, calls[1].kept,
			c.Received(), each)
	}
	calls[1].endGone = true // as when its end has been written
	calls[1].end()
	for _, call := range calls {
		conn.receiveAlone(call.stream, message)
	}
	if calls[1].kept != 0 || c.Received() != each+int64(len(message)) {
		t.Errorf("%d bytes are kept of a call that has left, %d in all", calls[1].kept, c.Received())
	}
}

// TestMessageAndResetInOneRead sends a part of a message and a reset of its stream at once, so that one read brings
// both, while the call is over and waits for its end to be read.
func TestMessageAndResetInOneRead(t *testing.T) {
	c := NewConnections(Limits{ReceivedBytes: 1 << 20, ResetBurst: 10}, slog.New(slog.DiscardHandler))
	conn := c.meter(nil, nil)
	call := &Call{set: c, conn: conn, stream: 1}
	call.attach()
	call.leave()
	if !call.lingers || call.left {
		t.Fatal("the call does not wait for its end")
	}
	message := envelope(false, 3)
	data := append([]byte{0, 0, byte(len(message)), frameData, 0, 0, 0, 0, 1}, message...)
	both := append([]byte(http2.ClientPreface),
		append(data, 0, 0, 4, frameReset, 0, 0, 0, 0, 1, 0, 0, 0, 8)...)
	if taken, err := conn.watch(both); taken != len(both) || err != nil {
		t.Errorf("%d bytes of %d are taken: %v", taken, len(both), err)
	}
	if !call.left || c.Received() != 0 {
		t.Errorf("left: %v, and %d bytes are kept", call.left, c.Received())
	}
}
