package server

import (
	"context"
	"errors"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

// TestVersionGate runs a rolling upgrade to a program of a later version in which some commands are new: they
// are refused until the last server has been upgraded, the others are not; and then there is no way back.
func TestVersionGate(t *testing.T) {
	later := coordination.Formats{Version: codec.Version + 1, Since: func(c coordination.Command) uint64 {
		switch c.(type) {
		case *coordination.CreateSemaphore, *coordination.MakeDirectory:
			return codec.Version + 1
		}
		return codec.Since(c)
	}}
	const old = "server-2"
	upgraded := false
	c := startClusterWith(t, 3, func(config *Config) {
		if upgraded || config.Cluster.Name != old {
			config.hooks.Formats = later
		}
	})
	c.leadWith(0)
	c.createNode(0, testNode)
	c.awaitFormat(codec.Version)                                   // all have announced it
	stream := openTest(t, t.Context(), c.conns[1], start(600_000)) // through a server that does not lead
	next(t, stream)
	send(t, stream, acquire(1, "lock", nil))
	if r := next(t, stream); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
	create := &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 2, Name: "new", Limit: 1}}}
	send(t, stream, create)
	if f := next(t, stream).GetFailure(); f.GetStatus() != Ydb.StatusIds_UNAVAILABLE ||
		f.GetIssues()[0].GetMessage() != coordination.NotYetReadable.Text {
		t.Errorf("got %v", f)
	}
	if got := makeDirectory(t, c.conns[1], "/local/early"); got != Ydb.StatusIds_UNAVAILABLE {
		t.Errorf("make a directory: %v", got)
	}

	c.stop(2)
	upgraded = true
	if err := c.start(2); err != nil {
		t.Fatal(err)
	}
	c.eventually("the last server to publish its version",
		func() bool { return makeDirectory(t, c.conns[1], "/local/late") == Ydb.StatusIds_SUCCESS })
	stream = openTest(t, t.Context(), c.conns[1], start(600_000))
	next(t, stream)
	send(t, stream, create)
	if r := next(t, stream).GetCreateSemaphoreResult(); r.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", r)
	}

	c.eventually("all to know", func() bool { return c.servers[2].store.ClusterVersion() == codec.Version+1 })
	c.awaitFormat(codec.Version + 1)
	c.stop(2)
	upgraded = false
	var refused *raftstore.VersionError
	if err := c.start(2); !errors.As(err, &refused) || refused.Cluster != codec.Version+1 ||
		refused.Own != codec.Version {
		t.Errorf("the older program started: %v", err)
	}
}

// TestVersionsNotKnown has a server of a new cluster be late: what it can read is not known, which is no word
// about its program, and what only a later one can read is refused with that until it has come.
func TestVersionsNotKnown(t *testing.T) {
	formats := coordination.Formats{Version: codec.Version, Since: func(c coordination.Command) uint64 {
		if _, is := c.(*coordination.MakeDirectory); is {
			return codec.Version
		}
		return codec.Since(c)
	}}
	c := newCluster(t, 3, func(config *Config) { config.hooks.Formats = formats })
	first := make(chan error)
	go func() { first <- c.start(0) }()
	if err := errors.Join(c.start(1), <-first); err != nil {
		t.Fatal(err)
	}
	request := &Ydb_Scheme.MakeDirectoryRequest{Path: "/local/early"}
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(c.conns[0]).MakeDirectory(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	operation := answer.GetOperation()
	if operation.GetStatus() != Ydb.StatusIds_UNAVAILABLE ||
		operation.GetIssues()[0].GetMessage() != coordination.ReadabilityUnknown.Text {
		t.Errorf("while one is missing: %v", answer)
	}
	c.awaitFormat(1)
	if err := c.start(2); err != nil {
		t.Fatal(err)
	}
	c.eventually("the last server to publish its version",
		func() bool { return makeDirectory(t, c.conns[0], "/local/early") == Ydb.StatusIds_SUCCESS })
}

// awaitFormat waits until each running server reports that a version is in use.
func (c *testCluster) awaitFormat(want uint64) {
	c.t.Helper()
	c.eventually("the version in use", func() bool {
		for _, s := range c.servers {
			if s == nil {
				continue
			}
			if got, err := statusOf(c.t.Context(), s); err != nil || got.GetFormatVersion() != want {
				return false
			}
		}
		return true
	})
}

// leadWith hands the leadership to a server.
func (c *testCluster) leadWith(i int) {
	c.t.Helper()
	c.eventually("the hand-over", func() bool {
		leader, _ := c.leader()
		if leader != i {
			_ = c.servers[leader].store.Changes.TransferLeader(c.t.Context(), c.servers[i].store.Member())
		}
		return leader == i
	})
}

func makeDirectory(t *testing.T, conn *grpc.ClientConn, path string) Ydb.StatusIds_StatusCode {
	t.Helper()
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(
		conn).MakeDirectory(context.WithoutCancel(t.Context()), &Ydb_Scheme.MakeDirectoryRequest{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}
