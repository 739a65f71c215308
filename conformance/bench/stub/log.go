package stub

import (
	"fmt"
	"os"
	"sync"

	"github.com/coordd/coordd/raftstore/wal"
)

const (
	segmentBytes = 64 << 20 // of the log, as the server has it
	cutEvery     = 10_000   // rows: files in front of the last so many are removed
)

// OpenLog opens a new log in a directory that it makes, as the server writes it.
func OpenLog(dir string) (*wal.Log, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return wal.Open(dir, wal.Options{Cluster: 1, Member: 1, SegmentBytes: segmentBytes, New: true})
}

// writer makes changes durable before they are answered, with one row, one write and one fdatasync for all that came
// during the write before.
type writer struct {
	log   *wal.Log
	wake  chan struct{}
	mutex sync.Mutex
	row   []byte // of the next write
	after []said // to be sent when the row is durable
}

func newWriter(log *wal.Log) *writer {
	w := &writer{log: log, wake: make(chan struct{}, 1)}
	go w.run()
	return w
}

// add puts a change of a semaphore into the next row.
func (w *writer) add(name string, after ...said) {
	w.mutex.Lock()
	w.row = append(append(w.row, name...), "32 bytes for numbers, and a type"...)
	w.after = append(w.after, after...)
	w.mutex.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // the writer does not sleep
	}
}

// run writes rows. It ends the process if the log fails.
func (w *writer) run() {
	var row []byte
	var after []said
	for index := uint64(1); ; index++ {
		<-w.wake
		w.mutex.Lock()
		row, w.row = w.row, row[:0]
		after, w.after = w.after, after[:0]
		w.mutex.Unlock()
		err := w.log.Append(&wal.HardState{Term: 1, Vote: 1, Commit: index - 1},
			[]wal.Entry{{Index: index, Term: 1, Data: row}})
		if err == nil && index%cutEvery == 0 {
			err = w.log.Cut(index - cutEvery)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "stub:", err)
			os.Exit(1)
		}
		for _, s := range after {
			s.to.say(s.m)
		}
	}
}
