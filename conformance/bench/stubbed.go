package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/coordd/coordd/conformance/bench/stub"
)

// contestant is a server that takes turns with others.
type contestant struct {
	name    string
	process *serverProcess
}

// turn is what one run of a workload gave, and what it cost the server.
type turn struct {
	result
	cpu time.Duration // for a step
}

func serveStub() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return stub.New().Serve(listener)
}

// startStub starts a stub in a process of its own.
func startStub() (*serverProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return begin(exec.Command(self, "-stub"))
}

// measureStubbed has the server, the stub and, if there is one, another program do the same in turns.
func measureStubbed(ctx context.Context, binary, against, dir string, runs int, length time.Duration,
	quick bool) error {
	var servers []contestant
	defer func() {
		for _, s := range servers {
			_ = s.process.command.Process.Kill()
			_ = s.process.command.Wait()
		}
	}()
	add := func(name string, start func() (*serverProcess, error)) error {
		process, err := start()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		servers = append(servers, contestant{name, process})
		return createNode(ctx, process.address)
	}
	if err := add("stub", startStub); err != nil {
		return err
	}
	if err := add("coordd", func() (*serverProcess, error) {
		return startServer(binary, filepath.Join(dir, "stubbed"))
	}); err != nil {
		return err
	}
	if against != "" {
		name := filepath.Base(against)
		if err := add(name, func() (*serverProcess, error) {
			return startServer(against, filepath.Join(dir, "against"))
		}); err != nil {
			return err
		}
	}
	fmt.Println("\n| workload | sessions | server | per second | p50 ms | p99 ms | processor us a step | per second, of the stub's | processor, of the stub's |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	sizes := []int{1, 16, 64, 256}
	if quick {
		sizes = []int{64, 256}
	}
	for _, n := range sizes {
		if err := takeTurns("W1 lock+unlock", n, runs, servers,
			func(address string) (result, error) { return runPairs(ctx, address, n, length) }); err != nil {
			return err
		}
	}
	if quick {
		return nil
	}
	for _, n := range []int{8, 64} {
		if err := takeTurns("W2 hand-over", n, runs, servers,
			func(address string) (result, error) {
				return runHandover(ctx, address, n,
					length)
			}); err != nil {
			return err
		}
	}
	for _, n := range []int{100, 1000} {
		if err := takeTurns("W3 all watchers notified", n, runs, servers,
			func(address string) (result, error) { return runWatch(ctx, address, n, 30) }); err != nil {
			return err
		}
	}
	return takeTurns("W5 list of a group", 1000, runs, servers,
		func(address string) (result, error) { return runList(ctx, address, 1000, length) })
}

// takeTurns prints what a workload gives on each of the servers, and what it is of what it gives on the first
// one in the same round.
func takeTurns(name string, n, runs int, servers []contestant,
	workload func(address string) (result, error)) error {
	turns := make([][]turn, len(servers))
	for round := range runs {
		for i := range servers { // each is the first one in turn
			at := (round + i) % len(servers)
			t, err := servers[at].take(workload)
			if err != nil {
				return fmt.Errorf("%s, %d sessions, %s: %w", name, n, servers[at].name, err)
			}
			turns[at] = append(turns[at], t)
		}
	}
	ratios := func(of []turn, figure func(turn) float64) float64 {
		all := make([]float64, runs)
		for round := range all {
			all[round] = figure(of[round]) / figure(turns[0][round])
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	speed := func(t turn) float64 { return t.perSecond }
	cpu := func(t turn) float64 { return t.cpu.Seconds() }
	for i, s := range servers {
		m := middle(slices.Clone(turns[i]), speed)
		cost := middle(slices.Clone(turns[i]), cpu).cpu
		fmt.Printf("| %s | %d | %s | %.0f | %s | %s | %.1f | %.2f | %.2f |\n", name, n, s.name, m.perSecond,
			millis(m.p50), millis(m.p99), float64(cost)/float64(time.Microsecond), ratios(turns[i], speed),
			ratios(turns[i], cpu))
	}
	return nil
}

func (c contestant) take(workload func(address string) (result, error)) (turn, error) {
	before, err := c.process.cpu()
	if err != nil {
		return turn{}, err
	}
	r, err := workload(c.process.address)
	if err != nil {
		return turn{}, err
	}
	after, err := c.process.cpu()
	return turn{r, (after - before) / time.Duration(r.steps)}, err
}
