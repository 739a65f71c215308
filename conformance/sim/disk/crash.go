package disk

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// sectorBytes is the unit in which a write is torn.
const sectorBytes = 512

// Loss describes what a crash leaves of unsynced changes.
type Loss struct {
	Share float64 // that survives
	Torn  bool    // each sector of each write for itself; otherwise files as a whole
}

// Crash makes a new directory, as it is found after the crash, the disk's, and heals the disk. It returns how many
// files differ from what was written. No process may use the old directory any more; it is removed.
func (d *Disk) Crash(to string, loss Loss) (differ int, err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, n := range d.names[:d.survivors(len(d.names), loss.Share)] {
		d.rename(n)
	}
	next := map[string]*file{}
	for _, name := range slices.Sorted(maps.Keys(d.stored)) {
		f := d.stored[name]
		content, changed := d.content(f, loss)
		if changed || f.name != name {
			differ++
		}
		next[name] = &file{name: name, durable: content}
	}
	if err := d.write(to, next); err != nil {
		return 0, err
	}
	old := d.dir
	d.become(to, next)
	return differ, os.RemoveAll(old)
}

// become makes files the disk's, all durable.
func (d *Disk) become(dir string, files map[string]*file) {
	d.dir, d.stored, d.files, d.names = dir, files, maps.Clone(files), nil
	d.opened = map[string]*file{}
	d.faults, d.left, d.failed = Faults{Free: d.faults.Free}, 0, false
}

// Restart makes a copy of the directory the disk's, as a process finds it after the end of another: with everything
// that was written, which is as durable as it was. No process may use the old directory any more.
func (d *Disk) Restart(to string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	next := map[string]*file{}
	for name, f := range d.files {
		next[name] = &file{durable: d.written(f)}
	}
	if err := d.write(to, next); err != nil {
		return err
	}
	old := d.dir
	d.dir, d.opened, d.left, d.failed = to, map[string]*file{}, 0, false
	return os.RemoveAll(old)
}

// survivors returns how many of n changes, which become durable in their order, did.
func (d *Disk) survivors(n int, share float64) int {
	alive := 0
	for alive < n && d.chance.Float64() < share {
		alive++
	}
	return alive
}

// content returns what a file holds after a crash, and whether that is something else than was written.
func (d *Disk) content(f *file, loss Loss) (content []byte, changed bool) {
	written := d.written(f)
	switch {
	case !loss.Torn && d.chance.Float64() < loss.Share:
		content = written
	case !loss.Torn:
		content = f.durable
	case f.whole:
		content = bytes.Clone(f.durable)
		for _, c := range split(change{data: written}) {
			if d.chance.Float64() < loss.Share {
				content = c.apply(content)
			}
		}
	default:
		content = bytes.Clone(f.durable)
		for _, whole := range f.pending {
			for _, c := range split(whole) {
				if d.chance.Float64() < loss.Share {
					content = c.apply(content)
				}
			}
		}
	}
	return content, !bytes.Equal(content, written)
}

// split cuts a write at the borders of sectors.
func split(c change) []change {
	if c.truncate || c.allocate {
		return []change{c}
	}
	var parts []change
	for len(c.data) > 0 {
		n := min(int64(len(c.data)), sectorBytes-c.offset%sectorBytes)
		parts = append(parts, change{offset: c.offset, data: c.data[:n]})
		c.offset, c.data = c.offset+n, c.data[n:]
	}
	return parts
}

// write writes files into a new directory, which gets the directories of the old one.
func (d *Disk) write(to string, files map[string]*file) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	err := filepath.WalkDir(d.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(d.dir, path)
		if err != nil {
			return err
		}
		return os.MkdirAll(filepath.Join(to, relative), 0o700)
	})
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, files[name].durable, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Empty erases the disk, like a replacement.
func (d *Disk) Empty(to string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	old := d.dir
	d.become(to, map[string]*file{})
	return os.RemoveAll(old)
}

// Rot turns a bit of a file at rest, and returns where; "" without such a file. choose returns those of all files that
// it may be; their names are sorted. It follows a crash.
func (d *Disk) Rot(choose func(names []string) []string) (where string, err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	names := slices.DeleteFunc(choose(slices.Sorted(maps.Keys(d.stored))),
		func(name string) bool { return len(d.stored[name].durable) == 0 })
	if len(names) == 0 {
		return "", nil
	}
	d.at.Store(true)
	defer d.at.Store(false)
	name := names[d.chance.IntN(len(names))]
	content := d.stored[name].durable
	bit := d.chance.IntN(8 * len(content))
	content[bit/8] ^= 1 << (bit % 8)
	return fmt.Sprintf("bit %d of %s", bit, name), os.WriteFile(filepath.Join(d.dir, name), content, 0o600)
}
