// Command workers shows service discovery and leader election: workers publish where they can be reached and
// elect one of them as leader; a watcher lists them and hears of every change.
//
//	workers -endpoint 10.0.0.1:8080   # a worker, start as many as you like
//	workers -watch                    # prints the leader and all workers whenever they change
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

const (
	node    = "/local/examples/workers" // the coordination node that workers and watchers share
	members = "members"                 // semaphore without a limit: every worker is one of its owners
	leader  = "leader"                  // semaphore with one token: its owner leads
)

func main() {
	endpoint := flag.String("endpoint", "", "run a worker that can be reached at this `host:port`")
	watch := flag.Bool("watch", false, "watch the workers instead of being one")
	flag.Parse()
	if *watch == (*endpoint != "") {
		fmt.Fprintln(os.Stderr, "say either -endpoint host:port or -watch")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	play := watchWorkers
	if !*watch {
		play = func(ctx context.Context, session coordination.Session) error {
			return serve(ctx, session, *endpoint)
		}
	}
	if err := run(ctx, play); err != nil {
		log.Fatal(err)
	}
}

// run plays a role until ctx ends. A role ends early when its session is lost, because the network or the
// process stood still for longer than the session timeout; it then starts again with a new session.
func run(ctx context.Context, play func(context.Context, coordination.Session) error) error {
	db, err := ydb.Open(ctx, cmp.Or(os.Getenv("YDB_CONNECTION_STRING"), "grpc://127.0.0.1:2136/local"))
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	// Creating a node that exists is no error and leaves it as it is.
	if err := db.Coordination().CreateNode(ctx, node, coordination.NodeConfig{}); err != nil {
		return err
	}

	for ctx.Err() == nil {
		err := withSession(ctx, db, play)
		if ctx.Err() == nil && !errors.Is(err, errSessionLost) {
			return err
		}
	}
	return nil
}

// errSessionLost is returned when everything the session held is gone.
var errSessionLost = errors.New("session lost")

// withSession opens a session, makes sure of the two semaphores, and plays the role on a context that ends
// with ctx or with the session.
func withSession(ctx context.Context, db *ydb.Driver,
	play func(context.Context, coordination.Session) error) error {
	session, err := db.Coordination().Session(ctx, node,
		// The keep-alive timeout must be the shorter one, or a worker with a silent connection believes
		// itself a member after the server has struck it off.
		options.WithSessionTimeout(3*time.Second),
		options.WithSessionKeepAliveTimeout(2*time.Second),
	)
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))

	alive, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(session.Context(), func() { stop(errSessionLost) })()

	// The first process creates them; the SDK reports no error to the others.
	if err := session.CreateSemaphore(alive, members, coordination.MaxSemaphoreLimit); err != nil {
		return lostOr(alive, err)
	}
	if err := session.CreateSemaphore(alive, leader, 1); err != nil {
		return lostOr(alive, err)
	}
	return lostOr(alive, play(alive, session))
}

// lostOr replaces err by errSessionLost where the loss of the session has caused it, or where a request was cut off so
// that its outcome is unknown: starting afresh is the answer to both.
func lostOr(alive context.Context, err error) error {
	if errors.Is(context.Cause(alive), errSessionLost) ||
		errors.Is(err, coordination.ErrSessionClosed) ||
		errors.Is(err, coordination.ErrOperationStatusUnknown) {
		return errSessionLost
	}
	return err
}
