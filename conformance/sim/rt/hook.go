//go:build simrt || simdisk

package rt

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	_ "unsafe" // for go:linkname
)

// DiskHooked reports whether the program has the part of the patched standard library that HookDisk needs.
const DiskHooked = true

//go:linkname simFileHook os.simHook
var simFileHook func(op, name, to string, offset int64, data []byte) (int, error)

//go:linkname simDescriptorHook syscall.simHook
var simDescriptorHook func(op string, fd int, offset int64) error

// HookDisk installs a hook before everything that changes a file.
func HookDisk(h DiskHook) {
	here, _ := os.Getwd()
	known := inodes{here: here + "/"}
	simFileHook = func(op, name, to string, offset int64, data []byte) (int, error) {
		if to != "" || op == string(Remove) {
			known.forget()
		}
		return h(Op(op), name, to, offset, data)
	}
	simDescriptorHook = func(op string, fd int, offset int64) error {
		name, err := known.name(fd)
		if err == nil {
			_, err = h(Op(op), name, "", offset, nil)
		}
		return err
	}
}

// inodes remembers the names of open files: to look at the inode is cheaper than to ask for the name. Inodes are other
// ones in each run, so this is no map: when one grows depends on its keys.
type inodes struct {
	here  string
	mutex sync.Mutex
	list  []inode
}

type inode struct {
	number uint64
	name   string
}

// forget forgets all names. Both methods hold the lock as the world, which is never frozen.
func (n *inodes) forget() {
	As(World, func() {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		n.list = n.list[:0]
	})
}

// name returns the name of an open file.
func (n *inodes) name(fd int) (name string, err error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return "", err
	}
	As(World, func() {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		at := slices.IndexFunc(n.list, func(i inode) bool { return i.number == stat.Ino })
		if at >= 0 {
			name = n.list[at].name
			return
		}
		if name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
			name = strings.TrimPrefix(name, n.here)
			n.list = append(n.list, inode{stat.Ino, name})
		}
	})
	return name, err
}
