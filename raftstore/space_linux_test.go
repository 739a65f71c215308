package raftstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk without a byte left ends the store, and costs nothing that was acknowledged.
func TestNoSpaceLeft(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a file system of its own cannot be mounted here, so no disk was filled: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	var acked []string
	for round := range 3 {
		r := start(t, open(t, smallConfig(filepath.Join(dir, "data"))))
		term := r.lead(t)
		var disk syscall.Statfs_t
		if err := syscall.Statfs(dir, &disk); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ballast, make([]byte, max(0, int(disk.Bavail)*int(disk.Bsize)-round*4096)),
			0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			command := fmt.Sprintf("round%d.%04d", round, n)
			r.store.Propose(term, [][]byte{[]byte(command)})
			failed := false
			r.wait(t, command, func() bool {
				failed = len(r.failures) > 0
				return failed || len(r.entries) > 0 && string(r.entries[len(r.entries)-1].Data) == command
			})
			if failed {
				break
			}
			acked = append(acked, command)
		}
		if err := r.failures[0]; !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
			t.Errorf("failed with %v", err)
		}
		if err := r.store.Stop(); err != nil {
			t.Logf("stop: %v", err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, open(t, smallConfig(filepath.Join(dir, "data"))))
	r.lead(t)
	kept := map[string]bool{}
	for _, command := range r.commands() {
		kept[command] = true
	}
	for _, command := range acked {
		if !kept[command] {
			t.Errorf("%s was acknowledged and is lost", command)
		}
	}
	if err := r.store.Stop(); err != nil {
		t.Error(err)
	}
}
