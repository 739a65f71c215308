package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sim "github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/conformance/sim/rt"
)

// order makes a disk obey.
func order(d *disk, o process.Order) {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	d.obey(strings.NewReader(string(line) + "\n"))
}

func TestOrders(t *testing.T) {
	d := newDisk(t.TempDir())
	file := filepath.Join(d.dir, "file")
	do := func(op rt.Op, name string, offset int64) error {
		_, err := d.hook(op, name, "", offset, []byte("x"))
		return err
	}
	order(d, process.Order{Faults: &sim.Faults{Full: true, Free: 7}})
	if d.freeBytes() != 7 || !errors.Is(do(rt.Create, file, 0), syscall.ENOSPC) {
		t.Error("a full disk takes a new file")
	}
	if err := do(rt.Create, filepath.Join(filepath.Dir(d.dir), "elsewhere"), 0); err != nil {
		t.Error("a file outside:", err)
	}
	order(d, process.Order{Faults: &sim.Faults{}, Count: &process.Count{N: 2, Only: rt.Write}})
	if err := errors.Join(do(rt.Sync, file, 0), do(rt.Write, file, 0)); err != nil {
		t.Error("before its turn:", err)
	}
	go order(d, process.Order{Answer: &process.Answer{Error: syscall.EIO}})
	if err := do(rt.Write, file, 0); !errors.Is(err, syscall.EIO) {
		t.Error("the second write:", err)
	}
	if err := do(rt.Write, file, 0); err != nil {
		t.Error("the third write:", err)
	}
}
