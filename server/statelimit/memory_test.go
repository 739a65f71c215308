package statelimit

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	const meminfo = "MemTotal:        8000000 kB\nMemFree:  17 kB\n"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		goMax int64
		want  Memory
	}{
		"nothing is known": {nil, math.MaxInt64, Memory{}},
		"a machine": {fstest.MapFS{"proc/meminfo": file(meminfo)}, math.MaxInt64,
			Memory{8000000 << 10, "memory of the machine"}},
		"no limit of the group": {fstest.MapFS{"proc/meminfo": file(meminfo),
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n")},
			math.MaxInt64, Memory{8000000 << 10, "memory of the machine"}},
		"the group above": {fstest.MapFS{"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("2000000\n"),
			"sys/fs/cgroup/a/memory.max":   file("1000000\n")}, math.MaxInt64,
			Memory{1000000, "limit of the control group"}},
		"a container": {fstest.MapFS{"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("536870912\n")},
			math.MaxInt64, Memory{536870912, "limit of the control group"}},
		"the first version": {fstest.MapFS{"proc/self/cgroup": file("5:cpu,memory:/a\n1:name=systemd:/\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("4096\n")},
			math.MaxInt64, Memory{4096, "limit of the control group"}},
		"no limit below the group above": {fstest.MapFS{"proc/meminfo": file(meminfo),
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"),
			"sys/fs/cgroup/a/memory.max": file("1000000\n"), "sys/fs/cgroup/memory.max": file("max\n")},
			math.MaxInt64, Memory{1000000, "limit of the control group"}},
		"a group whose files are not there": {fstest.MapFS{"proc/meminfo": file(meminfo),
			"proc/self/cgroup": file("0::/a\n")}, math.MaxInt64,
			Memory{8000000 << 10, "memory of the machine"}},
		"the group above of the first version": {fstest.MapFS{"proc/self/cgroup": file("4:memory:/a/b\n"),
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": file("8192\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   file("4096\n")}, math.MaxInt64,
			Memory{4096, "limit of the control group"}},
		"both versions": {fstest.MapFS{"proc/self/cgroup": file("4:memory:/a\n0::/b\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("8192\n"),
			"sys/fs/cgroup/b/memory.max":                   file("4096\n")}, math.MaxInt64,
			Memory{4096, "limit of the control group"}},
		"no limit of the first version": {fstest.MapFS{"proc/meminfo": file(meminfo),
			"proc/self/cgroup":                           file("5:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, math.MaxInt64,
			Memory{8000000 << 10, "memory of the machine"}},
		"GOMEMLIMIT": {fstest.MapFS{"proc/meminfo": file(meminfo)}, 1 << 20,
			Memory{1 << 20, "GOMEMLIMIT"}},
		"a group below GOMEMLIMIT": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("4096\n")}, 1 << 20,
			Memory{4096, "limit of the control group"}},
	} {
		if got := FindMemory(c.files, c.goMax); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
