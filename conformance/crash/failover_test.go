//go:build linux

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestClusterFailOver measures the time for which a session on a server that is well gets no answer when the leader is
// killed, is stopped in good order, or hands over: from the last answer before to the first one after, on three servers
// with default settings and four sessions on each, of which the two that never wait for tokens are measured.
// CLUSTER_SAMPLES is the number of fail-overs of each kind, 1 by default. It prints a table and judges only that no
// stream breaks.
func TestClusterFailOver(t *testing.T) {
	besideOthers(t)
	times := 1
	if text := os.Getenv("CLUSTER_SAMPLES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("CLUSTER_SAMPLES=%q: want a number from 1", text)
		}
		times = n
	}
	seed := seedOf(t)
	x := &exercise{t: t, random: rand.New(rand.NewPCG(seed, 0)), cluster: newCluster(t, false)}
	x.begin(seed)
	kinds := []struct {
		name string
		run  func(*exercise) error
	}{
		{"kill -9 the leader", func(x *exercise) error { return x.killServer(x.leader) }},
		{"SIGTERM the leader", func(x *exercise) error { return x.terminateServer(x.leader) }},
		{"transfer the leadership", (*exercise).transfer},
	}
	gaps := make([][]time.Duration, len(kinds))
	for i := range times * len(kinds) {
		kind := i % len(kinds)
		x.step(kinds[kind].name, kinds[kind].run)
		gaps[kind] = append(gaps[kind], x.gaps...)
	}
	x.end()
	table := "fail-over, last answer before to first one after, milliseconds\n\n| the leader | samples | median | 9 of 10 | worst |\n| --- | --- | --- | --- | --- |\n"
	for kind, list := range gaps {
		slices.Sort(list)
		at := func(share float64) string {
			return fmt.Sprintf("%.0f", float64(list[int(share*float64(len(list)-1))].Microseconds())/1000)
		}
		table += fmt.Sprintf("| %s | %d | %s | %s | %s |\n", kinds[kind].name, len(list), at(0.5), at(0.9),
			at(1))
	}
	t.Log(table)
}

// transfer has the leader hand over to another server, which breaks no stream.
func (x *exercise) transfer() error {
	old := x.leader
	if err := x.command("transfer-leader"); err != nil {
		return err
	}
	if err := x.await("another server leads", func() bool {
		leaders := x.whoLeads(x.ctx)
		return leaders[0] >= 0 && leaders[0] != old && leaders[0] == leaders[1] && leaders[1] == leaders[2]
	}); err != nil {
		return err
	}
	return x.progress()
}

// command runs `coordd cluster` against a server that runs.
func (x *exercise) command(args ...string) error {
	server := x.random.IntN(servers)
	for x.process(server) == nil {
		server = (server + 1) % servers
	}
	_, err := x.commandAt(server, append([]string{"cluster"}, args...)...)
	return err
}

// commandAt runs a command of coordd against a server and returns what it prints.
func (c *cluster) commandAt(server int, args ...string) (string, error) {
	args = append(args, "--endpoint", "grpc://"+c.listen[server]+"/local")
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	command := exec.CommandContext(ctx, c.binary, args...)
	var out, complaint strings.Builder
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("coordd %s: %w\n%s%s", strings.Join(args, " "), err, &out, &complaint)
	}
	return out.String(), nil
}
