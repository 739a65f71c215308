package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/load"
)

var etcdClient = &client{locks: etcdLocks, watch: etcdWatch, group: etcdGroup, idle: etcdIdle, hold: etcdHold,
	roam: etcdRoam, fill: etcdFill}

func dialEtcd(addresses []string, options ...grpc.DialOption) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: 5 * time.Second,
		Logger: zap.NewNop(), DialOptions: options})
}

func etcdOnce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := dialEtcd([]string{address})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Get(ctx, "once")
	return err
}

// etcdClients makes clients for n sessions, and a function that closes them.
func etcdClients(address string, n int) ([]*clientv3.Client, func(), error) {
	clients := make([]*clientv3.Client, min(n, connections))
	end := func() {
		for _, c := range clients {
			if c != nil {
				_ = c.Close()
			}
		}
	}
	for i := range clients {
		c, err := dialEtcd([]string{address})
		if err != nil {
			end()
			return nil, nil, err
		}
		clients[i] = c
	}
	return clients, end, nil
}

// etcdSessions opens sessions, each a lease of its own that is kept alive.
func etcdSessions(ctx context.Context, address string, n int, timeout time.Duration) ([]*concurrency.Session,
	func(), error) {
	clients, end, err := etcdClients(address, n)
	if err != nil {
		return nil, nil, err
	}
	sessions := make([]*concurrency.Session, n)
	err = load.Together(clients, func(first int, c *clientv3.Client) error {
		for i := first; i < n; i += len(clients) {
			s, err := concurrency.NewSession(c, concurrency.WithTTL(int(timeout.Seconds())),
				concurrency.WithContext(ctx))
			if err != nil {
				return err
			}
			sessions[i] = s
		}
		return nil
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return sessions, end, nil
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

// Acquire implements load.Session.
func (s *etcdSession) Acquire(name string, _ uint64) error { return s.mutex(name).Lock(s.ctx) }

// Release implements load.Session.
func (s *etcdSession) Release(name string) error { return s.mutex(name).Unlock(s.ctx) }

func etcdLocks(ctx context.Context, address string, _ load.Kind, n int) ([]load.Session, func(), error) {
	sessions, end, err := etcdSessions(ctx, address, n, busySession)
	if err != nil {
		return nil, nil, err
	}
	all := make([]load.Session, n)
	for i, s := range sessions {
		all[i] = &etcdSession{ctx, s, make(map[string]*concurrency.Mutex)}
	}
	return all, end, nil
}

func etcdWatch(ctx context.Context, address string, n int) (*watching, error) {
	clients, end, err := etcdClients(address, n)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	const key = "watched"
	watches := make([]clientv3.WatchChan, n)
	for i := range watches {
		watches[i] = clients[i%len(clients)].Watch(ctx, key, clientv3.WithCreatedNotify())
	}
	heard := func(i int) error {
		answer, open := <-watches[i]
		if !open {
			return fmt.Errorf("the watch ended: %w", ctx.Err())
		}
		return answer.Err()
	}
	// created
	if err := load.Together(watches,
		func(i int, _ clientv3.WatchChan) error { return heard(i) }); err != nil {
		cancel()
		end()
		return nil, err
	}
	return &watching{
		heard: heard,
		write: func(int) error { _, err := clients[0].Put(ctx, key, time.Now().String()); return err },
		close: func() { cancel(); end() },
	}, nil
}

func etcdGroup(ctx context.Context, address string, members, listers int) (*listing, error) {
	sessions, endMembers, err := etcdSessions(ctx, address, members, busySession)
	if err != nil {
		return nil, err
	}
	const prefix = "/group/"
	err = load.Together(sessions, func(i int, s *concurrency.Session) error {
		_, err := s.Client().Put(ctx, fmt.Sprintf("%s%06d", prefix, i), string(make([]byte, memberBytes)),
			clientv3.WithLease(s.Lease()))
		return err
	})
	if err != nil {
		endMembers()
		return nil, err
	}
	clients, end, err := etcdClients(address, listers)
	if err != nil {
		endMembers()
		return nil, err
	}
	return &listing{
		list: func(i int) (int, error) {
			answer, err := clients[i%len(clients)].Get(ctx, prefix, clientv3.WithPrefix())
			if err != nil {
				return 0, err
			}
			return len(answer.Kvs), nil
		},
		close: func() { end(); endMembers() },
	}, nil
}

func etcdIdle(ctx context.Context, address string, n int, lost chan<- error) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	sessions, end, err := etcdSessions(ctx, address, n, idleSession)
	if err != nil {
		cancel()
		return nil, err
	}
	for _, s := range sessions {
		go func() {
			<-s.Done()
			lost <- fmt.Errorf("a lease was lost: %w", context.Cause(ctx))
		}()
	}
	return func() { cancel(); end() }, nil
}

func etcdHold(ctx context.Context, address string, i int) (*holding, error) {
	line := new(cuttable)
	own, err := dialEtcd([]string{address}, grpc.WithContextDialer(line.dial))
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(own, concurrency.WithTTL(int(cutSession.Seconds())))
	if err != nil {
		return nil, err
	}
	waiters, end, err := etcdSessions(ctx, address, 1, busySession)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint("/cut/", i)
	if err := concurrency.NewMutex(session, name).Lock(ctx); err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(waiters[0], name)
	return &holding{
		cut:  line.cut,
		wait: func() error { return mutex.Lock(ctx) },
		close: func() {
			_ = mutex.Unlock(ctx)
			end()
			session.Orphan()
			_ = own.Close()
		},
	}, nil
}

// etcdTry is how long a client waits for an answer before it asks again: a follower keeps what it has sent to
// a leader that is gone for 7 s.
const etcdTry = time.Second

// etcdRoam begins at one of the servers by having it first in the list.
func etcdRoam(ctx context.Context, addresses []string, first int) (*roaming, error) {
	var order []string
	for i := range addresses {
		order = append(order, addresses[(first+i)%len(addresses)])
	}
	c, err := dialEtcd(order)
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(busySession.Seconds())),
		concurrency.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(session, fmt.Sprint("/roaming/", first))
	return &roaming{
		step: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, etcdTry)
			defer cancel()
			if err := mutex.Lock(ctx); err != nil {
				return err
			}
			return mutex.Unlock(ctx)
		},
		close: func() { session.Orphan(); _ = c.Close() },
	}, nil
}

// etcdFill puts keys, 128 in a transaction, which is the most that etcd takes.
func etcdFill(ctx context.Context, address string, n int) error {
	clients, end, err := etcdClients(address, connections)
	if err != nil {
		return err
	}
	defer end()
	const most = 128
	return load.Together(clients, func(first int, c *clientv3.Client) error {
		for begin := first * most; begin < n; begin += len(clients) * most {
			var puts []clientv3.Op
			for i := begin; i < min(begin+most, n); i++ {
				puts = append(puts, clientv3.OpPut(fmt.Sprintf("row-%09d", i), ""))
			}
			if _, err := c.Txn(ctx).Then(puts...).Commit(); err != nil {
				return err
			}
		}
		return nil
	})
}

// etcdLeader is the number of the server that leads.
func etcdLeader(ctx context.Context, addresses []string) (int, error) {
	c, err := dialEtcd(addresses)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i, address := range addresses {
		status, err := c.Status(ctx, address)
		if err != nil {
			return 0, err
		}
		if status.Leader == status.Header.MemberId {
			return i, nil
		}
	}
	return 0, fmt.Errorf("none of %v leads", addresses)
}
