package coordination

import "testing"

// TestResumeOfAnOlderStream lets two streams claim one session before a new leader, in either order: the one that was
// attached last has it, the other is told that it was stolen. The older one was not told by the leader that is gone.
func TestResumeOfAnOlderStream(t *testing.T) {
	for _, olderFirst := range []bool{true, false} {
		r := newRig(t)
		node := r.createNode("/local/n", NodeConfig{})
		older, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Server: 1})
		olderEpoch := r.leader.streams[older].epoch
		newer, _ := r.attach(AttachRequest{Path: "/local/n", Session: session, TimeoutMillis: 5000, Server: 2})
		newerEpoch := r.leader.streams[newer].epoch
		r.lead()
		resume := func(stream StreamID, epoch Epoch, server uint64) {
			r.leader.Resume(r.now, stream, &Roster{Node: node, Session: session, Epoch: epoch, Path: "/local/n", Server: server})
		}
		if olderFirst {
			resume(older, olderEpoch, 1)
			resume(newer, newerEpoch, 2)
			r.expect("1 end Session stolen by another remote client", "2 resumed")
		} else {
			resume(newer, newerEpoch, 2)
			resume(older, olderEpoch, 1)
			r.expect("2 resumed", "1 end Session stolen by another remote client")
		}
		r.request(newer, 1, tryLock)
		r.applyAll()
		r.expect("2 #1 done true")
	}
}
