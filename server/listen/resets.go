package listen

import "time"

// resetMeter allows a burst of resets, and more as time goes by. A client that resets streams as fast as it opens them
// makes the server work for nothing, and stays below the limit of open streams.
type resetMeter struct {
	allowance float64
	at        time.Time
}

func (m *resetMeter) allow(resets int, limits Limits, now time.Time) bool {
	earned := now.Sub(m.at).Seconds() * float64(limits.ResetsPerSecond)
	m.allowance = min(m.allowance+earned, float64(limits.ResetBurst)) - float64(resets)
	m.at = now
	return m.allowance >= 0
}

// frameCounter follows the frames in a stream of bytes from an HTTP/2 client (RFC 9113, 3.4 and 4.1). It checks nothing:
// what is no HTTP/2 ends at gRPC.
type frameCounter struct {
	preface int // bytes of it that have gone by
	header  [frameHeaderBytes]byte
	have    int // bytes of header
	skip    int // bytes of the payload that are still to come
	begun   bool
}

// greeted tells whether the preface and a whole frame have gone by, which is what gRPC waits for.
func (f *frameCounter) greeted() bool { return f.begun && f.skip == 0 }

const (
	prefaceBytes     = 24
	frameHeaderBytes = 9
	frameTypeReset   = 3
)

// count takes the next bytes and returns how many RST_STREAM frames begin in them.
func (f *frameCounter) count(b []byte) (resets int) {
	skipped := min(prefaceBytes-f.preface, len(b))
	f.preface += skipped
	b = b[skipped:]
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.header[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < frameHeaderBytes {
			return resets
		}
		f.have, f.begun = 0, true
		f.skip = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		if f.header[3] == frameTypeReset {
			resets++
		}
	}
	return resets
}
