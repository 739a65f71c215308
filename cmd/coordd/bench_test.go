package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// A load is measured in a node that is gone afterwards, and in that of somebody else only when that is asked
// for.
func TestBench(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	if err := sessionOf(t, c).Create(t.Context(), "kept", 1, nil); err != nil {
		t.Fatal(err)
	}
	results := parsed(t, does(t, endpoint, "bench --clients 3 --duration 20ms --node team/eu/bench -o json"))
	for i, name := range []string{"pairs", "handover"} {
		if at(t, results, i, "load") != name || at(t, results, i, "clients") != 3.0 ||
			at(t, results, i, "steps").(float64) < 1 || at(t, results, i, "per_second").(float64) <= 0 {
			t.Errorf("got %v", at(t, results, i))
		}
		last := 0.0
		for _, percentile := range []string{"p50", "p90", "p99", "p99_9", "max"} {
			now := at(t, results, i, "step_millis", percentile).(float64)
			if now < last || now <= 0 {
				t.Errorf("%s is %v behind %v", percentile, now, last)
			}
			last = now
		}
	}
	coordd(t, exit.Failure, []string{"bench", "--node", "app", "-e", endpoint}, "/local/app is there already",
		"--existing")
	does(t, endpoint, "bench --clients 2 --duration 20ms --node app --existing", "LOAD", "P99.9 MS",
		"pairs     2", "handover  2")
	if rows := parsed(t, does(t, endpoint, "sem ls app -o json")); len(rows.([]any)) != 1 ||
		at(t, rows, 0, "name") != "kept" {
		t.Errorf("there are %v", rows)
	}
	p := spawn(t, "bench", "--load", "pairs", "--clients", "1", "--duration", "1h", "-o", "jsonl", "-e",
		endpoint)
	waitFor(t, "the load", func() bool {
		return strings.Contains(coordd(t, exit.OK, []string{"sem", "ls", "-e", endpoint}), "own-0")
	})
	p.Command.Process.Signal(syscall.SIGINT)
	if code, lines := p.exit(t); code != exit.OK || len(lines) != 1 ||
		at(t, parsed(t, lines[0]), "load") != "pairs" {
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
	p := spawn(t, "bench", "--load", "handover", "--clients", "2", "--duration", "1h", "--node", "short",
		"-e", endpoint)
	waitFor(t, "the load", func() bool {
		return strings.Contains(coordd(t, exit.OK, []string{"sem", "ls", "-e", endpoint}), "one")
	})
	does(t, endpoint, "node drop short", "dropped")
	p.wantExit(t, exit.Failure, "coordd: the session is lost")
}

// Somebody at a terminal sees how far it is.
func TestBenchAtATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("there is no script(1) to make a terminal")
	}
	_, endpoint, _ := lockServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	command := exec.CommandContext(ctx, "script", "-qec",
		binary+" bench --load handover --clients 1 --duration 20ms --endpoint "+endpoint, "/dev/null")
	command.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh"}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	inOrder(t, string(output), []string{"handover, 1 client  [", " %  ", "/s  p50 ", "p99 ", "handover  1"})
}
