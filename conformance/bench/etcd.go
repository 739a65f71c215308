package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/coordd/coordd/internal/load"
)

var etcdClient = &client{locks: etcdLocks, watch: etcdWatch, list: etcdList, idle: etcdIdle,
	roam: etcdRoam, fill: etcdFill}

func dialEtcd(addresses ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

func etcdOnce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := dialEtcd(address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Get(ctx, "once")
	return err
}

// etcdClients makes clients for n sessions.
func etcdClients(t *turn, address string, n int) ([]*clientv3.Client, error) {
	clients := make([]*clientv3.Client, min(n, connections))
	for i := range clients {
		c, err := dialEtcd(address)
		if err != nil {
			return nil, err
		}
		t.later(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients, nil
}

// etcdSessions opens sessions, each a lease of its own that is kept alive.
func etcdSessions(t *turn, address string, n int, timeout time.Duration) ([]*concurrency.Session, error) {
	clients, err := etcdClients(t, address, n)
	if err != nil {
		return nil, err
	}
	return openAll(clients, n, func(c *clientv3.Client) (*concurrency.Session, error) {
		return concurrency.NewSession(c, concurrency.WithTTL(int(timeout.Seconds())), concurrency.WithContext(t))
	})
}

// etcdSession has the mutexes of a session.
type etcdSession struct {
	ctx     context.Context
	session *concurrency.Session
	mutexes map[string]*concurrency.Mutex
}

func (s *etcdSession) mutex(name string) *concurrency.Mutex {
	m := s.mutexes[name]
	if m == nil {
		m = concurrency.NewMutex(s.session, "/locks/"+name)
		s.mutexes[name] = m
	}
	return m
}

// Acquire implements locker.
func (s *etcdSession) Acquire(name string, _ uint64) error { return s.mutex(name).Lock(s.ctx) }

// Release implements locker.
func (s *etcdSession) Release(name string) error { return s.mutex(name).Unlock(s.ctx) }

func etcdLocks(t *turn, address string, _ bool, n int) ([]locker, error) {
	sessions, err := etcdSessions(t, address, n, busySession)
	all := make([]locker, n)
	for i, s := range sessions {
		all[i] = &etcdSession{t, s, make(map[string]*concurrency.Mutex)}
	}
	return all, err
}

func etcdWatch(t *turn, address string, n int) (*watching, error) {
	clients, err := etcdClients(t, address, n)
	if err != nil {
		return nil, err
	}
	const key = "watched"
	watches := make([]clientv3.WatchChan, n)
	for i := range watches {
		watches[i] = clients[i%len(clients)].Watch(t, key, clientv3.WithCreatedNotify())
	}
	heard := func(i int) error {
		answer, open := <-watches[i]
		if !open {
			return fmt.Errorf("the watch ended: %w", t.Err())
		}
		return answer.Err()
	}
	return &watching{
		heard: heard,
		write: func() error { _, err := clients[0].Put(t, key, time.Now().String()); return err },
	}, load.Together(watches, func(i int, _ clientv3.WatchChan) error { return heard(i) }) // created
}

func etcdList(t *turn, address string, members, listers int) (func(int) (int, error), error) {
	sessions, err := etcdSessions(t, address, members, busySession)
	if err != nil {
		return nil, err
	}
	const prefix = "/group/"
	if err := load.Together(sessions, func(i int, s *concurrency.Session) error {
		_, err := s.Client().Put(t, fmt.Sprintf("%s%06d", prefix, i), string(make([]byte, memberBytes)),
			clientv3.WithLease(s.Lease()))
		return err
	}); err != nil {
		return nil, err
	}
	clients, err := etcdClients(t, address, listers)
	return func(i int) (int, error) {
		answer, err := clients[i%len(clients)].Get(t, prefix, clientv3.WithPrefix())
		if err != nil {
			return 0, err
		}
		return len(answer.Kvs), nil
	}, err
}

func etcdIdle(t *turn, address string, n int, lost chan<- error) error {
	sessions, err := etcdSessions(t, address, n, idleSession)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		go func() {
			<-s.Done()
			lost <- fmt.Errorf("a lease was lost: %w", context.Cause(t))
		}()
	}
	return nil
}

// etcdTry bounds how long a client waits for an answer before it asks again: a follower keeps what it has sent
// to a leader that is gone for 7 s.
const etcdTry = time.Second

// etcdRoam begins at one of the servers by having it first in the list.
func etcdRoam(t *turn, addresses []string, first int) (func(context.Context) error, error) {
	var order []string
	for i := range addresses {
		order = append(order, addresses[(first+i)%len(addresses)])
	}
	c, err := dialEtcd(order...)
	if err != nil {
		return nil, err
	}
	t.later(func() { _ = c.Close() })
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(busySession.Seconds())),
		concurrency.WithContext(t))
	if err != nil {
		return nil, err
	}
	t.later(session.Orphan)
	mutex := concurrency.NewMutex(session, fmt.Sprint("/roaming/", first))
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, etcdTry)
		defer cancel()
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		return mutex.Unlock(ctx)
	}, nil
}

// etcdFill puts keys, 128 in a transaction, which is the most that etcd takes.
func etcdFill(t *turn, address string, n int) error {
	clients, err := etcdClients(t, address, connections)
	if err != nil {
		return err
	}
	return inBatches(clients, n, 128, func(c *clientv3.Client, from, to int) error {
		var puts []clientv3.Op
		for i := from; i < to; i++ {
			puts = append(puts, clientv3.OpPut(rowName(i), ""))
		}
		_, err := c.Txn(t).Then(puts...).Commit()
		return err
	})
}
