package coordination_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// BenchmarkApplyAcquireRelease is the machine alone: pairs of acquire and release on random ones of a million
// semaphores. One operation is one command.
func BenchmarkApplyAcquireRelease(b *testing.B) {
	const sessions = 1000
	w := &writer{machine: newMachine(b)}
	node := w.createNode(b, "/local/node")
	attached := make([]attachedSession, sessions)
	for i := range attached {
		attached[i] = w.attach(node)
	}
	names := make([]string, coordination.MaxSemaphores)
	for i := range names {
		names[i] = fmt.Sprintf("semaphore-%06d", i)
		w.apply(&coordination.CreateSemaphore{Origin: w.origin(attached[0]), Name: names[i], Limit: 1})
	}
	drain(w.machine.Freeze())
	random := rand.New(rand.NewPCG(1, 1))
	acquire := &coordination.AcquireSemaphore{Count: 1, TimeoutMillis: coordination.Infinite}
	release := new(coordination.ReleaseSemaphore)
	b.ReportAllocs()
	for commands := 0; b.Loop(); commands++ {
		var effects []coordination.Effect
		if commands%2 == 0 {
			acquire.Origin, acquire.Name = w.origin(attached[random.IntN(sessions)]),
				names[random.IntN(len(names))]
			effects = w.apply(acquire)
		} else {
			release.Origin, release.Name = acquire.Origin, acquire.Name
			effects = w.apply(release)
		}
		if len(effects) != 2 || !effects[0].Done {
			b.Fatalf("%+v", effects)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

// BenchmarkHandOver is one lock that many sessions wait for: each release lets the next one in, and its
// former owner queues again.
func BenchmarkHandOver(b *testing.B) {
	const sessions = 64
	w := &writer{machine: newMachine(b)}
	node := w.createNode(b, "/local/node")
	attached := make([]attachedSession, sessions)
	acquire := &coordination.AcquireSemaphore{Name: "lock", Count: coordination.Infinite,
		TimeoutMillis: coordination.Infinite, Ephemeral: true}
	release := &coordination.ReleaseSemaphore{Name: "lock"}
	for i := range attached {
		attached[i] = w.attach(node)
		acquire.Origin = w.origin(attached[i])
		w.apply(acquire)
	}
	b.ReportAllocs()
	for turn := 0; b.Loop(); turn++ {
		release.Origin = w.origin(attached[turn%sessions])
		if effects := w.apply(release); len(effects) != 3 {
			b.Fatalf("%+v", effects)
		}
		acquire.Origin = w.origin(attached[turn%sessions])
		w.apply(acquire)
	}
}

// BenchmarkCheckpoint is a full checkpoint of a hundred thousand semaphores, without the encoding.
func BenchmarkCheckpoint(b *testing.B) {
	const semaphores = 100_000
	w := &writer{machine: newMachine(b)}
	s := w.attach(w.createNode(b, "/local/node"))
	names := make([]string, semaphores)
	for i := range names {
		names[i] = fmt.Sprintf("semaphore-%06d", i)
		w.apply(&coordination.CreateSemaphore{Origin: w.origin(s), Name: names[i], Limit: 1,
			Data: []byte("0")})
	}
	drain(w.machine.Freeze())
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		for _, name := range names {
			w.apply(&coordination.UpdateSemaphore{Origin: w.origin(s), Name: name,
				Data: fmt.Append(nil, "round ", round)})
		}
		b.StartTimer()
		if rows := drain(w.machine.Freeze()); len(rows) != semaphores+1 {
			b.Fatal(len(rows))
		}
	}
}
