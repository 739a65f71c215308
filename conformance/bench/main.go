package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
)

func main() {
	binary := flag.String("coordd", "bin/coordd", "the server's binary")
	dir := flag.String("dir", "",
		"where the servers keep their data: a directory on the disk to measure (default: a new one beside the binary)")
	runs := flag.Int("runs", 3, "runs of each workload; the median counts")
	seconds := flag.Float64("seconds", 3, "length of one run")
	idle := flag.Int("idle", 10_000, "idle sessions, 0 to leave them out")
	attach := flag.String("attach", "",
		"measure the server at this address instead: one workload, for profiling")
	kind := flag.String("kind", "pairs", "with -attach: pairs, handover or list")
	n := flag.Int("n", 64, "with -attach or -watched: sessions; with -limiter: callers")
	onlyCluster := flag.Bool("cluster", false, "measure only one server against three")
	onlyWatched := flag.Bool("watched", false,
		"measure only what a pair costs a server that is watched, and one that is not")
	onlyLimiter := flag.Bool("limiter", false,
		"measure only acquires of a rate limiter against an empty gRPC server")
	onlyStubbed := flag.Bool("stubbed", false,
		"measure only W1, W2, W3 and W5 beside a stub without log, in turns")
	onlyScaling := flag.Bool("scaling", false,
		"measure only what operations cost beside many semaphores, sessions, nodes and waiters")
	most := scale{}
	flag.IntVar(&most.semaphores, "semaphores", 1_000_000, "with -scaling: up to so many")
	flag.IntVar(&most.sessions, "sessions", 50_000, "with -scaling: up to so many")
	flag.IntVar(&most.nodes, "nodes", 9_900,
		"with -scaling: up to so many; there is room for 10,000 entries in all")
	flag.IntVar(&most.waiters, "waiters", 10_000, "with -scaling: up to so many")
	pageFile := flag.String("page", "", "with -scaling: write the tables into this page, between its marks")
	targetsFile := flag.String("targets", "",
		"with -scaling: write what was to be reached into this page, between its marks")
	quick := flag.Bool("quick", false, "with -stubbed: only W1 with 64 and 256 sessions")
	against := flag.String("against", "", "with -watched or -stubbed: compare with this program as well")
	stub := flag.Bool("stub", false, "be the stub that the bench compares with")
	echo := flag.Bool("echo", false, "be the empty gRPC server that the bench compares with")
	flag.IntVar(&connections, "connections", connections, "connections that the sessions share")
	flag.Parse()
	if *attach != "" {
		if err := measureOne(*attach, *kind, *n, time.Duration(*seconds*float64(time.Second))); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	length := time.Duration(*seconds * float64(time.Second))
	only := func(dir string) error {
		return measure(context.Background(), *binary, dir, *runs, length, *idle)
	}
	switch {
	case *onlyCluster:
		only = func(dir string) error {
			return measureCluster(context.Background(), *binary, dir, *runs, length)
		}
	case *onlyScaling:
		only = func(dir string) error {
			most.binary, most.dir, most.runs, most.length = *binary, dir, *runs, length
			return measureScaling(context.Background(), most, *pageFile, *targetsFile)
		}
	case *onlyStubbed:
		only = func(dir string) error {
			return measureStubbed(context.Background(), *binary, *against, dir, *runs, length, *quick)
		}
	case *onlyLimiter:
		only = func(dir string) error {
			return measureLimiter(context.Background(), *binary, dir, *runs, *n, length)
		}
	case *onlyWatched:
		only = func(dir string) error {
			return measureWatched(context.Background(), *binary, *against, dir, *runs, *n, length)
		}
	}
	var serve func() error
	switch {
	case *echo:
		serve = serveEcho
	case *stub:
		serve = serveStub
	}
	err := serveOrMeasure(serve, *dir, only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func serveOrMeasure(serve func() error, dir string, measure func(dir string) error) error {
	if serve != nil {
		return serve()
	}
	if dir == "" {
		made, err := os.MkdirTemp(".", "bench-data-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		dir = made
	}
	return measure(dir)
}

func measure(ctx context.Context, binary, dir string, runs int, length time.Duration, idle int) error {
	fmt.Printf("%s, %d processors, %s, %d runs of %v\n\n", time.Now().UTC().Format(time.DateOnly),
		runtime.NumCPU(), runtime.Version(), runs, length)
	fmt.Println("| workload | sessions | per second | p50 ms | p99 ms |\n| --- | --- | --- | --- | --- |")
	sync, stream, err := floor(ctx, dir, runs)
	if err != nil {
		return err
	}
	server, err := startServer(binary, dir+"/busy")
	if err != nil {
		return err
	}
	if err := createNode(ctx, server.address); err != nil {
		return err
	}
	one, err := row("W1 lock+unlock", 1, runs,
		func() (result, error) { return runPairs(ctx, server.address, 1, length) })
	if err != nil {
		return err
	}
	fmt.Printf("| W1 p50 against its floor, 2 x (fdatasync + round trip) | 1 | | %.2f x | |\n",
		one.p50.Seconds()/(2*(sync+stream).Seconds()))
	if err := server.stop(); err != nil {
		return err
	}
	if err := measureStubbed(ctx, binary, "", dir, runs, length, false); err != nil {
		return err
	}
	if err := measureCluster(ctx, binary, dir, runs, length); err != nil {
		return err
	}
	if idle == 0 {
		return nil
	}
	return measureIdle(ctx, binary, dir+"/idle", idle)
}

// floor measures what the disk and gRPC allow.
func floor(ctx context.Context, dir string, runs int) (sync, stream time.Duration, err error) {
	if sync, err = median(runs, func() (time.Duration, error) { return machine.Sync(dir) },
		identity); err != nil {
		return 0, 0, err
	}
	if stream, err = median(runs, func() (time.Duration, error) { return probeStream(ctx) },
		identity); err != nil {
		return 0, 0, err
	}
	fmt.Printf("| floor: 200-byte write + fdatasync | | %.0f | %s | |\n", 1/sync.Seconds(), millis(sync))
	fmt.Printf("| floor: empty gRPC stream round trip | 1 | %.0f | %s | |\n", 1/stream.Seconds(),
		millis(stream))
	return sync, stream, nil
}

func measureIdle(ctx context.Context, binary, dir string, n int) error {
	server, err := startServer(binary, dir)
	if err != nil {
		return err
	}
	idle, err := runIdle(ctx, server, n, 15*time.Second, 20*time.Second)
	if err != nil {
		return err
	}
	fmt.Printf("\n| W4 idle sessions | opened per second | resident KiB per session | %% of one core |\n| --- | --- | --- | --- |\n")
	fmt.Printf("| %d | %.0f | %.1f | %.1f |\n", n, idle.openedPerSecond, idle.bytesPerSession/1024,
		idle.cpuPercent)
	return server.stop()
}

func row(name string, n, runs int, fn func() (result, error)) (result, error) {
	m, err := median(runs, fn, func(r result) float64 { return r.perSecond })
	if err == nil {
		fmt.Printf("| %s | %d | %.0f | %s | %s |\n", name, n, m.perSecond, millis(m.p50), millis(m.p99))
	}
	return m, err
}

// median runs fn and returns the result whose key is in the middle.
func median[T any, K cmp.Ordered](runs int, fn func() (T, error), key func(T) K) (T, error) {
	results := make([]T, 0, runs)
	for range runs {
		r, err := fn()
		if err != nil {
			return r, err
		}
		results = append(results, r)
	}
	return middle(results, key), nil
}

// middle returns the result whose key is in the middle.
func middle[T any, K cmp.Ordered](results []T, key func(T) K) T {
	slices.SortFunc(results, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return results[len(results)/2]
}

func identity(d time.Duration) time.Duration { return d }

func millis(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()*1000) }

func measureOne(address, kind string, n int, length time.Duration) error {
	if err := createNode(context.Background(), address); err != nil {
		return err
	}
	workload := runPairs
	switch kind {
	case "handover":
		workload = runHandover
	case "list":
		workload = runList
	}
	r, err := workload(context.Background(), address, n, length)
	fmt.Printf("%s, %d sessions: %.0f/s, p50 %s ms, p99 %s ms\n", kind, n, r.perSecond, millis(r.p50),
		millis(r.p99))
	return err
}
