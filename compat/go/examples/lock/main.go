// Command lock lets three tellers pay into one account, one at a time, under a distributed lock. At the end a process
// writes with the token of the first holder, as if it had slept through the loss of its lock, and the account refuses.
//
// lock.go is the part to copy; account.go is the resource's use of the token.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
)

const (
	// the coordination node; all programs that share the lock name the same one
	node     = "/local/examples/lock"
	lockName = "account"
	tellers  = 3
	payments = 5 // of 10 each, by every teller
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, err := ydb.Open(ctx, cmp.Or(os.Getenv("YDB_CONNECTION_STRING"), "grpc://127.0.0.1:2136/local"))
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))

	// Creating a node that exists is no error and leaves it as it is.
	if err := db.Coordination().CreateNode(ctx, node, coordination.NodeConfig{}); err != nil {
		return err
	}

	var (
		shared  account
		failed  = make([]error, tellers)
		running sync.WaitGroup
	)
	for i := range tellers {
		running.Go(func() { failed[i] = teller(ctx, db, i+1, &shared) })
	}
	running.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}

	fmt.Printf("balance %d\n", shared.balance)
	if err := shared.write(1, 0); err != nil {
		fmt.Printf("late write refused: %v\n", err)
	}
	return nil
}

// teller pays in again and again, under the lock every time.
func teller(ctx context.Context, db *ydb.Driver, number int, shared *account) error {
	session, err := db.Coordination().Session(ctx, node, sessionOptions...)
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))

	for range payments {
		err := withLock(ctx, session, lockName, func(ctx context.Context, token uint64) error {
			balance, err := shared.read(token)
			if err != nil {
				return err
			}
			// Anything slow goes here and ends when ctx does.
			fmt.Printf("token %d: teller %d pays into %d\n", token, number, balance)
			return shared.write(token, balance+10)
		})
		if err != nil {
			return fmt.Errorf("teller %d: %w", number, err)
		}
	}
	return nil
}
