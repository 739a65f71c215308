package listen

import (
	"encoding/binary"
	"sync/atomic"
)

// messages follows the messages in the bytes of a call: each has a byte before it that says whether it is compressed, and
// four with its length (gRPC over HTTP/2, "Length-Prefixed-Message"). So it is known how many bytes went by for a message
// of which gRPC tells only how long it is decompressed. It checks nothing: what is wrong ends at gRPC.
type messages struct {
	prefix     [prefixBytes]byte
	have       int          // bytes of prefix
	left       int          // bytes of the message that are still to come
	came       uint64       // messages that have begun
	taken      uint64       // of whoever takes them
	compressed []compressed // that are not taken, the oldest first
	folded     atomic.Int32 // how many these are
}

// compressed is a compressed message.
type compressed struct {
	number uint64 // of those that came
	bytes  int    // as it came
}

const (
	prefixBytes = 5
	// compressedBytes is what a compressed message counts on top, because it is remembered until it is taken.
	compressedBytes = 32
)

// pass has bytes go by. It returns how much more is kept for them than they are.
func (m *messages) pass(b []byte) (more int) {
	for len(b) > 0 {
		if m.left > 0 {
			n := min(m.left, len(b))
			m.left -= n
			b = b[n:]
			continue
		}
		n := copy(m.prefix[m.have:], b)
		m.have += n
		b = b[n:]
		if m.have < prefixBytes {
			break
		}
		m.have, m.left = 0, int(binary.BigEndian.Uint32(m.prefix[1:]))
		if m.prefix[0] != 0 {
			m.compressed = append(m.compressed, compressed{m.came, m.left})
			m.folded.Add(1)
			more += compressedBytes
		}
		m.came++
	}
	return more
}

// skip says that the next message is taken, if none can be compressed that is not: then as much was kept for it as it has,
// and no lock is needed. What is taken has gone by before.
func (m *messages) skip() bool {
	if m.folded.Load() > 0 {
		return false
	}
	m.taken++
	return true
}

// take says that the next message is taken, which is so long when decompressed. It returns how much was kept for it.
func (m *messages) take(length int) (kept int) {
	number := m.taken
	m.taken++
	if len(m.compressed) == 0 || m.compressed[0].number != number {
		return prefixBytes + length
	}
	kept = prefixBytes + m.compressed[0].bytes + compressedBytes
	m.folded.Add(-1)
	if m.compressed = m.compressed[1:]; len(m.compressed) == 0 {
		m.compressed = nil
	}
	return kept
}
