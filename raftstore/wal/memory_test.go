package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// memory is a file system that knows what is durable and what only the page cache has. It records every change until
// it is synced, so that crash makes an image of what a power cut may leave.
type memory struct {
	names   map[string]*memoryFile // as programs see them
	durable map[string]*memoryFile
	pending []nameChange
	removed map[string]*memoryFile // every file that was ever removed
	before  func(step, path string) error
	steps   int
}

type nameChange struct {
	name string
	file *memoryFile // nil if it was removed
}

type memoryFile struct {
	content []byte // as programs see it
	durable []byte
	pending []fileChange
}

// fileChange is a write, or a change of the size if data is nil.
type fileChange struct {
	at   int64
	data []byte
}

func newMemory() *memory {
	return &memory{names: map[string]*memoryFile{}, durable: map[string]*memoryFile{},
		removed: map[string]*memoryFile{}}
}

// errShort makes a write short: a part of the data is written.
var errShort = errors.New("short write")

func (m *memory) step(step, path string) error {
	m.steps++
	if m.before == nil {
		return nil
	}
	return m.before(step, path)
}

func (m *memory) List(dir string) ([]string, error) {
	var names []string
	for name := range m.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, m.step("list", dir)
}

func (m *memory) Create(path string) (File, error) {
	if err := m.step("create", path); err != nil {
		return nil, err
	}
	if m.names[path] != nil {
		return nil, fs.ErrExist
	}
	f := &memoryFile{}
	m.names[path] = f
	m.pending = append(m.pending, nameChange{path, f})
	return &openFile{m, f, path, true}, nil
}

func (m *memory) Open(path string) (File, error) {
	f := m.names[path]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return &openFile{m, f, path, false}, m.step("open", path)
}

func (m *memory) Truncate(path string, size int64) error {
	if err := m.step("truncate", path); err != nil {
		return err
	}
	m.names[path].change(fileChange{size, nil})
	return nil
}

func (m *memory) Remove(path string) error {
	if err := m.step("remove", path); err != nil {
		return err
	}
	if m.names[path] == nil {
		return fs.ErrNotExist
	}
	m.removed[path] = m.names[path]
	delete(m.names, path)
	m.pending = append(m.pending, nameChange{path, nil})
	return nil
}

func (m *memory) SyncDir(dir string) error {
	err := m.step("sync directory", dir)
	if err == nil {
		m.durable = maps.Clone(m.names)
	}
	m.pending = nil // after a failure they may stay away for ever
	return err
}

type openFile struct {
	m        *memory
	f        *memoryFile
	path     string
	writable bool
}

func (o *openFile) ReadAt(b []byte, at int64) (int, error) {
	if at >= int64(len(o.f.content)) {
		return 0, io.EOF
	}
	n := copy(b, o.f.content[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, o.m.step("read", o.path)
}

func (o *openFile) WriteAt(b []byte, at int64) (int, error) {
	if !o.writable {
		return 0, fs.ErrPermission
	}
	err := o.m.step("write", o.path)
	if errors.Is(err, errShort) {
		b = b[:max(int64(len(b))/2, min(int64(len(b)), sectorEnd(at)-at))]
	} else if err != nil {
		return 0, err
	}
	o.f.change(fileChange{at, slices.Clone(b)})
	return len(b), err
}

func (o *openFile) Size() (int64, error) { return int64(len(o.f.content)), nil }

func (o *openFile) Allocate(size int64) error {
	if err := o.m.step("allocate", o.path); err != nil {
		return err
	}
	o.f.change(fileChange{size, nil})
	return nil
}

// Sync makes what was written durable. If it fails the page cache keeps it, and nothing will ever write it: Linux.
func (o *openFile) Sync() error {
	err := o.m.step("sync", o.path)
	if err == nil {
		o.f.durable = slices.Clone(o.f.content)
	}
	o.f.pending = nil
	return err
}

func (o *openFile) Close() error { return nil }

func (f *memoryFile) change(c fileChange) {
	f.content = c.apply(f.content)
	f.pending = append(f.pending, c)
}

func (c fileChange) apply(b []byte) []byte {
	if c.data == nil {
		return append(b, make([]byte, max(0, c.at-int64(len(b))))...)[:c.at]
	}
	end := c.at + int64(len(c.data))
	b = append(b, make([]byte, max(0, end-int64(len(b))))...)
	copy(b[c.at:], c.data)
	return b
}

// crash returns what a power cut may leave: of the unsynced writes and names none, all or any, and of writes any of
// their sectors.
func (m *memory) crash(r *rand.Rand) *memory {
	names := maps.Clone(m.durable)
	keep := r.IntN(4) // no name, all, the first ones, or any
	until := r.IntN(len(m.pending) + 1)
	for i, p := range m.pending {
		if keep == 0 || keep == 2 && i >= until || keep == 3 && r.IntN(2) == 0 {
			continue
		}
		if names[p.name] = p.file; p.file == nil {
			delete(names, p.name)
		}
	}
	image := newMemory()
	mode := r.IntN(5)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		image.put(name, names[name].crash(r, mode))
	}
	image.removed = maps.Clone(m.removed)
	return image
}

func (m *memory) put(name string, content []byte) {
	f := &memoryFile{content: content, durable: slices.Clone(content)}
	m.names[name], m.durable[name] = f, f
}

func (f *memoryFile) crash(r *rand.Rand, mode int) []byte {
	b := slices.Clone(f.durable)
	for _, c := range f.pending {
		switch {
		case mode == 0 || mode == 2 && r.IntN(2) == 0:
		case mode <= 2 || c.data == nil && r.IntN(2) == 0:
			b = c.apply(b)
		case c.data != nil:
			b = c.tear(b, r, []int64{sectorBytes, 4096}[mode-3])
		}
	}
	return b
}

// tear applies any of the sectors of a write.
func (c fileChange) tear(b []byte, r *rand.Rand, sector int64) []byte {
	share := 1 + r.IntN(7)
	for from := c.at; from < c.at+int64(len(c.data)); {
		to := min((from/sector+1)*sector, c.at+int64(len(c.data)))
		if r.IntN(8) < share {
			b = fileChange{from, c.data[from-c.at : to-c.at]}.apply(b)
		}
		from = to
	}
	return b
}

// clone returns the files as they are, all durable.
func (m *memory) clone() *memory {
	image := newMemory()
	for name, f := range m.names {
		image.put(name, slices.Clone(f.content))
	}
	image.removed = maps.Clone(m.removed)
	return image
}

func (m *memory) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		content := slices.Clone(m.names[name].content)
		h, ok := decodeHeader(content)
		fmt.Fprintf(&b, "%s: %d bytes", filepath.Base(name), len(content))
		if !ok {
			b.WriteString(", no header\n")
			continue
		}
		f := newSegment(name, h)
		fmt.Fprintf(&b, ", reset %d, follows %d at %d, entry %d, %+v\n", h.Reset, h.Before.Sequence, h.Before.End,
			h.Last, h.Hard)
		for at := int64(headerBytes); ; {
			found, ok := f.batch(content, at)
			if !ok {
				_, err := f.judge(content, at)
				fmt.Fprintf(&b, "  %d: end, %v\n", at, err)
				break
			}
			fmt.Fprintf(&b, "  %d to %d:", at, found.end)
			_ = records(found.payload, found.count, func(r record) error {
				fmt.Fprintf(&b, " %d/%d.%d", r.kind, r.index, r.term)
				return nil
			})
			b.WriteString("\n")
			at = found.end
		}
	}
	return b.String()
}

var faults = []error{syscall.ENOSPC, syscall.EIO, errShort, syscall.EROFS}
