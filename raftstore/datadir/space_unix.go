//go:build linux || darwin

package datadir

import "syscall"

// FreeBytes returns how much this process may still write to the file system of dir.
func FreeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, wrapStep("look at free space of", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
