package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/load"
)

// Of moves: the time until the lock of a dead client is free while the leadership is handed around.
const (
	dying         = 30 // clients for each pace
	dyingEvery    = 700 * time.Millisecond
	dyingAfter    = time.Second // with the lock
	dyingTime     = 5 * time.Second
	movesPatience = 90 * time.Second
)

// mover is a product whose leader can be moved.
type mover struct {
	*product
	move func(ctx context.Context, s servers, from, to int) error
	// lock has client i take its lock at one of the servers and another one queue behind it. die ends the first
	// silently, and next waits for the second.
	lock func(t *turn, addresses []string, i int) (die func(), next func(context.Context) error, err error)
}

func (b *bench) movers() []mover {
	checkpoints := newEtcd(b.etcd)
	checkpoints.name = "etcd, lease checkpoints"
	plain := checkpoints.make
	checkpoints.make = func(dirs, addresses []string) (servers, error) {
		made, err := plain(dirs, addresses)
		for _, p := range made {
			p.config.Args = append(p.config.Args, "--experimental-enable-lease-checkpoint",
				"--experimental-enable-lease-checkpoint-persist")
		}
		return made, err
	}
	transfer := func(ctx context.Context, s servers, from, to int) error {
		return exec.CommandContext(ctx, b.coordd, "cluster", "transfer-leader", fmt.Sprint("s", to), "--endpoint",
			"grpc://"+s[from].address+"/local").Run()
	}
	return []mover{{newCoordd("coordd", b.coordd), transfer, rawDying}, {newEtcd(b.etcd), moveEtcd, etcdDying},
		{checkpoints, moveEtcd, etcdDying}}
}

func moveEtcd(ctx context.Context, s servers, from, to int) error {
	c, err := dialEtcd(s[from].address)
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range answer.Members {
		if m.Name == fmt.Sprint("s", to) {
			_, err = c.MoveLeader(ctx, m.ID)
		}
	}
	return err
}

// measureMoves prints a table: of each product and pace the median and the longest time until the next client had the
// lock of a dead one.
func (b *bench) measureMoves(ctx context.Context) error {
	fmt.Print("| | the leader moves | locks | median | longest | not free after 90 s |\n",
		"| --- | --- | --- | --- | --- | --- |\n")
	for _, pace := range []time.Duration{3 * time.Second, time.Second, 10 * time.Second} {
		for _, m := range b.movers() {
			if m.absent != "" {
				fmt.Printf("| %s: %s | | | | | |\n", m.name, m.absent)
				continue
			}
			took, moved, err := b.moves(ctx, m, pace)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			slices.Sort(took)
			late := 0
			for _, d := range took {
				if d >= movesPatience {
					late++
				}
			}
			fmt.Printf("| %s | each %v, %d times | %d | %.1f s | %.1f s | %d |\n", m.name, pace, moved, len(took),
				took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), late)
		}
	}
	return nil
}

// moves returns the times of one product at one pace.
func (b *bench) moves(ctx context.Context, m mover, pace time.Duration) (took []time.Duration, moved int, err error) {
	t := newTurn(ctx)
	defer t.end()
	dir, err := os.MkdirTemp(b.dir, "moves-")
	if err != nil {
		return nil, 0, err
	}
	t.later(func() { _ = os.RemoveAll(dir) })
	three, err := m.launch(t, dir, clusterSize)
	if err != nil {
		return nil, 0, err
	}
	t.later(three.kill)
	moving, stop := context.WithCancel(t)
	var work sync.WaitGroup
	work.Go(func() {
		for wait(moving, pace) {
			from, err := three.leader(moving)
			if err == nil && m.move(moving, three, from, (from+1)%clusterSize) == nil {
				moved++
			}
		}
	})
	took = make([]time.Duration, dying)
	err = load.Together(took, func(i int, _ time.Duration) error {
		time.Sleep(time.Duration(i) * dyingEvery)
		die, next, err := m.lock(t, three.addresses(), i)
		if err != nil {
			return err
		}
		time.Sleep(dyingAfter)
		bounded, cancel := context.WithTimeout(t, movesPatience)
		defer cancel()
		died := time.Now()
		die()
		_ = next(bounded) // which is in the time
		took[i] = min(time.Since(died), movesPatience)
		return nil
	})
	stop()
	work.Wait()
	return took, moved, err
}

func rawDying(t *turn, addresses []string, i int) (die func(), next func(context.Context) error, err error) {
	var sessions [2]*raw.Session
	var ends [2]context.CancelFunc
	for j := range sessions {
		conns, err := raw.Dial(addresses[(i+j)%len(addresses)], 1)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(t)
		ends[j] = func() { cancel(); raw.Close(conns) }
		t.later(ends[j])
		if sessions[j], err = open(ctx, conns[0], []time.Duration{dyingTime, busySession}[j]); err != nil {
			return nil, nil, err
		}
	}
	name := fmt.Sprint("dying-", i)
	if err := sessions[0].Create(name, 1); err != nil {
		return nil, nil, err
	}
	if err := sessions[0].Acquire(name, 1); err != nil {
		return nil, nil, err
	}
	go func() { _, _ = sessions[0].Receive() }() // answers pings
	has := make(chan error, 1)
	go func() { has <- sessions[1].Acquire(name, 1) }()
	return ends[0], func(ctx context.Context) error {
		select {
		case err := <-has:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

func etcdDying(t *turn, addresses []string, i int) (die func(), next func(context.Context) error, err error) {
	var mutexes [2]*concurrency.Mutex
	var sessions [2]*concurrency.Session
	for j := range mutexes {
		c, err := dialEtcd(addresses...)
		if err != nil {
			return nil, nil, err
		}
		t.later(func() { _ = c.Close() })
		if sessions[j], err = concurrency.NewSession(c, concurrency.WithTTL(int([]time.Duration{dyingTime,
			busySession}[j].Seconds())), concurrency.WithContext(t)); err != nil {
			return nil, nil, err
		}
		mutexes[j] = concurrency.NewMutex(sessions[j], fmt.Sprint("/dying/", i))
	}
	return sessions[0].Orphan, mutexes[1].Lock, mutexes[0].Lock(t)
}
