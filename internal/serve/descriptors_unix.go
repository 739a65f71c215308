//go:build unix

package serve

import "golang.org/x/sys/unix"

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
