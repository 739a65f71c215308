package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	sim "github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/conformance/sim/rt"
)

// disk has the faults that the world orders.
type disk struct {
	dir     string
	answers chan process.Answer

	mutex  sync.Mutex
	faults sim.Faults
	count  process.Count
}

func newDisk(dir string) *disk {
	absolute, _ := filepath.Abs(dir) // the working directory is there
	d := &disk{dir: absolute, answers: make(chan process.Answer)}
	rt.HookDisk(d.hook)
	return d
}

// obey takes orders until the world ends.
func (d *disk) obey(input io.Reader) {
	lines(input, func(line []byte) {
		var o process.Order
		if err := json.Unmarshal(line, &o); err != nil {
			panic(fmt.Sprintf("order %q: %v", line, err))
		}
		d.mutex.Lock()
		if o.Faults != nil {
			d.faults = *o.Faults
		}
		if o.Count != nil {
			d.count = *o.Count
		}
		d.mutex.Unlock()
		if o.Answer != nil {
			d.answers <- *o.Answer
		}
	})
}

func (d *disk) freeBytes() uint64 {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.faults.FreeBytes()
}

// hook is the rt.DiskHook.
func (d *disk) hook(op rt.Op, name, _ string, offset int64, data []byte) (keep int, err error) {
	path, err := filepath.Abs(name)
	if err != nil || path != d.dir && !strings.HasPrefix(path, d.dir+string(filepath.Separator)) {
		return 0, nil
	}
	pause, due := time.Duration(0), false
	d.mutex.Lock()
	if err = d.faults.Refuse(op, path, offset, len(data)); err == nil {
		due = d.due(op)
	}
	if op == rt.Sync {
		pause = d.faults.Sync
	}
	d.mutex.Unlock()
	if err != nil {
		return 0, err
	}
	if due {
		fmt.Println("due", op)
		answer := <-d.answers
		if answer.Error != 0 {
			return sim.WholeWords(offset, min(answer.Keep, len(data))), answer.Error
		}
	}
	time.Sleep(pause)
	return 0, nil
}

// due counts an operation, and reports whether it is the one that the world waits for. The lock is held.
func (d *disk) due(op rt.Op) bool {
	c := &d.count
	if c.N == 0 || op != rt.Write && op != rt.Sync || c.Only != "" && c.Only != op {
		return false
	}
	c.N--
	return c.N == 0
}
