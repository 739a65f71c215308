package raftstore

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
)

// countedFiles counts the bytes that are written, zeros ahead included.
type countedFiles struct {
	files.FS
	written *atomic.Int64
}

// Create implements files.FS.
func (c countedFiles) Create(path string) (files.File, error) {
	f, err := c.FS.Create(path)
	return countedFile{f, c.written}, err
}

type countedFile struct {
	files.File
	written *atomic.Int64
}

// WriteAt implements io.WriterAt.
func (f countedFile) WriteAt(b []byte, at int64) (int, error) {
	f.written.Add(int64(len(b)))
	return f.File.WriteAt(b, at)
}

// BenchmarkBytesWritten reports the bytes that a server alone writes for a command of 200 bytes, one and many at a
// time, and on a day without clients: every ten minutes a mark, and a checkpoint that it changes one row of. It runs
// four hours of that.
func BenchmarkBytesWritten(b *testing.B) {
	const size = 200
	for range b.N {
		var written atomic.Int64
		s := open(b, Config{Dir: filepath.Join(b.TempDir(), "data"), Logger: noLog,
			fs: countedFiles{files.Disk{}, &written}})
		r := start(b, s)
		term := r.lead(b)
		since := func(name string, per float64, do func()) {
			before := written.Load()
			do()
			b.ReportMetric(float64(written.Load()-before)/per, name)
		}
		command := func(n int) string {
			if n%64 == 0 {
				r.note(func() { r.entries = nil }) // they would be searched
			}
			return fmt.Sprintf("%0*d", size, n)
		}
		n := 0
		since("B/command-alone", 300, func() {
			for range 300 {
				propose(b, r, term, command(n))
				n++
			}
		})
		since("B/command-of-64", 64*100, func() {
			for range 100 {
				var batch [][]byte
				for range 64 {
					batch = append(batch, []byte(command(n)))
					n++
				}
				s.Propose(term, batch)
				r.waitCommand(b, command(n-1))
			}
		})
		since("B/row-of-50000", 50_000, func() { storeRows(b, r, 50_000, 0) })
		since("B/idle-day", 1./6, func() {
			for range 24 {
				propose(b, r, term, command(n))
				n++
				takeCheckpoint(b, r, row("12345678 mark", fmt.Sprint(n)))
				r.waitIdle(b)
			}
		})
		stop(b, s)
	}
}
