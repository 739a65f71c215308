package crash

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
)

const servers = 3

// TestCrashCluster loads three servers, two sessions on each, and kills one with SIGKILL or stops it with SIGTERM at a
// random moment, CLUSTER_ROUNDS times (default 3). The streams on the two others must go on without a break and their
// requests be answered; afterwards everything acknowledged must be there.
func TestCrashCluster(t *testing.T) {
	rounds := 3
	if text := os.Getenv("CLUSTER_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("CLUSTER_ROUNDS=%q: want a number", text)
		}
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CRASH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CRASH_SEED=%q: want a number", text)
		}
		seed = n
	}
	t.Logf("CRASH_SEED=%d", seed)
	r := newClusterRig(t, seed)
	r.rig.prepare(t)
	var gaps []time.Duration
	for round := range rounds {
		victim := r.random.IntN(servers)
		signal := []os.Signal{syscall.SIGKILL, syscall.SIGTERM}[r.random.IntN(2)]
		gap, err := r.loadAndHit(t, victim, signal)
		if err != nil {
			t.Fatalf("round %d, %v to server %d: %v", round, signal, victim, err)
		}
		gaps = append(gaps, gap)
		r.startServer(t, victim)
		r.rig.address = r.addresses[victim] // everything is there through any server
		if err := r.rig.compare(round); err != nil {
			t.Fatalf("after round %d, %v to server %d: %v", round, signal, victim, err)
		}
	}
	slices.Sort(gaps)
	t.Logf("%d rounds, longest silence of a surviving stream: median %v, worst %v", rounds, gaps[len(gaps)/2], gaps[len(gaps)-1])
	for _, p := range r.processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// clusterRig is three servers with the clients of a rig.
type clusterRig struct {
	*rig
	addresses, peers []string
	processes        []*exec.Cmd
}

func newClusterRig(t *testing.T, seed uint64) *clusterRig {
	t.Helper()
	r := &clusterRig{rig: &rig{binary: build(t), dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 0))}, processes: make([]*exec.Cmd, servers)}
	for i := range clients {
		r.clients = append(r.clients, newClient(i, seed))
	}
	for range servers {
		r.addresses = append(r.addresses, freeAddress(t))
		r.peers = append(r.peers, freeAddress(t))
	}
	var wait sync.WaitGroup
	for i := range servers {
		wait.Go(func() { r.startServer(t, i) })
	}
	wait.Wait()
	r.address = r.addresses[0]
	return r
}

func (r *clusterRig) startServer(t *testing.T, i int) {
	var initial []string
	for j, peer := range r.peers {
		initial = append(initial, fmt.Sprintf("s%d=%s", j, peer))
	}
	p := exec.Command(r.binary, "serve", "--listen", r.addresses[i], "--data-dir", filepath.Join(r.dir, fmt.Sprint(i)),
		"--name", fmt.Sprintf("s%d", i), "--listen-peer", r.peers[i], "--initial-cluster", strings.Join(initial, ","), "--insecure-peers")
	log, err := os.Create(filepath.Join(r.dir, fmt.Sprintf("log-%d-%d", i, time.Now().UnixNano())))
	if err != nil {
		t.Error(err)
		return
	}
	defer log.Close()
	p.Stderr = log
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	r.processes[i] = p
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "grpc://") {
		text, _ := os.ReadFile(log.Name())
		t.Errorf("server %d did not get ready: %q, %v\n%s", i, line, err, text)
	}
}

// loadAndHit lets the clients work, hits one server, and returns the longest time that a request on another one took.
func (r *clusterRig) loadAndHit(t *testing.T, victim int, signal os.Signal) (time.Duration, error) {
	conns := make([]*grpc.ClientConn, clients)
	for i := range conns {
		some, err := raw.Dial(r.addresses[i%servers], 1)
		if err != nil {
			return 0, err
		}
		conns[i] = some[0]
	}
	defer raw.Close(conns)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := r.attach(ctx, conns); err != nil {
		return 0, err
	}
	var hit, over atomic.Bool
	var mutex sync.Mutex
	var longest time.Duration
	var firstErr error
	progress := make([]atomic.Int64, clients)
	var wait sync.WaitGroup
	for i, c := range r.clients {
		wait.Go(func() {
			for !over.Load() {
				begin := time.Now()
				err := c.step()
				if took := time.Since(begin); i%servers != victim {
					mutex.Lock()
					longest = max(longest, took)
					if err != nil && firstErr == nil {
						firstErr = fmt.Errorf("the stream of client %d on server %d broke: %w", i, i%servers, err)
					}
					mutex.Unlock()
				} else if err != nil && !hit.Load() {
					mutex.Lock()
					firstErr = fmt.Errorf("before the hit: %w", err)
					mutex.Unlock()
				}
				if err != nil {
					return
				}
				if hit.Load() {
					progress[i].Add(1)
				}
			}
		})
	}
	time.Sleep(time.Duration(200+r.random.IntN(400)) * time.Millisecond) // load before the fault, not a wait for a state
	hit.Store(true)
	_ = r.processes[victim].Process.Signal(signal)
	_ = r.processes[victim].Wait()
	deadline := time.Now().Add(20 * time.Second)
	for i := 0; i < clients && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		mutex.Lock()
		failed := firstErr != nil
		mutex.Unlock()
		if failed {
			break
		}
		if i%servers == victim || progress[i].Load() >= 20 {
			i++
		}
	}
	over.Store(true)
	stuck := time.AfterFunc(10*time.Second, cancel)
	wait.Wait()
	if !stuck.Stop() && firstErr == nil {
		firstErr = fmt.Errorf("a request was never answered")
	}
	return longest, firstErr
}
