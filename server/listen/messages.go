package listen

import (
	"encoding/binary"
	"sync/atomic"
)

// messages follows the messages in the bytes of a call: each has a byte before it that says whether it is
// compressed, and four with its length (gRPC over HTTP/2, "Length-Prefixed-Message"). So the size on the wire is known,
// of which gRPC reports only the decompressed one, and the announced length before a message comes. It checks nothing
// else: gRPC rejects malformed calls.
type messages struct {
	prefix [prefixBytes]byte
	have   int          // bytes of prefix
	left   int          // bytes of the message that are still to come
	came   uint64       // messages that have begun
	taken  uint64       // messages that were taken
	uneven []uneven     // that are not taken, the oldest first
	odd    atomic.Int32 // how many these are
	// longest is the greatest length that was announced.
	longest int
}

// uneven is a message for which something else is kept than its length: it is compressed, or came in pieces.
type uneven struct {
	number     uint64 // of those that came
	compressed int    // its length as it came, -1 if it is not compressed
	more       int    // that is kept
}

const (
	prefixBytes = 5
	// compressedFlag is the byte before a message that is compressed.
	compressedFlag = 1
	// unevenBytes is charged for an uneven message in addition, because it is remembered until it is taken.
	unevenBytes = 32
	// pieceBytes is charged for each piece of a message but the last: gRPC allocates as much for it, even for one byte.
	pieceBytes = 64
)

// pass has bytes go by. It returns how much more is kept for them than they are. Of a compressed message it
// clears the flag, so that gRPC hands the message on as it is.
func (m *messages) pass(b []byte) (more int) {
	for len(b) > 0 {
		if m.left > 0 {
			n := min(m.left, len(b))
			m.left -= n
			b = b[n:]
			continue
		}
		n := copy(m.prefix[m.have:], b)
		if m.have == 0 && b[0] == compressedFlag {
			b[0] = 0
		}
		m.have += n
		b = b[n:]
		if m.have < prefixBytes {
			break
		}
		m.have, m.left = 0, int(binary.BigEndian.Uint32(m.prefix[1:]))
		m.longest = max(m.longest, m.left)
		m.came++
		if m.prefix[0] != 0 {
			more += m.keepMore(m.left, 0)
		}
	}
	if m.left > 0 {
		more += m.keepMore(-1, pieceBytes)
	}
	return more
}

// keepMore keeps more bytes for the message that began last, which is so long as it came if it is compressed.
// It returns how many these are with those for remembering it.
func (m *messages) keepMore(compressed, more int) int {
	number := m.came - 1
	if last := len(m.uneven) - 1; last >= 0 && m.uneven[last].number == number {
		m.uneven[last].more += more
		return more
	}
	more += unevenBytes
	m.uneven = append(m.uneven, uneven{number, compressed, more})
	m.odd.Add(1)
	return more
}

// skip counts the next message as taken and returns true, unless some may be uneven: else the charge was as large as
// the message, and no lock is needed. A message is taken after it has gone by.
func (m *messages) skip() bool {
	if m.odd.Load() > 0 {
		return false
	}
	m.taken++
	return true
}

// folded reports whether the next message that is taken is compressed.
func (m *messages) folded() bool {
	return len(m.uneven) > 0 && m.uneven[0].number == m.taken && m.uneven[0].compressed >= 0
}

// take counts the next message as taken, with its decompressed length, and returns how much was kept for it.
func (m *messages) take(length int) (kept int) {
	number := m.taken
	m.taken++
	if len(m.uneven) == 0 || m.uneven[0].number != number {
		return prefixBytes + length
	}
	if m.uneven[0].compressed >= 0 {
		length = m.uneven[0].compressed
	}
	kept = prefixBytes + length + m.uneven[0].more
	m.odd.Add(-1)
	if m.uneven = m.uneven[1:]; len(m.uneven) == 0 {
		m.uneven = nil
	}
	return kept
}
