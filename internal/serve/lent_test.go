//go:build unix

package serve

import (
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"
)

// TestLent wants a file to be lent to the process only by root, and to one of the process's groups.
func TestLent(t *testing.T) {
	for _, c := range []struct {
		uid, gid uint32
		user     int
		want     bool
	}{
		{0, 7, 5, true},
		{5, 7, 5, false}, // the owner can take the rights away
		{0, 8, 5, false}, // others' group
		{0, 7, 0, false},
	} {
		files := fstest.MapFS{"key": {Sys: &syscall.Stat_t{Uid: c.uid, Gid: c.gid}}}
		info, err := fs.Stat(files, "key")
		if err != nil {
			t.Fatal(err)
		}
		if got := lentTo(info, c.user, []int{6, 7}); got != c.want {
			t.Errorf("a file of %d:%d for user %d: %v", c.uid, c.gid, c.user, got)
		}
	}
}
