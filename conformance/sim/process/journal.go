package process

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
)

// Executed is a record of the journal: an entry, and the state just before it.
type Executed struct {
	At     time.Duration // by Monotonic
	Entry  coordination.Entry
	Before coordination.Index // the last entry of that state
	Digest uint64
}

// Monotonic returns the time of this machine's monotonic clock, which all processes share.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux has it
	}
	return time.Duration(t.Nano())
}

// headBytes is the size of a record without the entry: its length and five numbers.
const headBytes = 4 + 5*8

// Append encodes a record of an entry that is about to be executed.
func Append(record []byte, m *coordination.Machine, e *coordination.Entry) []byte {
	begin := len(record)
	record = append(record, 0, 0, 0, 0)
	at := uint64(Monotonic())
	for _, number := range []uint64{at, uint64(e.Index), uint64(e.Term), uint64(m.Index()), m.Digest()} {
		record = binary.LittleEndian.AppendUint64(record, number)
	}
	if len(e.Commands) > 0 { // an entry of raft's own has no data
		entry := codec.BeginEntry(nil, e.StampMillis)
		for _, c := range e.Commands {
			entry = codec.AppendToEntry(entry, c)
		}
		record = append(record, entry...)
	}
	binary.LittleEndian.PutUint32(record[begin:], uint32(len(record)-begin))
	return record
}

// Read returns the records of a journal. The last one may have been cut short by the end of the process.
func Read(file string) (list []Executed, err error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) { // its server has executed nothing
		return nil, nil
	}
	for err == nil && len(text) >= headBytes {
		length := int(binary.LittleEndian.Uint32(text))
		if length < headBytes || length > len(text) {
			break
		}
		number := func(i int) uint64 { return binary.LittleEndian.Uint64(text[4+8*i:]) }
		e := Executed{At: time.Duration(number(0)), Before: coordination.Index(number(3)), Digest: number(4)}
		e.Entry.Index, e.Entry.Term = coordination.Index(number(1)), coordination.Term(number(2))
		if err = codec.DecodeEntry(bytes.Clone(text[headBytes:length]), &e.Entry); err != nil {
			err = fmt.Errorf("%s: entry %d: %w", file, e.Entry.Index, err)
		}
		list, text = append(list, e), text[length:]
	}
	return list, err
}
