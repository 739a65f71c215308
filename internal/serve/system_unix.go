//go:build unix

package serve

import (
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// RaiseDescriptors raises the number of files and connections that the process may have open to the most that
// it is allowed to, and returns it; 0 if that is not known.
func RaiseDescriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	if raised := (unix.Rlimit{Cur: limit.Max, Max: limit.Max}); limit.Cur < limit.Max &&
		unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
		limit = raised
	}
	return int(min(uint64(limit.Cur), maxCount))
}

// lent reports whether root owns a file, and its group is one of this process. Kubernetes mounts secrets like that.
func lent(info fs.FileInfo) bool {
	groups, err := os.Getgroups()
	return err == nil && lentTo(info, os.Geteuid(), append(groups, os.Getegid()))
}

func lentTo(info fs.FileInfo, user int, groups []int) bool {
	file, is := info.Sys().(*syscall.Stat_t)
	return is && file.Uid == 0 && user != 0 && slices.Contains(groups, int(file.Gid))
}
