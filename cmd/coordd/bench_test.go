package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// A load is measured in a node that is gone afterwards, also when the load is interrupted.
func TestBench(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	result := parsed(t, does(t, endpoint, "bench --clients 3 --duration 20ms -o json"))
	if at(t, result, "clients") != 3.0 || at(t, result, "pairs").(float64) < 3 ||
		at(t, result, "per_second").(float64) <= 0 {
		t.Errorf("got %v", result)
	}
	last := 0.0
	for _, percentile := range []string{"p50", "p90", "p99", "max"} {
		now := at(t, result, "pair_millis", percentile).(float64)
		if now < last || now <= 0 {
			t.Errorf("%s is %v after %v", percentile, now, last)
		}
		last = now
	}
	does(t, endpoint, "bench --clients 2 --duration 20ms", "2 clients, ", " pairs/s: p50 ", " ms, p99 ")
	p := spawn(t, "bench", "--clients", "1", "--duration", "1m", "-o", "jsonl", "-e", endpoint)
	benchNode(t, endpoint)
	p.Command.Process.Signal(syscall.SIGINT)
	if code, lines := p.exit(t); code != exit.OK || len(lines) != 1 ||
		at(t, parsed(t, lines[0]), "clients") != 1.0 {
		t.Errorf("exit code %d: %q", code, lines)
	}
	if tree := does(t, endpoint, "node tree"); tree != "/local\n  app" {
		t.Errorf("this is left:\n%s", tree)
	}
}

// A load whose node is taken away ends with the reason.
func TestBenchLost(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	p := spawn(t, "bench", "--clients", "2", "--duration", "1m", "-e", endpoint)
	does(t, endpoint, "node drop "+benchNode(t, endpoint), "dropped")
	p.wantExit(t, exit.Failure, "coordd: the session is lost")
}

// benchNode waits until a load is under way, and returns its node.
func benchNode(t *testing.T, endpoint string) (node string) {
	t.Helper()
	waitFor(t, "the load", func() bool {
		for _, line := range strings.Fields(coordd(t, exit.OK, []string{"node", "tree", "-e", endpoint})) {
			if strings.HasPrefix(line, "coordd-bench-") {
				node = line
			}
		}
		return node != "" && strings.Contains(coordd(t, exit.OK, []string{"sem", "ls", node, "-e", endpoint}), "own-")
	})
	return node
}
