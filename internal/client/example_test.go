package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/client"
	"github.com/coordd/coordd/server"
)

// connected returns a client of a server in memory that has the node /local/app, and what ends both.
func connected(ctx context.Context) (c *client.Client, end func()) {
	s, err := server.Start(ctx, server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	c = client.New(client.Config{Address: s.Addr().String(), Database: "/local", Name: "example",
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}})
	if err := c.Call(ctx, Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName,
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/app"}, nil); err != nil {
		log.Fatal(err)
	}
	return c, func() { c.Close(); _ = s.Stop(ctx) }
}

// open starts a session of the node.
func open(ctx context.Context, c *client.Client) *client.Session {
	s, err := c.Open(ctx, client.SessionConfig{Node: "/local/app", Timeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// A lock is an ephemeral semaphore of which a session takes everything. Its order id is the fencing token.
func ExampleSession_Acquire() {
	ctx := context.Background()
	c, end := connected(ctx)
	defer end()
	first, second := open(ctx, c), open(ctx, c)
	lock := client.Acquisition{Name: "report", Count: 1<<64 - 1, Wait: client.Forever, Ephemeral: true}
	acquired, err := first.Acquire(ctx, lock)
	fmt.Println("first:", acquired, err)
	lock.Wait = 0
	acquired, err = second.Acquire(ctx, lock)
	fmt.Println("second:", acquired, err)
	d, _, err := first.Describe(ctx, "report", client.Wanted{Owners: true})
	fmt.Println("owners:", len(d.GetOwners()), err)
	released, err := first.Release(ctx, "report")
	fmt.Println("released:", released, err)
	// Output:
	// first: true <nil>
	// second: false <nil>
	// owners: 1 <nil>
	// released: true <nil>
}

// Watch follows the data of a semaphore until the callback returns an error.
func ExampleClient_Watch() {
	ctx := context.Background()
	c, end := connected(ctx)
	defer end()
	s := open(ctx, c)
	if err := s.Create(ctx, "settings", 1, []byte("old")); err != nil {
		log.Fatal(err)
	}
	seen := errors.New("seen")
	err := c.Watch(ctx, client.SessionConfig{Node: "/local/app", Timeout: 10 * time.Second}, "settings",
		client.Wanted{WatchData: true}, func(d *client.Description) error {
			fmt.Printf("%s\n", d.GetData())
			if string(d.GetData()) == "new" {
				return seen
			}
			return s.Update(ctx, "settings", []byte("new"))
		})
	fmt.Println(errors.Is(err, seen))
	// Output:
	// old
	// new
	// true
}

// A server's refusal keeps its status.
func ExampleStatusOf() {
	ctx := context.Background()
	c, end := connected(ctx)
	defer end()
	err := open(ctx, c).Update(ctx, "missing", nil)
	fmt.Println(client.StatusOf(err) == Ydb.StatusIds_NOT_FOUND)
	// Output: true
}

// Left returns the time for which the session lives for certain, by this machine's clock; Lost ends it for good.
func ExampleSession_Left() {
	ctx := context.Background()
	c, end := connected(ctx)
	defer end()
	s := open(ctx, c)
	fmt.Println(s.Left() > 0)
	if err := s.Close(ctx); err != nil {
		log.Fatal(err)
	}
	<-s.Lost()
	fmt.Println(s.Left())
	// Output:
	// true
	// 0s
}
