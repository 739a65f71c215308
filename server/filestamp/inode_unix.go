//go:build unix

package filestamp

import (
	"io/fs"
	"syscall"
)

// inodeOf distinguishes a file that was replaced from the one before it, even within the resolution of the clock.
func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
