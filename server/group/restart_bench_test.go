package group

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
)

// BenchmarkRestart is the time from opening a data directory with a checkpoint of a million semaphores and a hundred
// thousand sessions until the group leads. The checkpoint is stored by the group itself, while commands come as fast as
// they are applied.
func BenchmarkRestart(b *testing.B) {
	const sessions, semaphores = 100_000, 1_000_000
	config := testConfig(b)
	config.Log.Dir = filepath.Join(b.TempDir(), "data")
	g := startTest(b, config)
	begun := time.Now()
	l := &filler{b: b, group: g, term: uint64(g.replica.Term())}
	node := l.node()
	for range sessions {
		l.add(&coordination.Attach{Node: node, Epoch: l.epoch(), TimeoutMillis: 3_600_000})
	}
	for n := range semaphores {
		l.counter++
		l.add(&coordination.CreateSemaphore{Origin: coordination.Origin{Node: node, Session: 1,
			Address:      coordination.Address{Epoch: coordination.Epoch{Term: 1, Counter: 1}, Sequence: coordination.Sequence(l.counter)},
			Acknowledged: coordination.Sequence(l.counter)}, Name: fmt.Sprintf("semaphore-%07d", n), Limit: 1, Data: []byte("some data")})
	}
	l.flush()
	filled := time.Since(begun)
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := g.checkpointNow(ctx); err != nil {
		b.Fatal(err)
	}
	stored := time.Since(begun)
	stopTest(b, g)
	info, err := os.Stat(filepath.Join(config.Log.Dir, "state.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		begun := time.Now()
		g, err := Open(context.Background(), config)
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		if err := g.Start(); err != nil {
			b.Fatal(err)
		}
		started := time.Now()
		<-g.ready
		b.ReportMetric(opened.Sub(begun).Seconds(), "open-s")
		b.ReportMetric(started.Sub(opened).Seconds(), "load-s")
		b.ReportMetric(time.Since(started).Seconds(), "lead-s")
		b.ReportMetric(time.Since(begun).Seconds(), "all-s")
		b.StopTimer()
		stopTest(b, g)
		b.StartTimer()
	}
	b.ReportMetric(filled.Seconds(), "fill-s")
	b.ReportMetric((stored - filled).Seconds(), "stored-after-s")
	b.ReportMetric(float64(info.Size())/(1<<20), "file-MiB")
}

// filler proposes commands as the leader would.
type filler struct {
	b       *testing.B
	group   *Group
	counter uint64
	batch   [][]byte
	added   uint64
	term    uint64
}

func (l *filler) epoch() coordination.Epoch {
	l.counter++
	return coordination.Epoch{Term: 1, Counter: l.counter}
}

// node makes the node of the tests and returns its id.
func (l *filler) node() coordination.NodeID {
	l.add(&coordination.CreateNode{Call: coordination.Call{Nonce: 1}, Path: testNode})
	l.flush()
	l.group.turn.Lock()
	defer l.group.turn.Unlock()
	entry, found := l.group.replica.Machine().Tree().Lookup(testNode)
	if !found {
		l.b.Fatal("no node was created")
	}
	l.counter = 0
	return entry.Node
}

func (l *filler) add(c coordination.Command) {
	l.batch = append(l.batch, codec.AppendCommand(nil, c))
	if len(l.batch) == 1000 {
		l.propose()
	}
}

func (l *filler) propose() {
	l.added += uint64(len(l.batch))
	l.group.store.Propose(l.term, l.batch)
	l.batch = nil
	for l.added > l.group.applied.Load()+20_000 {
		time.Sleep(time.Millisecond)
	}
}

// flush waits until everything is applied: the entries of the commands and the first one of the term.
func (l *filler) flush() {
	l.propose()
	for l.added+1 > l.group.applied.Load() {
		time.Sleep(time.Millisecond)
	}
}
