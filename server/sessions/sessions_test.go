package sessions

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// TestNobodyDebugs wants messages to cost nothing unless the log takes what is for debugging.
func TestNobodyDebugs(t *testing.T) {
	var nobody *sessionLog
	message := coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: 1,
		Request: &coordination.Request{Kind: coordination.RequestAcquire}}
	reply := coordination.Reply{Kind: coordination.ReplyResult}
	if n := testing.AllocsPerRun(100,
		func() { nobody.heard(&message); nobody.replied(&reply); nobody.end("") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEndsAreSpread wants few streams ended at once, and many in parts over a second, each of them once.
func TestEndsAreSpread(t *testing.T) {
	for _, n := range []int{0, 1, endsAtOnce, endsAtOnce + 1, 12_345} {
		var paused time.Duration
		ended, part, largest := 0, 0, 0
		spread(n, func(pause time.Duration) bool { paused, part = paused+pause, 0; return true },
			func(i int) {
				if i != ended {
					t.Fatalf("%d of %d comes at %d", i, n, ended)
				}
				ended, part = ended+1, part+1
				largest = max(largest, part)
			})
		if ended != n {
			t.Errorf("%d of %d are ended", ended, n)
		}
		if many := n > endsAtOnce; many != (paused > 0) || paused >= spreadTime || many &&
			largest > n/spreadParts+1 {
			t.Errorf("%d: up to %d at a time over %s", n, largest, paused)
		}
	}
	ended := 0
	spread(1000, func(time.Duration) bool { return false }, func(int) { ended++ })
	if ended != 1000/spreadParts {
		t.Errorf("%d are ended although the server stops", ended)
	}
}
