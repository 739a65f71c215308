package raftstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/wal"
)

// appendLog is a log to be compared.
type appendLog interface {
	append(entries []*pb.Entry) error
	close() error
}

// ownLog is package wal as an appendLog.
type ownLog struct {
	log  *wal.Log
	flat []wal.Entry
}

func (l *ownLog) append(entries []*pb.Entry) error {
	l.flat = l.flat[:0]
	for _, e := range entries {
		l.flat = append(l.flat,
			wal.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: byte(e.GetType()), Data: e.GetData()})
	}
	return l.log.Append(nil, l.flat)
}

func (l *ownLog) close() error { return l.log.Close() }

// BenchmarkLogs appends an entry to the log, and to a plain file with a write and a sync, in turns, so that the disk is
// the same for both. ns/op is the sum of the two.
func BenchmarkLogs(b *testing.B) {
	for _, size := range []int{200, 3_000, 8_000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) { benchLogs(b, size) })
	}
}

func benchLogs(b *testing.B, size int) {
	logs := map[string]appendLog{"wal": benchOwn(b), "file": benchFile(b)}
	names := []string{"wal", "file"}
	times := map[string][]time.Duration{}
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i)
	}
	for n := uint64(1); b.Loop(); n++ {
		entry := []*pb.Entry{{Index: &n, Term: new(uint64), Type: pb.EntryNormal.Enum(), Data: data}}
		for k := range names { // another one is the first each time
			name := names[(int(n)+k)%len(names)]
			begun := time.Now()
			if err := logs[name].append(entry); err != nil {
				b.Fatal(err)
			}
			times[name] = append(times[name], time.Since(begun))
		}
	}
	for _, name := range names {
		if err := logs[name].close(); err != nil {
			b.Fatal(err)
		}
		t := times[name]
		slices.Sort(t)
		b.ReportMetric(float64(t[len(t)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(t[len(t)*99/100].Microseconds()), name+"-p99-µs")
	}
}

func benchOwn(b *testing.B) appendLog {
	l, err := wal.Open(b.TempDir(), wal.Options{Cluster: 1, Member: 2, SegmentBytes: DefaultSegmentBytes, New: true})
	if err != nil {
		b.Fatal(err)
	}
	return &ownLog{log: l}
}

// plainFile writes over a file that was written before.
type plainFile struct {
	f  files.File
	at int64
}

func benchFile(b *testing.B) appendLog {
	f, err := files.Disk{}.Create(filepath.Join(b.TempDir(), "file"))
	if err == nil {
		err = files.WriteAll(f, make([]byte, DefaultSegmentBytes), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	return &plainFile{f: f}
}

func (p *plainFile) append(entries []*pb.Entry) error {
	data := entries[0].GetData()
	if p.at+int64(len(data)) > DefaultSegmentBytes {
		p.at = 0
	}
	_, err := p.f.WriteAt(data, p.at)
	p.at += int64(len(data))
	if err != nil {
		return err
	}
	return p.f.Sync()
}

func (p *plainFile) close() error { return p.f.Close() }
