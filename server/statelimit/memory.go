package statelimit

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Memory is the memory that this process may use, and the source of that limit; 0 bytes: unknown.
type Memory struct {
	Bytes  uint64
	Source string
}

// FindMemory takes the least of the control group's limit, GOMEMLIMIT and the memory of the machine. root is the root
// of the file system; goLimit is the result of runtime/debug.SetMemoryLimit(-1).
func FindMemory(root fs.FS, goLimit int64) Memory {
	limit := Memory{Bytes: physicalMemory(root), Source: "memory of the machine"}
	lower := func(bytes uint64, source string) {
		if bytes != 0 && (limit.Bytes == 0 || bytes < limit.Bytes) {
			limit = Memory{bytes, source}
		}
	}
	lower(groupMemory(root), "limit of the control group")
	if goLimit > 0 && goLimit != math.MaxInt64 {
		lower(uint64(goLimit), "GOMEMLIMIT")
	}
	if limit.Bytes == 0 {
		limit.Source = ""
	}
	return limit
}

// physicalMemory is MemTotal of /proc/meminfo, 0 without one.
func physicalMemory(root fs.FS) uint64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// groupMemory is the least limit of the process's control group and those above it, 0 without one. In a
// container the group itself is often mounted as the root.
func groupMemory(root fs.FS) uint64 {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	least := uint64(0)
	lookAt := func(mount, group, file string) {
		for at := path.Clean("/" + group); ; at = path.Dir(at) {
			text, _ := fs.ReadFile(root, path.Join(mount, at, file))
			bytes, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // not "max"
			if err == nil && bytes < math.MaxInt64>>12<<12 && (least == 0 || bytes < least) {
				least = bytes
			}
			if at == "/" {
				return
			}
		}
	}
	for line := range strings.Lines(string(text)) { // number:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[1] == "":
			lookAt("sys/fs/cgroup", parts[2], "memory.max")
		case strings.Contains(","+parts[1]+",", ",memory,"):
			lookAt("sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")
		}
	}
	return least
}
