//go:build linux

package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore/peerpb"
)

const servers = 3

// clusterPatience bounds waits for a state of the cluster; only a failing test uses it up.
const clusterPatience = 3 * time.Minute

// cluster is three servers as processes, each with a proxy in front of its peer port.
type cluster struct {
	binary, dir string
	programs    [servers]string // what each server runs when it is started next
	logs        string          // directory; go test -artifacts keeps it
	listen      []string        // for clients
	peer        []string        // where the servers listen for each other, behind the proxies
	names       []string
	network     *network
	starts      int
	// replaced counts how often a server's place was taken by a new one with an empty directory, which joins.
	replaced [servers]int

	mutex     sync.Mutex
	processes []*testserver.Process // nil: not running
}

// newCluster starts the servers. With cuttable they talk through proxies.
func newCluster(t *testing.T, cuttable bool) *cluster {
	t.Helper()
	binary := testserver.Binary(t)
	return newClusterOf(t, binary, binary, cuttable)
}

// newClusterOf starts servers that run one program and are managed with another.
func newClusterOf(t *testing.T, program, binary string, cuttable bool) *cluster {
	t.Helper()
	c := &cluster{binary: binary, programs: [servers]string{program, program, program}, dir: t.TempDir(),
		logs: t.ArtifactDir(), processes: make([]*testserver.Process, servers)}
	c.listen, c.peer = testserver.Addresses(t, servers), testserver.Addresses(t, servers)
	for i := range servers {
		c.names = append(c.names, fmt.Sprintf("s%d", i))
	}
	if cuttable {
		c.network = newNetwork(t, c.peer, c.processID)
	}
	t.Cleanup(func() {
		for i := range servers {
			if p := c.process(i); p != nil && t.Failed() {
				p.Quit()
			} else if p != nil {
				p.Kill()
			}
		}
		if t.Failed() {
			c.logTails(t)
		}
	})
	if err := c.startAll(); err != nil {
		t.Fatal(err)
	}
	return c
}

// startAll starts the servers that do not run, all at once: none gets ready without a majority.
func (c *cluster) startAll() error {
	errs := make([]error, servers)
	var starting sync.WaitGroup
	for i := range servers {
		if c.process(i) == nil {
			starting.Go(func() { errs[i] = c.start(i) })
		}
	}
	starting.Wait()
	return errors.Join(errs...)
}

func (c *cluster) start(i int) error {
	p, err := c.launch(i)
	if err == nil {
		_, err = p.Ready()
	}
	if err != nil {
		c.set(i, nil)
		return fmt.Errorf("server %d: %w", i, err)
	}
	return nil
}

// launch starts a server and does not wait until it serves.
func (c *cluster) launch(i int) (*testserver.Process, error) {
	c.mutex.Lock()
	c.starts++
	log := filepath.Join(c.logs, fmt.Sprintf("log-%d-%03d", i, c.starts))
	c.mutex.Unlock()
	p, err := testserver.Start(testserver.Config{
		Program: c.programs[i],
		Args:    append([]string{"serve"}, c.arguments(i)...),
		Env:     append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true"), // not the flag, which would end older programs
		Log:     log,
	})
	if err == nil {
		c.set(i, p) // before it is ready: the proxy finds out by its process id that it connects
	}
	return p, err
}

// arguments are those of `coordd serve` for a server.
func (c *cluster) arguments(i int) []string {
	args := []string{"--listen", c.listen[i], "--data-dir", c.dataDir(i), "--name", c.names[i],
		"--listen-peer", c.peer[i], "--insecure-peers", "--log-level",
		cmp.Or(os.Getenv("COORDD_TEST_LOG"), "info")}
	if c.replaced[i] > 0 {
		a, b := others(i)
		args = append(args, "--join", c.peerAddress(a)+","+c.peerAddress(b), "--advertise-peer",
			c.peerAddress(i))
	} else {
		var initial []string
		for j := range servers {
			initial = append(initial, fmt.Sprintf("s%d=%s", j, c.peerAddress(j)))
		}
		args = append(args, "--initial-cluster", strings.Join(initial, ","))
	}
	return args
}

func (c *cluster) dataDir(i int) string {
	return filepath.Join(c.dir, fmt.Sprintf("data-%s-%d", c.names[i], c.replaced[i]))
}

// peerAddress is where the other servers connect to.
func (c *cluster) peerAddress(i int) string {
	if c.network == nil {
		return c.peer[i]
	}
	return c.network.address(i)
}

func (c *cluster) process(i int) *testserver.Process {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.processes[i]
}

func (c *cluster) set(i int, p *testserver.Process) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.processes[i] = p
}

func (c *cluster) processID(i int) int {
	if p := c.process(i); p != nil {
		return p.PID()
	}
	return 0
}

func (c *cluster) kill(i int) {
	if p := c.process(i); p != nil {
		c.set(i, nil)
		p.Kill()
	}
}

func (c *cluster) terminate(i int) error {
	p := c.process(i)
	c.set(i, nil)
	return p.Stop()
}

// logTails shows the last lines of every server's last log.
func (c *cluster) logTails(t *testing.T) {
	for i := range servers {
		logs, _ := filepath.Glob(filepath.Join(c.logs, fmt.Sprintf("log-%d-*", i)))
		if len(logs) == 0 {
			continue
		}
		text, _ := os.ReadFile(logs[len(logs)-1])
		before, _, _ := strings.Cut(string(text), "SIGQUIT: ")
		lines := strings.Split(strings.TrimSpace(before), "\n")
		t.Logf("end of the log of server %d:\n%s", i, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

// logged counts the lines with a text in all logs of a server.
func (c *cluster) logged(i int, text string) int {
	logs, _ := filepath.Glob(filepath.Join(c.logs, fmt.Sprintf("log-%d-*", i)))
	count := 0
	for _, name := range logs {
		content, _ := os.ReadFile(name)
		count += strings.Count(string(content), text)
	}
	return count
}

// whoLeads asks a server past the proxy; -1 if it knows of no leader or does not answer.
func (c *cluster) whoLeads(ctx context.Context) (leaders []int) {
	members, says := make(map[uint64]int), make([]uint64, servers)
	for i := range servers {
		if p := c.process(i); p == nil || p.Paused() {
			continue
		}
		if answer, err := hello(ctx, c.peer[i]); err == nil {
			members[answer.GetMember()] = i
			says[i] = answer.GetLeader()
		}
	}
	leaders = make([]int, servers)
	for i, id := range says {
		leaders[i] = -1
		if leader, known := members[id]; known && id != 0 {
			leaders[i] = leader
		}
	}
	return leaders
}

func hello(ctx context.Context, address string) (*peerpb.HelloResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer := new(peerpb.HelloResponse)
	return answer, conn.Invoke(ctx, "/coordd.peer.v1.Peer/Hello", &peerpb.HelloRequest{}, answer)
}

// awaitLeader waits until all three servers name the same leader.
func (c *cluster) awaitLeader(ctx context.Context) (int, error) {
	var leaders []int
	for deadline := time.Now().Add(clusterPatience); time.Now().Before(deadline) &&
		ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		leaders = c.whoLeads(ctx)
		if leaders[0] >= 0 && leaders[0] == leaders[1] && leaders[1] == leaders[2] {
			return leaders[0], nil
		}
	}
	return 0, fmt.Errorf("the servers do not agree on a leader: %v", leaders)
}

// others are the two servers besides one.
func others(server int) (first, second int) { return (server + 1) % servers, (server + 2) % servers }

// violations collects the violations found. The first few are printed.
type violations struct {
	mutex sync.Mutex
	list  []string
	seen  atomic.Bool
}

func (v *violations) add(format string, args ...any) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.list = append(v.list, fmt.Sprintf(format, args...))
	v.seen.Store(true)
}

func (v *violations) err() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if len(v.list) == 0 {
		return nil
	}
	return fmt.Errorf("%d violations, the first: %s", len(v.list),
		strings.Join(v.list[:min(3, len(v.list))], "; "))
}
