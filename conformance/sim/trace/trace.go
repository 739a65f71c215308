// Package trace records what happens in the world of a simulation, in its order: each line with the virtual time since
// the world's beginning. The running hash over all of it names the run: two runs of one plan are the same if their
// hashes are.
package trace

import (
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/conformance/sim/rt"
)

// Trace is a record. Its methods may be called by any goroutine and never wait.
type Trace struct {
	begun time.Time
	mutex sync.Mutex
	hash  uint64
	to    io.Writer // nil: only the hash is kept
	dir   string
}

// New returns an empty record that begins now. Lines go to w; nil: nowhere. They do not mention dir, the folder of the
// servers' data, which is another one for each run.
func New(w io.Writer, dir string) *Trace { return &Trace{begun: time.Now(), to: w, dir: dir} }

// Now returns the time since the world's beginning, by the world's clock.
func (t *Trace) Now() (now time.Duration) {
	rt.As(rt.World, func() { now = time.Since(t.begun) })
	return now
}

// Hash returns the hash of everything so far.
func (t *Trace) Hash() uint64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.hash
}

// Note records a line.
func (t *Trace) Note(format string, args ...any) {
	rt.As(rt.World, func() {
		line := strings.ReplaceAll(fmt.Sprintf(format, args...), t.dir, "DIR")
		now := time.Since(t.begun)
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.mix(uint64(now), uint64(crc32.Checksum([]byte(line), castagnoli)))
		if t.to != nil {
			fmt.Fprintf(t.to, "%12d %s\n", now, line)
		}
	})
}

// Segment records bytes that are sent on a connection, of which only length and checksum are kept.
func (t *Trace) Segment(conn, from string, data []byte) {
	rt.As(rt.World, func() {
		now, sum := time.Since(t.begun), crc32.Checksum(data, castagnoli)
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.mix(uint64(now), uint64(crc32.Checksum([]byte(conn), castagnoli)), uint64(len(data)), uint64(sum))
		if t.to != nil {
			fmt.Fprintf(t.to, "%12d send %s by %s %d %08x\n", now, conn, from, len(data), sum)
		}
	})
}

// mix adds numbers to the hash. The lock is held.
func (t *Trace) mix(numbers ...uint64) {
	for _, x := range numbers {
		t.hash = (t.hash ^ x) * 0x9e3779b97f4a7c15
		t.hash ^= t.hash >> 29
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
