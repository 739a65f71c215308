// Package trace records what happens in the world of a simulation, in its order: each line with the virtual time since
// the world's beginning. The running hash over all of it names the run: two runs of one plan are the same if their
// hashes are.
package trace

import (
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
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
	text  []byte // of one line
}

// New returns an empty record that begins now. Lines go to w; nil: nowhere. They do not mention dir, the folder of the
// servers' data, which is another one for each run.
func New(w io.Writer, dir string) *Trace {
	return &Trace{begun: time.Now(), to: w, dir: dir, text: make([]byte, 0, 1<<16)}
}

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

// Stop makes nothing be written any more, so that the file can be closed.
func (t *Trace) Stop() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.to = nil
}

// Note records a line.
func (t *Trace) Note(format string, args ...any) {
	rt.As(rt.World, func() {
		line := t.constant(fmt.Sprintf(format, args...))
		now := time.Since(t.begun)
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.line(now, line)
	})
}

// constant returns a text without the folder's name, and without the double spaces that package protobuf puts into its
// texts, or does not, by a hash of the program.
func (t *Trace) constant(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, t.dir, "DIR"), "  ", " ")
}

func (t *Trace) line(now time.Duration, text string) {
	t.mix(uint64(now), uint64(crc32.Checksum([]byte(text), castagnoli)))
	if t.to != nil {
		t.begin(now)
		t.write(text, "\n")
	}
}

// Segment records bytes that are sent on a connection, of which only length and checksum are kept.
func (t *Trace) Segment(conn, from string, data []byte) {
	rt.As(rt.World, func() {
		now := time.Since(t.begun)
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.segment(now, conn, from, data)
	})
}

func (t *Trace) segment(now time.Duration, conn, from string, data []byte) {
	sum := crc32.Checksum(data, castagnoli)
	t.mix(uint64(now), uint64(crc32.Checksum([]byte(conn), castagnoli)), uint64(len(data)), uint64(sum))
	if t.to != nil {
		t.begin(now)
		t.text = append(append(append(append(t.text, "send "...), conn...), " by "...), from...)
		t.text = strconv.AppendInt(append(t.text, ' '), int64(len(data)), 10)
		t.text = strconv.AppendUint(append(t.text, ' '), uint64(sum), 16)
		t.write("\n")
	}
}

// begin begins a line. Lines are put together without allocations, which would make a difference to a run.
func (t *Trace) begin(now time.Duration) {
	t.text = t.text[:0]
	for most := time.Duration(100_000_000_000); most > now && most > 1; most /= 10 {
		t.text = append(t.text, ' ')
	}
	t.text = append(strconv.AppendInt(t.text, int64(now), 10), ' ')
}

func (t *Trace) write(parts ...string) {
	for _, part := range parts {
		t.text = append(t.text, part...)
	}
	_, _ = t.to.Write(t.text)
}

// mix adds numbers to the hash. The lock is held.
func (t *Trace) mix(numbers ...uint64) {
	for _, x := range numbers {
		t.hash = (t.hash ^ x) * 0x9e3779b97f4a7c15
		t.hash ^= t.hash >> 29
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
