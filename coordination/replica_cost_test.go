package coordination

import "testing"

// A Replica adds no allocation to what the machine and the leader do for a request.
func TestReplicaAllocatesNothing(t *testing.T) {
	start := func() *rig {
		r := newRig(t)
		r.createNode("/local/n", relaxed)
		r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		return r
	}
	requests := [...]*Request{&tryLock, &release}
	direct := start()
	sequence := Sequence(0)
	want := testing.AllocsPerRun(1000, func() {
		for _, request := range requests {
			sequence++
			direct.leader.Request(direct.now, 1,
				&Forward{Sequence: sequence, Acknowledged: sequence, Request: request})
			direct.leader.Tick(direct.now)
			command := direct.leader.Take().Commands[0]
			direct.index++
			direct.leader.Applied(direct.now, direct.term, command,
				direct.machine.Apply(direct.index, direct.term, command))
			if messages := direct.leader.Take().Messages; len(messages) != 1 || !messages[0].Done {
				t.Fatal(messages)
			}
		}
	})
	r := start()
	sequence = 0
	got := testing.AllocsPerRun(1000, func() {
		for _, request := range requests {
			sequence++
			r.replica.Admit(1, false)
			r.replica.Forward(r.now, 1, 1, 1,
				Forward{Sequence: sequence, Acknowledged: sequence, Request: request})
			r.replica.Tick(r.now)
			command := r.replica.Take().Commands[0]
			r.index++
			r.replica.Committed(r.now, &Entry{Index: r.index, Term: r.term, Commands: []Command{command}})
			messages := r.replica.Take().Messages
			if sink, known := r.replica.Sink(&messages[0]); len(messages) != 1 || !messages[0].Done ||
				!known || sink != 1 {
				t.Fatal(messages)
			}
		}
	})
	if got != want {
		t.Errorf("%v allocations for two requests, %v without", got, want)
	}
}
