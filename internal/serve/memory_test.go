package serve

import (
	"testing"
	"testing/fstest"
)

// TestMemoryOf finds the memory that the process may use on machines of several kinds.
func TestMemoryOf(t *testing.T) {
	const machine = "MemFree: 1 kB\nMemTotal:       24000000 kB\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
		from  string
	}{
		{"nothing is known", nil, 0, ""},
		{"no control groups", map[string]string{"proc/meminfo": machine}, 24_000_000 << 10, "machine"},
		{"a container's own group is the root",
			map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n",
				"sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30, "control group"},
		{"a group above has the limit", map[string]string{"proc/meminfo": machine,
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "1000000\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 1_000_000,
			"control group"},
		{"first version", map[string]string{"proc/meminfo": machine,
			"proc/self/cgroup": "5:cpu,memory:/x\n0::/\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2000000\n"}, 2_000_000, "control group"},
		{"first version without a limit", map[string]string{"proc/meminfo": machine,
			"proc/self/cgroup": "4:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, 24_000_000 << 10,
			"machine"},
	} {
		root := fstest.MapFS{}
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, from := memoryOf(root); got != test.want || from != test.from {
			t.Errorf("%s: got %d of %q, want %d of %q", test.name, got, from, test.want, test.from)
		}
	}
}

// TestNextPercent lets garbage take what collections need to rest, an eighth of the memory at most, and always as much
// as what lives.
func TestNextPercent(t *testing.T) {
	for _, test := range []struct {
		name            string
		live, perSecond float64
		seconds         float64
		memory          int64
		want            int
	}{
		{"an idle server", 50 << 20, 1000, 0.02, 8 << 30, 100},
		{"a small heap", 10 << 20, 100 << 20, 0.005, 8 << 30, 500},
		{"a million rows", 500 << 20, 20 << 20, 0.25, 24 << 30, 100},
		{"a million rows, many requests", 500 << 20, 100 << 20, 0.25, 24 << 30, 500},
		{"little memory", 500 << 20, 100 << 20, 0.25, 2 << 30, 100},
		{"a quarter of a gibibyte lives of eight", 256 << 20, 1 << 30, 1, 8 << 30, 400},
		{"nothing lives", 0, 1 << 40, 10, 1 << 50, 2147483647},
	} {
		if got := nextPercent(test.live, test.perSecond, test.seconds, test.memory); got != test.want {
			t.Errorf("%s: %d %%, want %d", test.name, got, test.want)
		}
	}
}
