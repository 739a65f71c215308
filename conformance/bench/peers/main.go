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

func main() {
	var b bench
	flag.StringVar(&b.coordd, "coordd", "bin/coordd", "coordd's binary")
	etcdBinary := flag.String("etcd", "bin/etcd", "etcd's binary")
	redisBinary := flag.String("redis", "redis-server", "Redis' server")
	java := flag.String("java", "java", "the Java machine for ZooKeeper")
	jars := flag.String("zookeeper", "/usr/share/java", "where ZooKeeper's jars are")
	flag.IntVar(&b.runs, "runs", 3, "rounds; the median counts")
	seconds := flag.Float64("seconds", 1.5, "length of a turn")
	idleSeconds := flag.Float64("idle-seconds", 10,
		"how long idle sessions are measured, and left alone before")
	flag.IntVar(&b.idle, "idle", 10_000, "idle sessions of W4")
	flag.IntVar(&b.rows, "rows", 1_000_000, "semaphores, keys or znodes of W8")
	only := flag.String("only", "",
		"measure only these, such as W1,W2,W1x3 (W1 on three servers); default: all")
	peers := flag.String("peers", "", "compare only with these, such as etcd,Redis; default: all")
	dir := flag.String("dir", "",
		"where the servers keep their data: a directory on the disk to measure (default: a new one here)")
	file := flag.String("page", "", "write the tables into this page, between its marks peers and targets")
	chaos := flag.Duration("chaos", 0,
		"instead of all else, have servers stopped and killed beside busy processes for so long each, and print the share of the time with a leader")
	busy := flag.Int("busy", 16, "busy processes of -chaos")
	seed := flag.Uint64("seed", 1, "of the faults of -chaos")
	be := flag.String("be", "", "be this server: stub or echo")
	address := flag.String("listen", "", "with -be: the address")
	flag.Parse()
	b.length = time.Duration(*seconds * float64(time.Second))
	b.idleMeasure = time.Duration(*idleSeconds * float64(time.Second))
	b.settle = b.idleMeasure
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	err := func() error {
		if *be != "" {
			return serve(*be, *address)
		}
		for _, path := range []*string{&b.coordd, etcdBinary, dir} {
			if err := absolute(path); err != nil {
				return err
			}
		}
		if *dir == "" {
			made, err := os.MkdirTemp(".", "bench-data-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(made)
			if *dir, err = filepath.Abs(made); err != nil {
				return err
			}
		}
		b.dir = *dir
		if *chaos > 0 {
			own, other := newCoordd(b.coordd), newEtcd(*etcdBinary)
			return b.chaos(ctx, []*product{own, other}, map[*product]*client{own: rawClient, other: etcdClient}, *chaos, *busy, *seed)
		}
		return b.run(ctx, selection(*only), selection(*peers), newEtcd(*etcdBinary),
			newZooKeeper(*java, *jars), newRedis(*redisBinary), *file)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// absolute makes a path one that does not depend on the current folder, if it is a path.
func absolute(path *string) (err error) {
	if strings.Contains(*path, "/") {
		*path, err = filepath.Abs(*path)
	}
	return err
}

// selection is a function that tells what is in a list; without one, everything is.
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
	servers := map[string]func() *grpc.Server{"stub": stub.New, "echo": machine.NewEcho}
	if servers[what] == nil {
		return fmt.Errorf("-be %s: want stub or echo", what)
	}
	return servers[what]().Serve(listener)
}

func (b *bench) run(ctx context.Context, wanted, compared func(string) bool, etcdServer, zooServer,
	redisServer *product, file string) error {
	began, loadBefore := time.Now(), machine.Load()
	own := newCoordd(b.coordd)
	if own.absent != "" {
		return fmt.Errorf("coordd: %s", own.absent)
	}
	// The echo has been started when somebody listens.
	b.echo = newSelf("echo", func(context.Context, string) error { return nil })
	b.book = newBook()
	bareServer := newSelf("stub", attachOnce)
	all := []*contestant{
		{name: bare, client: rawClient, product: bareServer},
		{name: ours, client: rawClient, product: own},
		{name: oursSDK, client: sdkClient, product: own},
		{name: etcd, client: etcdClient, product: etcdServer},
		{name: zoo, client: zooClient, product: zooServer},
		{name: redisOf, client: redisClient, product: redisServer},
	}
	products := []*product{own, etcdServer, zooServer, redisServer}
	var present []*contestant
	for _, c := range all {
		b.book.contestants = append(b.book.contestants, c.name)
		switch {
		case c.product.absent != "":
			b.book.missing[c.name] = c.product.absent
			fmt.Fprintf(os.Stderr, "peers: %s is not measured, %s\n", c.name, c.product.absent)
		case slices.Contains(products[1:], c.product) && !compared(c.name):
			b.book.missing[c.name] = "not asked for"
		default:
			present = append(present, c)
		}
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
	text, targets := b.report(products, began, loadBefore), page.Targets(b.targets())
	fmt.Println(text + "\n" + targets)
	if file == "" {
		return nil
	}
	return errors.Join(page.Replace(file, "peers", text), page.Replace(file, "targets", targets))
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
		{"W3", func() { b.measureWatch(ctx, all, watchers) }},
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

// say tells how far it is.
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
