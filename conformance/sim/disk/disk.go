// Package disk simulates the disk of a server under the real files of a directory. What was written lies in the
// directory; what is durable is kept here, and comes back after a crash together with some of the rest. Content becomes
// durable by a sync of the file, names by a sync of their directory, names in the order in which they changed.
package disk

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/conformance/sim/rt"
)

// Disk is the disk of one server. Its faults may be set at any time.
type Disk struct {
	mutex  sync.Mutex
	chance *rand.Rand
	dir    string
	files  map[string]*file // by name as written; names are relative to dir
	opened map[string]*file // by a name that it had when it was opened
	stored map[string]*file // by name as durable
	names  []naming         // changes of names that are not durable, in their order
	faults Faults
	left   int64                       // operations until trigger; 0: none
	only   rt.Op                       // operations that count, "": writes and syncs
	then   func(op rt.Op) (int, error) // trigger
	failed bool
	at     atomic.Bool // the simulation itself is changing the directory
}

// Faults of a disk last until it is healed.
type Faults struct {
	Full bool          // nothing that needs room is written
	Free int64         // bytes that are reported as free; 0: plenty
	Sync time.Duration // longest time of a sync; 0: half a millisecond
}

// plentyBytes are free on a disk without faults.
const plentyBytes = 1 << 40

// FreeBytes returns the space that the system reports.
func (f *Faults) FreeBytes() uint64 { return uint64(cmp.Or(f.Free, plentyBytes)) }

// Refuse fails an operation on a file that needs room on a full disk: new files, and what makes a file longer.
func (f *Faults) Refuse(op rt.Op, path string, offset int64, length int) error {
	if !f.Full {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case op == rt.Create && err != nil:
	case op == rt.Allocate && (err != nil || offset > info.Size()):
	case op == rt.Write && (offset < 0 || err != nil || offset+int64(length) > info.Size()):
	default:
		return nil
	}
	return syscall.ENOSPC
}

// file is the content of a file.
type file struct {
	name    string // as written, "" if it was removed
	durable []byte
	pending []change // since the last sync, in order
	whole   bool     // what was written is not known: it is read from the directory
}

// change is a write of data at an offset, or a truncation.
type change struct {
	offset   int64
	data     []byte
	truncate bool // to offset
	allocate bool // up to offset
}

// naming is a name that appeared (file is set), disappeared, or moved to another.
type naming struct {
	name, to string
	file     *file
}

// New returns the disk of a directory that is empty or does not exist.
func New(dir string, chance *rand.Rand) *Disk {
	return &Disk{dir: dir, chance: chance, files: map[string]*file{}, opened: map[string]*file{},
		stored: map[string]*file{}}
}

// Dir returns the directory. It is another one after each crash.
func (d *Disk) Dir() string { return d.dir }

// Set sets the faults.
func (d *Disk) Set(change func(*Faults)) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	change(&d.faults)
}

// Faults returns the faults. It may be called by a server, which may be frozen then.
func (d *Disk) Faults() (f Faults) {
	rt.As(rt.World, func() {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		f = d.faults
	})
	return f
}

// Trigger calls f in place of the n-th write or sync from now on, with the disk's lock not held. With an op only
// operations of that kind count. The operation fails with the error of f, a write after its first keep bytes.
func (d *Disk) Trigger(n int64, op rt.Op, f func(op rt.Op) (keep int, err error)) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.left, d.only, d.then = n, op, f
}

// Failed reports whether an operation has failed since the last crash, or since it was started anew.
func (d *Disk) Failed() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.failed
}

// Hook takes note of an operation on the directory's files before it happens, and decides what comes of it. It is an
// rt.DiskHook but for the names, which are relative to the directory.
func (d *Disk) Hook(op rt.Op, name, to string, offset int64, data []byte) (keep int, err error) {
	if d.at.Load() {
		return 0, nil
	}
	var pause time.Duration
	var then func(rt.Op) (int, error)
	rt.As(rt.World, func() {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if then = d.due(op); then != nil {
			return
		}
		if err = d.faults.Refuse(op, filepath.Join(d.dir, name), offset, len(data)); err != nil {
			d.failed = true
			return
		}
		pause = d.note(op, name, to, offset, data)
	})
	if then != nil {
		keep, err = then(op)
		rt.As(rt.World, func() {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			if err == nil {
				pause = d.note(op, name, to, offset, data)
				return
			}
			d.failed = true
			if op == rt.Write && keep > 0 {
				keep = WholeWords(offset, min(keep, len(data)))
				d.note(op, name, to, offset, data[:keep])
			}
		})
	}
	if pause > 0 {
		time.Sleep(pause) // as the server that waits for it
	}
	return keep, err
}

// wordBytes is the unit in which a write is cut short: a kernel that cannot go on, because a signal kills the process
// or a limit of the file's size is reached, has copied whole words of an aligned buffer.
const wordBytes = 8

// WholeWords returns how much of a write at an offset ends with a word.
func WholeWords(offset int64, n int) int {
	return max(0, n-int((max(offset, 0)+int64(n))%wordBytes))
}

// due counts an operation, and returns the trigger if it is the one. The lock is held, here and below.
func (d *Disk) due(op rt.Op) func(rt.Op) (int, error) {
	if d.left == 0 || op != rt.Write && op != rt.Sync || d.only != "" && d.only != op {
		return nil
	}
	if d.left--; d.left > 0 {
		return nil
	}
	return d.then
}

// note takes note of an operation that happens, and returns how long it takes.
func (d *Disk) note(op rt.Op, name, to string, offset int64, data []byte) (pause time.Duration) {
	f := d.files[name]
	if f == nil {
		f = d.opened[name]
	}
	switch op {
	case rt.Sync:
		longest := max(d.faults.Sync, 500*time.Microsecond)
		return 50*time.Microsecond + time.Duration(d.chance.Int64N(int64(longest)))
	case rt.Synced:
		if f == nil {
			d.syncNames(name)
		} else {
			d.sync(f)
		}
	case rt.Create:
		if d.files[name] == nil {
			f = &file{name: name}
			d.files[name] = f
			delete(d.opened, name)
			d.names = append(d.names, naming{name: name, file: f})
		} else if offset&int64(os.O_TRUNC) != 0 {
			f.pending = append(f.pending, change{truncate: true})
		}
	case rt.Rename:
		if f == nil || f.name != name {
			return 0 // it will fail
		}
		if replaced := d.files[to]; replaced != nil {
			replaced.name = ""
		}
		f.name = to
		d.files[to], d.opened[name] = f, f
		delete(d.files, name)
		d.names = append(d.names, naming{name: name, to: to})
	case rt.Remove:
		if f == nil || f.name != name {
			return 0
		}
		f.name = ""
		delete(d.files, name)
		d.names = append(d.names, naming{name: name})
	case rt.Truncate, rt.Allocate, rt.Write:
		if f == nil || f.whole {
			return 0
		}
		if op == rt.Write && offset < 0 {
			f.whole, f.pending = true, nil
			return 0
		}
		f.pending = append(f.pending, change{offset: offset, data: append([]byte(nil), data...),
			truncate: op == rt.Truncate, allocate: op == rt.Allocate})
	}
	return 0
}

// sync makes a file's content durable.
func (d *Disk) sync(f *file) {
	if f.whole {
		f.durable = d.written(f)
	}
	for _, c := range f.pending {
		f.durable = c.apply(f.durable)
	}
	f.pending, f.whole = nil, false
}

// written returns the content of a file, or the durable content if it was removed.
func (d *Disk) written(f *file) []byte {
	if f.name != "" {
		if content, err := os.ReadFile(filepath.Join(d.dir, f.name)); err == nil {
			return content
		}
	}
	return f.durable
}

// apply returns content with the change.
func (c change) apply(content []byte) []byte {
	end := c.offset + int64(len(c.data))
	switch {
	case c.truncate && end < int64(len(content)):
		return content[:end:end] // what follows is not to come back when the file grows
	case end > int64(len(content)):
		content = append(content, make([]byte, end-int64(len(content)))...)
	}
	copy(content[c.offset:], c.data)
	return content
}

// syncNames makes the names in a directory durable.
func (d *Disk) syncNames(dir string) {
	kept := d.names[:0]
	for _, n := range d.names {
		if filepath.Dir(n.name) == dir || n.to != "" && filepath.Dir(n.to) == dir {
			d.rename(n)
		} else {
			kept = append(kept, n)
		}
	}
	d.names = kept
}

// rename makes one change of a name durable.
func (d *Disk) rename(n naming) {
	switch {
	case n.file != nil:
		d.stored[n.name] = n.file
	case n.to != "":
		if f := d.stored[n.name]; f != nil {
			d.stored[n.to] = f
		}
		delete(d.stored, n.name)
	default:
		delete(d.stored, n.name)
	}
}
