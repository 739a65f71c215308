package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
)

// crasher lets a member's disk work until a number of steps has been done; then it keeps a picture of the
// directory, as a kill there would leave it, and refuses everything.
type crasher struct {
	t       *testing.T
	dir     string
	picture string

	mu     sync.Mutex
	armed  bool
	left   int
	steps  []string
	struck bool
}

func (c *crasher) before(step, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.struck {
		return errors.New("the disk is gone")
	}
	if !c.armed {
		return nil
	}
	c.steps = append(c.steps, step+" "+filepath.Base(path))
	if c.left--; c.left >= 0 {
		return nil
	}
	copyDir(c.t, c.dir, c.picture)
	c.struck = true
	return errors.New("the disk is gone")
}

func (c *crasher) arm(steps int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left = true, steps
}

// done reports whether it has struck, or the member got through before.
func (c *crasher) hasStruck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.struck
}

// A member that is killed at any step of taking over a checkpoint comes back, agrees with the others and has
// lost nothing.
func TestCrashWhileReceivingACheckpoint(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	c := newTestCluster(t, 3, 200)
	lagging := others(c.names, c.leader().name)[0]
	dir := filepath.Join(c.dir, lagging)
	var last *crasher
	for step := 0; last == nil || last.hasStruck(); step++ {
		c.kill(lagging)
		last = &crasher{t: t, dir: dir, picture: filepath.Join(t.TempDir(), "picture")}
		c.configure(lagging, func(cfg *Config) { cfg.before = last.before })
		c.start(lagging)
		c.put(fmt.Sprintf("before%d", step))
		c.settle()
		c.isolate(lagging, true)
		for n := range 150 {
			c.put(fmt.Sprintf("s%d.%06d", step, n), others(c.names, lagging)...)
		}
		m := c.nodes[lagging]
		// it may have needed a checkpoint after its start, too: the leader does not know all that it has
		var before int
		m.note(func() { before = m.restores })
		last.arm(step)
		c.isolate(lagging, false)
		c.poll("the checkpoint or a crash", func() bool {
			if last.hasStruck() {
				return true
			}
			m.h.mu.Lock()
			defer m.h.mu.Unlock()
			return m.restores > before
		})
		if !last.hasStruck() {
			break
		}
		c.kill(lagging)
		copyDir(t, last.picture, dir)
		if _, err := datadir.Check(dir); err != nil {
			t.Fatalf("killed before %q: %v", last.steps[step], err)
		}
		c.configure(lagging, func(cfg *Config) { cfg.before = nil })
		if err := c.tryStart(lagging); err != nil {
			t.Fatalf("killed before %q: start: %v", last.steps[step], err)
		}
		c.settle()
	}
	last.mu.Lock() // the member goes on
	defer last.mu.Unlock()
	seen := strings.Join(last.steps, ", ")
	for _, want := range []string{"create rows ", "write rows ", "sync rows ", "sync directory checkpoint",
		"rename manifest", "create log "} {
		if !strings.Contains(seen, want) {
			t.Errorf("no crash before %q: %s", want, seen)
		}
	}
	t.Logf("%d steps: %s", len(last.steps), seen)
}
