package raftstore_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/coordd/coordd/raftstore"
)

// counter is a state machine whose only state is the number of commands. It works within the calls, which is fine for
// something so short.
type counter struct {
	store    *raftstore.Store
	commands int
	done     chan struct{} // closed when there were three
}

func (c *counter) Committed(entries []raftstore.Entry) {
	for _, e := range entries {
		if len(e.Data) == 0 { // a leader begins with an entry that has no command
			continue
		}
		c.commands++
		fmt.Printf("%d: %s\n", c.commands, e.Data)
		if c.commands == 3 {
			close(c.done)
		}
	}
	c.store.Applied(entries[len(entries)-1].Index, len(entries))
}

func (c *counter) Leading(term uint64) {
	c.store.Propose(term, [][]byte{[]byte("one"), []byte("two"), []byte("three")})
}

func (*counter) Following(term, leader uint64) {}
func (*counter) ReadReady(id, index uint64)    {}
func (*counter) CheckpointDone(index uint64)   {}
func (*counter) Flush(busy bool)               {}
func (*counter) Failed(err error)              { panic(err) } // nothing would be durable any more

// A log of one member, which elects itself and commits what it proposes as soon as that is durable.
func Example() {
	store, err := raftstore.Open(context.Background(), raftstore.Config{
		InMemory: true, // with Dir it would be on disk
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	c := &counter{store: store, done: make(chan struct{})}
	if err := store.Start(c); err != nil {
		panic(err)
	}
	<-c.done
	if err := store.Stop(); err != nil {
		panic(err)
	}
	// Output:
	// 1: one
	// 2: two
	// 3: three
}
