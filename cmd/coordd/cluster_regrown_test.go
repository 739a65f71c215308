package main

import (
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// TestFirstServerComesBackAfterAKill grows one server to three, kills the first, and starts it when another leads. It
// must join the others: one lock never has two holders.
func TestFirstServerComesBackAfterAKill(t *testing.T) {
	t.Parallel()
	a, b, c := newClusterProcess(t, "a"), newClusterProcess(t, "b"), newClusterProcess(t, "c")
	a.start(t)
	a.ready(t)
	coordd(t, exit.OK, []string{"node", "create", "app", "--endpoint", a.endpoint})
	for _, server := range []*clusterProcess{b, c} {
		server.start(t, "--join", a.peer)
		a.cluster(t, exit.OK, "add", server.name, server.peer)
		server.ready(t)
		a.cluster(t, exit.OK, "promote", server.name, "--wait")
	}
	a.Kill()
	a.exit(t)
	startLock(t, b.endpoint, "app", "the-lock", "--", "true").wantCode(t, exit.OK) // b and c have a leader
	a.start(t)
	a.ready(t)
	startLock(t, a.endpoint, "app", "the-lock", "--", "sh", "-c", untilTold).says(t, "ready")
	for _, server := range []*clusterProcess{a, b, c} {
		startLock(t, server.endpoint, "--nonblock", "app", "the-lock", "--", "true").wantCode(t, exit.Conflict)
	}
	leader := a.status(t).Leader
	for _, server := range []*clusterProcess{b, c} {
		if now := server.status(t); now.Leader != leader || len(now.Members) != 3 {
			t.Errorf("%s: the leader is %s of %d servers, a says %s", server.name, now.Leader, len(now.Members), leader)
		}
	}
}
