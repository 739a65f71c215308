package standin_test

import (
	"testing"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"

	"github.com/coordd/coordd/server/standin"
)

// TestLock is the whole of a test: one line makes the server, another looks into it.
func TestLock(t *testing.T) {
	s := standin.Start(t)
	db, err := ydb.Open(t.Context(), s.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())

	takeTheLock(t, db) // the code under test

	s.AwaitOwners("locks", "my-lock", 1)
}

// takeTheLock stands for a program.
func takeTheLock(t *testing.T, db *ydb.Driver) {
	ctx := t.Context()
	if err := db.Coordination().CreateNode(ctx, "/local/locks", coordination.NodeConfig{}); err != nil {
		t.Fatal(err)
	}
	session, err := db.Coordination().Session(ctx, "/local/locks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.AcquireSemaphore(ctx, "my-lock", coordination.Exclusive,
		options.WithEphemeral(true)); err != nil {
		t.Fatal(err)
	}
}
