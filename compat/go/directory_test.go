package compat_test

import (
	"path"
	"testing"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/config"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
	"github.com/ydb-platform/ydb-go-sdk/v3/scheme"
	"github.com/ydb-platform/ydb-go-sdk/v3/sugar"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
)

// The steps of the SDK's own test of its recursive helpers, as far as they are about directories.
func TestMakeAndRemoveRecursive(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).Endpoint())
	ctx := testContext(t)
	folder := path.Join(db.Name(), "sugar")
	prefix := path.Join(folder, "path", "to", "tables")
	if err := sugar.MakeRecursive(ctx, db, path.Join(".sys", folder, "path")); err == nil {
		t.Error("a directory of the system's is made")
	}
	for range 2 { // one that exists is fine
		if err := sugar.MakeRecursive(ctx, db, prefix); err != nil {
			t.Fatal(err)
		}
	}
	if err := sugar.MakeRecursive(ctx, db, path.Join(prefix, "and", "another", "child")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one that is not there is fine
		if err := sugar.RemoveRecursive(ctx, db, folder); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Scheme().ListDirectory(ctx, folder); !ydb.IsOperationErrorSchemeError(err) {
			t.Errorf("list what was removed: %v", err)
		}
	}
}

// mkdir, describe, list, rmdir under the database.
func TestDirectories(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).Endpoint())
	ctx := testContext(t)
	directory := path.Join(db.Name(), "a", "b")
	if err := db.Scheme().MakeDirectory(ctx, directory); err != nil {
		t.Fatal(err)
	}
	if err := db.Coordination().CreateNode(ctx, path.Join(directory, "node"),
		coordination.NodeConfig{}); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]scheme.Entry{
		db.Name():                    {Name: "local", Type: scheme.EntryDatabase},
		directory:                    {Name: "b", Type: scheme.EntryDirectory},
		path.Join(directory, "node"): {Name: "node", Type: scheme.EntryCoordinationNode},
	} {
		entry, err := db.Scheme().DescribePath(ctx, where)
		if err != nil || entry.Name != want.Name || entry.Type != want.Type || entry.Owner == "" {
			t.Errorf("%s: got %+v, %v, want %+v", where, entry, err, want)
		}
	}
	list, err := db.Scheme().ListDirectory(ctx, directory)
	if err != nil || len(list.Children) != 1 || list.Children[0].Name != "node" ||
		list.Children[0].Type != scheme.EntryCoordinationNode {
		t.Errorf("got %+v, %v", list, err)
	}
	if err := db.Scheme().RemoveDirectory(ctx, directory); !ydb.IsOperationErrorSchemeError(err) {
		t.Errorf("remove one that is not empty: %v", err)
	}
	if err := db.Coordination().DropNode(ctx, path.Join(directory, "node")); err != nil {
		t.Fatal(err)
	}
	if err := db.Scheme().RemoveDirectory(ctx, directory); err != nil {
		t.Error(err)
	}
	if err := db.Scheme().RemoveDirectory(ctx, directory); !ydb.IsOperationErrorSchemeError(err) {
		t.Errorf("remove it again: %v", err)
	}
}

// Permissions are kept and shown although nothing is enforced.
func TestModifyPermissions(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).Endpoint())
	db.createNode()
	db.grant("/local", "alice", "ydb.generic.read")
	db.grant(testNode, "bob", "ydb.generic.write", "ydb.generic.list")
	db.revoke(testNode, "bob", "ydb.generic.list")
	ctx := testContext(t)
	if err := db.Scheme().ModifyPermissions(ctx, testNode, scheme.WithChangeOwner("carol")); err != nil {
		t.Fatal(err)
	}
	entry, err := db.Scheme().DescribePath(ctx, testNode)
	if err != nil {
		t.Fatal(err)
	}
	if entry.Owner != "carol" || len(entry.Permissions) != 1 || entry.Permissions[0].Subject != "bob" ||
		len(entry.EffectivePermissions) != 2 {
		t.Errorf("got %+v", entry)
	}
	if err := db.Scheme().ModifyPermissions(ctx, testNode, scheme.WithGrantPermissions(scheme.Permissions{
		Subject: "bob", PermissionNames: []string{"ydb.generic.everything"}})); !ydb.IsOperationError(err) {
		t.Errorf("an unknown name: %v", err)
	}
}

// Everything that the SDK sends, unary calls and the stream, goes through gzip.
func TestCompression(t *testing.T) {
	t.Parallel()
	compressed := config.WithGrpcOptions(grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	db := open(t, startServer(t).Endpoint(), ydb.With(compressed))
	db.createNode()
	ctx := testContext(t)
	if _, err := db.Discovery().Discover(ctx); err != nil {
		t.Error(err)
	}
	if _, err := db.Scheme().ListDirectory(ctx, "/local"); err != nil {
		t.Error(err)
	}
	data := make([]byte, 1<<20)
	session := db.session()
	if _, err := session.AcquireSemaphore(ctx, "lock", coordination.Exclusive, options.WithEphemeral(true),
		options.WithAcquireData(data)); err != nil {
		t.Fatal(err)
	}
	described, err := session.DescribeSemaphore(ctx, "lock", options.WithDescribeOwners(true))
	if err != nil || len(described.Owners) != 1 || len(described.Owners[0].Data) != len(data) {
		t.Errorf("got %v", err)
	}
}
