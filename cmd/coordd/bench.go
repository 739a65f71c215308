package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/load"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
)

const (
	benchClients, benchClientsMost        = 16, 1000
	benchDuration                         = 10 * time.Second
	benchDurationLeast, benchDurationMost = 10 * time.Millisecond, time.Minute // its times take 20 MB
	benchConnections                      = 16                                 // that the sessions share, as in conformance/bench
	// benchSetupMost bounds all that happens before the load, and after it.
	benchSetupMost = 30 * time.Second
)

const benchText = `Have sessions lock and unlock as fast as they can, each a semaphore of its own, and show how
many pairs of the two a server does in a second, and how long a pair takes. That is load W1 of
the project's own benchmarks.

The server is busy with it: do not do this to one that others need. All is done in a new node
below the database, which is dropped at the end; if the command is killed it stays.

An interrupt ends the load early, and what was measured until then is shown.`

// benchFlags are the flags of `coordd bench`.
type benchFlags struct {
	callerFlags
	outputFlag
	clients  int
	duration time.Duration
}

func benchCommand(env *cmdline.Env) *cobra.Command {
	f := new(benchFlags)
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a server is",
		Long:  "Measure how fast a server is.\n\n" + benchText + "\n\n" + callerText,
		Example: `  coordd bench --duration 20ms
  coordd bench --clients 4 --duration 20ms -o json`,
		Args: cmdline.NoArguments,
	}
	command.RunE = func(*cobra.Command, []string) error { return runBench(env, f) }
	flags := command.Flags()
	f.declareCaller(env, command)
	f.declareOutput(command)
	flags.IntVar(&f.clients, "clients", benchClients, "how many sessions there are, up to 1000")
	flags.DurationVar(&f.duration, "duration", benchDuration, "how long the load goes on, 10ms to 1m")
	return command
}

func (f *benchFlags) check() error {
	switch {
	case f.clients < 1 || f.clients > benchClientsMost:
		return exit.Usagef("flag --clients: value %d is not allowed: want a number from 1 to %d",
			f.clients, benchClientsMost)
	case f.duration < benchDurationLeast || f.duration > benchDurationMost:
		return exit.Usagef("flag --duration: value %q is not allowed: want a time from %s to %s",
			f.duration, benchDurationLeast, serve.DurationText(benchDurationMost))
	}
	return f.outputFlag.check()
}

// benchShown is the result of a load.
type benchShown struct {
	Clients   int          `json:"clients"`
	Seconds   float64      `json:"seconds"`
	Pairs     int          `json:"pairs"`
	PerSecond float64      `json:"per_second"`
	Millis    millisOfPair `json:"pair_millis"`
}

// millisOfPair is the distribution of the times of the pairs.
type millisOfPair struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (s *benchShown) text(w io.Writer) {
	fmt.Fprintf(w, "%s, %.0f pairs/s: p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, longest %.3f ms\n",
		counted(s.Clients, "client"), s.PerSecond, s.Millis.P50, s.Millis.P90, s.Millis.P99, s.Millis.Max)
}

func runBench(env *cmdline.Env, f *benchFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(asked, stop) // a second one ends the program
	ctx, cancel := context.WithTimeout(context.Background(), f.duration+benchSetupMost)
	defer cancel()
	c, err := f.open(ctx, env)
	if err != nil {
		return err
	}
	defer c.Close()
	node := c.path("coordd-bench-" + rand.Text())
	if _, err := c.makeNode(ctx, node, nil); err != nil {
		return c.plain(err)
	}
	shown, err := c.benchIn(ctx, asked, node, f)
	if err := errors.Join(c.plain(err), c.dropBenchNode(node)); err != nil {
		return err
	}
	return f.one(env.Stdout, shown, shown.text)
}

// dropBenchNode drops the node, unless that is done already.
func (c *caller) dropBenchNode(node string) error {
	ctx, cancel := context.WithTimeout(context.Background(), benchSetupMost)
	defer cancel()
	if err := c.dropNode(ctx, node); err != nil && !isMissing(err) {
		return fmt.Errorf("the node is left; `coordd node drop %s` drops it: %w", node, err)
	}
	return nil
}

// isMissing reports whether a call was refused because there is no such path or semaphore.
func isMissing(err error) bool {
	refused := protocol.StatusOf(err)
	return refused == Ydb.StatusIds_SCHEME_ERROR || refused == Ydb.StatusIds_NOT_FOUND
}

// benchIn runs the load until its time is over, or asked ends.
func (c *caller) benchIn(ctx, asked context.Context, node string, f *benchFlags) (*benchShown, error) {
	sessions := make([]*protocol.Session, f.clients)
	clients, err := c.benchClients(ctx, min(benchConnections, f.clients))
	if err != nil {
		return nil, err
	}
	defer func() { // the sessions end with the node
		for _, s := range sessions {
			if s != nil {
				s.Abandon()
			}
		}
		for _, one := range clients {
			one.Close()
		}
	}()
	config := protocol.SessionConfig{Node: node, Timeout: benchSetupMost, Description: describedAs("bench", nil)}
	err = load.Together(sessions, func(i int, _ *protocol.Session) (err error) {
		if sessions[i], err = clients[i%len(clients)].Open(ctx, config); err != nil {
			return c.aboutNode(node, err)
		}
		return sessions[i].Create(ctx, benchLock(i), 1, nil)
	})
	if err != nil {
		return nil, err
	}
	over, end := context.WithTimeout(asked, f.duration)
	defer end()
	took, elapsed, err := load.Loop(sessions, over.Done(), func(i int, s *protocol.Session) error {
		acquired, err := s.Acquire(ctx, protocol.Acquisition{Name: benchLock(i), Count: 1, Wait: protocol.Forever})
		if err == nil && !acquired {
			err = fmt.Errorf("%q was not acquired", benchLock(i))
		}
		if err == nil {
			_, err = s.Release(ctx, benchLock(i))
		}
		return err
	})
	millis := func(p float64) float64 { return float64(took.Percentile(p).Microseconds()) / 1000 }
	return &benchShown{Clients: f.clients, Seconds: elapsed.Seconds(), Pairs: len(took),
		PerSecond: float64(len(took)) / elapsed.Seconds(),
		Millis:    millisOfPair{millis(50), millis(90), millis(99), millis(100)}}, err
}

// benchLock is the name of the i-th session's semaphore.
func benchLock(i int) string { return fmt.Sprint("own-", i) }

// benchClients makes clients with a connection each, and one login for all of them.
func (c *caller) benchClients(ctx context.Context, n int) ([]*protocol.Client, error) {
	config := c.config
	if config.Login != nil {
		conn, err := c.Conn()
		if err != nil {
			return nil, err
		}
		token, err := config.Login(ctx, conn)
		if err != nil {
			return nil, err
		}
		config.Login = func(context.Context, *grpc.ClientConn) (string, error) { return token, nil }
	}
	clients := make([]*protocol.Client, n)
	for i := range clients {
		clients[i] = protocol.New(config)
	}
	return clients, nil
}
