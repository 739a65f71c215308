package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/internal/testserver"
)

// storage is the disk of a server: a *disk.Disk or *orders.
type storage interface {
	Dir() string
	Set(func(*disk.Faults))
	Trigger(n int64, op rt.Op, f func(rt.Op) (keep int, err error))
	Failed() bool
	Crash(to string, loss disk.Loss) (differ int, err error)
	Restart(to string) error
	Empty(to string) error
	Rot(choose func(names []string) []string) (where string, err error)
}

// orders is a directory of the real file system, whose faults are those that the server's process has on order. A crash
// loses nothing that was written: the kernel lives.
type orders struct {
	mutex  sync.Mutex
	chance *rand.Rand
	dir    string
	to     *testserver.Process // the newest
	faults disk.Faults
	then   func(rt.Op) (int, error)
	failed bool
}

func (d *orders) Dir() string { return d.dir }

func (d *orders) Failed() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.failed
}

// begin orders what lasts of another process, which has just begun.
func (d *orders) begin(p *testserver.Process) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.to, d.failed, d.then = p, d.faults.Full, nil
	if d.faults != (disk.Faults{}) {
		d.send(process.Order{Faults: &d.faults})
	}
}

// send gives an order. It fails where the process has ended, which then needs none. The lock is held.
func (d *orders) send(o process.Order) {
	if line, err := json.Marshal(o); err == nil && d.to != nil {
		_, _ = d.to.Stdin.Write(append(line, '\n'))
	}
}

func (d *orders) Set(change func(*disk.Faults)) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	before := d.faults
	if change(&d.faults); d.faults != before {
		d.failed = d.failed || d.faults.Full
		d.send(process.Order{Faults: &d.faults})
	}
}

func (d *orders) Trigger(n int64, op rt.Op, f func(rt.Op) (int, error)) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if n != 0 || d.then != nil {
		d.then = f
		d.send(process.Order{Count: &process.Count{N: n, Only: op}})
	}
}

// due answers an operation that was counted.
func (d *orders) due(op rt.Op) {
	d.mutex.Lock()
	then := d.then
	d.mutex.Unlock()
	var answer process.Answer
	if then != nil {
		keep, err := then(op)
		answer.Keep = keep
		errors.As(err, &answer.Error)
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.failed = d.failed || answer.Error != 0
	d.send(process.Order{Answer: &answer})
}

func (d *orders) Crash(string, disk.Loss) (int, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.faults = disk.Faults{Free: d.faults.Free}
	return 0, nil
}

func (d *orders) Restart(string) error { return nil }

func (d *orders) Empty(to string) error {
	old := d.dir
	d.dir = to
	return os.RemoveAll(old)
}

func (d *orders) Rot(choose func([]string) []string) (where string, err error) {
	var names []string
	err = filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if info, err := entry.Info(); err != nil || info.Size() == 0 {
			return err
		}
		names = append(names, path)
		return nil
	})
	if names = choose(names); err != nil || len(names) == 0 {
		return "", err
	}
	name := names[d.chance.IntN(len(names))]
	content, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	bit := d.chance.IntN(8 * len(content))
	content[bit/8] ^= 1 << (bit % 8)
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	_, err = file.WriteAt(content[bit/8:][:1], int64(bit/8))
	return fmt.Sprintf("bit %d of %s", bit, name), errors.Join(err, file.Close())
}
