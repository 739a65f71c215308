package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os/signal"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/cmd/coordd/client"
	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

const (
	benchClients, benchClientsMost        = 16, 1000
	benchDuration                         = 10 * time.Second
	benchDurationLeast, benchDurationMost = 10 * time.Millisecond, time.Hour
	benchConnections                      = 16 // that the sessions share, as in conformance/bench
	benchSessionTimeout                   = 30 * time.Second
	// benchEndMost bounds how long the steps that are under way may take when a load is over.
	benchEndMost = 30 * time.Second
	// benchCleanMost bounds how long it takes to remove what was made.
	benchCleanMost = 10 * time.Second
	// benchProgress is how often a person at a terminal is told how far it is.
	benchProgress = 500 * time.Millisecond
)

const benchText = `Have sessions acquire and release semaphores as fast as they can, and show how many pairs of
the two a server does, and how long each took. The loads are those of the project's own
benchmarks:
  pairs     each session locks and unlocks a semaphore of its own
  handover  all sessions want the same one, so that it goes from one to the next

The server is busy with it: do not do this to one that others need. All is done in a node
that is made for it and dropped at the end, with the directories above it, or is the one of
--node. One that is there already is used only with --existing: then only the semaphores
that were made in it are deleted. What cannot be removed is said; if the command is killed
the node stays.

An interrupt ends the load early, and what was measured until then is shown.`

// benchFlags are the flags of `coordd bench`.
type benchFlags struct {
	callerFlags
	outputFlag
	load     string
	clients  int
	duration time.Duration
	node     string
	existing bool
}

func (p *program) benchCommand() *cobra.Command {
	f := new(benchFlags)
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a server is",
		Long:  "Measure how fast a server is.\n\n" + benchText + "\n\n" + callerText,
		Example: `  coordd bench --duration 20ms
  coordd bench --load handover --clients 4 --duration 20ms -o json`,
		Args: cmdline.NoArguments,
	}
	command.RunE = func(*cobra.Command, []string) error { return p.bench(f) }
	flags := command.Flags()
	f.declareCaller(flags)
	p.remember(command, &f.callerFlags)
	f.declareOutput(command)
	flags.StringVar(&f.load, "load", "", "pairs or handover (default: both, one after the other)")
	_ = command.RegisterFlagCompletionFunc("load",
		cobra.FixedCompletions([]string{load.Pairs.Name, load.HandOver.Name},
			cobra.ShellCompDirectiveNoFileComp))
	flags.IntVar(&f.clients, "clients", benchClients, "how many sessions there are, up to 1000")
	flags.DurationVar(&f.duration, "duration", benchDuration, "how long each load goes on, 10ms to 1h")
	flags.StringVar(&f.node, "node", "",
		"the coordination node to do it in (default: a new one below the database)")
	flags.BoolVar(&f.existing, "existing", false, "use the node of --node although it is there already")
	return command
}

// loads is what the flags ask for.
func (f *benchFlags) loads() ([]load.Kind, error) {
	switch {
	case f.clients < 1 || f.clients > benchClientsMost:
		return nil, exit.Usagef("flag --clients: value %d is not allowed: want a number from 1 to %d",
			f.clients, benchClientsMost)
	case f.duration < benchDurationLeast || f.duration > benchDurationMost:
		return nil, exit.Usagef("flag --duration: value %q is not allowed: want a time from %s to %s",
			f.duration, benchDurationLeast, serve.DurationText(benchDurationMost))
	case f.existing && f.node == "":
		return nil, exit.Usagef("flag --existing: has no meaning without --node")
	}
	all := []load.Kind{load.Pairs, load.HandOver}
	if f.load == "" {
		return all, nil
	}
	for _, kind := range all {
		if kind.Name == f.load {
			return []load.Kind{kind}, nil
		}
	}
	return nil, exit.Usagef("flag --load: value %q is not allowed: want pairs or handover", f.load)
}

// benchShown is what came of a load.
type benchShown struct {
	Node      string       `json:"node"`
	Load      string       `json:"load"`
	Clients   int          `json:"clients"`
	Seconds   float64      `json:"seconds"`
	Steps     uint64       `json:"steps"`
	PerSecond float64      `json:"per_second"`
	Millis    millisOfStep `json:"step_millis"`
}

// millisOfStep is how long the steps of a load took.
type millisOfStep struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

func millisOf(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (p *program) bench(f *benchFlags) (err error) {
	kinds, err := f.loads()
	if err == nil {
		err = f.outputFlag.check()
	}
	if err != nil {
		return err
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(asked, stop) // a second one ends the program
	ctx, cancel := context.WithTimeout(context.Background(),
		time.Duration(len(kinds))*(f.duration+benchEndMost)+connectMost)
	defer cancel()
	c, err := f.open(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	place, err := c.makePlace(ctx, f)
	if err != nil {
		return err
	}
	defer func() {
		if left := place.clean(c); left != nil {
			err = errors.Join(err, left)
		}
	}()
	b := &bench{program: p, flags: f, caller: c, place: place}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return c.aboutNode(place.node, err)
	}
	rows := f.list(p.stdout, "LOAD", "CLIENTS", "PER SECOND", "P50 MS", "P90 MS", "P99 MS", "P99.9 MS",
		"MAX MS")
	for _, kind := range kinds {
		if asked.Err() != nil {
			break
		}
		shown, err := b.run(ctx, asked, kind)
		if err != nil {
			return c.plain(err)
		}
		m := shown.Millis
		cells := []string{shown.Load, fmt.Sprint(shown.Clients), fmt.Sprintf("%.0f", shown.PerSecond)}
		for _, millis := range []float64{m.P50, m.P90, m.P99, m.P999, m.Max} {
			cells = append(cells, fmt.Sprintf("%.3f", millis))
		}
		if err := rows.add(shown, cells...); err != nil {
			return err
		}
	}
	return rows.end()
}

// benchPlace is where the load is, and what was made for it.
type benchPlace struct {
	node        string
	made        bool
	directories []string // above it, the deepest first
	prefix      string   // of the names of semaphores
	semaphores  []string // that may be there
}

// makePlace makes the node, or sees that the one that is there may be used.
func (c *caller) makePlace(ctx context.Context, f *benchFlags) (*benchPlace, error) {
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	mark := "coordd-bench-" + hex.EncodeToString(random)
	place := &benchPlace{node: c.path(mark), prefix: mark + "-"}
	if f.node != "" {
		place.node = c.path(f.node)
	}
	for above := path.Dir(place.node); above != "/" && above != c.database; above = path.Dir(above) {
		err := c.Call(ctx, Ydb_Scheme_V1.SchemeService_DescribePath_FullMethodName,
			&Ydb_Scheme.DescribePathRequest{Path: above}, nil)
		if !isMissing(err) {
			break
		}
		place.directories = append(place.directories, above)
	}
	there, err := false, error(nil)
	if f.node != "" { // what is dropped at the end must not have been there by what two answers say
		there, err = c.isNode(ctx, place.node)
	}
	if err == nil && !there {
		place.made, err = c.makeNode(ctx, place.node, nil)
	}
	if err != nil {
		return nil, err
	}
	if !place.made && !f.existing {
		return nil, fmt.Errorf("%s is there already, and may be in use: give another --node, or --existing",
			place.node)
	}
	return place, nil
}

// isNode reports whether there is a coordination node.
func (c *caller) isNode(ctx context.Context, path string) (bool, error) {
	err := c.Call(ctx, Ydb_Coordination_V1.CoordinationService_DescribeNode_FullMethodName,
		&Ydb_Coordination.DescribeNodeRequest{Path: path}, nil)
	switch {
	case err == nil:
		return true, nil
	case isMissing(err): // or something else, which the attempt to make a node says
		return false, nil
	}
	return false, c.aboutPath(path, err)
}

// isMissing reports whether a call was refused because there is no such path or semaphore.
func isMissing(err error) bool {
	refused := client.StatusOf(err)
	return refused == Ydb.StatusIds_SCHEME_ERROR || refused == Ydb.StatusIds_NOT_FOUND
}

// clean removes what was made. The result says what is left.
func (b *benchPlace) clean(c *caller) error {
	ctx, cancel := context.WithTimeout(context.Background(), benchCleanMost)
	defer cancel()
	if !b.made {
		if len(b.semaphores) == 0 {
			return nil
		}
		err := c.withSession(ctx, b.node, "bench", func(s *client.Session) error {
			for _, name := range b.semaphores {
				if err := s.Delete(ctx, name, true); err != nil && !isMissing(err) {
					return aboutSemaphore(name, err)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("semaphores whose names begin with %q are left in %s: %w", b.prefix, b.node,
				err)
		}
		return nil
	}
	if err := c.dropNode(ctx, b.node); err != nil && !isMissing(err) {
		return fmt.Errorf("the node is left; `coordd node drop %s` drops it: %w", b.node, err)
	}
	for _, directory := range b.directories { // one that others have put something into stays
		if c.removeDirectory(ctx, directory) != nil {
			break
		}
	}
	return nil
}

// bench is the sessions that a load is done by.
type bench struct {
	program  *program
	flags    *benchFlags
	caller   *caller
	place    *benchPlace
	clients  []*client.Client
	sessions []*client.Session
}

// open opens the sessions.
func (b *bench) open(ctx context.Context) error {
	login := &sharedLogin{login: b.caller.config.Login}
	for range min(benchConnections, b.flags.clients) {
		config := b.caller.config
		if config.Login != nil {
			config.Login = login.ofOne()
		}
		b.clients = append(b.clients, client.New(config))
	}
	b.sessions = make([]*client.Session, b.flags.clients)
	config := client.SessionConfig{Node: b.place.node, Timeout: benchSessionTimeout,
		Description: describedAs("bench", nil)}
	return load.Together(b.clients, func(first int, c *client.Client) error {
		for i := first; i < len(b.sessions); i += len(b.clients) {
			s, err := c.Open(ctx, config)
			if err != nil {
				return err
			}
			b.sessions[i] = s
		}
		return nil
	})
}

func (b *bench) close() {
	ctx, cancel := context.WithTimeout(context.Background(), benchCleanMost)
	defer cancel()
	_ = load.Together(b.sessions, func(_ int, s *client.Session) error {
		if s == nil {
			return nil
		}
		return s.Close(ctx) // it ends by itself otherwise
	})
	for _, c := range b.clients {
		c.Close()
	}
}

// run does a load until its time is over, or asked ends.
func (b *bench) run(ctx, asked context.Context, kind load.Kind) (*benchShown, error) {
	names := kind.Semaphores(b.place.prefix, len(b.sessions))
	for i, name := range names {
		b.place.semaphores = append(b.place.semaphores, name)
		if err := b.sessions[i].Create(ctx, name, 1, nil); err != nil {
			return nil, aboutSemaphore(name, err)
		}
	}
	whole, cancel := context.WithTimeout(ctx, b.flags.duration+benchEndMost)
	defer cancel()
	context.AfterFunc(asked, func() { time.AfterFunc(benchEndMost, cancel) })
	over, end := context.WithTimeout(asked, b.flags.duration)
	defer end()
	steps := make([]*benchSession, len(b.sessions))
	for i, s := range b.sessions {
		steps[i] = &benchSession{ctx: whole, cancel: cancel, session: s}
	}
	took := new(load.Histogram)
	told := b.showProgress(over, kind, took)
	elapsed, err := load.Run(kind, b.place.prefix, steps, over.Done(), took)
	end()
	<-told
	if err != nil {
		return nil, firstCause(steps, err)
	}
	millis := func(p float64) float64 { return millisOf(took.Percentile(p)) }
	return &benchShown{Node: b.place.node, Load: kind.Name, Clients: len(steps), Seconds: elapsed.Seconds(),
		Steps: took.Count(), PerSecond: float64(took.Count()) / elapsed.Seconds(),
		Millis: millisOfStep{millis(50), millis(90), millis(99), millis(99.9), millisOf(took.Max())}}, nil
}

// benchSession is a session in a load. When it fails all of them end: others may wait for what it holds.
type benchSession struct {
	ctx     context.Context
	cancel  context.CancelFunc
	session *client.Session
	failed  error
}

func (s *benchSession) fail(err error) error {
	if err != nil && s.ctx.Err() == nil {
		s.failed = err
		s.cancel()
	}
	return err
}

// Acquire is part of load.Session.
func (s *benchSession) Acquire(name string, count uint64) error {
	acquired, err := s.session.Acquire(s.ctx,
		client.Acquisition{Name: name, Count: count, Wait: client.Forever})
	if err == nil && !acquired {
		err = fmt.Errorf("%q was not acquired", name)
	}
	return s.fail(err)
}

// Release is part of load.Session.
func (s *benchSession) Release(name string) error {
	_, err := s.session.Release(s.ctx, name)
	return s.fail(err)
}

// firstCause is why a load has failed: of all sessions, the one that has ended the others says it.
func firstCause(sessions []*benchSession, err error) error {
	for _, s := range sessions {
		if s.failed != nil {
			return s.failed
		}
	}
	return err
}

// showProgress tells a person at a terminal how far a load is. The result is closed when nothing more is
// said.
func (b *bench) showProgress(over context.Context, kind load.Kind, took *load.Histogram) <-chan struct{} {
	told := make(chan struct{})
	file := terminalOf(b.program.stderr)
	if file == nil {
		close(told)
		return told
	}
	begun := time.Now()
	go func() {
		defer close(told)
		defer fmt.Fprint(file, "\r\x1b[K")
		every := time.NewTicker(benchProgress)
		defer every.Stop()
		for last := uint64(0); ; {
			n := took.Count()
			part := min(float64(time.Since(begun))/float64(b.flags.duration), 1)
			fmt.Fprintf(file, "\r\x1b[K%s, %s  [%-20s] %3.0f %%  %.0f/s  p50 %.3f ms  p99 %.3f ms",
				kind.Name, counted(b.flags.clients, "client"), strings.Repeat("#", int(20*part)), 100*part,
				float64(n-last)/benchProgress.Seconds(), millisOf(took.Percentile(50)),
				millisOf(took.Percentile(99)))
			last = n
			select {
			case <-over.Done():
				return
			case <-every.C:
			}
		}
	}()
	return told
}

// sharedLogin has several clients log in once.
type sharedLogin struct {
	login func(context.Context, *grpc.ClientConn) (string, error)

	mu    sync.Mutex
	token string
}

// ofOne is the login of one of the clients. When its token is refused it takes the one that another client
// has got since, or logs in.
func (l *sharedLogin) ofOne() func(context.Context, *grpc.ClientConn) (string, error) {
	last := ""
	return func(ctx context.Context, conn *grpc.ClientConn) (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.token == "" || l.token == last {
			token, err := l.login(ctx, conn)
			if err != nil {
				return "", err
			}
			l.token = token
		}
		last = l.token
		return last, nil
	}
}
