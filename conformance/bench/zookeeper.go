package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordd/coordd/internal/load"
)

var zooClient = &client{locks: zooLocks, watch: zooWatch, list: zooList, idle: zooIdle, fill: zooFill}

var everybody = zk.WorldACL(zk.PermAll)

// silent discards the client's log.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

// dialZoo opens a session, which has a connection of its own.
func dialZoo(ctx context.Context, address string, timeout time.Duration) (*zk.Conn, <-chan zk.Event, error) {
	conn, events, err := zk.Connect([]string{address}, timeout, zk.WithLogger(silent{}))
	if err != nil {
		return nil, nil, err
	}
	deadline := time.After(timeout)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, events, nil
			}
		case <-deadline:
			conn.Close()
			return nil, nil, errors.New("no session came about")
		case <-ctx.Done():
			conn.Close()
			return nil, nil, ctx.Err()
		}
	}
}

func zooOnce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, _, err := dialZoo(ctx, address, busySession)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _, err = conn.Exists("/")
	return err
}

// zooSessions opens sessions, as many at a time as with the others.
func zooSessions(t *turn, address string, n int, timeout time.Duration, lost chan<- error) ([]*zk.Conn, error) {
	sessions := make([]*zk.Conn, n)
	t.later(func() {
		_ = load.Together(sessions, func(_ int, c *zk.Conn) error {
			if c != nil {
				c.Close()
			}
			return nil
		})
	})
	return sessions, spread(make([]struct{}, min(n, connections)), n, func(_ struct{}, i int) error {
		c, events, err := dialZoo(t, address, timeout)
		if err != nil {
			return err
		}
		sessions[i] = c
		go func() {
			for e := range events {
				if lost != nil && (e.State == zk.StateDisconnected || e.State == zk.StateExpired) {
					lost <- fmt.Errorf("a session was lost: %v", e.State)
				}
			}
		}()
		return nil
	})
}

// zooMake makes a znode that stays, if it is not there.
func zooMake(c *zk.Conn, path string) error {
	if _, err := c.Create(path, nil, 0, everybody); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	return nil
}

// zooSession takes locks in one of two ways.
type zooSession struct {
	conn  *zk.Conn
	queue bool // zk.Lock instead of an ephemeral znode
	locks map[string]*zk.Lock
}

func (s *zooSession) lock(name string) *zk.Lock {
	l := s.locks[name]
	if l == nil {
		l = zk.NewLock(s.conn, "/locks/"+name, everybody)
		s.locks[name] = l
	}
	return l
}

// Acquire implements locker.
func (s *zooSession) Acquire(name string, _ uint64) error {
	if s.queue {
		return s.lock(name).Lock()
	}
	_, err := s.conn.Create("/locks/"+name, nil, zk.FlagEphemeral, everybody)
	return err
}

// Release implements locker.
func (s *zooSession) Release(name string) error {
	if s.queue {
		return s.lock(name).Unlock()
	}
	return s.conn.Delete("/locks/"+name, -1)
}

func zooLocks(t *turn, address string, handOver bool, n int) ([]locker, error) {
	conns, err := zooSessions(t, address, n, busySession, nil)
	if err != nil {
		return nil, err
	}
	all := make([]locker, n)
	for i, c := range conns {
		all[i] = &zooSession{c, handOver, make(map[string]*zk.Lock)}
	}
	return all, zooMake(conns[0], "/locks")
}

func zooWatch(t *turn, address string, n int) (*watching, error) {
	conns, err := zooSessions(t, address, n+1, busySession, nil)
	if err != nil {
		return nil, err
	}
	const path = "/watched"
	writer := conns[n]
	changes := make([]<-chan zk.Event, n)
	return &watching{
		arm: func(i int) error {
			_, _, change, err := conns[i].GetW(path)
			changes[i] = change
			return err
		},
		heard: func(i int) error { return (<-changes[i]).Err },
		write: func() error { _, err := writer.Set(path, []byte(time.Now().String()), -1); return err },
	}, zooMake(writer, path)
}

func zooList(t *turn, address string, members, listers int) (func(int) (int, error), error) {
	conns, err := zooSessions(t, address, members, busySession, nil)
	if err != nil {
		return nil, err
	}
	const path = "/group"
	if err := zooMake(conns[0], path); err != nil {
		return nil, err
	}
	if err := load.Together(conns, func(i int, c *zk.Conn) error {
		_, err := c.Create(fmt.Sprintf("%s/%06d", path, i), make([]byte, memberBytes), zk.FlagEphemeral,
			everybody)
		return err
	}); err != nil {
		return nil, err
	}
	readers, err := zooSessions(t, address, listers, busySession, nil)
	return func(i int) (int, error) {
		names, _, err := readers[i].Children(path)
		return len(names), err
	}, err
}

func zooIdle(t *turn, address string, n int, lost chan<- error) error {
	_, err := zooSessions(t, address, n, idleSession, lost)
	return err
}

// zooFill creates znodes, 500 in a transaction, in 1,000 directories.
func zooFill(t *turn, address string, n int) error {
	const directories = 1000
	conns, err := zooSessions(t, address, connections, busySession, nil)
	if err != nil {
		return err
	}
	if err := spread(conns, directories, func(c *zk.Conn, i int) error {
		return zooMake(c, fmt.Sprint("/rows-", i))
	}); err != nil {
		return err
	}
	return inBatches(conns, n, 500, func(c *zk.Conn, from, to int) error {
		var creates []any
		for i := from; i < to; i++ {
			creates = append(creates, &zk.CreateRequest{Acl: everybody,
				Path: fmt.Sprintf("/rows-%d/%09d", i%directories, i)})
		}
		_, err := c.Multi(creates...)
		return err
	})
}
