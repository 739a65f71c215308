package compat_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
	"github.com/ydb-platform/ydb-go-sdk/v3/scheme"
)

// A node is created, altered field by field, described as it was stored, and dropped.
func TestNode(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	nodes := open(t, startServer(t).Endpoint()).Coordination()

	first := coordination.NodeConfig{
		SelfCheckPeriodMillis:    1234,
		SessionGracePeriodMillis: 5678,
		ReadConsistencyMode:      coordination.ConsistencyModeStrict,
		AttachConsistencyMode:    coordination.ConsistencyModeRelaxed,
		RatelimiterCountersMode:  coordination.RatelimiterCountersModeDetailed,
	}
	if err := nodes.CreateNode(ctx, testNode, first); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, nodes, first)

	// Creating it again succeeds and changes nothing.
	if err := nodes.CreateNode(ctx, testNode, coordination.NodeConfig{SelfCheckPeriodMillis: 1}); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, nodes, first)

	// Fields that are not set keep their value.
	if err := nodes.AlterNode(ctx, testNode,
		coordination.NodeConfig{SessionGracePeriodMillis: 8765}); err != nil {
		t.Fatal(err)
	}
	altered := first
	altered.SessionGracePeriodMillis = 8765
	wantConfig(t, nodes, altered)

	if err := nodes.DropNode(ctx, testNode); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"describe": func() error { _, _, err := nodes.DescribeNode(ctx, testNode); return err }(),
		"alter":    nodes.AlterNode(ctx, testNode, first),
		"drop":     nodes.DropNode(ctx, testNode),
	} {
		if !ydb.IsOperationErrorSchemeError(err) {
			t.Errorf("%s a dropped node: %v, want SCHEME_ERROR", what, err)
		}
	}
}

// A config is neither checked nor filled in; values out of range are bounded where they are used.
func TestNodeConfigIsStoredAsSent(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	nodes := open(t, startServer(t).Endpoint()).Coordination()
	for _, config := range []coordination.NodeConfig{
		{},
		{SelfCheckPeriodMillis: 10, SessionGracePeriodMillis: 10},
		{SelfCheckPeriodMillis: 1<<32 - 1, SessionGracePeriodMillis: 1<<32 - 1},
	} {
		if err := nodes.CreateNode(ctx, testNode, config); err != nil {
			t.Fatal(err)
		}
		wantConfig(t, nodes, config)
		if err := nodes.DropNode(ctx, testNode); err != nil {
			t.Fatal(err)
		}
	}
}

// Directories on the way to a node come into being with it, and the scheme service sees it all.
func TestNodeInDirectories(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	db := open(t, startServer(t).Endpoint())
	if err := db.Scheme().MakeDirectory(ctx, "/local/made"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/local/made/node", "/local/a/b/node"} {
		if err := db.Coordination().CreateNode(ctx, path, coordination.NodeConfig{}); err != nil {
			t.Fatal(err)
		}
		entry, err := db.Scheme().DescribePath(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Name != "node" || entry.Type != scheme.EntryCoordinationNode {
			t.Errorf("%s is %+v, want a coordination node", path, entry)
		}
	}
	root, err := db.Scheme().ListDirectory(ctx, "/local")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "made"} {
		if !slices.ContainsFunc(root.Children, func(e scheme.Entry) bool {
			return e.Name == name && e.Type == scheme.EntryDirectory
		}) {
			t.Errorf("no directory %s in %+v", name, root.Children)
		}
	}
	if err := db.Coordination().DropNode(ctx, "/local/made/node"); err != nil {
		t.Fatal(err)
	}
	if err := db.Scheme().RemoveDirectory(ctx, "/local/made"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Scheme().DescribePath(ctx, "/local/made"); !ydb.IsOperationErrorSchemeError(err) {
		t.Errorf("describe a removed directory: %v, want SCHEME_ERROR", err)
	}
}

// Paths that lead nowhere are refused, and a session on one ends with its caller's context.
func TestWrongNodePath(t *testing.T) {
	c := newNode(t)
	ctx := testContext(t)
	nodes := c.Coordination()

	err := nodes.CreateNode(ctx, "/elsewhere/node", coordination.NodeConfig{})
	if !ydb.IsOperationError(err, Ydb.StatusIds_BAD_REQUEST) ||
		!strings.Contains(err.Error(), "not in database") {
		t.Errorf("create outside of the database: %v, want BAD_REQUEST", err)
	}
	if err := nodes.DropNode(ctx, testNode+"/"); !ydb.IsOperationError(err, Ydb.StatusIds_BAD_REQUEST) {
		t.Errorf("drop with a slash at the end: %v, want BAD_REQUEST", err)
	}
	if _, _, err := nodes.DescribeNode(ctx, "/local/compat"); !ydb.IsOperationErrorSchemeError(err) {
		t.Errorf("describe a directory as a node: %v, want SCHEME_ERROR", err)
	}

	// The SDK tries again for as long as its caller lets it, whatever the server says.
	attempt, giveUp := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := nodes.Session(attempt, "/local/compat/missing")
		ended <- err
	}()
	eventually(t, "the server says that the node is missing", func() bool {
		return c.seen.failure(Ydb.StatusIds_NOT_FOUND, "Kesus not found")
	})
	giveUp()
	if err := receive(t, "the end of the attempt", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("session on a missing node: %v, want the context's error", err)
	}

	// Nobody else is harmed.
	create(t, c.session(), "semaphore", 1)
}

// Dropping a node under a holder ends its stream, and its lease when the session timeout has passed.
func TestDropNodeUnderHolder(t *testing.T) {
	c := newNode(t)
	s := c.session(options.WithSessionTimeout(time.Second))
	lease := acquire(t, s, "lock", coordination.Exclusive, options.WithEphemeral(true))

	if err := c.Coordination().DropNode(testContext(t), testNode); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server ends the stream", func() bool {
		return c.seen.failure(Ydb.StatusIds_UNAVAILABLE, "Link failure")
	})
	receive(t, "the end of the lease", lease.Context().Done())

	// A new node on the same path starts from scratch.
	c.createNode()
	if d := describe(t, c.session(), "lock"); d.Name != "" {
		t.Errorf("the lock outlived its node: %v", d)
	}
}

// The server lists itself as the only endpoint, and an anonymous caller is nobody.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	db := open(t, server.Endpoint())
	endpoints, err := db.Discovery().Discover(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(endpoints) != 1 || endpoints[0].Address() != server.Address || endpoints[0].NodeID() == 0 {
		t.Errorf("endpoints %v, want %s alone with a node id", endpoints, server.Address)
	}
	if _, err := db.Discovery().WhoAmI(testContext(t)); !ydb.IsOperationError(err,
		Ydb.StatusIds_GENERIC_ERROR) {
		t.Errorf("who am I without a token: %v, want GENERIC_ERROR", err)
	}
}

func wantConfig(t *testing.T, nodes coordination.Client, want coordination.NodeConfig) {
	t.Helper()
	entry, config, err := nodes.DescribeNode(testContext(t), testNode)
	if err != nil {
		t.Fatal(err)
	}
	if entry.Name != "node" || entry.Type != scheme.EntryCoordinationNode {
		t.Errorf("node is described as %+v", entry)
	}
	if *config != want {
		t.Errorf("config %+v, want %+v", *config, want)
	}
}
