package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/bench/stub"
	"github.com/coordd/coordd/raftstore/wal"
)

// bench is one run of this program.
type bench struct {
	settings
	length     time.Duration
	began      time.Time
	loadBefore string
	book       *book
	failures   []string
	openRuns   int // each of which has semaphores of its own
}

// settings are the flags.
type settings struct {
	measure, docs           string
	coordd, against         string
	etcd, redis, java, jars string
	dir                     string
	runs, n, idle, rows     int
	seconds                 float64
	only, peers             string
	chaos                   time.Duration
	attach, be, listen, log string
}

func (o *settings) declare() {
	flag.StringVar(&o.measure, "measure", "locks",
		"locks: the workloads W1 to W8; or watched, consoles, limiter, scaling, chaos, moves or open")
	flag.StringVar(&o.docs, "docs", "",
		"locks, scaling and open: write the tables into the pages in this folder, between their marks")
	flag.StringVar(&o.coordd, "coordd", "bin/coordd", "coordd's program")
	flag.StringVar(&o.against, "against", "", "locks and watched: compare with this program of coordd's as well")
	flag.StringVar(&o.etcd, "etcd", "bin/etcd", "etcd's program")
	flag.StringVar(&o.redis, "redis", "redis-server", "Redis' server")
	flag.StringVar(&o.java, "java", "java", "the Java machine for ZooKeeper")
	flag.StringVar(&o.jars, "zookeeper", "/usr/share/java", "the folder of ZooKeeper's jars")
	flag.StringVar(&o.dir, "dir", "",
		"where the servers keep their data: a directory on the disk to measure (default: a new one here)")
	flag.IntVar(&o.runs, "runs", 3, "rounds; the median counts")
	flag.Float64Var(&o.seconds, "seconds", 1.5, "length of a turn")
	flag.IntVar(&connections, "connections", connections, "connections that the sessions share")
	flag.StringVar(&o.only, "only", "",
		"measure only these, such as W1,W2,W1x3 (W1 on three servers), with scaling semaphores; default: all")
	flag.StringVar(&o.peers, "peers", "",
		"locks: compare only with these, such as etcd,Redis or none; default: all")
	flag.IntVar(&o.idle, "idle", 10_000, "locks: idle sessions of W4")
	flag.IntVar(&o.rows, "rows", 1_000_000,
		"semaphores, keys or znodes of W8; scaling: semaphores, and in proportion sessions and waiters; consoles: "+
			"held semaphores")
	flag.IntVar(&o.n, "n", 64, "with -attach, watched, consoles and open: sessions; limiter: callers; "+
		"with -be writer: make each so many blocks durable")
	flag.DurationVar(&o.chaos, "chaos", 10*time.Minute, "chaos: the time of each product")
	flag.StringVar(&serverCPU, "server-cpu", "",
		"run the servers on this processor, by taskset; run this program on another by the same")
	flag.StringVar(&o.attach, "attach", "", "measure W1 on the server at this address instead, for profiling")
	flag.StringVar(&o.be, "be", "", "be this server, stub or echo, or writer: write to the disk")
	flag.StringVar(&o.log, "log", "", "with -be stub: the directory that it makes for its log, "+
		"which it has none of by default; with -be writer: the file")
	flag.StringVar(&o.listen, "listen", "", "with -be: the address")
}

func main() {
	b := &bench{book: newBook(), began: time.Now(), loadBefore: machine.Load()}
	b.declare()
	flag.Parse()
	b.length = time.Duration(b.seconds * float64(time.Second))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context) (err error) {
	switch {
	case b.be != "":
		return b.serve()
	case b.attach != "":
		return b.measureAttached(ctx)
	}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp(".", "bench-data-"); err != nil {
			return err
		}
		defer os.RemoveAll(b.dir)
	}
	for _, path := range []*string{&b.coordd, &b.against, &b.etcd, &b.dir} {
		if strings.Contains(*path, "/") || path == &b.dir { // it is no name of a program
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	measure := map[string]func(context.Context) error{"locks": b.measureAll, "watched": b.measureWatched,
		"limiter": b.measureLimiter, "scaling": b.measureScaling, "open": b.measureOpen, "chaos": b.measureChaos,
		"moves": b.measureMoves, "consoles": b.measureConsoles}[b.measure]
	if measure == nil {
		return fmt.Errorf("-measure %s: want locks, watched, consoles, limiter, scaling, chaos, moves or open",
			b.measure)
	}
	return measure(ctx)
}

// say shows the progress.
func say(what string) { fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.TimeOnly), what) }

func (b *bench) serve() error {
	if b.be == "writer" {
		return writeForever(b.log, b.n)
	}
	listener, err := net.Listen("tcp", b.listen)
	if err != nil {
		return err
	}
	var server *grpc.Server
	switch b.be {
	case "stub":
		var log *wal.Log
		if b.log != "" {
			if log, err = stub.OpenLog(b.log); err != nil {
				return err
			}
		}
		server = stub.New(log)
	case "echo":
		server = machine.NewEcho()
		Ydb_RateLimiter_V1.RegisterRateLimiterServiceServer(server, echoLimiter{})
	default:
		return fmt.Errorf("-be %s: want stub, echo or writer", b.be)
	}
	return server.Serve(listener)
}

// measureAttached measures W1 on a server that runs already.
func (b *bench) measureAttached(ctx context.Context) error {
	if err := attachOnce(ctx, b.attach); err != nil {
		return err
	}
	t := newTurn(ctx)
	defer t.end()
	r, err := b.lockAt(t, &contestant{client: rawClient}, b.attach, false, b.n)
	if err == nil {
		fmt.Printf("%d sessions: %.0f pairs/s, p50 %.3f ms, p99 %.3f ms\n", b.n, r.perSecond(),
			millis(r.took.Percentile(50)), millis(r.took.Percentile(99)))
	}
	return err
}

// selection returns a function that reports whether a name is in a list; without one, every name is.
func selection(list string) func(name string) bool {
	names := strings.Split(list, ",")
	return func(name string) bool {
		return list == "" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
}

// measureAll measures the workloads W1 to W8 on coordd, on the stub and on all peers.
func (b *bench) measureAll(ctx context.Context) error {
	own := newCoordd("coordd", b.coordd)
	if own.absent != "" {
		return errors.New("coordd: " + own.absent)
	}
	etcdServer, zooServer, redisServer := newEtcd(b.etcd), newZooKeeper(b.java, b.jars), newRedis(b.redis)
	products := []*product{own, etcdServer, zooServer, redisServer}
	all := []*contestant{
		{name: bare, client: rawClient, product: newSelf("stub", true)},
		{name: ours, client: rawClient, product: own},
		{name: oursSDK, client: sdkClient, product: own},
		{name: etcd, client: etcdClient, product: etcdServer},
		{name: zoo, client: zooClient, product: zooServer},
		{name: redisOf, client: redisClient, product: redisServer},
	}
	if b.against != "" {
		other := newCoordd(filepath.Base(b.against)+" of before", b.against)
		products = append(products, other)
		all = append(all, &contestant{name: older, client: rawClient, product: other})
	}
	wanted, compared := selection(b.only), selection(b.peers)
	var present, real []*contestant
	for _, c := range all {
		if c.client != rawClient && !compared(c.name) && (c.product != own || b.peers == "none") {
			b.book.missing[c.name] = "not asked for"
			continue
		}
		b.book.contestants = append(b.book.contestants, c.name)
		if c.product.absent != "" {
			b.book.missing[c.name] = c.product.absent
			fmt.Fprintf(os.Stderr, "bench: %s is not measured, %s\n", c.name, c.product.absent)
			continue
		}
		present = append(present, c)
		if c.name != bare {
			real = append(real, c)
		}
	}
	b.singles(ctx, wanted, present)
	b.clusters(ctx, wanted, real)
	if wanted("W8") && ctx.Err() == nil {
		say("W8")
		b.measureRestart(ctx, real)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := errors.Join(b.publish("benchmarks.md", "peers", b.report(products)),
		b.publish("benchmarks.md", "targets", page.Targets(b.targets())))
	fmt.Println("Of the stub's:\n\n" + b.book.ratios(bare))
	return err
}

// singles measures what one server of each does.
func (b *bench) singles(ctx context.Context, wanted func(string) bool, present []*contestant) {
	steps := []struct {
		name string
		do   func(all []*contestant)
	}{
		{"W1", func(all []*contestant) {
			if err := b.measureFloor(ctx); err != nil {
				b.failed("floor", "the machine", err)
			}
			for _, n := range []int{1, 16, 64, 256} {
				b.measureLocks(ctx, all, false, n)
			}
		}},
		{"W2", func(all []*contestant) {
			for _, n := range []int{8, 64} {
				b.measureLocks(ctx, all, true, n)
			}
		}},
		{"W3", func(all []*contestant) {
			for _, n := range []int{watchers / 10, watchers} {
				b.measureWatch(ctx, all, w3, n)
			}
			few := slices.DeleteFunc(slices.Clone(all), func(c *contestant) bool {
				return c.name == zoo || c.name == redisOf // they have a connection for each watcher
			})
			b.measureWatch(ctx, few, w3, 10*watchers)
			b.measureWatch(ctx, few, w3Each, watchers)
		}},
		{"W5", func(all []*contestant) { b.measureList(ctx, all, members) }},
	}
	var all []*contestant
	started := make(map[*product]servers)
	for _, s := range steps {
		if !wanted(s.name) || ctx.Err() != nil {
			continue
		}
		if len(started) == 0 {
			all = b.start(ctx, "one", 1, present, started)
		}
		say(s.name)
		s.do(all)
	}
	for _, s := range started { // idle sessions have the machine for themselves
		s.kill()
	}
	if wanted("W4") && ctx.Err() == nil {
		say("W4")
		b.measureIdle(ctx, present)
	}
}

// start starts servers of each product, and warms them up. The result has those contestants whose servers run.
func (b *bench) start(ctx context.Context, dir string, n int, all []*contestant,
	started map[*product]servers) (running []*contestant) {
	for _, c := range all {
		s := started[c.product]
		if s == nil {
			var err error
			if s, err = c.product.launch(ctx, filepath.Join(b.dir, dir), n); err != nil {
				b.failed("starting servers", c.name, err)
				continue
			}
			started[c.product] = s
		}
		running = append(running, &contestant{c.name, c.client, c.product, s})
	}
	b.warm(ctx, running)
	return running
}

// clusters measures what three servers of coordd and of etcd do.
func (b *bench) clusters(ctx context.Context, wanted func(string) bool, all []*contestant) {
	if !wanted("W1x3") && !wanted("W7") || ctx.Err() != nil {
		return
	}
	started := make(map[*product]servers)
	running := b.start(ctx, "three", clusterSize, having(all, func(c *client) bool { return c.roam != nil }), started)
	defer func() {
		for _, s := range started {
			s.kill()
		}
	}()
	if wanted("W1x3") {
		say("W1 on three servers")
		b.measureCluster(ctx, running)
	}
	if wanted("W7") {
		say("W7")
		b.measureFailOver(ctx, running)
	}
}
