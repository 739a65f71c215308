package raftstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testmode"
)

func TestThreeMembersAgree(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 1)
	for n := range 300 {
		c.put(fmt.Sprintf("c%06d", n))
	}
	c.settle()
}

func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 2)
	for round := range 3 {
		m := c.leader()
		c.put(fmt.Sprintf("before%d", round))
		c.kill(m.name)
		c.put(fmt.Sprintf("after%d", round))
		c.start(m.name)
	}
	c.settle()
}

func TestPartitions(t *testing.T) {
	for seed := uint64(10); seed < 13; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, 5, seed)
			stopWatch := c.watchLeases()
			stopLoad := c.load("load")
			for round := range 3 {
				old := c.leader()
				c.isolate(old.name, true)
				c.put(fmt.Sprintf("cut%d", round), others(c.names, old.name)...)
				c.isolate(old.name, false)
				c.put(fmt.Sprintf("healed%d", round))
			}
			stopLoad()
			c.settle()
			stopWatch()
		})
	}
}

// A member that hears and is not heard, or the reverse, does not disturb the others for long.
func TestOneWayPartitions(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 20)
	stopWatch := c.watchLeases()
	for _, deaf := range []bool{true, false} {
		old := c.leader()
		for _, other := range others(c.names, old.name) {
			if deaf {
				c.net.setCut(other+":1", old.name+":1", true)
			} else {
				c.net.setCut(old.name+":1", other+":1", true)
			}
		}
		c.put(fmt.Sprintf("one way %v", deaf), others(c.names, old.name)...)
		c.isolate(old.name, false)
		c.settle()
	}
	stopWatch()
}

func TestLossAndDelay(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 30)
	c.net.setFaults(0.1, 5_000_000)
	stopWatch := c.watchLeases()
	for n := range 50 {
		c.put(fmt.Sprintf("lossy%d", n))
	}
	c.net.setFaults(0, 0)
	c.settle()
	stopWatch()
}

func TestPausedLeader(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 40)
	stopWatch := c.watchLeases()
	old := c.leader()
	c.put("before")
	resume := old.pause()
	c.put("meanwhile", others(c.names, old.name)...)
	resume()
	c.settle()
	stopWatch()
}

func TestRestartOfAll(t *testing.T) {
	testmode.Long(t)
	t.Parallel()
	c := newTestCluster(t, 3, 50)
	for round := range 3 {
		stopLoad := c.load(fmt.Sprintf("load%d.", round))
		for n := range 60 {
			c.put(fmt.Sprintf("r%d.%d", round, n))
		}
		stopLoad()
		for _, name := range c.names {
			c.kill(name)
		}
		for _, name := range c.names {
			c.start(name)
		}
	}
	c.settle()
}

// Clocks that are wrong by 5 % in the worst way do not make two leases overlap.
func TestLeasesWithWrongClocks(t *testing.T) {
	for seed, slow := range []string{"a", "b", "c"} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			c := preparedTestCluster(t, 3, uint64(60+seed))
			for _, name := range c.names {
				rate := 1.05
				if name == slow {
					rate = 0.95
				}
				c.configure(name, func(cfg *Config) { cfg.Cluster.clock = rateClock{time.Now(), rate} })
			}
			c.startAll()
			stopWatch := c.watchLeases()
			c.leadWith(slow)
			for round := range 2 {
				old := c.leader()
				c.wait("a lease", func() bool { return old.store.MaySpeak() || old.term == 0 })
				c.isolate(old.name, true)
				next := c.leader(others(c.names, old.name)...)
				c.put(fmt.Sprintf("cut%d", round), next.name)
				c.isolate(old.name, false)
				c.settle()
			}
			stopWatch()
		})
	}
}
