package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/coordd/coordd/raftstore/files"
)

const (
	mediumBytes = 32 << 20
	blockBytes  = 4096
)

// BenchmarkMedia appends to files that are written in different ways, and to the log, in turns, so that the disk is
// the same for all. "beside" another goroutine writes 64 KiB at a time to the same file system and syncs every 10 MiB.
// The table has the times of the write, of the sync, and of both. -benchtime 2000x makes 2,000 appends.
func BenchmarkMedia(b *testing.B) {
	for _, beside := range []bool{false, true} {
		for _, size := range []int{200, 3_000, 8_000} {
			b.Run(fmt.Sprintf("bytes=%d/beside=%v", size, beside), func(b *testing.B) { benchMedia(b, size, beside) })
		}
	}
}

func benchMedia(b *testing.B, size int, beside bool) {
	media := newMedia(b)
	if beside {
		defer writeBeside(b)()
	}
	for n := 0; b.Loop(); n++ {
		for k := range media { // another one is the first each time
			media[(n+k)%len(media)].append(b, size)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-16s %27s %27s %27s", "µs", "write p50/p99/max", "sync p50/p99/max", "append p50/p99/max")
	for _, m := range media {
		fmt.Fprintf(&table, "\n%-16s", m.name)
		for _, times := range [][]time.Duration{m.writes, m.syncs, m.appends} {
			slices.Sort(times)
			at := func(share int) int64 { return times[(len(times)-1)*share/100].Microseconds() }
			fmt.Fprintf(&table, " %9d %8d %8d", at(50), at(99), at(100))
		}
	}
	b.Log(table.String())
}

// medium is a file, or a log, that is appended to.
type medium struct {
	name                   string
	step                   func(size int) (write, sync time.Duration, err error)
	writes, syncs, appends []time.Duration
}

func (m *medium) append(b *testing.B, size int) {
	write, sync, err := m.step(size)
	if err != nil {
		b.Fatal(m.name, err)
	}
	m.writes, m.syncs, m.appends = append(m.writes, write), append(m.syncs, sync), append(m.appends, write+sync)
}

func newMedia(b *testing.B) []*medium {
	dir := b.TempDir()
	return []*medium{
		newLogMedium(b, dir),
		newFileMedium(b, dir, "allocated", false, 0),
		newFileMedium(b, dir, "written", true, 0),
		newFileMedium(b, dir, "dsync", true, syscall.O_DSYNC),
		newFileMedium(b, dir, "direct", true, syscall.O_DIRECT),
		newFileMedium(b, dir, "direct, dsync", true, syscall.O_DIRECT|syscall.O_DSYNC),
	}
}

// newLogMedium is a log. Its write is the append without the sync.
func newLogMedium(b *testing.B, dir string) *medium {
	clock := &syncClock{}
	l, err := Open(b.TempDir(), Options{Cluster: 1, Member: 2, SegmentBytes: mediumBytes, New: true, Files: clock})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	index := uint64(0)
	return &medium{name: "log", step: func(size int) (write, sync time.Duration, err error) {
		index++
		begun, before := time.Now(), clock.syncs
		err = l.Append(nil, []Entry{{Index: index, Data: repeated(size)}})
		took, sync := time.Since(begun), clock.syncs-before
		return took - sync, sync, err
	}}
}

// syncClock measures syncs.
type syncClock struct {
	files.Disk
	syncs time.Duration
}

type clockedFile struct {
	files.File
	clock *syncClock
}

func (c *syncClock) Create(path string) (files.File, error) {
	f, err := c.Disk.Create(path)
	return clockedFile{f, c}, err
}

func (f clockedFile) Sync() error {
	begun := time.Now()
	defer func() { f.clock.syncs += time.Since(begun) }()
	return f.File.Sync()
}

// newFileMedium is a file that is written once before, or only allocated, and opened with further flags. Without the
// page cache whole blocks are written, the last one of the append before again.
func newFileMedium(b *testing.B, dir, name string, written bool, flags int) *medium {
	path := filepath.Join(dir, name)
	made, err := files.Disk{}.Create(path)
	if err == nil {
		err = made.Allocate(mediumBytes)
	}
	for at := int64(0); written && err == nil && at < mediumBytes; at += zeroAheadBytes {
		err = files.WriteAll(made, zeroBlock[:], at)
	}
	if err == nil {
		err = made.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	made.Close()
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { f.Close() })
	space := make([]byte, mediumBytes/1024+2*blockBytes)
	space = space[blockBytes-int(uintptr(unsafe.Pointer(&space[0]))%blockBytes):]
	at := 0
	return &medium{name: name, step: func(size int) (write, sync time.Duration, err error) {
		if at+size > mediumBytes {
			at = 0
		}
		from, to := at, at+size
		if flags&syscall.O_DIRECT != 0 {
			from, to = from/blockBytes*blockBytes, (to+blockBytes-1)/blockBytes*blockBytes
		}
		at += size
		copy(space[:to-from], repeated(size))
		begun := time.Now()
		if _, err = f.WriteAt(space[:to-from], int64(from)); err != nil || flags&syscall.O_DSYNC != 0 {
			return time.Since(begun), 0, err
		}
		write, begun = time.Since(begun), time.Now()
		err = syscall.Fdatasync(int(f.Fd()))
		return write, time.Since(begun), err
	}}
}

func repeated(n int) []byte { return slices.Repeat([]byte{0xa5}, n) }

// writeBeside writes to the same file system until its result is called.
func writeBeside(b *testing.B) (stop func()) {
	f, err := os.Create(filepath.Join(b.TempDir(), "beside"))
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer f.Close()
		piece := repeated(64 << 10)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if _, err := f.WriteAt(piece, int64(n%2000)*int64(len(piece))); err != nil {
				b.Error(err)
				return
			}
			if n%160 == 159 {
				_ = f.Sync()
			}
		}
	})
	return func() { close(done); wg.Wait() }
}
