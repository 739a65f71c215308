// Command quickstart takes a lock, holds it for a moment and gives it back.
package main

import (
	"cmp"
	"context"
	"log"
	"os"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

func main() {
	ctx := context.Background()
	db, err := ydb.Open(ctx, cmp.Or(os.Getenv("YDB_CONNECTION_STRING"), "grpc://127.0.0.1:2136/local"))
	check(err)
	defer db.Close(ctx)
	check(db.Coordination().CreateNode(ctx, "/local/locks", coordination.NodeConfig{})) // fine if it exists
	session, err := db.Coordination().Session(ctx, "/local/locks")
	check(err)
	// ends the stream only: the session, and what it still holds, lives on until its timeout, as after a crash
	defer session.Close(ctx)
	lease, err := session.AcquireSemaphore(ctx, "my-lock", coordination.Exclusive,
		options.WithEphemeral(true))
	check(err)
	log.Printf("session %d holds my-lock; nobody else does", session.SessionID())
	check(lease.Release())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
