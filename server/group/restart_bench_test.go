package group

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/testserver"
)

// BenchmarkRestart is the time from the start of the server's process, on a data directory with a checkpoint
// of so many semaphores and a tenth of that of sessions, until it listens and until it has answered the first
// attach. The process is killed each time. The directories are made once, those of RESTART_DATA only if they
// are not there.
func BenchmarkRestart(b *testing.B) {
	folder := os.Getenv("RESTART_DATA")
	if folder == "" {
		folder = b.TempDir()
	}
	for _, semaphores := range []int{10_000, 100_000, 1_000_000} {
		directory := filepath.Join(folder, fmt.Sprint(semaphores))
		b.Run(fmt.Sprint(semaphores), func(b *testing.B) {
			if _, err := os.Stat(directory); errors.Is(err, fs.ErrNotExist) {
				fill(b, directory, semaphores)
			}
			files, err := filepath.Glob(filepath.Join(directory, "checkpoint", "*"))
			if err != nil {
				b.Fatal(err)
			}
			var size int64
			for _, file := range files {
				if info, err := os.Stat(file); err == nil {
					size += info.Size()
				}
			}
			var listening, attached, cpu time.Duration
			b.ResetTimer()
			for range b.N {
				l, a, c := restart(b, directory)
				listening, attached, cpu = listening+l, attached+a, cpu+c
			}
			b.ReportMetric(listening.Seconds()/float64(b.N), "s-to-listen")
			b.ReportMetric(attached.Seconds()/float64(b.N), "s-to-attach")
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s")
			b.ReportMetric(float64(size)/(1<<20), "files-MiB")
		})
	}
}

// restart starts the server's process and returns how long it took until it listened, and until it had
// answered the first attach, and the time of processors that it used.
func restart(b *testing.B, directory string) (listening, attached, cpu time.Duration) {
	b.Helper()
	server := testserver.New(b, "--data-dir", directory)
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	begun := time.Now()
	server.Begin()
	defer func() {
		server.Kill()
		cpu = server.Command.ProcessState.UserTime() + server.Command.ProcessState.SystemTime()
	}()
	for {
		conn, err := net.Dial("tcp", server.Address)
		if err == nil {
			conn.Close()
			break
		}
		if ctx.Err() != nil {
			b.Fatalf("it does not listen:\n%s", server.LogTail())
		}
		time.Sleep(time.Millisecond)
	}
	listening = time.Since(begun)
	conns, err := raw.Dial(server.Address, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close(conns)
	if _, err := raw.Open(ctx, conns[0], &raw.Start{Path: testNode.String(),
		TimeoutMillis: 30_000}); err != nil {
		b.Fatal(err)
	}
	return listening, time.Since(begun), 0
}

// fill makes a data directory. The checkpoint is stored by the group itself, while commands come as fast as
// they are applied.
func fill(b *testing.B, directory string, semaphores int) {
	config := testConfig(b)
	config.Log.Dir = directory
	g := startTest(b, config)
	begun := time.Now()
	l := &filler{b: b, group: g, term: uint64(g.core.replica.Term())}
	node := l.node()
	for range semaphores / 10 {
		l.add(&coordination.Attach{Node: node, Epoch: l.epoch(), TimeoutMillis: 3_600_000})
	}
	for n := range semaphores {
		l.counter++
		l.add(&coordination.CreateSemaphore{Origin: coordination.Origin{Node: node, Session: 1,
			Address: coordination.Address{Epoch: coordination.Epoch{Term: 1, Counter: 1},
				Sequence: coordination.Sequence(l.counter)},
			Acknowledged: coordination.Sequence(l.counter)},
			Name: fmt.Sprintf("semaphore-%07d", n), Limit: 1, Data: []byte("some data")})
	}
	l.flush()
	filled := time.Since(begun)
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := g.checkpointNow(ctx); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d semaphores: filled in %s, the checkpoint was stored %s later", semaphores,
		filled.Round(time.Millisecond), (time.Since(begun) - filled).Round(time.Millisecond))
	stopTest(b, g)
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
	l.add(&coordination.CreateNode{CallID: coordination.CallID{Nonce: 1}, Path: testNode})
	l.flush()
	l.group.hold(l.group.turn.Lock())
	defer l.group.turn.Unlock()
	entry, found := l.group.core.replica.Machine().Tree().Lookup(testNode)
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
