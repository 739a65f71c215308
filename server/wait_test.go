package server

import (
	"sync"
	"testing"
	"time"
)

// waitMax bounds every wait of a test for a state; only a failing test uses it up.
const waitMax = 2 * time.Minute

// eventually waits for a state that nobody announces.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitMax); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for ", what)
		}
	}
}

func (c *testCluster) eventually(what string, reached func() bool) {
	c.t.Helper()
	eventually(c.t, what, reached)
}

// beside are the tests that have called runBeside.
var beside sync.Map

// runBeside lets a test run beside others, however often it is called. Tests with clusters mostly wait for elections.
func runBeside(t *testing.T) {
	if _, again := beside.LoadOrStore(t, true); !again {
		t.Cleanup(func() { beside.Delete(t) })
		t.Parallel()
	}
}
