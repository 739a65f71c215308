package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/client"
	"github.com/coordd/coordd/server"
)

// opened returns two sessions of a server in memory, and what ends all of it.
func opened(ctx context.Context) (first, second *client.Session, end func()) {
	s, err := server.Start(ctx, server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(client.Config{Endpoint: "grpc://" + s.Addr().String() + "/local"})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.CreateNode(ctx, "/local/app"); err != nil {
		log.Fatal(err)
	}
	sessions := make([]*client.Session, 2)
	for i := range sessions {
		if sessions[i], err = c.Open(ctx, "/local/app", client.SessionConfig{}); err != nil {
			log.Fatal(err)
		}
	}
	return sessions[0], sessions[1], func() {
		if err := errors.Join(sessions[0].Close(ctx), sessions[1].Close(ctx)); err != nil {
			log.Fatal(err)
		}
		c.Close()
		_ = s.Stop(ctx)
	}
}

func writeReport(token uint64) { fmt.Println("has a token:", token > 0) }

// A lock guards work for as long as its lease lasts, and its token goes along with each write.
func ExampleSession_Lock() {
	ctx := context.Background()
	session, another, end := opened(ctx)
	defer end()
	lease, err := session.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-lease.Done(): // stop at once
		log.Fatal(lease.Err())
	default:
		writeReport(lease.Token())
	}
	_, err = another.Lock(ctx, "report", client.Wait(0))
	fmt.Println("another:", errors.Is(err, client.ErrTaken))
	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// has a token: true
	// another: true
	// released: <nil>
}

// A refusal has a status and a text, and compares with the values of this package.
func ExampleRefusal() {
	ctx := context.Background()
	session, _, end := opened(ctx)
	defer end()
	if _, err := session.Pool(ctx, "workers", 3); err != nil {
		log.Fatal(err)
	}
	_, err := session.Lock(ctx, "workers") // which is no lock, but a pool
	var refusal *client.Refusal
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Status == Ydb.StatusIds_PRECONDITION_FAILED, errors.Is(err, client.ErrPrecondition))
		fmt.Println(refusal.Text)
	}
	// Output:
	// true true
	// Semaphore ephemeral mode mismatch
}

// Readers share a lock that a writer has alone.
func ExampleRWLock() {
	ctx := context.Background()
	first, second, end := opened(ctx)
	defer end()
	reader, err := first.RWLock("table").RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = second.RWLock("table").Lock(ctx, client.Wait(0))
	fmt.Println("writer:", err)
	if err := reader.Release(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = second.RWLock("table").Lock(ctx)
	fmt.Println("writer:", err)
	// Output:
	// writer: not granted in time: others hold it
	// writer: <nil>
}

// Of a pool of three places one session takes two.
func ExamplePool() {
	ctx := context.Background()
	first, second, end := opened(ctx)
	defer end()
	for i, session := range []*client.Session{first, second} {
		pool, err := session.Pool(ctx, "workers", 3)
		if err != nil {
			log.Fatal(err)
		}
		_, err = pool.Take(ctx, 2, client.Wait(0))
		fmt.Println(i, err)
	}
	// Output:
	// 0 <nil>
	// 1 not granted in time: others hold it
}

// One session leads, and the others see its address.
func ExampleElection() {
	ctx := context.Background()
	session, another, end := opened(ctx)
	defer end()
	lease, err := session.Election("leader").Campaign(ctx, []byte("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	leader, err := another.Election("leader").Leader(ctx)
	fmt.Printf("%s %v %v\n", leader.Data, leader.Token == lease.Token(), err)
	// Output: 10.0.0.7:8080 true <nil>
}
