package check

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
)

// Event is one thing that happened, at a time of the world's clock. It is one of the types below.
type Event struct {
	At time.Duration
	Fact
}

// Fact is the content of an event: *Opened, *Sent, *Got, *Ended, *Executed or *Note.
type Fact interface{ fact() }

// Opened is a client opening a stream. Streams are numbered from 1 in the order in which they are opened.
type Opened struct {
	Client, Stream, Server int
	Path                   string // of the coordination node
}

// Sent is a request of a client, recorded before it is handed to gRPC. The sequence of requests of a stream is the
// order in which they are recorded. Request ids of one stream are never used twice.
type Sent struct {
	Client, Stream int
	Request        *Ydb_Coordination.SessionRequest
}

// Got is a message that a client has read, pings included.
type Got struct {
	Client, Stream int
	Message        *Ydb_Coordination.SessionResponse
}

// Ended is the end of a stream as its client saw it. Abandoned reports whether the client left it, or lost its
// connection, instead of reading the server's end of it.
type Ended struct {
	Client, Stream int
	Abandoned      bool
	Text           string // the status of gRPC
}

// Executed is an entry of the log that a server executed, once again after each of its restarts. Entry is nil where a
// server executed an entry with this index and these bytes before.
type Executed struct {
	Server int
	Index  coordination.Index
	Entry  *coordination.Entry
}

// Note is something that the world did: a fault, a start, an end, a leader. No check depends on it.
type Note struct{ Text string }

func (*Opened) fact()   {}
func (*Sent) fact()     {}
func (*Got) fact()      {}
func (*Ended) fact()    {}
func (*Executed) fact() {}
func (*Note) fact()     {}

// History is an append-only list of events. Its methods may be called concurrently; none of them waits.
type History struct {
	mutex   sync.Mutex
	events  []Event
	streams int
	sums    map[coordination.Index]uint64 // of the bytes of the entries
	encoded []byte
}

// Open records that a client opens a stream, and returns the stream's number.
func (h *History) Open(at time.Duration, client, server int, path string) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.streams++
	h.events = append(h.events, Event{at, &Opened{Client: client, Stream: h.streams, Server: server, Path: path}})
	return h.streams
}

// Add records an event.
func (h *History) Add(at time.Duration, fact Fact) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.events = append(h.events, Event{at, fact})
}

// Execute records that a server executes an entry. The list of its commands is copied, so that the server may use it
// again.
func (h *History) Execute(at time.Duration, server int, entry *coordination.Entry) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	fact := &Executed{Server: server, Index: entry.Index}
	sum := h.sum(entry)
	if before, known := h.sums[entry.Index]; !known || before != sum {
		own := *entry
		own.Commands = slices.Clone(own.Commands)
		fact.Entry = &own
	}
	if h.sums == nil {
		h.sums = make(map[coordination.Index]uint64)
	}
	h.sums[entry.Index] = sum
	h.events = append(h.events, Event{at, fact})
}

// sum is of everything in the entry.
func (h *History) sum(entry *coordination.Entry) uint64 {
	h.encoded = binary.AppendUvarint(binary.AppendUvarint(h.encoded[:0], uint64(entry.Term)), entry.ServedMillis)
	if entry.Versions {
		h.encoded = append(h.encoded, 1)
	}
	h.encoded = codec.BeginEntry(h.encoded, entry.StampMillis)
	for _, c := range entry.Commands {
		h.encoded = codec.AppendToEntry(h.encoded, c)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(h.encoded) // never fails
	return hash.Sum64()
}

// Events returns the events so far. They must not be changed.
func (h *History) Events() []Event {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return slices.Clip(h.events)
}
