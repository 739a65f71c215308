package serve

import (
	"bufio"
	"bytes"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/coordd/coordd/server"
)

// memoryShare is the part of the memory that the process may use which Go's runtime tries to stay within, in
// tenths. The rest is for what the runtime does not count, and for what comes too fast for it.
const memoryShare = 9

// UsualProcessors is the number of goroutines that Go's runtime runs at a time: as many as there are processors, or
// as the control group allows.
var UsualProcessors = runtime.GOMAXPROCS(0)

// SpareProcessors are added on a server that writes to a disk. A goroutine that waits for the disk counts as running
// until the runtime notices, which is late (TimerSlack), so without them a processor would be idle while the log is
// being written: with one processor, no client would be served meanwhile.
const SpareProcessors = 1

// settleResources finds out what the process may use, and has the runtime stay within the memory unless
// GOMEMLIMIT says otherwise, and have a goroutine more run unless GOMAXPROCS does.
func settleResources(logger *slog.Logger, onDisk bool) server.Resources {
	if onDisk && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(UsualProcessors + SpareProcessors)
	}
	memory, from := debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	if memory == math.MaxInt64 {
		memory, from = memoryOf(os.DirFS("/"))
		if memory > 0 && os.Getenv("GOMEMLIMIT") == "" { // or else it is switched off by name
			debug.SetMemoryLimit(memory / 10 * memoryShare)
		}
	}
	resources := server.Resources{MemoryBytes: memory, Descriptors: RaiseDescriptors()}
	logger.Info("resources", "memory_bytes", resources.MemoryBytes, "memory_from", from,
		"runtime_limit_bytes", debug.SetMemoryLimit(-1), "descriptors", resources.Descriptors,
		"descriptors_reserved", resources.DescriptorReserve(), "running_at_once", runtime.GOMAXPROCS(0),
		"timer_slack", TimerSlackNow())
	return resources
}

// memoryOf returns how many bytes of memory the process may use, and the source of the limit: its control group, one
// above it, or the machine. It returns 0 if no limit is known.
func memoryOf(root fs.FS) (least int64, from string) {
	note := func(bytes int64, source string) {
		if bytes > 0 && (least == 0 || bytes < least) {
			least, from = bytes, source
		}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		under, file := "", ""
		switch {
		case parts[0] == "0" && parts[1] == "":
			under, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			under, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			note(numberIn(root, path.Join(under, group, file)), "control group")
			if group == "/" {
				break
			}
		}
	}
	note(machineMemory(root), "machine")
	return least, from
}

// numberIn returns the number in a file, or 0 for another text, such as "max".
func numberIn(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	number, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return number
}

func machineMemory(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "MemTotal:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
