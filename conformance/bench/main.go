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
	"github.com/coordd/coordd/conformance/load"
)

// Sizes of the workloads.
const (
	watchers = 1000 // W3
	members  = 1000 // W5
)

// settings are the flags that not all measurements share.
type settings struct {
	measure                 string
	against                 string
	only, peers             string
	etcd, redis, java, jars string
	page, targets           string
	attach, kind            string
	n                       int
	seconds, idleSeconds    float64
	chaos                   time.Duration
	busy                    int
	seed                    uint64
	scale                   scale
	rates                   string
	fixed                   bool
	be, listen              string
}

func (b *bench) declare(o *settings) {
	flag.StringVar(&o.measure, "measure", "locks",
		"locks: the workloads W1 to W8; or watched, limiter, scaling, chaos or open")
	flag.StringVar(&b.coordd, "coordd", "bin/coordd", "coordd's program")
	flag.StringVar(&b.dir, "dir", "",
		"where the servers keep their data: a directory on the disk to measure (default: a new one here)")
	flag.IntVar(&b.runs, "runs", 3, "rounds; the median counts")
	flag.Float64Var(&o.seconds, "seconds", 1.5, "length of a turn")
	flag.IntVar(&connections, "connections", connections, "connections that the sessions share")
	flag.StringVar(&o.page, "page", "", "locks, scaling and open: write the tables into this page, between its marks")
	flag.StringVar(&o.targets, "targets", "", "scaling: write the targets into this page, between its marks")

	flag.StringVar(&o.only, "only", "",
		"locks: measure only these, such as W1,W2,W1x3 (W1 on three servers); default: all")
	flag.StringVar(&o.peers, "peers", "",
		"locks: compare only with these, such as etcd,Redis or none; default: all")
	flag.StringVar(&o.against, "against", "", "locks and watched: compare with this program of coordd's as well")
	flag.StringVar(&o.etcd, "etcd", "bin/etcd", "etcd's program")
	flag.StringVar(&o.redis, "redis", "redis-server", "Redis' server")
	flag.StringVar(&o.java, "java", "java", "the Java machine for ZooKeeper")
	flag.StringVar(&o.jars, "zookeeper", "/usr/share/java", "the folder of ZooKeeper's jars")
	flag.IntVar(&b.idle, "idle", 10_000, "locks: idle sessions of W4")
	flag.Float64Var(&o.idleSeconds, "idle-seconds", 10,
		"locks: how long idle sessions are measured, and left alone before")
	flag.IntVar(&b.rows, "rows", 1_000_000, "locks: semaphores, keys or znodes of W8")

	flag.StringVar(&o.attach, "attach", "",
		"measure the server at this address instead: one workload, for profiling")
	flag.StringVar(&o.kind, "kind", load.Pairs.Name, "with -attach: pairs or handover")
	flag.IntVar(&o.n, "n", 64, "with -attach, watched and open: sessions; limiter: callers")

	flag.IntVar(&o.scale.semaphores, "semaphores", 1_000_000, "scaling: up to so many")
	flag.IntVar(&o.scale.sessions, "sessions", 50_000, "scaling: up to so many")
	flag.IntVar(&o.scale.nodes, "nodes", 9_900,
		"scaling: up to so many; there is room for 10,000 entries in all")
	flag.IntVar(&o.scale.waiters, "waiters", 10_000, "scaling: up to so many")

	flag.DurationVar(&o.chaos, "chaos", 10*time.Minute, "chaos: the time of each product")
	flag.IntVar(&o.busy, "busy", 16, "chaos: busy processes beside the servers")
	flag.Uint64Var(&o.seed, "seed", 1, "chaos: seed of the faults")

	flag.StringVar(&o.rates, "rates", "",
		"open: requests a second, such as 500,2000 (default: 10, 50 and 80 % of the server's own knee)")
	flag.BoolVar(&o.fixed, "fixed", false, "open: requests at equal distances (default: Poisson arrivals)")
	flag.StringVar(&serverCPU, "server-cpu", "",
		"run the servers on this processor, by taskset; run this program on another by the same")

	flag.StringVar(&o.be, "be", "", "be this server: stub or echo")
	flag.StringVar(&o.listen, "listen", "", "with -be: the address")
}

func main() {
	b, o := &bench{book: newBook(), began: time.Now(), loadBefore: machine.Load()}, new(settings)
	b.declare(o)
	flag.Parse()
	b.length = time.Duration(o.seconds * float64(time.Second))
	b.idleMeasure = time.Duration(o.idleSeconds * float64(time.Second))
	b.settle = b.idleMeasure
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := b.run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context, o *settings) error {
	switch {
	case o.be != "":
		return serve(o.be, o.listen)
	case o.attach != "":
		return b.measureAttached(ctx, o)
	}
	for _, path := range []*string{&b.coordd, &o.against, &o.etcd, &b.dir} {
		if err := absolute(path); err != nil {
			return err
		}
	}
	if b.dir == "" {
		made, err := os.MkdirTemp(".", "bench-data-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		if b.dir, err = filepath.Abs(made); err != nil {
			return err
		}
	}
	// The echo has been started when it listens.
	b.echo = newSelf("echo", func(context.Context, string) error { return nil })
	switch o.measure {
	case "locks":
		return b.measureAll(ctx, o)
	case "watched":
		return b.measureWatched(ctx, o.against, o.n)
	case "limiter":
		return b.measureLimiter(ctx, o.n)
	case "scaling":
		o.scale.bench = b
		return o.scale.measure(ctx, o.page, o.targets)
	case "open":
		return b.measureOpen(ctx, o)
	case "chaos":
		own, other := newCoordd("coordd", b.coordd), newEtcd(o.etcd)
		return b.chaos(ctx, []*product{own, other},
			map[*product]*client{own: rawClient, other: etcdClient}, o.chaos, o.busy, o.seed)
	}
	return fmt.Errorf("-measure %s: want locks, watched, limiter, scaling, chaos or open", o.measure)
}

// absolute makes a path one that does not depend on the current folder, if it is a path.
func absolute(path *string) (err error) {
	if strings.Contains(*path, "/") {
		*path, err = filepath.Abs(*path)
	}
	return err
}

// selection returns a function that reports whether a name is in a list; without one, every name is.
func selection(list string) func(name string) bool {
	if list == "" {
		return func(string) bool { return true }
	}
	names := strings.Split(list, ",")
	return func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
}

func serve(what, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	var server *grpc.Server
	switch what {
	case "stub":
		server = stub.New()
	case "echo":
		server = machine.NewEcho()
		Ydb_RateLimiter_V1.RegisterRateLimiterServiceServer(server, echoLimiter{})
	default:
		return fmt.Errorf("-be %s: want stub or echo", what)
	}
	return server.Serve(listener)
}

// measureAttached measures one workload on a server that runs already.
func (b *bench) measureAttached(ctx context.Context, o *settings) error {
	if err := attachOnce(ctx, o.attach); err != nil {
		return err
	}
	kind := load.Pairs
	if o.kind == load.HandOver.Name {
		kind = load.HandOver
	}
	t := newTurn(ctx)
	defer t.end()
	r, err := lock(t, &contestant{client: rawClient}, o.attach, kind, o.n, b.length)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d sessions: %.0f/s, p50 %.3f ms, p99 %.3f ms\n", kind.Name, o.n, r.perSecond(),
		millis(r.took.Percentile(50)), millis(r.took.Percentile(99)))
	return nil
}

// measureAll measures the workloads W1 to W8 on coordd, on the stub and on all peers.
func (b *bench) measureAll(ctx context.Context, o *settings) error {
	own := newCoordd("coordd", b.coordd)
	if own.absent != "" {
		return errors.New("coordd: " + own.absent)
	}
	etcdServer, zooServer, redisServer := newEtcd(o.etcd), newZooKeeper(o.java, o.jars), newRedis(o.redis)
	products := []*product{own, etcdServer, zooServer, redisServer}
	all := []*contestant{
		{name: bare, client: rawClient, product: newSelf("stub", attachOnce)},
		{name: ours, client: rawClient, product: own},
		{name: oursSDK, client: sdkClient, product: own},
		{name: etcd, client: etcdClient, product: etcdServer},
		{name: zoo, client: zooClient, product: zooServer},
		{name: redisOf, client: redisClient, product: redisServer},
	}
	if o.against != "" {
		other := newCoordd(filepath.Base(o.against)+" of before", o.against)
		products = append(products, other)
		all = append(all, &contestant{name: older, client: rawClient, product: other})
	}
	wanted, compared := selection(o.only), selection(o.peers)
	var present []*contestant
	for _, c := range all {
		switch {
		case c.client != rawClient && !compared(c.name) && (c.product != own || o.peers == "none"):
			b.book.missing[c.name] = "not asked for"
			continue
		case c.product.absent != "":
			b.book.missing[c.name] = c.product.absent
			fmt.Fprintf(os.Stderr, "bench: %s is not measured, %s\n", c.name, c.product.absent)
		default:
			present = append(present, c)
		}
		b.book.contestants = append(b.book.contestants, c.name)
	}
	b.singles(ctx, wanted, present)
	b.clusters(ctx, wanted, present)
	real := slices.DeleteFunc(slices.Clone(present), func(c *contestant) bool { return c.name == bare })
	if wanted("W8") && ctx.Err() == nil {
		say("W8")
		b.measureRestart(ctx, real)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	text, targets := b.report(products), page.Targets(b.targets())
	fmt.Println(text + "\nOf the stub's:\n\n" + b.book.ratios(bare) + "\n" + targets)
	if o.page == "" {
		return nil
	}
	return errors.Join(page.Replace(o.page, "peers", text), page.Replace(o.page, "targets", targets))
}

// singles measures what one server of each does.
func (b *bench) singles(ctx context.Context, wanted func(string) bool, present []*contestant) {
	if !slices.ContainsFunc([]string{"W1", "W2", "W3", "W4", "W5", "W6"}, wanted) {
		return
	}
	started := make(map[*product]servers)
	defer func() {
		for _, s := range started {
			s.kill()
		}
	}()
	var all []*contestant
	for _, c := range present {
		if started[c.product] == nil {
			s, err := c.product.launch(ctx, filepath.Join(b.dir, "one"), 1)
			if err != nil {
				b.failed("starting a server", c.name, err)
				continue
			}
			started[c.product] = s
		}
		c.servers = started[c.product]
		all = append(all, c)
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"W1", func() {
			if err := b.measureFloor(ctx); err != nil {
				b.failed("floor", "the machine", err)
			}
			for _, n := range []int{1, 16, 64, 256} {
				b.measureLocks(ctx, w1, all, load.Pairs, n)
			}
		}},
		{"W2", func() {
			for _, n := range []int{8, 64} {
				b.measureLocks(ctx, w2, all, load.HandOver, n)
			}
		}},
		{"W3", func() {
			for _, n := range []int{watchers / 10, watchers} {
				b.measureWatch(ctx, all, n)
			}
		}},
		{"W5", func() { b.measureList(ctx, all, members) }},
		{"W6", func() {
			// the stub knows no timeouts
			b.measureCut(ctx, slices.DeleteFunc(slices.Clone(all),
				func(c *contestant) bool { return c.name == bare }))
		}},
	}
	b.warm(ctx, all)
	for _, s := range steps {
		if wanted(s.name) && ctx.Err() == nil {
			say(s.name)
			s.do()
		}
	}
	for _, s := range started { // idle sessions have the machine for themselves
		s.kill()
	}
	if wanted("W4") && ctx.Err() == nil {
		say("W4")
		b.measureIdle(ctx, all)
	}
}

// say shows the progress.
func say(what string) { fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.TimeOnly), what) }

// clusters measures what three servers of coordd and of etcd do.
func (b *bench) clusters(ctx context.Context, wanted func(string) bool, all []*contestant) {
	if !wanted("W1x3") && !wanted("W7") || ctx.Err() != nil {
		return
	}
	var running []*contestant
	defer func() {
		for _, c := range running {
			c.servers.kill()
		}
	}()
	for _, c := range all {
		if c.client.roam == nil || c.name == bare {
			continue
		}
		s, err := c.product.launch(ctx, filepath.Join(b.dir, "three"), clusterSize)
		if err != nil {
			b.failed("starting three servers", c.name, err)
			continue
		}
		running = append(running, &contestant{c.name, c.client, c.product, s})
	}
	b.warm(ctx, running)
	if wanted("W1x3") {
		say("W1 on three servers")
		b.measureCluster(ctx, running)
	}
	if wanted("W7") {
		say("W7")
		b.measureFailOver(ctx, running)
	}
}
