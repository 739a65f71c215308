package raftstore

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
)

// A member that starts with a long log on a slow disk keeps nobody waiting: at each step that its start writes, the
// others commit a command. It has everything afterwards.
func TestStartWithALongLogOnASlowDisk(t *testing.T) {
	t.Parallel()
	for _, led := range []bool{false, true} {
		c := newTestCluster(t, 3, 900)
		slow := c.leader().name
		if !led {
			slow = others(c.names, slow)[0]
		}
		rest := others(c.names, slow)
		for n := range 60 {
			c.put(fmt.Sprintf("before%03d", n))
		}
		c.settle()
		c.kill(slow)
		c.put("without it", rest...)
		var steps atomic.Int64
		var started atomic.Bool
		c.configure(slow, func(cfg *Config) {
			cfg.Slow = func(string) {
				// Goroutines that Open starts must not use the harness, which the test uses as well.
				if !started.Load() && strings.Contains(string(debug.Stack()), "/raftstore.Open(") {
					c.put(fmt.Sprintf("during%d", steps.Add(1)), rest...)
				}
			}
		})
		c.start(slow)
		started.Store(true)
		c.settle()
		if steps.Load() < 10 {
			t.Errorf("led %v: only %d steps", led, steps.Load())
		}
	}
}
