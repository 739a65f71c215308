package rig

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/coordd/coordd/raftstore/files"
)

// Memory is a file system that knows what is durable and what only the page cache has. It records every change until
// it is synced, so that Crash makes an image of what a power cut may leave. The directories that New is given exist.
type Memory struct {
	// Before is called before each step, unless it is nil. The step fails with the error that it returns.
	Before func(step, path string) error
	// Capacity bounds the bytes of all files, unless it is 0. A file that is removed is gone at once, open or not.
	Capacity int64

	mu      sync.Mutex
	steps   int
	names   map[string]*file // as programs see them
	durable map[string]*file
	pending []nameChange
	removed map[string]*file // every file that was ever removed or replaced
	locks   map[string]int   // how many share each; -1 if it is held alone
}

var _ files.FS = (*Memory)(nil)

// nameChange is a new name, or one that is gone if file is nil. A file that got another name had one before.
type nameChange struct {
	name, before string
	file         *file
}

func (c nameChange) apply(names map[string]*file) {
	if delete(names, c.before); c.file == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.file
	}
}

type file struct {
	dir     bool
	content []byte // as programs see it
	durable []byte
	pending []fileChange
}

// fileChange is a write, or a change of the size if data is nil.
type fileChange struct {
	at   int64
	data []byte
}

// New returns a file system with empty directories.
func New(dirs ...string) *Memory {
	m := &Memory{names: map[string]*file{}, durable: map[string]*file{}, removed: map[string]*file{},
		locks: map[string]int{}}
	for _, dir := range dirs {
		d := &file{dir: true}
		m.names[dir], m.durable[dir] = d, d
	}
	return m
}

// wordBytes is the unit in which a write is cut short: a kernel that cannot go on, as a signal kills the process or a
// limit of the file's size is reached, has copied whole words of an aligned buffer.
const wordBytes = 8

// ErrShort makes a write short: some words of the data are written.
var ErrShort = errors.New("short write")

// Faults are the errors of a step.
var Faults = []error{syscall.ENOSPC, syscall.EIO, ErrShort, syscall.EROFS}

// Changes reports whether a step changes something.
func Changes(step string) bool { return step != "list" && step != "open" && step != "read" }

// step notes a step, then locks m.
func (m *Memory) step(step, path string) error {
	var err error
	if m.Before != nil {
		err = m.Before(step, path)
	}
	m.mu.Lock()
	m.steps++
	return err
}

// Steps returns how many steps there were.
func (m *Memory) Steps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps
}

// inDir returns an error unless the directory of a path exists.
func (m *Memory) inDir(path string) error {
	if d := m.names[filepath.Dir(path)]; d == nil || !d.dir {
		return fs.ErrNotExist
	}
	return nil
}

func (m *Memory) change(c nameChange) {
	if old := m.names[c.name]; old != nil {
		m.removed[c.name] = old
	}
	c.apply(m.names)
	m.pending = append(m.pending, c)
}

// List implements files.FS.
func (m *Memory) List(dir string) ([]string, error) {
	err := m.step("list", dir)
	defer m.mu.Unlock()
	if d := m.names[dir]; d == nil || !d.dir {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	var names []string
	for name := range m.names {
		if filepath.Dir(name) == dir && name != dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, err
}

// Create implements files.FS.
func (m *Memory) Create(path string) (files.File, error) {
	err := m.step("create", path)
	defer m.mu.Unlock()
	if err == nil {
		err = m.inDir(path)
	}
	if err == nil && m.names[path] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	f := &file{}
	m.change(nameChange{name: path, file: f})
	return &openFile{m, f, path, true}, nil
}

// Open implements files.FS.
func (m *Memory) Open(path string) (files.File, error) {
	err := m.step("open", path)
	defer m.mu.Unlock()
	f := m.names[path]
	if err == nil && (f == nil || f.dir) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &openFile{m, f, path, false}, nil
}

// Truncate implements files.FS.
func (m *Memory) Truncate(path string, size int64) error {
	err := m.step("truncate", path)
	defer m.mu.Unlock()
	if err == nil && m.names[path] == nil {
		err = fs.ErrNotExist
	}
	if err == nil {
		m.names[path].change(fileChange{size, nil})
	}
	return err
}

// Rename implements files.FS.
func (m *Memory) Rename(from, to string) error {
	err := m.step("rename", to)
	defer m.mu.Unlock()
	switch {
	case err != nil:
		return err
	case m.names[from] == nil:
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	case filepath.Dir(from) != filepath.Dir(to):
		return &fs.PathError{Op: "rename", Path: from, Err: syscall.EXDEV}
	}
	m.change(nameChange{to, from, m.names[from]})
	return nil
}

// Remove implements files.FS.
func (m *Memory) Remove(path string) error {
	err := m.step("remove", path)
	defer m.mu.Unlock()
	if err == nil && m.names[path] == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	m.change(nameChange{name: path})
	return nil
}

// MakeDir implements files.FS.
func (m *Memory) MakeDir(path string) error {
	err := m.step("make directory", path)
	defer m.mu.Unlock()
	if err == nil {
		err = m.inDir(path)
	}
	if err == nil && m.names[path] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return &fs.PathError{Op: "make", Path: path, Err: err}
	}
	m.change(nameChange{name: path, file: &file{dir: true}})
	return nil
}

// SyncDir implements files.FS. If it fails the changes may be lost, unless a later one succeeds: a file system that
// could not write names goes on with its journal, or with nothing.
func (m *Memory) SyncDir(dir string) error {
	err := m.step("sync directory", dir)
	defer m.mu.Unlock()
	m.pending = slices.DeleteFunc(m.pending, func(c nameChange) bool {
		return filepath.Dir(c.name) == dir
	})
	if err == nil {
		in := func(name string, _ *file) bool { return filepath.Dir(name) == dir && name != dir }
		maps.DeleteFunc(m.durable, in)
		for name, f := range m.names {
			if in(name, f) {
				m.durable[name] = f
			}
		}
	}
	return err
}

// Lock implements files.FS. An image has no locks.
func (m *Memory) Lock(path string, shared bool) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.locks[path]; {
	case m.names[path] == nil:
		return nil, &fs.PathError{Op: "lock", Path: path, Err: fs.ErrNotExist}
	case n < 0 || n > 0 && !shared:
		return nil, files.ErrLocked
	case shared:
		m.locks[path] = n + 1
	default:
		m.locks[path] = -1
	}
	return &lock{m, path}, nil
}

type lock struct {
	m    *Memory
	path string
}

// Close implements io.Closer.
func (l *lock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.m.locks[l.path]--; l.m.locks[l.path] < 0 {
		delete(l.m.locks, l.path)
	}
	return nil
}

type openFile struct {
	m        *Memory
	f        *file
	path     string
	writable bool
}

// ReadAt implements io.ReaderAt.
func (o *openFile) ReadAt(b []byte, at int64) (int, error) {
	err := o.m.step("read", o.path)
	defer o.m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if at >= int64(len(o.f.content)) {
		return 0, io.EOF
	}
	n := copy(b, o.f.content[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (o *openFile) WriteAt(b []byte, at int64) (int, error) {
	err := o.m.step("write", o.path)
	defer o.m.mu.Unlock()
	if err == nil && !o.writable {
		err = fs.ErrPermission
	}
	if err == nil {
		err = o.m.grow(o.f, at+int64(len(b)))
	}
	if errors.Is(err, ErrShort) {
		words := (len(b) + wordBytes - 1) / wordBytes
		b = b[:min(len(b), wordBytes*(1+o.m.steps%max(1, words-1)))]
	} else if err != nil {
		return 0, err
	}
	o.f.change(fileChange{at, slices.Clone(b)})
	return len(b), err
}

// Size implements files.File.
func (o *openFile) Size() (int64, error) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	return int64(len(o.f.content)), nil
}

// Allocate implements files.File.
func (o *openFile) Allocate(size int64) error {
	err := o.m.step("allocate", o.path)
	defer o.m.mu.Unlock()
	if err == nil {
		err = o.m.grow(o.f, size)
	}
	if err == nil {
		o.f.change(fileChange{size, nil})
	}
	return err
}

// Sync implements files.File. If it fails the page cache keeps what was written and nothing will ever write it, as on
// Linux, so that a later sync succeeds and changes nothing.
func (o *openFile) Sync() error {
	err := o.m.step("sync", o.path)
	defer o.m.mu.Unlock()
	for _, c := range o.f.pending {
		if err == nil {
			o.f.durable = c.apply(o.f.durable)
		}
	}
	o.f.pending = nil
	return err
}

// Close implements io.Closer.
func (o *openFile) Close() error { return nil }

func (f *file) change(c fileChange) {
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

// Used returns the bytes of all files.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used()
}

func (m *Memory) used() (used int64) {
	for _, f := range m.names {
		used += int64(len(f.content))
	}
	return used
}

// grow returns an error unless there is room for a file of a size.
func (m *Memory) grow(f *file, size int64) error {
	if more := size - int64(len(f.content)); m.Capacity > 0 && more > 0 && m.used()+more > m.Capacity {
		return syscall.ENOSPC
	}
	return nil
}

// Paths returns the names of the files, sorted.
func (m *Memory) Paths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return paths(m.names)
}

func paths(names map[string]*file) (paths []string) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name].dir {
			paths = append(paths, name)
		}
	}
	return paths
}

// Content returns the content of a file as programs see it. To change it damages the file.
func (m *Memory) Content(path string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[path].content
}

// Put makes a file, all of it durable.
func (m *Memory) Put(path string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(path, content)
}

func (m *Memory) put(path string, content []byte) {
	f := &file{content: content, durable: slices.Clone(content)}
	m.names[path], m.durable[path] = f, f
}

// Lose removes a file without a trace.
func (m *Memory) Lose(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, path)
	delete(m.durable, path)
}

// Removed returns the names of the files that were removed or replaced, sorted.
func (m *Memory) Removed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return paths(m.removed)
}

// Return puts a removed file back.
func (m *Memory) Return(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(path, slices.Clone(m.removed[path].content))
}

// Unsynced reports whether there is a change that was not synced.
func (m *Memory) Unsynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(m.names)), func(f *file) bool {
		return len(f.pending) > 0
	})
}

// Lost reports whether there is a file whose content a failed sync has left to the page cache.
func (m *Memory) Lost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Values(m.names)), func(f *file) bool {
		return len(f.pending) == 0 && !slices.Equal(f.content, f.durable)
	})
}

// Clone returns the files as programs see them, all durable.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.image(m.names, func(f *file) []byte { return slices.Clone(f.content) })
}

// image returns a file system with some names whose directories exist, all durable.
func (m *Memory) image(names map[string]*file, content func(f *file) []byte) *Memory {
	image := New()
	image.removed = maps.Clone(m.removed)
	for _, name := range slices.Sorted(maps.Keys(names)) { // directories before what is in them
		f := names[name]
		if parent := filepath.Dir(name); parent != name && m.names[parent] != nil && image.names[parent] == nil {
			continue
		}
		if f.dir {
			d := &file{dir: true}
			image.names[name], image.durable[name] = d, d
			continue
		}
		image.put(name, content(f))
	}
	return image
}
